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
from jinja2.nodes import ExprStmt, For
from jinja2.nodes import Template as Tree

__all__ = ["Bounded", "check_product", "render_within"]

_MOST_S = 20.0
_MOST_TURNS = 2_000_000
_MOST_CHARACTERS = 1 << 26


class _Spent(threading.local):
    """What the rendering in this thread has taken."""

    until = float("inf")
    turns = 0


class Bounded(Extension):
    """Counts the turns of all loops, and looks at the clock in each."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.spent = _Spent()

    def watch(self, tree: Tree) -> Tree:
        """Put the check into each loop of a parsed template."""
        for loop in tree.find_all(For):
            loop.body.insert(0, ExprStmt(self.call_method("_turn")).set_lineno(loop.lineno))
        return tree

    def _turn(self) -> None:
        self.spent.turns += 1
        if self.spent.turns > _MOST_TURNS or time.monotonic() > self.spent.until:
            raise SecurityError(f"the template takes more than {_MOST_TURNS:,} turns of loops or {_MOST_S:g} s")


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


def check_product(left: Any, right: Any) -> None:
    """Refuse to repeat a text or list until it fills the memory, and to multiply numbers until they do.

    Raises:
        jinja2.exceptions.SecurityError: the product would be larger than anything that a prompt has use for.
    """
    sizes = [len(value) if isinstance(value, (str, list, tuple)) else _magnitude(value) for value in (left, right)]
    if sizes[0] * sizes[1] > _MOST_CHARACTERS and any(isinstance(value, (str, list, tuple)) for value in (left, right)):
        raise SecurityError("the template repeats something more often than a prompt has room for")
    if any(isinstance(value, int) and value.bit_length() > _MOST_BITS for value in (left, right)):
        raise SecurityError("the template computes with numbers larger than a prompt has use for")


_MOST_BITS = 4096


def _magnitude(value: Any) -> int:
    return max(0, value) if isinstance(value, int) else 1


def _within_size(pieces: Iterable[str]) -> Iterable[str]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > _MOST_CHARACTERS:
            raise SecurityError(f"the template writes more than {_MOST_CHARACTERS:,} characters")
        yield piece
