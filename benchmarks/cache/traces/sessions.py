"""The recorded traces as one stream of requests in time; a block hash stands for a block of tokens."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agentform.runtime.scheduling.replay import TracedRequest

__all__ = ["AGENT_BLOCK", "MOONCAKE_BLOCK", "agent_sessions", "mooncake"]

AGENT_BLOCK = 64
MOONCAKE_BLOCK = 512
_TOKENS_PER_S = 60.0
"""Speed assumed where a trace does not say how long an answer took."""


def agent_sessions(path: Path, *, window_s: float, seed: int, limit: int | None = None) -> list[TracedRequest]:
    """Sessions that start at random within `window_s`; the pauses within a session are kept.

    Hashes are local to a session, so nothing is shared between sessions.
    """
    draw = random.Random(seed)
    asks: list[TracedRequest] = []
    for number, session in enumerate(_lines(path)):
        if limit is not None and number >= limit:
            break
        asks += _session(number, session, draw.uniform(0, window_s))
    return sorted(asks, key=lambda ask: ask.start_s)


def mooncake(path: Path, *, limit: int | None = None) -> list[TracedRequest]:
    """Requests of many users; hashes are global. Which conversation a request belongs to is not recorded."""
    asks: list[TracedRequest] = []
    for number, request in enumerate(_lines(path)):
        if limit is not None and number >= limit:
            break
        start = request["timestamp"] / 1000
        prompt = tuple(request["hash_ids"][: request["input_length"] // MOONCAKE_BLOCK])
        asks.append(
            TracedRequest(
                conversation=None,
                start_s=start,
                end_s=start + request["output_length"] / _TOKENS_PER_S,
                num_prompt=request["input_length"],
                prompt=prompt,
                written=(),
            )
        )
    return asks


def _session(number: int, session: dict[str, Any], offset: float) -> Iterator[TracedRequest]:
    known: dict[int, int] = {}

    def named(hashes: Iterable[int]) -> tuple[int, ...]:
        return tuple(number * 1_000_000 + known.setdefault(each, len(known)) for each in hashes)

    requests = session["requests"]
    fixed = (session["system_tokens"] + session["tool_tokens"]) // AGENT_BLOCK
    for index, request in enumerate(requests):
        prompt = named(request["hash_ids"][: request["in"] // AGENT_BLOCK])
        following = named(requests[index + 1]["hash_ids"]) if index + 1 < len(requests) else ()
        start = offset + request["t"]
        yield TracedRequest(
            conversation=session["id"],
            start_s=start,
            end_s=start + (request.get("api_time") or request["out"] / _TOKENS_PER_S),
            num_prompt=request["in"],
            prompt=prompt,
            written=_written(prompt, following, (request["in"] + request["out"]) // AGENT_BLOCK),
            boundaries=(fixed,) if 0 < fixed < len(prompt) else (),
            calls=request.get("stop") == "tool_use",
        )


def _written(prompt: Sequence[int], following: Sequence[int], num_blocks: int) -> tuple[int, ...]:
    """The blocks of the answer: what the next prompt has behind this one, no more than was written."""
    if tuple(following[: len(prompt)]) != tuple(prompt):
        return ()
    return tuple(following[len(prompt) : num_blocks])


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
