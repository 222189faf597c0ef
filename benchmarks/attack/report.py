"""Runs the attacks one after the other on one process, and prints a row for each."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentform.cli.tables import Table
from benchmarks.attack.attacks import ATTACKS, send_random_bodies
from benchmarks.attack.target import Target, attacked
from benchmarks.common.harness import Context

__all__ = ["report"]

_CAP_BYTES = 6 << 30


def report(context: Context, model: str, *, num_bodies: int, only: str) -> None:
    """Attack, print, and write what was measured; nothing is hidden that failed."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place, attacked(model, Path(place), cap_bytes=_CAP_BYTES) as target:
        assert target.is_healthy()
        for name in ("at_once", "long_messages"):  # what is loaded with the first requests is no growth
            ATTACKS[name](target)
        before = target.rss_bytes()
        works: dict[str, Callable[[Target], Any]] = {name: work for name, work in ATTACKS.items() if only in name}
        if only in "random_bodies":
            works["random_bodies"] = lambda target: send_random_bodies(target, num_bodies)
        for name, work in works.items():
            rows.append(_row(name, work, target))
            context.console.print(rows[-1])
        after = target.rss_bytes()
    context.console.print(_table(rows))
    context.console.print(f"RSS {before / 2**20:.0f} MiB before, {after / 2**20:.0f} MiB after")
    context.write({"rows": rows, "rss_before": before, "rss_after": after, "bodies": num_bodies})


def _row(name: str, work: Callable[[Target], Any], target: Target) -> dict[str, Any]:
    target.watch_anew()
    started, fault, said = time.perf_counter(), "", None
    try:
        said = work(target)
    except Exception as error:
        fault = f"{type(error).__name__}: {str(error)[:300]}"
    seconds = time.perf_counter() - started
    alive = target.is_alive and target.is_healthy()
    health = sorted(target.health_s)
    return {
        "attack": name,
        "withstood": not fault and alive and not target.was_killed,
        "fault": fault,
        "seconds": round(seconds, 1),
        "health_p99_ms": _ms(health[min(len(health) - 1, int(len(health) * 0.99))]) if health else None,
        "health_max_ms": _ms(health[-1]) if health else None,
        "health_asked": len(health),
        "peak_mib": round(target.peak_bytes / 2**20),
        "said": said,
    }


def _ms(seconds: float) -> int | str:
    return round(seconds * 1000) if math.isfinite(seconds) else "no answer"


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table("attack", "withstood", "seconds", "/health p99 ms", "max ms", "peak MiB")
    for row in rows:
        keys = ("attack", "withstood", "seconds", "health_p99_ms", "health_max_ms", "peak_mib")
        table.add_row(*(str(row[key]) for key in keys))
    return table
