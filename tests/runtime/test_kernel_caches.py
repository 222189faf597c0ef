from __future__ import annotations

import os

from agentform.runtime.torch.kernel_caches import bound_kernel_caches


def test_the_caches_are_bounded_and_a_bound_that_is_set_stays(monkeypatch):
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "7")
    monkeypatch.delenv("LRU_CACHE_CAPACITY", raising=False)
    bound_kernel_caches()
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "7"
    assert int(os.environ["LRU_CACHE_CAPACITY"]) > 0


def test_attention_of_a_new_length_needs_no_plan_of_its_own_on_a_gpu(monkeypatch):
    monkeypatch.delenv("TORCH_CUDNN_SDPA_DEPRIORITIZED", raising=False)
    monkeypatch.setenv("TORCH_CUDNN_SDPA_PREFERRED", "1")  # somebody wants it otherwise
    bound_kernel_caches()
    assert os.environ["TORCH_CUDNN_SDPA_DEPRIORITIZED"] == "1"
    assert os.environ["TORCH_CUDNN_SDPA_PREFERRED"] == "1"


def test_an_engine_bounds_them(monkeypatch, make_engine):
    monkeypatch.delenv("LRU_CACHE_CAPACITY", raising=False)
    make_engine()
    assert "LRU_CACHE_CAPACITY" in os.environ
