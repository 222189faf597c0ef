"""How options are best scored with a model, kept in the user's cache folder under the model's digest.

Two files: what `agentform tune` found on the user's own examples, which is the user's and goes first; and what it
measured on the examples that come with the package, which holds for one version of that measurement.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agentform._util.files import write_atomically
from agentform._util.paths import cache_home
from agentform.errors import InvalidInput

__all__ = ["MEASUREMENT", "KnownScoring", "known_scoring", "read_scoring", "scoring_file", "write_scoring"]

MEASUREMENT = 1
"""Version of the measurement on the package's own examples: raised when they, the ways tried or the choice change."""


@dataclass(frozen=True, kw_only=True)
class KnownScoring:
    """Settings that differ from the defaults, and where they are from."""

    source: Literal["tuned", "measured", "defaults"]
    file: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What was measured: `held_out` and `held_out_default`, accuracies, and the number of `examples`."""


def scoring_file(digest: str, *, measured: bool = False, home: Path | None = None) -> Path:
    """Where the settings of the model with this digest lie: the user's, or what was `measured`."""
    name = hashlib.sha256(digest.encode()).hexdigest()[:32]
    return (cache_home() if home is None else home) / "scoring" / f"{name}{'.measured' * measured}.json"


def read_scoring(digest: str, *, home: Path | None = None) -> dict[str, Any]:
    """The settings; empty when the model was never tuned nor measured.

    Raises:
        InvalidInput: the file is damaged; it names the file, which may be deleted.
    """
    return dict(known_scoring(digest, home=home).settings)


def known_scoring(digest: str, *, home: Path | None = None) -> KnownScoring:
    """The same with where it is from; what another version measured counts for nothing.

    Raises:
        InvalidInput: as `read_scoring` raises it.
    """
    file = scoring_file(digest, home=home)
    tuned = _read(file)
    if tuned is not None:
        return KnownScoring(source="tuned", file=file, settings=tuned)
    file = scoring_file(digest, measured=True, home=home)
    found = _read(file)
    if found is None or found.get("version") != MEASUREMENT:
        return KnownScoring(source="defaults")
    settings, facts = found.get("scoring"), found.get("facts")
    if not isinstance(settings, dict) or not isinstance(facts, dict):
        raise InvalidInput(f"{file} is damaged (no settings); delete it or run `agentform tune` again")
    return KnownScoring(source="measured", file=file, settings=settings, facts=facts)


def _read(file: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise InvalidInput(f"{file} is damaged ({error}); delete it or run `agentform tune` again") from error
    if not isinstance(found, dict):
        raise InvalidInput(f"{file} is damaged (not an object); delete it or run `agentform tune` again")
    return found


def write_scoring(
    digest: str, settings: Mapping[str, Any], *, measured: Mapping[str, Any] | None = None, home: Path | None = None
) -> Path:
    """Write the settings whole, then rename into place; returns the file.

    With the facts `measured` they are those of the package's own examples, and the user's own stay as they are.
    """
    file = scoring_file(digest, measured=measured is not None, home=home)
    file.parent.mkdir(parents=True, exist_ok=True)
    kept: dict[str, Any] = dict(settings)
    if measured is not None:
        kept = {"version": MEASUREMENT, "scoring": kept, "facts": dict(measured)}
    write_atomically(file, json.dumps(kept, indent=1))
    return file
