"""Patterns of dates, times and durations take what lies between their bounds and nothing beyond."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from agentform.schema.time_patterns import date_pattern, datetime_pattern, duration_pattern, numbers, time_pattern

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
    pattern = time_pattern(low, high, with_high=inclusive)
    for shown in (low, high, at):
        legal = low <= shown <= high if inclusive else low <= shown < high
        assert is_taken(pattern, shown.isoformat()) == legal
    assert not is_taken(pattern, f"{high.isoformat()}.5")


@MANY
@given(ends=st.lists(MOMENTS, min_size=2, max_size=2).map(sorted), at=MOMENTS, inclusive=st.booleans())
def test_moments_between_two_moments_and_no_others_are_taken(ends, at, inclusive):
    low, high = ends
    pattern = datetime_pattern(low, high, with_high=inclusive)
    for shown in (low, high, at):
        legal = low <= shown <= high if inclusive else low <= shown < high
        assert is_taken(pattern, shown.isoformat()) == legal


def test_beside_a_bound_with_an_offset_every_offset_can_be_written():
    pattern = datetime_pattern(datetime(2024, 1, 2, tzinfo=UTC), datetime(2024, 1, 3, tzinfo=UTC))
    assert is_taken(pattern, "2024-01-01T23:00:00")  # at -05:00 it is the next day
    assert not is_taken(pattern, "2023-12-31T23:00:00")


@MANY
@given(
    most=st.sampled_from([0, 30, 90, 3600, 5400, 7200, 86_400, 90_000, 30 * 86_400]).map(
        lambda s: timedelta(seconds=s)
    ),
    part=st.floats(0, 1),
)
def test_every_duration_up_to_the_bound_can_be_said(most, part):
    pattern = duration_pattern(timedelta(), most)
    said = TypeAdapter(timedelta).dump_json(timedelta(seconds=int(most.total_seconds() * part)))
    assert is_taken(pattern, said.decode().strip('"'))


@pytest.mark.parametrize(
    ("low", "high", "takes", "refuses"),
    [
        (0, 7200, ["PT2H", "PT90M", "PT1H59M59S", "PT7200S"], ["PT2H1S", "PT3H", "P1D", "-PT1H", "PT", "P"]),
        (0, 2 * 86_400, ["P2D", "P1DT23H", "PT3H"], ["P3D", "P2DT1S", "P1W"]),
        (-3600, 3600, ["-PT1H", "PT1H", "PT0S"], ["PT2H", "-PT2H"]),
        (None, -1, ["-P3D"], ["P3D"]),
        (0, None, ["P90D", "P2W", "PT1H"], ["-P1D"]),
    ],
)
def test_durations_keep_to_their_greatest_unit(low, high, takes, refuses):
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
