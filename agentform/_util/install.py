"""How an extra is installed here: agentform is on no package index, what its extras need is."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
from pathlib import Path

__all__ = ["install_line"]

_ROOT = Path(__file__).resolve().parents[2]
_NEEDED_BY = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")
_OWN = re.compile(r"agentform\[([\w,-]+)\]")


def install_line(extra: str) -> str:
    """A command that installs an extra: from the checkout where agentform runs from one, else the packages by name."""
    if (_ROOT / "pyproject.toml").is_file():
        return f"pip install -e {shlex.quote(f'{_ROOT}[{extra}]')}"
    wanted = _packages(extra)
    return f"pip install {' '.join(map(shlex.quote, wanted))}" if wanted else f"the extra {extra!r} of agentform"


def _packages(extra: str) -> list[str]:
    """What the extra adds, as it is written in the metadata of the installed package; extras that it names opened."""
    found: list[str] = []
    for line in importlib.metadata.requires("agentform") or ():
        requirement, _, marker = line.partition(";")
        if (named := _NEEDED_BY.search(marker)) is None or named[1] != extra:
            continue
        own = _OWN.match(requirement)
        found += [name for part in own[1].split(",") for name in _packages(part)] if own else [requirement.strip()]
    return found
