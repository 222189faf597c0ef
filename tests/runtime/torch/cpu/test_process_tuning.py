from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from agentform.runtime.torch.cpu.process_tuning import in_short_thread
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
