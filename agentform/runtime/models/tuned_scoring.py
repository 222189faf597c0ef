"""What `agentform tune` found for a model, kept in the user's cache folder under the model's digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentform._util.files import write_atomically
from agentform._util.paths import cache_home
from agentform.errors import InvalidInput

__all__ = ["read_scoring", "scoring_file", "write_scoring"]


def scoring_file(digest: str, *, home: Path | None = None) -> Path:
    """Where the settings of the model with this digest lie."""
    name = hashlib.sha256(digest.encode()).hexdigest()[:32]
    return (cache_home() if home is None else home) / "scoring" / f"{name}.json"


def read_scoring(digest: str, *, home: Path | None = None) -> dict[str, Any]:
    """The settings; empty when the model was never tuned.

    Raises:
        InvalidInput: the file is damaged; it names the file, which may be deleted.
    """
    file = scoring_file(digest, home=home)
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise InvalidInput(f"{file} is damaged ({error}); delete it or run `agentform tune` again") from error
    if not isinstance(found, dict):
        raise InvalidInput(f"{file} is damaged (not an object); delete it or run `agentform tune` again")
    return found


def write_scoring(digest: str, settings: Mapping[str, Any], *, home: Path | None = None) -> Path:
    """Write the settings whole, then rename into place; returns the file."""
    file = scoring_file(digest, home=home)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(dict(settings), indent=1))
    return file
