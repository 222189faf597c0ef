"""What one segment adds to batches: a piece of its chain, its chain with the branches after it, or branches alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from agentform.runtime.llama_cpp.branches import BranchTree, first_rows, tree_of
from agentform.runtime.llama_cpp.context import BatchToken
from agentform.runtime.scheduling.segment import Segment

__all__ = ["Unit", "units_of"]

_OwnPath: TypeAlias = tuple[tuple[int, ...], set[int]]
"""A path's tokens, and those of them whose logits it reads."""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A part of a segment that is computed in one batch."""

    build: Callable[[Sequence[int]], list[BatchToken]]
    """The tokens, given a sequence for each branch that shares the segment's cells before them."""
    num_tokens: int
    rows: tuple[int, ...] = ()
    """The tokens of the segment whose logits are read, in the order of the batch."""
    num_branches: int = 0
    chain_stop: int = 0
    """Tokens of the chain that are computed after it."""


def units_of(segment: Segment, sequence: int, *, stateful: bool, most_branches: int) -> Iterator[Unit]:
    """In the order in which they must run. `stateful`: no token may be computed for several sequences at once."""
    tree = tree_of(segment) if segment.num_chain < len(segment.token_ids) else None
    if tree is not None and not stateful:
        yield _joined(segment, sequence, tree)
        return
    start = 0
    for stop in _stops(segment):
        yield _chain(segment, sequence, start, stop)
        start = stop
    if tree is not None:
        yield from _apart(segment, tree, most_branches)


def _stops(segment: Segment) -> list[int]:
    """Where batches of the chain end: after each snapshot, and at its end."""
    return sorted({at for at, _ in segment.saves} | {segment.num_chain}) if segment.num_chain else []


def _chain(segment: Segment, sequence: int, start: int, stop: int) -> Unit:
    wanted = set(segment.rows)

    def build(branches: Sequence[int]) -> list[BatchToken]:
        del branches
        return [_token(segment, i, segment.num_before + i, (sequence,), i in wanted) for i in range(start, stop)]

    rows = tuple(i for i in range(start, stop) if i in wanted)
    return Unit(build=build, num_tokens=stop - start, rows=rows, chain_stop=stop)


def _joined(segment: Segment, sequence: int, tree: BranchTree) -> Unit:
    """Chain and tree in one batch: the chain's tokens are in all sequences, a branch's in those of its leaves."""
    num, wanted = segment.num_chain, set(segment.rows)

    def build(branches: Sequence[int]) -> list[BatchToken]:
        everyone = (sequence, *branches)
        chain = [_token(segment, i, segment.num_before + i, everyone, i in wanted) for i in range(num)]
        start = segment.num_before + num
        return chain + [
            _token(segment, i, start + depth, tuple(branches[leaf] for leaf in tree.leaves[i]), i in wanted)
            for i, depth in tree.depths.items()
        ]

    rows = tuple(i for i in range(len(segment.token_ids)) if i in wanted)
    return Unit(build=build, num_tokens=len(segment.token_ids), rows=rows, num_branches=len(tree.paths), chain_stop=num)


def _apart(segment: Segment, tree: BranchTree, most: int) -> Iterator[Unit]:
    """Branches as whole paths, each in a sequence of its own, some at a time.

    At most `most`, of no more tokens together than the tree twice: what paths share is computed, and has a cell, in
    each of them.
    """
    room = 2 * len(tree.depths)
    group: list[_OwnPath] = []
    for path, rows in zip(tree.paths, first_rows(tree.paths), strict=True):
        if len(group) == most or sum(len(each) for each, _ in group) + len(path) > room:
            yield _paths(segment, group)
            group = []
        group.append((path, rows & set(segment.rows)))
    yield _paths(segment, group)


def _paths(segment: Segment, group: Sequence[_OwnPath]) -> Unit:
    start = segment.num_before + segment.num_chain

    def build(branches: Sequence[int]) -> list[BatchToken]:
        return [
            _token(segment, i, start + depth, (branch,), i in rows)
            for branch, (path, rows) in zip(branches, group, strict=True)
            for depth, i in enumerate(path)
        ]

    return Unit(
        build=build,
        num_tokens=sum(len(path) for path, _ in group),
        rows=tuple(i for path, rows in group for i in path if i in rows),
        num_branches=len(group),
        chain_stop=segment.num_chain,
    )


def _token(segment: Segment, index: int, place: int, sequences: tuple[int, ...], wanted: bool) -> BatchToken:
    return BatchToken(segment.token_ids[index], place, sequences, wanted)
