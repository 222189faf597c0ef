"""Regular expressions of whole numbers that lie between two ends, in as many digits as they need or padded."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["NOTHING", "any_of", "numbers", "padded"]

NOTHING = r"[^\s\S]"
"""Takes no text."""


def numbers(low: int, high: int) -> str:
    """Whole numbers of at least 0 between two ends, without leading zeros."""
    arms: list[str] = []
    for digits in range(len(str(low)), len(str(high)) + 1):
        first, last = max(low, 10 ** (digits - 1) if digits > 1 else 0), min(high, 10**digits - 1)
        arms.append(padded(first, last, digits))
    return any_of(arms)


def padded(low: int, high: int, digits: int) -> str:
    """Whole numbers between two ends, all with so many digits."""
    return _between(f"{low:0{digits}}", f"{high:0{digits}}")


def _between(first: str, last: str) -> str:
    """Numbers of so many digits from the first to the last."""
    others = len(first) - 1
    if first == "0" * len(first) and last == "9" * len(last):
        return _digits(len(first))
    if first[0] == last[0]:
        return first[0] + _between(first[1:], last[1:])
    low, high, arms = int(first[0]), int(last[0]), list[str]()
    if first[1:] != "0" * others:
        arms.append(first[0] + _between(first[1:], "9" * others))
        low += 1
    if last[1:] != "9" * others:
        arms.append(last[0] + _between("0" * others, last[1:]))
        high -= 1
    if low <= high:
        arms.append((f"[{low}-{high}]" if low < high else str(low)) + _digits(others))
    return any_of(arms)


def _digits(count: int) -> str:
    return "[0-9]" * count if count < 2 else f"[0-9]{{{count}}}"


def any_of(arms: Iterable[str]) -> str:
    """One of the patterns; of none, none."""
    listed = list(arms)
    if not listed:
        return NOTHING
    return listed[0] if len(listed) == 1 else f"({'|'.join(listed)})"
