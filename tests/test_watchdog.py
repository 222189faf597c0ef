"""A run of tests ends, whatever its tests leave behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S, background, process, wait_until

ROOT = Path(__file__).parents[1]
STUCK = """
import threading
from tests.support.watchdog import end_after

threading.Thread(target=threading.Event().wait, name="left behind").start()
end_after(0.2)
"""
HANGS = """
import threading

def test_it_hangs():
    threading.Event().wait()

def test_the_next_one_runs():
    pass
"""


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        **options,
    )


def test_a_thread_that_outlives_the_tests_is_shown_and_ended():
    done = run("-c", STUCK, cwd=ROOT)
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert "in wait" in done.stderr


def test_a_test_that_hangs_fails_with_the_stacks_and_the_others_run(tmp_path):
    (tmp_path / "test_it.py").write_text(HANGS)
    done = run("-m", "pytest", "-q", "-p", "no:xdist", "--timeout=1", "-c", ROOT / "pyproject.toml", tmp_path)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "threading.Event().wait()" in done.stdout


def test_what_the_work_of_a_thread_raised_is_raised_where_it_is_waited_for():
    with pytest.raises(ZeroDivisionError), background(lambda: 1 // 0):
        pass


def test_a_process_ends_with_the_block_that_started_it_whatever_happens():
    with pytest.raises(KeyError), process([sys.executable, "-c", "import time; time.sleep(600)"]) as started:
        raise KeyError
    wait_until(lambda: started.poll() is not None)
