"""Regular expressions of ISO 8601 durations that lie between two bounds.

A duration is said in days, hours, minutes and seconds, each less than makes one of the next, or in one unit alone::

    1 h .. 2 h  ->  PT(2H | 1H(..59M)?(..59S)? | (60..120)M | (3600..7200)S)
"""

from __future__ import annotations

import math
from datetime import timedelta

from agentform.schema.digit_patterns import any_of, numbers, padded

__all__ = ["duration_pattern"]

_LETTERS = "DHMS"
_SECONDS_OF = (86_400, 3_600, 60, 1)
_MOST_OF = (99_999_999, 23, 59, 59)
_ALONE = (("", "W", 604_800, 99_999), ("T", "H", 3_600, 99_999), ("T", "M", 60, 999_999), ("T", "S", 1, 9_999_999))
"""Units that may stand alone: what goes before, the letter, its seconds, and the most that is written of it."""
_LONGEST = _MOST_OF[0] * 86_400 + 86_399
_MICROSECONDS = 1_000_000
_LEAST = timedelta(microseconds=1)
_UnitCounts = tuple[int, ...] | None


def duration_pattern(low: timedelta | None, high: timedelta | None, *, above: bool = False, below: bool = False) -> str:
    """Durations in whole seconds; with `above` the lower bound is none of them, with `below` the upper.

    Where no whole second lies between the bounds, those with a fraction. Of less than nothing, those with a sign.
    """
    low = low + _LEAST if low is not None and above else low
    high = high - _LEAST if high is not None and below else high
    arms: list[str] = []
    if high is None or high >= timedelta():
        arms += _magnitudes("P", low if low is not None and low > timedelta() else timedelta(), high)
    if low is None or low < timedelta():
        least = -high if high is not None and high < timedelta() else _LEAST
        arms += _magnitudes("-P", least, None if low is None else -low)
    return any_of(arms)


def _magnitudes(begin: str, low: timedelta, high: timedelta | None) -> list[str]:
    """How the durations between two that are not negative are written; nothing where there is none."""
    least, most = _microseconds(low), _LONGEST * _MICROSECONDS if high is None else _microseconds(high)
    first, last = math.ceil(least / _MICROSECONDS), min(most // _MICROSECONDS, _LONGEST)
    if first <= last:
        return [f"{begin}{any_of([_units(_parts(first), _parts(last)), *_alone(first, last)])}"]
    if least > most:
        return []
    seconds = least // _MICROSECONDS
    return [rf"{begin}T{seconds}\.{padded(least % _MICROSECONDS, most % _MICROSECONDS, 6)}S"]


def _microseconds(length: timedelta) -> int:
    return length // _LEAST


def _parts(seconds: int) -> tuple[int, ...]:
    """Days, hours, minutes and seconds."""
    return tuple(seconds // size % (_MOST_OF[at] + 1) for at, size in enumerate(_SECONDS_OF))


def _alone(first: int, last: int) -> list[str]:
    """One unit alone, as often as the seconds from the first to the last hold it."""
    found = ((begin, letter, -(-first // size), min(last // size, most)) for begin, letter, size, most in _ALONE)
    return [f"{begin}{numbers(low, high)}{letter}" for begin, letter, low, high in found if low <= high]


def _units(low: _UnitCounts, high: _UnitCounts, at: int = 0) -> str:
    """Texts of at least one unit from `at` on; parts that are 0 are left out, but for the seconds."""
    first, last = low[0] if low else 0, high[0] if high else _MOST_OF[at]
    letter = _LETTERS[at]
    if at == len(_LETTERS) - 1:
        return f"{numbers(first, last)}{letter}"
    arms: list[str] = []
    if first == 0:
        arms.append(
            ("T" if at == 0 else "") + _units(low and low[1:], high[1:] if high and last == 0 else None, at + 1)
        )
    first = max(first, 1)
    if low and low[0] == first and any(low[1:]):
        upper = high[1:] if high and last == first else None
        arms.append(f"{first}{letter}{_rest(low[1:], upper, at + 1)}")
        first += 1
    if high and last >= first and high[1:] != _MOST_OF[at + 1 :]:
        arms.append(f"{last}{letter}{_rest(None, high[1:], at + 1)}")
        last -= 1
    if first <= last:
        arms.append(f"{numbers(first, last)}{letter}{_rest(None, None, at + 1)}")
    return any_of(arms)


def _rest(low: _UnitCounts, high: _UnitCounts, at: int) -> str:
    """What follows a greater unit; nothing, too, where less than nothing more is asked for."""
    text = ("T" if at == 1 else "") + _units(low, high, at)
    return text if low and any(low) else f"({text})?"
