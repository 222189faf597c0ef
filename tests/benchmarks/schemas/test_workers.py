from __future__ import annotations

import os
import signal

import pytest

from benchmarks.schemas.cases import Case
from benchmarks.schemas.measure import Whole
from benchmarks.schemas.workers import FORM, Worker

GOOD = Case(name="a", schema={"type": "object", "properties": {"a": {"enum": [1, 2]}}}, instances=(({"a": 1}, True),))


@pytest.fixture
def worker():
    made = Worker(FORM, "{}", limit_s=60)
    yield made
    made.close()


def test_cases_are_measured_in_their_order(worker):
    first, second = worker.measure([GOOD, Case(name="b", schema={"enum": [3]}, instances=((4, False),))])
    assert isinstance(first, Whole)
    assert (first.error, first.valid, first.writable) == ("", (True,), (True,))
    assert second.valid == (False,)


def test_a_case_that_takes_too_long_costs_itself_alone(worker):
    os.kill(worker._child._process.pid, signal.SIGSTOP)  # else it may answer within no time at all
    worker._limit_s = 0
    (late,) = worker.measure([GOOD])
    assert late.error == "no answer within 0 s"
    worker._limit_s = 60
    (again,) = worker.measure([GOOD])
    assert again.valid == (True,)
