"""The parts of the forms benchmark that need no model: statistics, corrections, shipped forms, couplings."""

import math

import numpy as np
import pytest

from benchmarks.common.bootstrap import difference
from benchmarks.common.datasets import load_items
from benchmarks.common.harness import Context
from studies.forms.couplings import couplings
from studies.forms.lean import Running, best, corrected, keep_null, prior_of
from studies.forms.metrics import accuracy, calibration_error


@pytest.fixture
def context():
    return Context(name="forms", data=None, quick=True)


def test_difference_is_paired_and_counts_discordant_cases():
    first = [[True, True], [True], [False]]
    second = [[True, False], [True], [True]]
    found = difference(first, second, seed=1)
    assert (found.only_first, found.only_second, found.mean) == (1, 1, 0.0)
    assert found.low <= 0.0 <= found.high
    assert found.p == 1.0


def test_difference_of_the_same_is_nothing():
    rows = [[True], [False], [True]]
    found = difference(rows, rows, seed=1)
    assert (found.low, found.high) == (0.0, 0.0)
    assert accuracy(rows) == pytest.approx(2 / 3)


def test_calibration_error_of_honest_and_of_boasting_confidence():
    assert calibration_error([1.0] * 10, [True] * 10) == pytest.approx(0.0)
    assert calibration_error([1.0] * 10, [False] * 10) == pytest.approx(1.0)


def test_the_prior_is_taken_out():
    prior = prior_of([[math.log(0.9), math.log(0.1)]])
    scores = [math.log(0.8), math.log(0.2)]
    assert best(corrected(scores, prior, 0.0)) == 0
    assert best(corrected(scores, prior, 1.0)) == 1


def test_null_keeps_its_standing():
    prior = np.log(np.array([0.2, 0.1, 0.7]))
    kept = keep_null(prior, ("a", "b", None))
    assert kept[2] == pytest.approx((prior[0] + prior[1]) / 2)
    assert keep_null(prior, ("a", "b", "c")) is prior


def test_running_estimate_begins_at_the_prior():
    prior = np.log(np.array([0.5, 0.5]))
    running = Running(weight=3.0)
    first = running.after(("form", 0), list(np.log([0.9, 0.1])), prior)
    assert first == pytest.approx((3 * prior + np.log([0.9, 0.1])) / 4)


def test_shipped_forms_compile_and_their_answers_are_options(context):
    items = load_items(context, "shipped")
    assert len({item.id for item in items}) == len(items) >= 12
    for item in items:
        assert item.target.form.root
        for field in item.fields:
            assert sum(field.is_right(index) for index in range(len(field.options))) == 1


def test_right_answers_of_coupled_forms_agree(context):
    for coupling in couplings(context, quick=True):
        for item in coupling.items:
            value = {field.name: field.gold[0] for field in item.fields}
            assert coupling.agrees(value)
            assert not coupling.target(item, declared=True, checked=True).validator.check(value)
