"""What every driver shares: it runs in the client's own environment and needs nothing of agentform."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

QUESTION = "It is dark in the office."
ANSWER = "Hello there."
DONE = "It is on."
VARIANT = sys.argv[2] if len(sys.argv) > 2 else ""
"""Which of a client's APIs is driven."""
CALLED: list[str] = []
"""Rooms whose light a tool was asked to switch on."""


def light(room: str) -> str:
    """Switch on the light in a room.

    Args:
        room: The room, such as office.
    """
    CALLED.append(room)
    return "Switched on."


def require(found: Any, wanted: Any) -> None:
    """Say what is there and what should be."""
    if found != wanted:
        raise AssertionError(f"{found!r} instead of {wanted!r}")


def require_loop(text: Any) -> None:
    """Check that the tool ran once and that what the user is shown is the answer alone."""
    require((CALLED, text), (["office"], DONE))


def main(**features: Callable[[str], Any]) -> None:
    """Run the features whose servers' addresses are the argument, and print a line of JSON for each."""
    for name, url in json.loads(sys.argv[1]).items():
        if name not in features:
            continue
        CALLED.clear()
        error = None
        try:
            done = features[name](url)
            if inspect.iscoroutine(done):
                asyncio.run(asyncio.wait_for(done, 60))
        except Exception as failure:
            trail = traceback.extract_tb(failure.__traceback__)[-1]
            error = f"{type(failure).__name__}: {failure} ({trail.name}:{trail.lineno})"[:400]
        print("\n" + json.dumps({"feature": name, "error": error}), flush=True)  # a client may have written
