"""Runs the attacks one after the other on one process, and prints a row for each."""

from __future__ import annotations

import contextlib
import math
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agentform.cli.tables import Table
from benchmarks.attack.asking import CHAT, answered, chat, user
from benchmarks.attack.attacks import ATTACKS, send_random_bodies
from benchmarks.attack.target import Target, attacked
from benchmarks.common.harness import Context

__all__ = ["report"]

_CAP_BYTES = 6 << 30
_FIRST_BODIES, _MOST_PROMPTS = 32, 64
_FULL = re.compile(r'^agentform_cache_device_bytes\{kind="free",[^}]*\} 0\.0$', re.MULTILINE)
"""No position of the cache has never been used."""
_HEALTHY_S = 0.25


def report(context: Context, model: str, *, num_bodies: int, only: str) -> None:
    """Attack, print, and write what was measured; nothing is hidden that failed."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place, attacked(model, Path(place), cap_bytes=_CAP_BYTES) as target:
        assert target.is_healthy()
        _warm_up(target)
        before, began = target.rss_bytes(), time.time()
        works: dict[str, Callable[[Target], Any]] = {}
        if only in "random_bodies":
            works["random_bodies"] = lambda target: send_random_bodies(target, num_bodies)
        works |= {name: work for name, work in ATTACKS.items() if only in name}
        for name, work in works.items():
            rows.append(_row(name, work, target))
            context.console.print(rows[-1])
        after, healths = target.rss_bytes(), target.health_since(began)
    context.console.print(_table(rows))
    whole = {
        "rss_before": before,
        "rss_after": after,
        "rss_growth": round(after / before - 1, 3),
        "health_p99_ms": _quantile_ms(healths, 0.99),
        "health_asked": len(healths),
        "health_late": sum(seconds > _HEALTHY_S for seconds in healths),
    }
    context.console.print(whole)
    context.write({"rows": rows, **whole, "bodies": num_bodies})


def _warm_up(target: Target) -> None:
    """What is loaded with the first requests, and what fills a cache that has a bound, is no growth.

    So every attack is tried in its short form first; what fails there will fail again.
    """
    target.is_short = True
    for work in ATTACKS.values():
        with contextlib.suppress(Exception):
            work(target)
    target.is_short = False
    send_random_bodies(target, _FIRST_BODIES, seed=1)
    for at in range(_MOST_PROMPTS):
        if _FULL.search(target.get("/metrics").text):
            return
        text = " ".join(f"{at}.{number}" for number in range(200))
        assert answered(target.post(CHAT, chat(target, messages=user(text)))).status_code == 200


def _row(name: str, work: Callable[[Target], Any], target: Target) -> dict[str, Any]:
    target.watch_anew()
    started, fault, said = time.perf_counter(), "", None
    try:
        said = work(target)
    except Exception as error:
        fault = f"{type(error).__name__}: {str(error)[:300]}"
    seconds = time.perf_counter() - started
    alive = target.is_alive and target.is_healthy()
    health = target.health_s
    return {
        "attack": name,
        "withstood": not fault and alive and not target.was_killed,
        "fault": fault,
        "seconds": round(seconds, 1),
        "health_p99_ms": _quantile_ms(health, 0.99),
        "health_max_ms": _quantile_ms(health, 1),
        "health_asked": len(health),
        "peak_mib": round(target.peak_bytes / 2**20),
        "said": said,
    }


def _quantile_ms(seconds: Sequence[float], share: float) -> int | str | None:
    return _ms(sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * share))]) if seconds else None


def _ms(seconds: float) -> int | str:
    return round(seconds * 1000) if math.isfinite(seconds) else "no answer"


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table("attack", "withstood", "seconds", "/health p99 ms", "max ms", "peak MiB")
    for row in rows:
        keys = ("attack", "withstood", "seconds", "health_p99_ms", "health_max_ms", "peak_mib")
        table.add_row(*(str(row[key]) for key in keys))
    return table
