"""Bounds on what a chat template may take: it comes with a model's weights, and a loop in it may have no end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from jinja2 import Template
from jinja2.environment import Environment
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.nodes import Concat, Expr, ExprStmt, For, Node
from jinja2.nodes import Template as Tree
from jinja2.visitor import NodeTransformer

from agentform.runtime.tokenizer.template_growth import MOST_CHARACTERS, joined

__all__ = ["Bounded", "render_within"]

_MOST_S = 20.0
_MOST_TURNS = 2_000_000


class _Spent(threading.local):
    """What the rendering in this thread has taken."""

    until = float("inf")
    turns = 0


class Bounded(Extension):
    """Counts the turns of all loops, looks at the clock in each, and bounds what `~` puts together."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.spent = _Spent()

    def watch(self, tree: Tree) -> Tree:
        """Put the checks into each loop of a parsed template, and into each `~`."""
        _Concatenations(self).visit(tree)
        for loop in tree.find_all(For):
            loop.body.insert(0, ExprStmt(self.call_method("_turn")).set_lineno(loop.lineno))
        return tree

    def concatenation(self, parts: list[Expr], line: int) -> Node:
        """What stands for `parts` with `~` between them."""
        return self.call_method("_joined", parts, lineno=line)

    def _turn(self) -> None:
        self.spent.turns += 1
        if self.spent.turns > _MOST_TURNS or time.monotonic() > self.spent.until:
            raise SecurityError(f"the template takes more than {_MOST_TURNS:,} turns of loops or {_MOST_S:g} s")

    def _joined(self, *parts: Any) -> str:
        return joined("", parts)


class _Concatenations(NodeTransformer):
    def __init__(self, bounded: Bounded) -> None:
        self._bounded = bounded

    def visit_Concat(self, node: Concat) -> Node:
        self.generic_visit(node)
        return self._bounded.concatenation(node.nodes, node.lineno)


def render_within(template: Template, values: Mapping[str, Any]) -> str:
    """The template's output.

    Raises:
        jinja2.TemplateError: the template refuses the values, or takes more time or room than any needs.
    """
    bounded = next(each for each in template.environment.extensions.values() if isinstance(each, Bounded))
    bounded.spent.until, bounded.spent.turns = time.monotonic() + _MOST_S, 0
    try:
        return "".join(_within_size(template.generate(values)))
    finally:
        bounded.spent.until = float("inf")


def _within_size(pieces: Iterable[str]) -> Iterable[str]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MOST_CHARACTERS:
            raise SecurityError(f"the template writes more than {MOST_CHARACTERS:,} characters")
        yield piece
