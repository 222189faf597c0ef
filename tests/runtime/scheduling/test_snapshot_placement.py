from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentform.runtime.scheduling.snapshot_placement import LEAST_GAP_TOKENS, SnapshotPoints


def test_a_short_stretch_gets_one_snapshot_at_its_end_but_for_one_token():
    assert SnapshotPoints.of(1000, (), start=0).take(0, 1000) == [999]


def test_a_long_stretch_gets_one_a_little_before_its_end_too():
    assert SnapshotPoints.of(5000, (), start=0).take(0, 5000) == [4999 - 128, 4999]
    assert SnapshotPoints.of(5000, (), start=4500).take(4500, 5000) == [4999]


def test_boundaries_and_the_fork_are_wanted_where_they_lie_ahead():
    points = SnapshotPoints.of(900, (100, 400, 5000), start=200, fork=300)
    assert points.take(200, 350) == [300]
    assert points.take(350, 900) == [400, 899]


@given(
    num_prompt=st.integers(1, 6000),
    boundaries=st.lists(st.integers(0, 7000), max_size=8),
    start=st.integers(0, 6000),
    fork=st.none() | st.integers(0, 6000),
    step=st.integers(1, 2000),
)
def test_points_are_ascending_ahead_of_the_start_and_never_close(num_prompt, boundaries, start, fork, step):
    points = SnapshotPoints.of(num_prompt, boundaries, start=start, fork=fork)
    taken = [each for at in range(0, num_prompt, step) for each in points.take(at, min(at + step, num_prompt))]
    assert all(start < each <= num_prompt for each in taken)
    assert all(b - a >= LEAST_GAP_TOKENS for a, b in zip([start, *taken], taken, strict=False))
