"""`agentform cache stats --watch | plot`: a running cache's hit rate, live in the terminal or drawn on a page."""

from __future__ import annotations

import hashlib
import os
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console, Group, RenderableType
from rich.live import Live

from agentform.cli.safe_text import SafeText
from agentform.cli.tables import Table
from agentform.errors import EngineError, InvalidInput
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.cache.tiers.entry_file import SUFFIX, read_entry, read_header
from agentform.telemetry.cache_scrape import read_cache_metrics
from agentform.telemetry.history import HitRateHistory
from agentform.telemetry.page import hit_rate_page

__all__ = [
    "fetch_statistics",
    "folder_view",
    "inspect_folder",
    "is_url",
    "plot",
    "show_statistics",
    "statistics_view",
    "stats",
    "stats_of_folder",
]

_TIMEOUT_S = 5.0
_KEY_VARIABLE = "AGENTFORM_API_KEY"
_BLOCKS = "▁▂▃▄▅▆▇█"
_SHOWN_SAMPLES = 60


def is_url(source: str) -> bool:
    """Whether a source is a server rather than a folder or file."""
    return source.startswith(("http://", "https://"))


def fetch_statistics(url: str) -> CacheStatistics:
    """What a server exports now; a URL without a path is asked for /metrics.

    The key in the variable AGENTFORM_API_KEY, if there is one, is sent as a bearer token.

    Raises:
        InvalidInput: nothing answers there, or what answers exports no cache.
    """
    place = url if urlsplit(url).path.strip("/") else url.rstrip("/") + "/metrics"
    key = os.environ.get(_KEY_VARIABLE)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(place, headers=headers), timeout=_TIMEOUT_S) as answer:
            text = answer.read().decode("utf-8", errors="replace")
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot read {place}: {error}") from error
    try:
        return read_cache_metrics(text)
    except InvalidInput as error:
        raise InvalidInput(f"{place}: {error}") from error


def stats(source: str, console: Console, *, watch: bool, every_s: float) -> None:
    """Show a cache folder's or a server's state, once or until interrupted.

    Raises:
        InvalidInput: there is no such folder or server.
    """
    if not watch:
        if is_url(source):
            show_statistics(fetch_statistics(source), console)
        else:
            stats_of_folder(Path(source), console)
        return
    view = _view(source)
    with Live(view(), console=console, auto_refresh=False) as live:
        try:
            while True:
                live.refresh()
                time.sleep(every_s)
                live.update(view())
        except KeyboardInterrupt:
            return


def _view(source: str) -> Callable[[], RenderableType]:
    if not is_url(source):
        return lambda: folder_view(Path(source))
    history = HitRateHistory()

    def look() -> RenderableType:
        try:
            now = fetch_statistics(source)
        except InvalidInput as error:
            if not history.samples:
                raise
            return SafeText(f"{error}; trying again", style="red")
        history.add(now)
        return statistics_view(now, history, title=source)

    return look


def statistics_view(now: CacheStatistics, history: HitRateHistory, *, title: str) -> Group:
    """The counters, the hit rate of the last sample and of all, and a line of blocks over time."""
    last = history.samples[-1].total
    table = Table("", "since the last look", "since the engine started", title=title)
    table.add_row("prompt tokens reused", _rate(last.hit_rate), _rate(now.hit_rate))
    table.add_row("requests", f"{last.requests:,}", f"{now.requests:,}")
    table.add_row("prompt tokens", f"{last.lookup_tokens:,}", f"{now.lookup_tokens:,}")
    table.add_row("tokens computed", "", f"{now.computed_tokens:,}")
    table.add_row("evicted tokens / snapshots", "", f"{now.evicted_tokens:,} / {now.evicted_snapshots:,}")
    table.add_row("in memory", "", f"{now.resident_tokens:,} tokens, {now.resident_snapshots:,} snapshots")
    for reason in sorted(now.misses, key=lambda reason: -now.misses[reason]):
        table.add_row(f"missed: {reason}", f"{last.misses.get(reason, 0):,}", f"{now.misses[reason]:,}")
    return Group(table, SafeText("reused over time  ") + SafeText(_line(history), style="green"))


def _rate(rate: float | None) -> str:
    return "no request" if rate is None else f"{rate:.1%}"


def _line(history: HitRateHistory) -> str:
    rates = [sample.total.hit_rate for sample in history.samples[-_SHOWN_SAMPLES:]]
    return "".join(" " if rate is None else _BLOCKS[min(len(_BLOCKS) - 1, int(rate * len(_BLOCKS)))] for rate in rates)


def plot(source: str, out: Path, *, seconds: float, every_s: float) -> int:
    """Draw a history file, or a server watched for `seconds`, on an HTML page; returns the number of samples.

    Raises:
        InvalidInput: the source cannot be read or the page cannot be written.
    """
    history = _sampled(source, seconds, every_s) if is_url(source) else HitRateHistory.load(Path(source))
    try:
        out.write_text(hit_rate_page(history.samples, title=f"Cache hit rate: {source}"), encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write {out}: {error.strerror}") from error
    return len(history.samples)


def _sampled(url: str, seconds: float, every_s: float) -> HitRateHistory:
    history = HitRateHistory(capacity=max(1, int(seconds / every_s) + 2))
    until = time.monotonic() + seconds
    history.add(fetch_statistics(url))
    while time.monotonic() + every_s <= until:
        time.sleep(every_s)
        history.add(fetch_statistics(url))
    return history


def stats_of_folder(folder: Path, console: Console) -> None:
    """Print `folder_view`.

    Raises:
        InvalidInput: it is no folder.
    """
    console.print(folder_view(folder))


def folder_view(folder: Path) -> Group:
    """Entries, tokens and bytes of a cache folder, by model.

    Raises:
        InvalidInput: it is no folder.
    """
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
    notes = [SafeText(f"{broken} files are not whole; an engine removes them when it meets them")] if broken else []
    return Group(table, *notes)


def inspect_folder(folder: Path, console: Console) -> None:
    """Every entry of a cache folder, its whole content checked.

    Raises:
        InvalidInput: it is no folder.
    """
    table = Table("entry", "model", "tokens", "snapshot", "last used", "state", title=str(folder))
    for place in _places(folder):
        try:
            used = datetime.fromtimestamp(place.stat().st_mtime, UTC).isoformat(sep=" ", timespec="seconds")
        except FileNotFoundError:  # an engine removed it meanwhile
            continue
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
        table.add_row(SafeText(name), str(each.requests), reused, f"{each.replayed_tokens:,}", _listed(each.misses))
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
