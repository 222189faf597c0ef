"""Statistics of SGLang's snapshot pool through a file."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from agentform.errors import InvalidInput
from agentform.runtime.sglang.plugin.statistics import (
    SnapshotPoolStatistics,
    StatisticsFile,
    read_snapshot_statistics,
    write_snapshot_statistics,
)
from tests.support.waiting import PATIENCE_S

EMPTY = SnapshotPoolStatistics(
    codec="c", policy="int8", num_slots=8, slot_bytes=100, live_slot_bytes=400, int8_slot_bytes=120
)


def test_what_was_written_is_read(tmp_path):
    path = tmp_path / "pool.json"
    assert read_snapshot_statistics(path) is None
    for stored in (0, 3):
        write_snapshot_statistics(path, replace(EMPTY, stored=stored))
        assert read_snapshot_statistics(path) == replace(EMPTY, stored=stored)
    assert [each.name for each in tmp_path.iterdir()] == ["pool.json"]
    assert EMPTY.pool_bytes == 800


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null"])
def test_a_file_of_something_else_is_refused(tmp_path, text):
    path = tmp_path / "pool.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"pool\.json"):
        read_snapshot_statistics(path)


def test_the_file_follows_without_being_asked(tmp_path):
    now, reads_since, written = [EMPTY], [], threading.Event()

    def read():
        if now[0].stored:
            reads_since.append(1)
            if len(reads_since) == 2:  # the write after the first of them is done
                written.set()
        return now[0]

    file = StatisticsFile(tmp_path / "pool.json", read, interval_s=0.001)
    assert read_snapshot_statistics(tmp_path / "pool.json") == EMPTY
    now[0] = replace(EMPTY, stored=1)
    assert written.wait(PATIENCE_S)
    assert read_snapshot_statistics(tmp_path / "pool.json") == now[0]
    now[0] = replace(EMPTY, stored=2)
    file.close()
    assert read_snapshot_statistics(tmp_path / "pool.json") == now[0]


def test_a_file_that_cannot_be_written_stops_nothing(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    now, tried = [EMPTY], threading.Event()

    def read():
        if now[0].stored:
            tried.set()
        return now[0]

    file = StatisticsFile(folder / "pool.json", read, interval_s=0.001)
    (folder / "pool.json").unlink()
    folder.rmdir()
    now[0] = replace(EMPTY, stored=1)
    assert tried.wait(PATIENCE_S)
    folder.mkdir()
    file.close()
    assert read_snapshot_statistics(folder / "pool.json") == now[0]
