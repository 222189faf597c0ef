"""One word, one meaning: a class, or a name for a type, is defined in one module of the package."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import agentform

PACKAGE = Path(agentform.__file__).parent


def type_names(source: str) -> Iterator[str]:
    """Classes at any depth, and capitalised names that a module assigns; underscores in front do not tell apart."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name.lstrip("_")
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        names = [target.id.lstrip("_") for target in targets if isinstance(target, ast.Name)]
        yield from (name for name in names if name[:1].isupper() and not name.isupper())


def defined_twice(sources: dict[str, str]) -> dict[str, list[str]]:
    """By name, the modules that define it, where there are several, or one several times."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for module, source in sources.items():
        for name in type_names(source):
            found[name].append(module)
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def test_a_type_is_defined_in_one_place():
    sources = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert defined_twice(sources) == {}


def test_a_name_that_is_defined_twice_is_seen():
    assert defined_twice({"a": "class Place: ...", "b": "Place: TypeAlias = int"}) == {"Place": ["a", "b"]}
    assert defined_twice({"a": "def f():\n    class _Step: ...", "b": "class Step: ..."}) == {"Step": ["a", "b"]}
    assert defined_twice({"a": "LIMIT = 1\nclass Limit: ...", "b": "LIMIT = 2"}) == {}
