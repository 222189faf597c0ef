"""Regular expressions of dates, times and moments without an offset that lie between two bounds.

A bound is cut where its parts change, so that no text beyond it can be written::

    2024-03-05 .. 2025-02-10  ->  2024-(03-(05..31) | (04..12)-any day) | 2025-(01-any day | 02-(01..10))

Between whole seconds fractions are taken, at an upper bound none. What no pattern says is left to whoever validates: 29
February of other years.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta

from agentform.schema.digit_patterns import NOTHING, any_of, padded

__all__ = ["date_pattern", "datetime_pattern", "time_pattern"]

_FRACTION = r"(\.[0-9]{1,6})?"
_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MOST_OF_CLOCK = (23, 59, 59)
_LAST_SECOND = time(23, 59, 59)
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_LEAST = timedelta(microseconds=1)
_Ends = tuple[int, ...] | None


def date_pattern(low: date = date.min, high: date = date.max) -> str:
    """Days from the first to the last, in every month as many as it has, and 29 in every February."""
    if low > high:
        return NOTHING
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
        arms.append(f"({padded(first, last, 4)})-({_in_year((1, 1), (12, 31))})")
    return any_of(arms)


def time_pattern(low: time = time.min, high: time = time.max, *, above: bool = False, below: bool = False) -> str:
    """Times of a day; with `above` the lower bound is none of them, with `below` the upper."""
    day = date(2000, 1, 1)
    first, last = datetime.combine(day, low), datetime.combine(day, high)
    moments = datetime_pattern(first, last, above=above, below=below)
    return moments.removeprefix(f"{day}T") if moments != NOTHING else NOTHING


def datetime_pattern(low: datetime | None, high: datetime | None, *, above: bool = False, below: bool = False) -> str:
    """Days and times of day without an offset; with `above` the lower bound is none of them, with `below` the upper."""
    low, high = low or datetime.min, high or datetime.max
    first, last = _whole_second(low, above=above), high.replace(microsecond=0)
    takes_last = bool(high.microsecond) or not below
    if first > last or (first == last and not takes_last):
        only = low + _LEAST if above and low < datetime.max else low
        return only.isoformat().replace(".", r"\.") if only < high or (only == high and not below) else NOTHING
    return _moments(first, last, takes_last=takes_last)


def _whole_second(low: datetime, *, above: bool) -> datetime:
    """The first whole second from the bound on, or after it."""
    start = low.replace(microsecond=0)
    if start == low and not above:
        return start
    return start + _SECOND if start <= datetime.max - _SECOND else datetime.max


def _moments(first: datetime, last: datetime, *, takes_last: bool) -> str:
    """From one whole second to another."""
    if first.date() == last.date():
        return f"{first:%Y-%m-%d}T{_times(first.time(), last.time(), takes_last=takes_last)}"
    day, end, arms = first.date(), last.date(), list[str]()
    if first.time() > time.min:
        arms.append(f"{day.isoformat()}T{_times(first.time(), _LAST_SECOND, takes_last=True)}")
        day += _DAY
    if last.time() < _LAST_SECOND:
        if takes_last or last.time() > time.min:
            arms.append(f"{end.isoformat()}T{_times(time.min, last.time(), takes_last=takes_last)}")
        end -= _DAY
    if day <= end:
        arms.append(f"{date_pattern(day, end)}T{_times(time.min, _LAST_SECOND, takes_last=True)}")
    return any_of(arms)


def _times(first: time, last: time, *, takes_last: bool) -> str:
    """From one whole second to another, which has no fraction unless it is the last of the day."""
    least, most = (first.hour, first.minute, first.second), (last.hour, last.minute, last.second)
    if last == _LAST_SECOND and takes_last:
        return f"{_clock(least, most)}{_FRACTION}"
    arms = [f"{most[0]:02}:{most[1]:02}:{most[2]:02}"] if takes_last else []
    before = last.hour * 3_600 + last.minute * 60 + last.second - 1
    if before >= first.hour * 3_600 + first.minute * 60 + first.second:
        arms.append(f"{_clock(least, (before // 3_600, before // 60 % 60, before % 60))}{_FRACTION}")
    return any_of(arms)


def _in_year(low: tuple[int, int], high: tuple[int, int]) -> str:
    if low[0] == high[0]:
        return f"{low[0]:02}-{padded(low[1], high[1], 2)}"
    first, last, arms = low[0], high[0], list[str]()
    if low[1] > 1:
        arms.append(f"{first:02}-{padded(low[1], _LENGTHS[first - 1], 2)}")
        first += 1
    if high[1] < _LENGTHS[last - 1]:
        arms.append(f"{last:02}-{padded(1, high[1], 2)}")
        last -= 1
    for length in sorted({*_LENGTHS[first - 1 : last]}):
        months = [f"{month:02}" for month in range(first, last + 1) if _LENGTHS[month - 1] == length]
        arms.append(f"{any_of(months)}-{padded(1, length, 2)}")
    return "|".join(arms)


def _clock(low: _Ends, high: _Ends, most: tuple[int, ...] = _MOST_OF_CLOCK) -> str:
    """Two digits for each part, from the lower to the upper end; `None` for an end that binds no longer."""
    first, last = low[0] if low else 0, high[0] if high else most[0]
    if len(most) == 1:
        return padded(first, last, 2)
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
        arms.append(f"{padded(first, last, 2)}:{_clock(None, None, most[1:])}")
    return any_of(arms)
