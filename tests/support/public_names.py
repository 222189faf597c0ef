"""What users may import of agentform, and what a text imports beyond that."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import agentform

__all__ = ["PUBLIC_MODULES", "is_public", "names_in_prose", "private_names"]

PUBLIC_MODULES = (
    "agentform.engines",
    "agentform.errors",
    "agentform.events",
    "agentform.messages",
    "agentform.reports",
    "agentform.schema",
    "agentform.serve",
    "agentform.telemetry",
    "agentform.testing",
    "agentform.tools",
)
_DOTTED = re.compile(r"\bagentform(?:\.[A-Za-z_]\w*)+")


def is_public(name: str) -> bool:
    """Whether a dotted name is a public module, or what one lists in `__all__`, or an attribute of that."""
    if name == "agentform" or name in PUBLIC_MODULES:
        return True
    for module in PUBLIC_MODULES:
        if name.startswith(module + "."):
            return name.removeprefix(module + ".").split(".")[0] in importlib.import_module(module).__all__
    return name.removeprefix("agentform.").split(".")[0] in agentform.__all__


def private_names(source: str) -> list[str]:
    """Names of agentform that a Python text imports although they are not public."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return [name for name in names if name.split(".")[0] == "agentform" and not is_public(name)]


def names_in_prose(text: str) -> list[str]:
    """Dotted names in a page that begin with a module of agentform; those of metrics and files look alike."""
    modules = {path.stem for path in Path(agentform.__file__).parent.iterdir()}
    return [name for name in _DOTTED.findall(text) if name.split(".")[1] in modules]
