"""Who is compared: read from roster.toml, the one place where versions are pinned."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["OURS", "Peer", "read_roster"]

OURS = "agentform"
_FILE = Path(__file__).with_name("roster.toml")


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One of those compared."""

    name: str
    title: str
    driver: str
    """Module of `benchmarks.peers.drivers` that speaks to it."""
    shows: tuple[str, ...]
    """Packages whose versions are reported."""
    steps: tuple[tuple[str, ...], ...]
    """What `pip install` is given, one call after the other; none: it runs in the harness's own environment."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """What is written into its site-packages, by path."""

    @property
    def digest(self) -> str:
        """Of all that makes its environment."""
        made_of = [self.steps, dict(self.files)]
        return hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:16]


def read_roster(path: Path = _FILE) -> dict[str, Peer]:
    """agentform first, then the peers in the file's order."""
    ours = Peer(name=OURS, title=OURS, driver=OURS, shows=(OURS, "torch", "transformers", "llguidance"), steps=())
    listed = tomllib.loads(path.read_text(encoding="utf-8"))
    peers = [
        Peer(
            name=name,
            title=row["title"],
            driver=row["driver"],
            shows=tuple(row["shows"]),
            steps=tuple(tuple(step) for step in row["steps"]),
            files=row.get("files", {}),
        )
        for name, row in listed.items()
    ]
    return {peer.name: peer for peer in (ours, *peers)}
