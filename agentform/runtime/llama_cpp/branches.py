"""The tree of a score's branches, as sequences see it: a leaf is a sequence, and an inner token is in several.

::

    tokens    0 ── 1 ── 2          leaves 2 and 3      token 0, 1 in sequences a and b
                    └── 3                              token 2 in a, token 3 in b
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentform.runtime.scheduling.segment import Segment

__all__ = ["BranchTree", "tree_of"]


@dataclass(frozen=True, kw_only=True)
class BranchTree:
    """The tokens of a segment that are branches, by their index in it."""

    depths: dict[int, int]
    """How many tokens of the tree stand before each."""
    leaves: dict[int, tuple[int, ...]]
    """Numbers of the leaves, from 0, at or below each token."""
    paths: tuple[tuple[int, ...], ...]
    """By leaf, the tokens from the root to it."""


def tree_of(segment: Segment) -> BranchTree:
    """The tree of a segment that has one."""
    assert segment.parents is not None, "a segment without branches"
    tokens = range(segment.num_sequence, len(segment.token_ids))
    parents = {i: segment.parents[i] for i in tokens}
    inner = set(parents.values())
    paths = tuple(_path(parents, i) for i in tokens if i not in inner)
    depths = {i: len(_path(parents, i)) - 1 for i in tokens}
    leaves = {i: tuple(n for n, path in enumerate(paths) if i in path) for i in tokens}
    return BranchTree(depths=depths, leaves=leaves, paths=paths)


def _path(parents: dict[int, int], end: int) -> tuple[int, ...]:
    path: list[int] = []
    at = end
    while at in parents:
        path.append(at)
        at = parents[at]
    return tuple(reversed(path))


def first_rows(paths: Sequence[tuple[int, ...]]) -> list[set[int]]:
    """By path, its tokens that are in no path before it: where paths run apart, each row is read once."""
    seen: set[int] = set()
    found: list[set[int]] = []
    for path in paths:
        found.append(set(path) - seen)
        seen.update(path)
    return found
