"""Processes with a session of their own end with the block that began them, and all that they began too."""

from __future__ import annotations

import os

import pytest

from benchmarks.common.processes import own_session
from tests.support.waiting import wait_until

SCRIPT = 'sleep 600 & echo "$WORD $!"; wait'


def runs(pid: int) -> bool:
    """Whether it does; one that has ended and that nobody has asked for does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def fail_beside_a_child(place):
    """Fails in a block whose process began another one, and says which."""
    with place.open("wb") as log, own_session(["sh", "-c", SCRIPT], log, WORD="below"):
        wait_until(lambda: place.read_text().endswith("\n"))
        word, pid = place.read_text().split()
        assert (word, runs(int(pid))) == ("below", True)
        raise KeyError(int(pid))


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")
def test_a_process_ends_with_its_block_and_all_that_it_began(tmp_path):
    with pytest.raises(KeyError) as failed:
        fail_beside_a_child(tmp_path / "log")
    [pid] = failed.value.args
    wait_until(lambda: not runs(pid))


def test_a_process_that_has_ended_by_itself_is_no_fault(tmp_path):
    with (tmp_path / "log").open("wb") as log, own_session(["true"], log) as process:
        assert process.wait() == 0
