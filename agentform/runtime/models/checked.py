"""A model folder is somebody else's: whatever is wrong with it is one error that names it."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from agentform.errors import AgentformError, EngineError, WeightsCorrupt

__all__ = ["check_config", "readable"]

_MOST = {
    "num_hidden_layers": 4_096,
    "hidden_size": 1 << 20,
    "intermediate_size": 1 << 22,
    "vocab_size": 1 << 24,
    "num_attention_heads": 1 << 14,
    "num_key_value_heads": 1 << 14,
    "max_position_embeddings": 1 << 28,
    "head_dim": 1 << 16,
}
"""Larger than any model is; what is built from them is built before a weight is read."""


@contextmanager
def readable(what: Path) -> Generator[None]:
    """Turns whatever libraries raise while they read `what` into one kind of error.

    Raises:
        WeightsCorrupt: it cannot be read; also for what is missing, cut off or of another shape.
        EngineError: there is not enough memory for it.
    """
    try:
        yield
    except (AgentformError, ImportError):
        raise
    except MemoryError as error:
        raise EngineError(f"not enough memory for {what}: {error}") from error
    except Exception as error:  # the libraries raise some twenty kinds, bare Exception among them
        if type(error).__name__ == "OutOfMemoryError":
            raise EngineError(f"not enough memory for {what}: {error}") from error
        raise WeightsCorrupt(f"{what} cannot be loaded: {type(error).__name__}: {error}") from error


def check_config(folder: Path) -> None:
    """Look at the sizes in config.json before anything is made of them.

    Raises:
        WeightsCorrupt: it is no JSON object, or a size is no size.
    """
    path = folder / "config.json"
    with readable(path):
        config: Any = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        raise WeightsCorrupt(f"{path} does not hold a JSON object")
    entries = cast("dict[str, Any]", config)
    for part in (entries, entries.get("text_config")):
        if isinstance(part, dict):
            _check_sizes(path, cast("dict[str, Any]", part))


def _check_sizes(path: Path, sizes: dict[str, Any]) -> None:
    for name, most in _MOST.items():
        value = sizes.get(name)
        if value is not None and not (type(value) is int and 0 < value <= most):
            raise WeightsCorrupt(f"{path}: {name} is {str(value)[:40]}, not a whole number from 1 to {most:,}")
