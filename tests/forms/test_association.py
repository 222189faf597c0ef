"""The statistics of couplings: what is left of a table, what falls to chance, what names what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.forms.association import agreement, centred, divergence, is_positive, named_cells, strength
from agentform.schema.target import load

TABLES = st.integers(2, 4).flatmap(
    lambda width: st.lists(st.lists(st.floats(-9, 9), min_size=width, max_size=width), min_size=2, max_size=4)
)


@given(TABLES, st.floats(-5, 5))
def test_what_moves_a_whole_row_or_column_is_no_interaction(table, shift):
    moved = [[cell + shift * (i + 1) - shift * j for j, cell in enumerate(row)] for i, row in enumerate(table)]
    for row, other in zip(centred(table), centred(moved), strict=True):
        assert row == pytest.approx(other, abs=1e-9)
        assert sum(row) == pytest.approx(0, abs=1e-9)


@given(TABLES)
def test_a_table_agrees_with_itself_and_not_with_its_opposite(table):
    own = agreement(table, table)
    assert own >= 0
    assert agreement(table, [[-cell for cell in row] for row in table]) == pytest.approx(-own, abs=1e-9)
    assert strength([-own]) == 0
    assert strength([own]) ** 2 == pytest.approx(own)


def test_a_mean_is_certain_only_of_enough_values_that_agree():
    assert is_positive([1.0, 1.1, 0.9, 1.0], 0.01)
    assert not is_positive([1.0, 1.1, 0.9], 0.01)
    assert not is_positive([1.0, -1.1, 0.9, 1.0], 0.01)
    assert not is_positive([0.0] * 8, 0.01)
    # Student's t at 5 degrees of freedom, one-sided 1%: 3.365.
    assert is_positive([x + 3.6 / 6**0.5 for x in (-1, 1, -1, 1, -1, 1)], 0.01) == (3.6 / 1.0954 > 3.365)


def test_distributions_that_are_alike_do_not_diverge():
    assert divergence([(0.5, 0.5), (0.5, 0.5)]) == 0
    assert divergence([(1.0, 0.0), (0.0, 1.0)]) == pytest.approx(1)


def leaves(properties):
    form = load({"type": "object", "properties": properties, "required": list(properties)}, name="form").form
    return [field.node for field in form.root.fields]


@pytest.mark.parametrize(
    ("parent", "child", "cells"),
    [
        ({"enum": ["World", "Sports"]}, ("is_sports", {"type": "boolean"}), {("Sports", True)}),
        (
            {"enum": ["World", "Sports"]},
            ("flag", {"type": "boolean", "description": "On sports"}),
            {("Sports", True)},
        ),
        ({"enum": ["travel_alert", "tire"]}, ("area", {"enum": ["travel", "auto"]}), {("travel_alert", "travel")}),
        ({"enum": ["living room", "bath room"]}, ("kind", {"enum": ["meeting room", "dining room"]}), set()),
        ({"enum": ["May", "June"]}, ("end", {"enum": ["June", "May"]}), set()),
        ({"enum": [1, 2]}, ("is_one", {"type": "boolean"}), set()),
    ],
)
def test_values_name_a_flag_or_one_another(parent, child, cells):
    one, other = leaves({"first": parent, child[0]: child[1]})
    assert {(one.options[i], other.options[j]) for i, j in named_cells(one, other)} == cells
