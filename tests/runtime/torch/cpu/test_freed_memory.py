from __future__ import annotations

import ctypes

from agentform.runtime.torch.cpu import process_tuning
from agentform.runtime.torch.cpu.process_tuning import give_back_freed_memory


def test_the_c_library_is_asked_where_it_can_be(monkeypatch):
    asked = []

    class Library:
        malloc_trim = staticmethod(asked.append)

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library)
    monkeypatch.setattr(process_tuning.sys, "platform", "linux")
    give_back_freed_memory()
    assert asked == [0]


def test_other_systems_and_libraries_are_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    monkeypatch.setattr(process_tuning.sys, "platform", "linux")
    give_back_freed_memory()
    monkeypatch.setattr(ctypes, "CDLL", None)
    monkeypatch.setattr(process_tuning.sys, "platform", "darwin")
    give_back_freed_memory()
