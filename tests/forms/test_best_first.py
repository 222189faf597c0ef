"""Joint assignments come out in falling order, every one once."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.forms.beam_search import best_first

rows = st.lists(st.lists(st.floats(-50, 0), min_size=1, max_size=4), min_size=1, max_size=4)


@given(rows=rows)
def test_best_first_equals_sorting_every_combination(rows):
    found = list(best_first(rows))
    everything = list(itertools.product(*(range(len(row)) for row in rows)))
    assert sorted(indices for indices, _ in found) == everything
    totals = [total for _, total in found]
    assert totals == sorted(totals, reverse=True)
    for indices, total in found:
        assert total == pytest.approx(sum(row[i] for row, i in zip(rows, indices, strict=True)))


def test_a_few_of_very_many_come_without_building_them_all():
    rows = [[-float(i + place) for i in range(50)] for place in range(40)]
    first = list(itertools.islice(best_first(rows), 100))
    assert first[0][0] == (0,) * 40
    assert [total - first[0][1] for _, total in first[:41]] == [0.0] + [-1.0] * 40


def test_nothing_to_choose_has_no_assignment():
    assert list(best_first([])) == []
