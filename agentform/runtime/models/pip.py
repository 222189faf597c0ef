"""Which pip fetches: that of the environment, else the one that Python carries for new environments, else any.

Environments that uv makes have none of their own.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Pip", "find_pip"]


@dataclass(frozen=True)
class Pip:
    """How it is run, and the first two numbers of its version; none where that is not known."""

    command: tuple[str, ...]
    version: tuple[int, ...]


def find_pip() -> Pip:
    """The first that there is.

    Raises:
        FileNotFoundError: there is none.
    """
    found = _installed() or _carried() or _on_path()
    if found is None:
        wanted = "`python -m ensurepip`, or `uv pip install pip`, brings it"
        raise FileNotFoundError(f"there is no pip for {sys.executable}; {wanted}")
    return found


def _installed() -> Pip | None:
    try:
        version = importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError:
        return None
    return Pip((sys.executable, "-m", "pip"), _numbers(version))


def _carried() -> Pip | None:
    """A wheel is an archive that Python runs as it lies."""
    spec = importlib.util.find_spec("ensurepip")
    if spec is None or spec.origin is None:
        return None
    wheels = sorted(Path(spec.origin).parent.glob("_bundled/pip-*.whl"))
    return Pip((sys.executable, f"{wheels[-1]}/pip"), _numbers(wheels[-1].name)) if wheels else None


def _on_path() -> Pip | None:
    place = shutil.which("pip3") or shutil.which("pip")
    return Pip((place,), ()) if place else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
