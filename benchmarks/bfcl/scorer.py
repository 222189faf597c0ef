"""bfcl-eval in an environment of its own, asked by a process that ends after each answer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentform._util.paths import cache_home
from agentform.errors import InvalidInput
from benchmarks.peers.roster import Peer
from benchmarks.peers.venvs import Skipped, python_of

__all__ = ["VERSION", "Scorer"]

VERSION = "2026.3.23"
_SEED = 7
_LIMIT_S = 600
_STEPS = (
    ("--no-deps", f"bfcl-eval=={VERSION}"),
    ("tenacity", "filelock", "python-dotenv", "requests", "tqdm", "tree_sitter==0.21.3"),
    ("--no-deps", "tree-sitter-java==0.21.0", "tree-sitter-javascript==0.21.4"),
)
_CHILD = Path(__file__).with_name("scorer_child.py")


class Scorer:
    """Berkeley's own data and checker."""

    def __init__(self, folder: Path | None = None) -> None:
        """The environment is made below `folder`, by default in the user's cache, unless it is there.

        Raises:
            InvalidInput: it cannot be made; with what pip said.
        """
        peer = Peer(name="bfcl-eval", title="bfcl-eval", driver="", shows=("bfcl-eval",), steps=_STEPS)
        try:
            self._python = python_of(peer, folder or cache_home() / "benchmarks")
        except Skipped as error:
            raise InvalidInput(f"bfcl-eval cannot be had: {error}") from error

    def tasks(self, categories: Sequence[str], *, items: int) -> list[dict[str, Any]]:
        """Items of each category, always the same: id, category, messages and tools."""
        asked = {"op": "tasks", "categories": list(categories), "items": items, "seed": _SEED}
        found: list[dict[str, Any]] = self._ask(asked)
        return found

    def score(self, answers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Verdicts by item, from calls by category and item."""
        found: dict[str, Any] = self._ask({"op": "score", "answers": answers})
        return found

    def _ask(self, asked: Mapping[str, Any]) -> Any:
        done = subprocess.run(
            [str(self._python), str(_CHILD)],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT_S,
        )
        if done.returncode:
            raise InvalidInput(f"bfcl-eval failed: {done.stderr.strip().splitlines()[-1:]}")
        return json.loads(done.stdout)
