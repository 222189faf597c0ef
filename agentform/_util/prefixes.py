"""Common beginnings of token sequences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["best_prefix", "common_prefix", "shared_prefix"]


def common_prefix(a: Sequence[int], b: Sequence[int], offset: int = 0) -> int:
    """Number of tokens, from the first, that `a` and `b[offset:]` share; both of the same type of sequence."""
    longest = min(len(a), len(b) - offset)
    if longest <= 0 or a[0] != b[offset]:
        return 0
    if a[:longest] == b[offset : offset + longest]:
        return longest
    low, high = 1, longest  # a[:low] is common, a[:high] is not
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[offset + low : offset + middle]:
            low = middle
        else:
            high = middle
    return low


def shared_prefix(sequences: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """What all of `sequences` begin with; empty for none."""
    if not sequences:
        return ()
    low, high = min(sequences), max(sequences)  # in order, the others lie between and share what these do
    return low[: common_prefix(low, high)]


def best_prefix(
    held: Iterable[tuple[str, tuple[int, ...]]], ids: Sequence[int], *, whole: bool
) -> tuple[int, str | None]:
    """Which of `held`, by name, begins most like `ids`, and how many tokens they share.

    `whole`: a sequence counts only if all of it is the beginning of `ids`.
    """
    wanted = tuple(ids)
    found: tuple[int, str | None] = (0, None)
    for name, sequence in held:
        num = common_prefix(sequence, wanted)
        if num > found[0] and (num == len(sequence) or not whole):
            found = (num, name)
    return found
