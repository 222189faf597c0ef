from __future__ import annotations

import os

from agentform.runtime.torch.cpu.process_tuning import bound_kernel_caches


def test_the_caches_are_bounded_and_a_bound_that_is_set_stays(monkeypatch):
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "7")
    monkeypatch.delenv("LRU_CACHE_CAPACITY", raising=False)
    bound_kernel_caches()
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "7"
    assert int(os.environ["LRU_CACHE_CAPACITY"]) > 0


def test_an_engine_bounds_them(monkeypatch, make_engine):
    monkeypatch.delenv("LRU_CACHE_CAPACITY", raising=False)
    make_engine()
    assert "LRU_CACHE_CAPACITY" in os.environ
