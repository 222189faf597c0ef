"""Regular expressions of dates, times and durations that lie between two bounds.

A bound is cut where its parts change, so that no text beyond it can be written::

    2024-03-05 .. 2025-02-10  ->  2024-(03-(05..31) | (04..12)-any day) | 2025-(01-any day | 02-(01..10))

What no pattern says is left to whoever validates: 29 February of other years, offsets, fractions of the bound's second.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, time, timedelta

__all__ = ["date_pattern", "datetime_pattern", "duration_pattern", "numbers", "time_pattern"]

_FRACTION = r"(\.[0-9]{1,6})?"
_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MOST_OF_CLOCK = (23, 59, 59)
_DAY = timedelta(days=1)
_CLOCK = r"T([0-9]{1,4}H([0-9]{1,4}M)?([0-9]{1,4}S)?|[0-9]{1,4}M([0-9]{1,4}S)?|[0-9]{1,4}S)"
_SECONDS_OF = (86_400, 3_600, 60, 1)
_Ends = tuple[int, ...] | None


def date_pattern(low: date = date.min, high: date = date.max) -> str:
    """Days from the first to the last, in every month as many as it has, and 29 in every February."""
    if low.year == high.year:
        return f"{low.year:04}-({_in_year((low.month, low.day), (high.month, high.day))})"
    first, last = low.year, high.year
    arms: list[str] = []
    if (low.month, low.day) > (1, 1):
        arms.append(f"{first:04}-({_in_year((low.month, low.day), (12, 31))})")
        first += 1
    if (high.month, high.day) < (12, 31):
        arms.append(f"{last:04}-({_in_year((1, 1), (high.month, high.day))})")
        last -= 1
    if first <= last:
        arms.append(f"({_padded(first, last, 4)})-({_in_year((1, 1), (12, 31))})")
    return _any_of(arms)


def time_pattern(low: time = time.min, high: time = time.max, *, with_high: bool = True) -> str:
    """Times of a day; the second of the upper bound has no fraction if the bound has none."""
    least = (low.hour, low.minute, low.second)
    most = (high.hour, high.minute, high.second)
    if high.microsecond:
        return f"{_clock(least, most)}{_FRACTION}"
    arms = [f"{most[0]:02}:{most[1]:02}:{most[2]:02}"] if with_high else []
    before = high.hour * 3_600 + high.minute * 60 + high.second - 1
    if before >= low.hour * 3_600 + low.minute * 60 + low.second:
        arms.append(f"{_clock(least, (before // 3_600, before // 60 % 60, before % 60))}{_FRACTION}")
    return _any_of(arms) if arms else "[^\\s\\S]"


def datetime_pattern(low: datetime | None, high: datetime | None, *, with_high: bool = True) -> str:
    """Days and times of day without an offset; beside a bound with one, a day more is left for others."""
    day = _DAY if any(end is not None and end.tzinfo for end in (low, high)) else timedelta()
    if day:
        first = low.date() - day if low and low.date() > date.min else date.min
        last = high.date() + day if high and high.date() < date.max else date.max
        return f"{date_pattern(first, last)}T{time_pattern()}"
    low, high = low or datetime.min, high or datetime.max
    if low.date() == high.date():
        return f"{low:%Y-%m-%d}T{time_pattern(low.time(), high.time(), with_high=with_high)}"
    first, last, arms = low.date(), high.date(), list[str]()
    if low.time() > time.min:
        arms.append(f"{first.isoformat()}T{time_pattern(low.time())}")
        first += _DAY
    if high.time() < time.max:
        if with_high or high.time() > time.min:
            arms.append(f"{last.isoformat()}T{time_pattern(high=high.time(), with_high=with_high)}")
        last -= _DAY
    if first <= last:
        arms.append(f"{date_pattern(first, last)}T{time_pattern()}")
    return _any_of(arms)


def duration_pattern(low: timedelta | None, high: timedelta | None) -> str:
    """Durations whose greatest unit is within the bounds; those that have a bound are said in days and less."""
    sign = "" if low is not None and low >= timedelta() else "-" if high is not None and high < timedelta() else "-?"
    ends = [abs(end) for end in (low, high) if end is not None]
    if high is None or (sign and low is None):
        return f"{sign}P([0-9]{{1,5}}W|[0-9]{{1,8}}D({_CLOCK})?|{_CLOCK})"
    most = int(max(ends).total_seconds())
    arms = [_units(most)]
    arms += [f"T{numbers(0, most // size)}{letter}" for size, letter in ((60, "M"), (1, "S")) if size <= most < 10**9]
    return f"{sign}P{_any_of(arms)}"


def numbers(low: int, high: int) -> str:
    """Whole numbers of at least 0 between two ends, without leading zeros."""
    arms: list[str] = []
    for digits in range(len(str(low)), len(str(high)) + 1):
        first, last = max(low, 10 ** (digits - 1) if digits > 1 else 0), min(high, 10**digits - 1)
        arms.append(_padded(first, last, digits))
    return _any_of(arms)


def _units(most: int) -> str:
    """Days, hours, minutes and seconds up to so many seconds, the greatest unit cut exactly where it alone is."""
    at = next((at for at, size in enumerate(_SECONDS_OF) if most >= size), 3)
    size, letter = _SECONDS_OF[at], "DHMS"[at]
    count, rest = divmod(most, size)
    below = _lesser(at)
    begin = "" if at == 0 else "T"
    arms = [] if rest or not below else [f"{begin}{count}{letter}"]
    last = count if rest or not below else count - 1
    arms += [f"{begin}{numbers(0, last)}{letter}{below}"] if last >= 0 else []
    arms += [f"{'T' if at == 0 else begin}{others}" for others in _alone(at)]
    return _any_of(arms)


def _lesser(at: int) -> str:
    """What may follow a unit: less of each unit below it than makes one of the next."""
    seconds = f"({numbers(0, 59)}S)?"
    return (f"(T{_any_of(_alone(0))})?", f"({numbers(0, 59)}M)?{seconds}", seconds, "")[at]


def _alone(at: int) -> list[str]:
    """Texts that begin with a unit below that one."""
    minutes, seconds = f"({numbers(0, 59)}M)?", f"({numbers(0, 59)}S)?"
    every = [f"{numbers(0, 23)}H{minutes}{seconds}", f"{numbers(0, 59)}M{seconds}", f"{numbers(0, 59)}S"]
    return every[at:]


def _in_year(low: tuple[int, int], high: tuple[int, int]) -> str:
    if low[0] == high[0]:
        return f"{low[0]:02}-{_padded(low[1], high[1], 2)}"
    first, last, arms = low[0], high[0], list[str]()
    if low[1] > 1:
        arms.append(f"{first:02}-{_padded(low[1], _LENGTHS[first - 1], 2)}")
        first += 1
    if high[1] < _LENGTHS[last - 1]:
        arms.append(f"{last:02}-{_padded(1, high[1], 2)}")
        last -= 1
    for length in sorted({*_LENGTHS[first - 1 : last]}):
        months = [f"{month:02}" for month in range(first, last + 1) if _LENGTHS[month - 1] == length]
        arms.append(f"{_any_of(months)}-{_padded(1, length, 2)}")
    return "|".join(arms)


def _clock(low: _Ends, high: _Ends, most: tuple[int, ...] = _MOST_OF_CLOCK) -> str:
    """Two digits for each part, from the lower to the upper end; `None` for an end that binds no longer."""
    first, last = low[0] if low else 0, high[0] if high else most[0]
    if len(most) == 1:
        return _padded(first, last, 2)
    if low and high and first == last:
        return f"{first:02}:{_clock(low[1:], high[1:], most[1:])}"
    arms: list[str] = []
    if low and any(low[1:]):
        arms.append(f"{first:02}:{_clock(low[1:], None, most[1:])}")
        first += 1
    if high and high[1:] != most[1:]:
        arms.append(f"{last:02}:{_clock(None, high[1:], most[1:])}")
        last -= 1
    if first <= last:
        arms.append(f"{_padded(first, last, 2)}:{_clock(None, None, most[1:])}")
    return _any_of(arms)


def _padded(low: int, high: int, digits: int) -> str:
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
    return _any_of(arms)


def _digits(count: int) -> str:
    return "[0-9]" * count if count < 2 else f"[0-9]{{{count}}}"


def _any_of(arms: Iterable[str]) -> str:
    listed = list(arms)
    return listed[0] if len(listed) == 1 else f"({'|'.join(listed)})"
