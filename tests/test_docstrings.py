"""What a docstring of the package says is raised stands in a `Raises:` block of its own, a line an error."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import agentform
from agentform import errors

PACKAGE = Path(agentform.__file__).parent
NAMES = "|".join(name for name, value in vars(errors).items() if inspect.isclass(value))
TOLD_IN_PASSING = re.compile(rf"\bRaises\b(?!:\n)|\braises:? `?(?:{NAMES})\b")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def told_in_passing(source: str) -> list[str]:
    """Names of what has a docstring that says outside such a block what is raised."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, DOCUMENTED)]
    return [getattr(n, "name", "the module") for n in nodes if TOLD_IN_PASSING.search(ast.get_docstring(n) or "")]


def test_what_is_raised_is_told_in_a_block():
    found = {path: told_in_passing(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
    assert {str(path.relative_to(PACKAGE)): names for path, names in found.items() if names} == {}


def test_an_error_that_is_told_in_passing_is_seen():
    assert told_in_passing('def f():\n    """Read it. Raises InvalidInput."""') == ["f"]
    assert told_in_passing('def f():\n    """Read it; raises `GrammarError` when it is none."""') == ["f"]
    assert told_in_passing('class A:\n    """A text.\n\n    Raises: InvalidInput."""') == ["A"]
    assert told_in_passing('def f():\n    """Read it.\n\n    Raises:\n        InvalidInput: it is none.\n    """') == []
