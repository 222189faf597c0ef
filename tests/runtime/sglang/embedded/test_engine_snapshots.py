"""What an engine in front of SGLang knows of its snapshots."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from agentform.errors import EngineError, InvalidRequest
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.sglang.embedded.engine_snapshots import EngineSnapshots
from agentform.runtime.sglang.plugin.settings import POLICY, POOL, STATISTICS, SnapshotSettings
from agentform.runtime.sglang.plugin.statistics import SnapshotPoolStatistics, write_snapshot_statistics
from agentform.runtime.snapshots.policy import SnapshotPolicy

COUNTS = CacheStatistics(requests=3, hit_tokens=50)
POOL_SAYS = SnapshotPoolStatistics(
    codec="c",
    policy="int8",
    num_slots=8,
    slot_bytes=100,
    live_slot_bytes=400,
    int8_slot_bytes=120,
    resident=5,
    stored=9,
    restored=4,
    restored_tokens=40,
    evicted=3,
    declined=1,
)


def test_without_snapshots_nothing_is_set_and_nothing_is_known():
    made = EngineSnapshots(None)
    made.check_started()
    assert (made.environment, made.pool(), made.added_to(COUNTS)) == ({}, None, COUNTS)


@pytest.mark.parametrize(
    ("snapshots", "text"),
    [("small", "small"), (SnapshotPolicy(budget_bytes=70), "70"), (SnapshotSettings(snapshots="int8"), "int8")],
)
def test_processes_are_told_the_policy_and_a_file_that_goes_with_the_engine(snapshots, text):
    made = EngineSnapshots(snapshots)
    assert made.environment[POLICY] == text
    assert POOL not in made.environment
    folder = Path(made.environment[STATISTICS]).parent
    assert folder.is_dir()
    del made
    gc.collect()
    assert not folder.exists()


def test_a_policy_that_is_none_is_refused():
    with pytest.raises(InvalidRequest, match="balnced"):
        EngineSnapshots("balnced")


def test_what_the_pool_says_is_part_of_the_engines_statistics(tmp_path):
    path = tmp_path / "pool.json"
    made = EngineSnapshots(SnapshotSettings(snapshots="int8", statistics_path=path))
    with pytest.raises(EngineError, match="without the snapshot pool"):
        made.check_started()
    write_snapshot_statistics(path, POOL_SAYS)
    made.check_started()
    said = made.added_to(COUNTS)
    assert (said.requests, said.hit_tokens, said.restored_tokens, said.codec) == (3, 50, 40, "c")
    assert (said.resident_snapshots, said.evicted_snapshots, said.declined_snapshots) == (5, 3, 1)
    assert said.snapshot_bytes == 100
