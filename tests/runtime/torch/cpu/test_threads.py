"""Torch's threads follow the cores that nobody else keeps busy."""

from __future__ import annotations

import pytest
import torch

from agentform.runtime import free_cores
from agentform.runtime.free_cores import FreeCores
from agentform.runtime.torch.cpu.threads import on_free_cores
from agentform.runtime.torch.forward.runner import ModelRunner
from tests.support.engines import complete

PROMPT = tuple(range(20, 60))


@pytest.fixture(autouse=True)
def _threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_each_step_has_as_many_threads_as_cores_are_free(monkeypatch):
    monkeypatch.setattr(free_cores, "_load", lambda: 0.0)
    now, busy = [0.0], [0.0]
    free = FreeCores(3, clock=lambda: now[0], all_busy_s=lambda: busy[0], own_busy_s=lambda: 0.0)
    step = on_free_cores(torch.get_num_threads, free)
    assert step() == 3
    now[0], busy[0] = 2.0, 4.0
    assert step() == 1
    now[0] = 4.0
    assert step() == 3


@pytest.mark.anyio
@pytest.mark.parametrize(("asked", "seen"), [(None, {3}), (2, {2})])
async def test_an_engine_follows_them_unless_it_is_told_a_number(make_engine, monkeypatch, asked, seen):
    monkeypatch.setattr(free_cores, "_load", lambda: 0.0)
    monkeypatch.setattr(free_cores, "physical_cores", lambda: 3)
    monkeypatch.setattr(free_cores, "_machine_busy_s", lambda: None)
    found = set()

    def recorded(self, segments, compute=ModelRunner.compute):
        found.add(torch.get_num_threads())
        return compute(self, segments)

    monkeypatch.setattr(ModelRunner, "compute", recorded)
    await complete(make_engine(num_threads=asked), PROMPT, 3)
    assert found == seen
