"""Threads are the physical cores that nobody else keeps busy."""

from __future__ import annotations

import pytest

from agentform.runtime import free_cores
from agentform.runtime.free_cores import FreeCores, physical_cores


class Clocks:
    def __init__(self):
        self.now = self.all_busy = self.own_busy = 0.0

    def passed(self, seconds, *, others, own):
        self.now += seconds
        self.all_busy += seconds * (others + own)
        self.own_busy += seconds * own


@pytest.fixture
def clocks(monkeypatch):
    monkeypatch.setattr(free_cores, "_load", lambda: 0.0)
    return Clocks()


def cores(clocks, most):
    return FreeCores(
        most, clock=lambda: clocks.now, all_busy_s=lambda: clocks.all_busy, own_busy_s=lambda: clocks.own_busy
    )


def test_cores_that_others_use_are_left_to_them(clocks):
    free = cores(clocks, 8)
    assert free.num == 8
    clocks.passed(2, others=3, own=5)
    assert free.num == 5
    clocks.passed(2, others=0.1, own=5)
    assert free.num == 8


def test_one_core_is_used_on_the_busiest_machine(clocks):
    free = cores(clocks, 2)
    clocks.passed(2, others=9, own=1)
    assert free.num == 1


def test_what_this_process_uses_is_not_taken_for_others(clocks):
    free = cores(clocks, 4)
    clocks.passed(2, others=0, own=4)
    assert free.num == 4


def test_the_machine_is_not_asked_again_within_a_second(clocks):
    free = cores(clocks, 4)
    clocks.passed(0.5, others=4, own=0)
    assert free.num == 4


def test_a_machine_that_does_not_tell_is_taken_for_idle(monkeypatch):
    monkeypatch.setattr(free_cores, "_load", lambda: 0.0)
    assert FreeCores(3, all_busy_s=lambda: None).num == 3


def test_siblings_count_once_and_the_users_bound_holds(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(free_cores.os, "sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(free_cores, "_siblings", lambda cpu: f"{cpu % 2},{cpu % 2 + 2}")
    assert physical_cores() == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert physical_cores() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "none")
    assert physical_cores() == 2
