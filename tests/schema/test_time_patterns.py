"""Patterns of dates, times and durations take what lies between their bounds and nothing beyond."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pydantic_core import SchemaValidator, core_schema

from agentform.schema.digit_patterns import numbers
from agentform.schema.duration_patterns import duration_pattern
from agentform.schema.time_patterns import date_pattern, datetime_pattern, time_pattern
from agentform.schema.zone_patterns import MomentBounds, moment_pattern, time_of_day_pattern

DAYS = st.dates(date(2023, 11, 1), date(2025, 3, 1))
EDGES = st.sampled_from([0, 1, 9, 10, 23, 58, 59])
TIMES = st.builds(time, EDGES.map(lambda hour: hour % 24), EDGES, EDGES)
MOMENTS = st.builds(datetime.combine, st.dates(date(2024, 2, 27), date(2024, 3, 2)), TIMES)
MANY = settings(max_examples=150, deadline=None, derandomize=True)


def is_taken(pattern, text):
    return re.fullmatch(pattern, text) is not None


@MANY
@given(ends=st.lists(DAYS, min_size=2, max_size=2).map(sorted), day=DAYS)
def test_days_between_two_days_and_no_others_are_taken(ends, day):
    for shown in (*ends, day):
        assert is_taken(date_pattern(*ends), shown.isoformat()) == (ends[0] <= shown <= ends[1])
    assert is_taken(date_pattern(), day.isoformat())


@MANY
@given(ends=st.lists(TIMES, min_size=2, max_size=2).map(sorted), at=TIMES, inclusive=st.booleans())
def test_times_between_two_times_and_no_others_are_taken(ends, at, inclusive):
    low, high = ends
    pattern = time_pattern(low, high, below=not inclusive)
    for shown in (low, high, at):
        legal = low <= shown <= high if inclusive else low <= shown < high
        assert is_taken(pattern, shown.isoformat()) == legal
    assert not is_taken(pattern, f"{high.isoformat()}.5")


@MANY
@given(ends=st.lists(MOMENTS, min_size=2, max_size=2).map(sorted), at=MOMENTS, inclusive=st.booleans())
def test_moments_between_two_moments_and_no_others_are_taken(ends, at, inclusive):
    low, high = ends
    pattern = datetime_pattern(low, high, below=not inclusive)
    for shown in (low, high, at):
        legal = low <= shown <= high if inclusive else low <= shown < high
        assert is_taken(pattern, shown.isoformat()) == legal


OFFSETS = st.sampled_from([0, 2, -5]).map(lambda hours: timezone(timedelta(hours=hours)))
ENDS = st.builds(lambda end, zone: end.replace(tzinfo=zone), MOMENTS, st.one_of(st.none(), OFFSETS))


@MANY
@given(
    low=ENDS,
    high=st.one_of(st.none(), ENDS),
    at=ENDS,
    zones=st.sampled_from(["naive", "aware", None]),
    strict=st.booleans(),
)
def test_what_is_taken_beside_bounds_of_any_offset_is_what_pydantic_takes(low, high, at, zones, strict):
    keys = ("gt", "lt") if strict else ("ge", "le")
    bounds = {key: end for key, end in zip(keys, (low, high), strict=True) if end is not None}
    schema = core_schema.datetime_schema(**bounds, **({"tz_constraint": zones} if zones else {}))
    pattern = moment_pattern(MomentBounds(low=low, high=high, above=strict, below=strict), zones)
    legal = SchemaValidator(schema).isinstance_python(at)
    shown = at.isoformat()
    if is_taken(pattern, shown):
        assert legal
    elif legal:  # another offset than UTC and the bounds' own is taken a day further in
        assert at.tzinfo is not None
        own = {end.utcoffset() for end in (low, high) if end is not None} | {timedelta()}
        assert at.utcoffset() not in own


def test_a_day_within_the_bounds_every_offset_can_be_written():
    pattern = moment_pattern(MomentBounds(low=datetime(2024, 1, 2, tzinfo=UTC)), "aware")
    assert is_taken(pattern, "2024-01-03T23:00:00+09:30")
    assert not is_taken(pattern, "2024-01-02T01:00:00+09:30")
    assert is_taken(pattern, "2024-01-02T00:00:00Z")


@pytest.mark.parametrize(
    ("low", "zones", "takes", "refuses"),
    [
        (time(9), None, ["09:00:00", "10:00:00Z", "09:30:00+02:00"], ["08:59:59", "08:00:00-02:00"]),
        (time(9, tzinfo=UTC), None, ["09:00:00", "10:00:00Z"], ["08:59:59", "08:00:00Z", "09:00:00+02:00"]),
        (time(9, tzinfo=UTC), "naive", ["09:00:00"], ["10:00:00Z"]),
    ],
)
def test_times_of_day_have_the_offset_of_their_bound_or_none(low, zones, takes, refuses):
    pattern = time_of_day_pattern(low, time.max, zones)
    assert [text for text in takes if not is_taken(pattern, text)] == []
    assert [text for text in refuses if is_taken(pattern, text)] == []


LENGTHS = st.sampled_from([0, 1, 59, 60, 61, 3599, 3600, 5400, 86_399, 86_400, 90_061, 30 * 86_400, 0.25, 0.5, 1.5])
SIGNED = st.builds(lambda seconds, sign: timedelta(seconds=seconds * sign), LENGTHS, st.sampled_from([1, -1]))


@MANY
@given(
    low=st.one_of(st.none(), SIGNED), high=st.one_of(st.none(), SIGNED), length=SIGNED, above=st.booleans(), far=EDGES
)
def test_durations_within_the_bounds_and_no_others_are_taken(low, high, length, above, far):
    pattern = duration_pattern(low, high, above=above, below=above)
    said = TypeAdapter(timedelta).dump_json(length).decode().strip('"')
    seconds = int(abs(length).total_seconds()) + far
    alone = f"{'-' if length < timedelta() else ''}PT{seconds}S"
    lower = low is None or (length > low if above else length >= low)
    upper = high is None or (length < high if above else length <= high)
    if not length.microseconds:
        assert is_taken(pattern, said) == (lower and upper)
    for text in (said, alone):
        read = TypeAdapter(timedelta).validate_json(f'"{text}"')
        if is_taken(pattern, text):
            assert low is None or (read > low if above else read >= low)
            assert high is None or (read < high if above else read <= high)


@pytest.mark.parametrize(
    ("low", "high", "takes", "refuses"),
    [
        (0, 7200, ["PT2H", "PT90M", "PT1H59M59S", "PT7200S"], ["PT2H1S", "PT3H", "P1D", "-PT1H", "PT", "P"]),
        (0, 2 * 86_400, ["P2D", "P1DT23H", "PT3H"], ["P3D", "P2DT1S", "P1W"]),
        (3600, None, ["PT1H", "PT60M", "P1D", "P2W", "PT1H1S"], ["PT59M59S", "PT0S", "PT3599S", "PT59M", "-P1D"]),
        (1800, 3 * 86_400, ["PT30M", "P2DT23H", "PT36H"], ["PT29M", "PT0H30S", "P3DT1S"]),
        (-3600, 3600, ["-PT1H", "PT1H", "PT0S"], ["PT2H", "-PT2H"]),
        (None, -1, ["-P3D", "-PT1S"], ["P3D", "PT0S"]),
        (0, None, ["P90D", "P2W", "PT1H"], ["-P1D"]),
        (0.2, 0.5, ["PT0.200000S", "PT0.300000S"], ["PT0S", "PT1S", "PT0.600000S"]),
        (7200, 3600, [], ["PT1H", "PT2H"]),
    ],
)
def test_durations_are_said_in_any_unit(low, high, takes, refuses):
    ends = [None if end is None else timedelta(seconds=end) for end in (low, high)]
    pattern = duration_pattern(*ends)
    assert [text for text in takes if not is_taken(pattern, text)] == []
    assert [text for text in refuses if is_taken(pattern, text)] == []


@MANY
@given(ends=st.lists(st.integers(0, 1200), min_size=2, max_size=2).map(sorted), number=st.integers(0, 1300))
def test_numbers_between_two_numbers_and_no_others_are_taken(ends, number):
    for shown in (*ends, number):
        assert is_taken(numbers(*ends), str(shown)) == (ends[0] <= shown <= ends[1])
    assert not is_taken(numbers(*ends), f"0{ends[1]}")
