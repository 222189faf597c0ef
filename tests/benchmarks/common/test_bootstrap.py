from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.common.bootstrap import drawn, gap, interval, ratio

FIGURES = st.dictionaries(st.integers(0, 9), st.floats(0.1, 10), min_size=1, max_size=6)


@given(FIGURES, FIGURES)
def test_a_ratio_lies_within_its_interval_and_between_its_rounds(theirs, ours):
    found = ratio(theirs, ours)
    common = theirs.keys() & ours.keys()
    assert (found is None) == (not common)
    if found is not None:
        each = [theirs[key] / ours[key] for key in common]
        assert min(each) <= found.low <= found.high <= max(each)
        assert found.low - 1e-9 <= found.median <= found.high + 1e-9
        assert found.rounds == len(common)


@given(FIGURES)
def test_with_itself_there_is_no_gap(ours):
    found = gap(ours, ours)
    assert found is not None
    assert (found.mean, found.low, found.high) == (0, 0, 0)


def test_draws_are_the_same_every_time_and_the_interval_holds_95_percent():
    assert (drawn(5) == drawn(5)).all()
    assert drawn(3, draws=7).shape == (7, 3)
    low, high = interval(np.arange(1001.0))
    assert (low, high) == (25.0, 975.0)
