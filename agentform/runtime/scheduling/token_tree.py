"""Packs the token paths of a score into trees, so that shared beginnings are computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentform._util.prefixes import common_prefix

__all__ = ["TokenTree", "pack"]


@dataclass(frozen=True, kw_only=True)
class TokenTree:
    """Tokens in an order where parents come first."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    """Index of the parent; -1 for the end of the prompt."""
    ends: dict[tuple[int, ...], int] = field(default_factory=dict)
    """Index of the last token of each path that was asked for."""


def pack(paths: Sequence[tuple[int, ...]], limit: int, *, max_ends: int | None = None) -> list[TokenTree]:
    """Trees of at most `limit` tokens (more only where one path alone is longer), together holding all `paths`,
    at most `max_ends` of them in each.

    Empty paths are left out. A beginning shared by paths of different trees is in each of them.
    """
    trees: list[TokenTree] = []
    previous: tuple[int, ...] = ()
    trail: list[int] = []  # index, in the last tree, of each token of `previous`
    for path in sorted({path for path in paths if path}):
        shared = common_prefix(previous, path)
        if not trees or _is_full(trees[-1], len(path) - shared, limit, max_ends):
            trees.append(TokenTree())
            shared = 0
        trail = _append(trees[-1], path, trail[:shared])
        previous = path
    return trees


def _is_full(tree: TokenTree, num_more: int, limit: int, max_ends: int | None) -> bool:
    return len(tree.tokens) + num_more > limit or (max_ends is not None and len(tree.ends) >= max_ends)


def _append(tree: TokenTree, path: tuple[int, ...], trail: list[int]) -> list[int]:
    for token in path[len(trail) :]:
        tree.parents.append(trail[-1] if trail else -1)
        trail.append(len(tree.tokens))
        tree.tokens.append(token)
    tree.ends[path] = trail[-1]
    return trail
