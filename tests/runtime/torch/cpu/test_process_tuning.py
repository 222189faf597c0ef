from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading

import pytest

from agentform._util import freed_memory
from agentform._util.freed_memory import give_back_freed_memory
from agentform.runtime.torch.cpu.process_tuning import bound_kernel_caches, in_short_thread
from tests.support.tiny_model import write_tiny_model

# What loading a real model computes is enough for OpenMP to share it out; a tiny one's is not.
COUNT = """
import os, sys, time, torch
import agentform.runtime.torch.engine as module

def load(*args, load=module.load, **options):
    torch.ones(1 << 22).sum()
    return load(*args, **options)

module.load = load
torch.set_num_threads(2)
before = len(os.listdir("/proc/self/task"))
engine = module.TorchEngine(sys.argv[1], num_threads=2, kv_budget_bytes=1 << 20)
until = time.monotonic() + 240
while (more := len(os.listdir("/proc/self/task")) - before) > 1 and time.monotonic() < until:
    time.sleep(0.01)  # the system ends a thread a little after Python has
print(more)
"""


def test_the_result_comes_from_a_thread_that_has_ended():
    thread = in_short_thread(threading.current_thread)
    assert thread is not threading.current_thread()
    assert not thread.is_alive()


def test_what_is_raised_comes_through():
    with pytest.raises(ZeroDivisionError):
        in_short_thread(lambda: 1 // 0)


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_loading_leaves_no_thread_but_the_workers(tmp_path):
    write_tiny_model(tmp_path)
    done = subprocess.run([sys.executable, "-c", COUNT, tmp_path], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "1", done.stderr


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


def test_the_c_library_is_asked_where_it_can_be(monkeypatch):
    asked = []

    class Library:
        malloc_trim = staticmethod(asked.append)

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library)
    monkeypatch.setattr(freed_memory.sys, "platform", "linux")
    give_back_freed_memory()
    assert asked == [0]


def test_other_systems_and_libraries_are_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    monkeypatch.setattr(freed_memory.sys, "platform", "linux")
    give_back_freed_memory()
    monkeypatch.setattr(ctypes, "CDLL", None)
    monkeypatch.setattr(freed_memory.sys, "platform", "darwin")
    give_back_freed_memory()
