from __future__ import annotations

import os

import pytest
from rich.console import Console

from agentform.cli import cache_stats
from agentform.cli.cache_stats import inspect_folder, show_statistics, stats_of_folder
from agentform.errors import InvalidInput
from agentform.runtime.cache.statistics import CacheStatistics, ConversationStatistics
from agentform.runtime.cache.tiers.entry_file import Entry, write_entry


@pytest.fixture
def console():
    return Console(record=True, width=140)


@pytest.fixture
def folder(tmp_path):
    write_entry(tmp_path, Entry(guard="a", ids=tuple(range(100)), kv=b"k" * 1000, snapshot=b"s" * 10))
    broken = write_entry(tmp_path, Entry(guard="a", ids=tuple(range(7)), kv=b"k" * 1000, snapshot=b""))
    os.truncate(broken, 900)
    return tmp_path


def test_stats_count_whole_entries(folder, console):
    stats_of_folder(folder, console)
    text = console.export_text()
    assert "100" in text
    assert "1 files are not whole" in text


def test_inspect_reads_every_entry(folder, console):
    inspect_folder(folder, console)
    text = console.export_text()
    assert "10 bytes" in text
    assert "have its digest" in text


def test_an_entry_that_an_engine_removes_meanwhile_is_passed_over(folder, console, monkeypatch):
    monkeypatch.setattr(cache_stats, "_places", lambda folder: [folder / "gone"])
    stats_of_folder(folder, console)
    inspect_folder(folder, console)
    assert "gone" not in console.export_text()


def test_no_folder_is_an_error(tmp_path, console):
    with pytest.raises(InvalidInput, match="no folder"):
        stats_of_folder(tmp_path / "nothing", console)


def test_statistics_show_conversations_and_reasons(console):
    one = ConversationStatistics(requests=2, lookup_tokens=30, hit_tokens=10, misses={"cold": 1})
    show_statistics(CacheStatistics(requests=2, lookup_tokens=30, hit_tokens=10, conversations={"anna": one}), console)
    text = console.export_text()
    assert "33.3%" in text
    assert "cold: 1" in text
