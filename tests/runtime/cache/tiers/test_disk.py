"""Conversations outlive the engine; a file that is not whole and right is refused and removed."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import textwrap
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
import torch

from agentform.errors import EngineError
from agentform.runtime.cache.tiers import disk as disk_index
from agentform.runtime.cache.tiers.disk import DiskIndex
from agentform.runtime.cache.tiers.entry_file import PART_SUFFIX, SUFFIX, Entry, read_entry, write_entry
from agentform.runtime.torch.engine import TorchEngine
from tests.support.engines import complete
from tests.support.tiny_hybrids import write_tiny_hybrid
from tests.support.tiny_model import greedy, write_tiny_model
from tests.support.waiting import PATIENCE_S, process

PROMPT = tuple(range(20, 80))
FAMILIES = ("llama", "qwen3_next", "mamba2")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Folder and transformers' model by family."""
    made = {}
    for family in FAMILIES:
        folder = tmp_path_factory.mktemp(family)
        made[family] = folder, write_tiny_model(folder) if family == "llama" else write_tiny_hybrid(folder, family)
    return made


def make(folder, cache_dir, **options):
    return TorchEngine(
        folder, dtype=torch.float32, kv_budget_bytes=1 << 21, num_threads=1, cache_dir=cache_dir, **options
    )


def talk(folder, cache_dir, prompt=PROMPT, num=8, **options):
    """One request to an engine of its own."""
    with closing(make(folder, cache_dir, **options)) as engine:
        answer = anyio.run(complete, engine, prompt, num)
        engine.integrity()
    return answer


@pytest.mark.parametrize("family", FAMILIES)
def test_a_conversation_survives_a_restart(written, tmp_path, family):
    folder, reference = written[family]
    first = talk(folder, tmp_path)
    said = (*PROMPT, *first.token_ids)
    then = (*said, 7, 8, 9)
    second = talk(folder, tmp_path, then)
    assert second.token_ids == greedy(reference, then, 8)
    assert second.usage.cached_tokens is not None
    assert second.usage.cached_tokens >= len(PROMPT) - 1
    assert second.usage.restored_tokens == (0 if family == "llama" else second.usage.cached_tokens)


def entries(cache_dir):
    return sorted(Path(cache_dir).glob("*" + SUFFIX))


def flip(place, at):
    data = bytearray(place.read_bytes())
    data[at] ^= 1
    place.write_bytes(data)


@pytest.mark.parametrize("damage", ["truncated", "empty", "magic", "header", "ids", "kv", "digest", "renamed"])
def test_a_damaged_file_is_refused_and_removed(written, tmp_path, damage):
    folder, reference = written["qwen3_next"]
    talk(folder, tmp_path)
    (place,) = entries(tmp_path)
    size = place.stat().st_size
    match damage:
        case "truncated":
            os.truncate(place, size // 2)
        case "empty":
            os.truncate(place, 0)
        case "renamed":
            place.rename(place.with_name("0" * 40 + SUFFIX))
        case _:
            flip(place, {"magic": 0, "header": 20, "ids": 300, "kv": size // 2, "digest": size - 1}[damage])
    again = talk(folder, tmp_path)
    assert again.usage.cached_tokens == 0
    assert again.token_ids == greedy(reference, PROMPT, 8)
    assert all(read_entry(each) for each in entries(tmp_path))  # written anew, whole


def test_an_entry_of_another_model_is_not_looked_at(written, tmp_path):
    talk(written["llama"][0], tmp_path)
    other = talk(written["qwen3_next"][0], tmp_path)
    assert other.usage.cached_tokens == 0
    assert len(entries(tmp_path)) == 2


def test_a_full_disk_stops_nobody(written, tmp_path, monkeypatch):
    def full(folder, entry):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk_index, "write_entry", full)
    assert talk(written["llama"][0], tmp_path).token_ids == greedy(written["llama"][1], PROMPT, 8)
    assert not list(tmp_path.iterdir())


def test_a_write_that_fails_half_way_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        write_entry(tmp_path, Entry(guard="g", ids=(1, 2), kv=b"k" * 100, snapshot=b""))
    assert not list(tmp_path.iterdir())


KILLED = """
    import os, sys
    from pathlib import Path
    from agentform.runtime.cache.tiers import entry_file
    folder = Path(sys.argv[1])
    kept = entry_file.Entry(guard="g", ids=tuple(range(50)), kv=b"a" * 5000, snapshot=b"s" * 50)
    entry_file.write_entry(folder, kept)
    os.fsync = lambda handle: os.kill(os.getpid(), 9)
    entry_file.write_entry(folder, entry_file.Entry(guard="g", ids=tuple(range(60)), kv=b"b" * 6000, snapshot=b""))
"""


def test_a_process_killed_while_it_writes_loses_only_what_it_wrote(tmp_path):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob(f".*{PART_SUFFIX}"))) == 1
    index = DiskIndex(tmp_path, guard="g", whole=True, limit_bytes=1 << 20)
    assert index.best(tuple(range(60)), 60)[0] == 50
    (left,) = tmp_path.glob(f".*{PART_SUFFIX}")
    os.utime(left, (0, 0))
    DiskIndex(tmp_path, guard="g", whole=True, limit_bytes=1 << 20)
    assert not left.exists()


WRITER = """
    import sys
    from pathlib import Path
    from agentform.runtime.cache.tiers.disk import DiskIndex
    from agentform.runtime.cache.tiers.entry_file import Entry
    index = DiskIndex(Path(sys.argv[1]), guard="g", whole=False, limit_bytes=40_000)
    for number in range(200):
        ids = tuple(range(number % 7, number % 7 + 40))
        index.write(Entry(guard="g", ids=ids, kv=bytes([number % 7]) * 9000, snapshot=b""))
        _, name = index.best(ids, 40)
        entry = index.read(name) if name else None
        if entry is not None:
            assert entry.kv == bytes([entry.ids[0]]) * 9000
    assert index.num_refused == 0
"""


def test_two_processes_share_a_folder(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(tmp_path)]
    with process(command) as one, process(command) as other:
        assert [each.wait(PATIENCE_S) for each in (one, other)] == [0, 0]
    assert all(read_entry(place) for place in entries(tmp_path))


def test_the_oldest_entries_make_room(tmp_path):
    index = DiskIndex(tmp_path, guard="g", whole=False, limit_bytes=2500)
    for first in range(4):
        index.write(Entry(guard="g", ids=tuple(range(first, first + 9)), kv=b"x" * 1000, snapshot=b""))
        os.utime(max(entries(tmp_path), key=lambda place: place.stat().st_mtime_ns), (first, first))
    assert sum(place.stat().st_size for place in entries(tmp_path)) <= 2500
    assert index.best(tuple(range(3, 12)), 9)[0] == 9
    assert index.best(tuple(range(9)), 9)[0] == 0


def test_a_folder_that_cannot_be_used_is_an_error(written, tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(EngineError, match="cache folder"):
        make(written["llama"][0], tmp_path / "file" / "cache")


def crafted(header: object) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return b"afcache1" + struct.pack("<I", len(text)) + text + bytes(200)


RIGHT = {"guard": "g", "num_tokens": 1, "kv_bytes": 1, "snapshot_bytes": 0}


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 60_000,
        b"{}",
        b"[]",
        b"null",
        RIGHT | {"num_tokens": 2**62},
        RIGHT | {"num_tokens": -1},
        RIGHT | {"num_tokens": "1"},
        RIGHT | {"num_tokens": 1e300},
        RIGHT | {"kv_bytes": -(2**40)},
        RIGHT | {"guard": 7},
        RIGHT | {"salt": -1},
        RIGHT | {"salt": "x"},
        RIGHT | {"other": 1},
    ],
    ids=str,
)
def test_a_crafted_header_is_refused_and_the_start_goes_on(tmp_path, header):
    (tmp_path / f"x{SUFFIX}").write_bytes(crafted(header))
    index = DiskIndex(tmp_path, guard="g", whole=False, limit_bytes=1 << 20)
    assert (len(index), index.num_refused) == (0, 1)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_file_does_not_hold_up_the_start(tmp_path):
    os.mkfifo(tmp_path / f"pipe{SUFFIX}")
    (tmp_path / f"folder{SUFFIX}").mkdir()
    (tmp_path / f"link{SUFFIX}").symlink_to("/dev/zero")
    index = DiskIndex(tmp_path, guard="g", whole=False, limit_bytes=1 << 20)
    assert (len(index), index.num_refused) == (0, 3)


def test_a_poisoned_entry_is_dropped_where_it_first_does_not_fit(written, tmp_path):
    folder, _ = written["llama"]
    talk(folder, tmp_path)
    [place] = tmp_path.glob(f"*{SUFFIX}")
    entry = read_entry(place)
    place.unlink()
    write_entry(tmp_path, replace(entry, kv=entry.kv[:100]))
    answer = talk(folder, tmp_path, (*entry.ids, 7, 8))
    assert answer.last.usage.cached_tokens == 0
    assert read_entry(next(iter(tmp_path.glob(f"*{SUFFIX}")))).kv != entry.kv[:100]
