"""What the command line says of how a model is loaded, and sizes as people write them."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path

import typer

__all__ = ["EngineSettings", "size_in_bytes"]

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?)b?|b)?", re.IGNORECASE)
_POWERS = " kmgt"


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """Settings of `load_engine`, by its names; what is `None` was not said."""

    engine: str | None = None
    device: str | None = None
    dtype: str | None = None
    cache_dir: Path | None = None
    kv_budget_bytes: int | None = None
    host_budget_bytes: int | None = None
    kv_bits: int | None = None
    snapshots: str | None = None
    num_threads: int | None = None

    def given(self) -> dict[str, object]:
        """What was said of them."""
        every = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in every.items() if value is not None}


def size_in_bytes(text: str) -> int:
    """Bytes that "8GiB", "500MB", "0.5g" or "1000000" are; without an i the prefixes are decimal.

    Raises:
        BadParameter: the text is no size.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no size; write it like 8GiB, 500MB or 1000000")
    number, prefix, binary = found.groups()
    base = 1024 if binary else 1000
    return int(float(number) * base ** _POWERS.index((prefix or " ").lower()))
