"""The clients, and the environments that they run in."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["ClientPackage", "client_packages"]

_HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class ClientPackage:
    """A client, as `roster.toml` has it."""

    name: str
    requires: list[str]
    variants: dict[str, str]
    """By API, the driver of it."""
    form_tool: str | None = None
    """The tool by which it asks for a form, where it does so by a tool."""
    last_call: str | None = None
    """The tool by which it is told the answer, where a call is required in every turn."""
    drivers: Path = field(default=_HERE / "drivers")

    def python(self, environments: Path, *, may_install: bool) -> Path | None:
        """The interpreter of its environment, made if it is not there; `None` if it may not be.

        Raises:
            CalledProcessError: pip could not install it.
        """
        folder = environments / self.name
        python = folder / "bin" / "python"
        if python.exists():
            return python
        if not may_install:
            return None
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *self.requires], check=True)
        return python


def client_packages() -> Iterator[ClientPackage]:
    """All of the roster."""
    for name, entry in tomllib.loads((_HERE / "roster.toml").read_text(encoding="utf-8")).items():
        yield ClientPackage(name=name, **entry)
