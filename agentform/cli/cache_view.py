"""`agentform cache stats | inspect`: what a cache folder holds, and what a running cache did."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from agentform.errors import EngineError, InvalidInput
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.cache.tiers.entry_file import SUFFIX, read_entry, read_header

__all__ = ["folder_view", "inspect_folder", "show_statistics", "stats_of_folder"]


def stats_of_folder(folder: Path, console: Console) -> None:
    """Print `folder_view`. Raises InvalidInput if it is no folder."""
    console.print(folder_view(folder))


def folder_view(folder: Path) -> Group:
    """Entries, tokens and bytes of a cache folder, by model. Raises InvalidInput if it is no folder."""
    entries, tokens, size, broken = Counter[str](), Counter[str](), Counter[str](), 0
    for place in _places(folder):
        try:
            header, _ = read_header(place)
            num_bytes = place.stat().st_size
        except FileNotFoundError:  # an engine removed it meanwhile
            continue
        except (EngineError, OSError):
            broken += 1
            continue
        name = _short(header.guard)
        entries[name] += 1
        tokens[name] += header.num_tokens
        size[name] += num_bytes
    table = Table("model", "entries", "tokens", "MB", title=str(folder))
    for name in sorted(entries):
        table.add_row(name, str(entries[name]), f"{tokens[name]:,}", f"{size[name] / 1e6:.1f}")
    notes = [Text(f"{broken} files are not whole; an engine removes them when it meets them")] if broken else []
    return Group(table, *notes)


def inspect_folder(folder: Path, console: Console) -> None:
    """Every entry of a cache folder, its whole content checked. Raises InvalidInput if it is no folder."""
    table = Table("entry", "model", "tokens", "snapshot", "last used", "state", title=str(folder))
    for place in _places(folder):
        used = datetime.fromtimestamp(place.stat().st_mtime, UTC).isoformat(sep=" ", timespec="seconds")
        try:
            entry = read_entry(place)
        except (EngineError, OSError) as error:
            table.add_row(place.stem[:12], "?", "?", "?", used, str(error))
            continue
        snapshot = f"{len(entry.snapshot):,} bytes" if entry.snapshot else "none"
        table.add_row(place.stem[:12], _short(entry.guard), f"{len(entry.ids):,}", snapshot, used, "whole")
    console.print(table)


def show_statistics(statistics: CacheStatistics, console: Console) -> None:
    """The counters of a running engine, and of the conversations used last."""
    rate = statistics.hit_rate
    console.print(
        f"{statistics.requests:,} requests; {statistics.hit_tokens:,} of {statistics.lookup_tokens:,} prompt tokens "
        f"reused ({'no request yet' if rate is None else f'{rate:.1%}'}); {statistics.resident_tokens:,} tokens and "
        f"{statistics.resident_snapshots:,} snapshots in {statistics.budget_bytes:,} bytes"
    )
    if statistics.codec:
        console.print(f"a snapshot takes {statistics.snapshot_bytes:,} bytes ({statistics.codec})")
    tiers = Table("tier", "tokens", "snapshots", "MB", "of MB", "prompts served", "tokens fetched")
    for name, tier in statistics.tiers.items():
        sizes = f"{tier.used_bytes / 1e6:.1f}", f"{tier.limit_bytes / 1e6:.1f}"
        fetched = ("", "") if name == "device" else (f"{tier.hits:,}", f"{tier.fetched_tokens:,}")
        tiers.add_row(name, f"{tier.tokens:,}", f"{tier.snapshots:,}", *sizes, *fetched)
    if statistics.tiers:
        console.print(tiers)
    if statistics.misses:
        console.print(f"not fully cached: {_listed(statistics.misses)}")
    table = Table("conversation", "requests", "reused", "run again", "misses")
    for name, each in statistics.conversations.items():
        reused = f"{each.hit_tokens:,} / {each.lookup_tokens:,}"
        table.add_row(Text(name), str(each.requests), reused, f"{each.replayed_tokens:,}", _listed(each.misses))
    if statistics.conversations:
        console.print(table)


def _listed(misses: Mapping[str, int]) -> str:
    return ", ".join(f"{reason}: {num:,}" for reason, num in misses.items())


def _places(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is no folder")
    return sorted(folder.glob("*" + SUFFIX))


def _short(guard: str) -> str:
    """A few characters that tell models apart."""
    return hashlib.sha256(guard.encode()).hexdigest()[:8]
