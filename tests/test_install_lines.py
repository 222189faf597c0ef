"""A page's own install line brings all that its blocks import, so that they run right after it.

Read off what the installed packages require, since an environment of its own takes minutes; `tests/test_docs.py` runs
the blocks.
"""

from __future__ import annotations

import ast
import shlex
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.doc_blocks import blocks_of, commands_of

ROOT = Path(__file__).parent.parent
PAGES = ["docs/langchain.md"]


def own_project(target: str) -> tuple[str, list[str]]:
    """Name and requirements of a folder of this repository, its extras as pip reads them: `.[llama]`."""
    folder, _, extras = target.partition("[")
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [extra for extra in extras.rstrip("]").split(",") if extra]
    optional = [line for extra in names for line in project["optional-dependencies"][extra]]
    return project["name"], project["dependencies"] + optional


def installed_by(command: str) -> set[str]:
    """Names of all distributions that a `pip install` brings."""
    targets = [word for word in shlex.split(command)[2:] if not word.startswith("-")]
    found, open_lines = set(), []
    for target in targets:
        is_folder = target.startswith(".") or "/" in target
        name, lines = own_project(target) if is_folder else (None, [target])
        found |= {canonicalize_name(name)} if name else set()
        open_lines += lines
    open_lines = [line for line in open_lines if _is_taken(line, set())]
    while open_lines:
        required = Requirement(open_lines.pop())
        name = canonicalize_name(required.name)
        if name in found:
            continue
        found.add(name)
        try:
            below = requires(name) or []
        except PackageNotFoundError:
            continue
        open_lines += [line for line in below if _is_taken(line, required.extras)]
    return found


def _is_taken(line: str, extras: set[str]) -> bool:
    marker = Requirement(line).marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in (extras or {""}))


def imports_of(page: Path) -> set[str]:
    """Names of the packages that the page's Python imports."""
    trees = [ast.parse(block.text) for block in blocks_of(page) if block.language == "python"]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    modules |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return {module.partition(".")[0] for module in modules} - sys.stdlib_module_names


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_imports_comes_with_its_install_line(page):
    [command] = [c for block in blocks_of(ROOT / page) for c in commands_of(block) if c.startswith("pip install")]
    brought = installed_by(command)
    of_package = packages_distributions()
    lacking = {
        package
        for package in imports_of(ROOT / page)
        if not {canonicalize_name(name) for name in of_package.get(package, [package.replace("_", "-")])} & brought
    }
    assert lacking == set()
    assert {"agentform", "langchain-agentform"} <= brought
