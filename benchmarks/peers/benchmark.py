"""One run: start everybody, do the works, report."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentform._util.paths import cache_home
from benchmarks.common.harness import Context
from benchmarks.peers.bench import Bench
from benchmarks.peers.document import document
from benchmarks.peers.lines import lines_of
from benchmarks.peers.options import modules
from benchmarks.peers.report import as_data, goals, show
from benchmarks.peers.roster import OURS, read_roster
from benchmarks.peers.same_gguf import GGUF_PEERS, is_usual, model_of, run_name, tokenizer_of, with_goals

__all__ = ["merged", "run"]


def run(context: Context) -> None:
    """Measure and report; what is done is written after each work. A run that is stopped shows what it has."""
    bench = _bench(context)
    with bench.open():
        try:
            for module in modules(context.options["work"]):
                started = time.monotonic()
                importlib.import_module(f"benchmarks.peers.works.{module}").measure(bench)
                context.console.print(f"{module}: {time.monotonic() - started:.0f} s", highlight=False)
                _write(bench)
        except (KeyboardInterrupt, SystemExit):
            _show(bench)
            raise
    _show(bench)
    if context.quick:
        context.console.print("A sample: results are not written.")


def _show(bench: Bench) -> None:
    console, lines = bench.context.console, lines_of(bench.rows, bench.faults)
    lines = lines if bench.model.engine == "torch" else with_goals(lines)
    show(console, lines, bench.roster)
    for said in goals(lines):
        console.print(said, markup=False)
    for name, reason in bench.skipped.items():
        console.print(f"skipped: {name}: {reason}", markup=False)
    for fault in bench.faults:
        console.print(f"failed: {fault}", markup=False)


def _write(bench: Bench) -> None:
    """The result file, and from it the documents. Works that were not done now stay as they were."""
    context, path = bench.context, bench.context.result_file
    if context.quick:
        return
    figures = {
        "skipped": bench.skipped,
        "faults": bench.faults,
        "versions": bench.versions,
        "settings": bench.settings,
        "threads": {row["work"]: bench.model.threads for row in bench.rows if row["work"] not in ("speed", "read")},
        "rows": bench.rows,
    }
    if path.exists():
        figures = merged(json.loads(path.read_text(encoding="utf-8"))["figures"], figures)
    lines = lines_of(figures["rows"], figures["faults"])
    context.write({"lines": [as_data(line) for line in lines], **figures})
    if is_usual(bench.model):
        document(json.loads(path.read_text(encoding="utf-8")))


def merged(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured now, and of what was measured before the works that were not done again.

    Ratios are taken within a round, so a work that was done with some peers has no figures of the others.
    """
    done = {row["work"] for row in (*now["rows"], *now["faults"])}
    kept = {key: [row for row in before[key] if row["work"] not in done] for key in ("rows", "faults")}
    known = {key: {**before[key], **now[key]} for key in ("versions", "settings", "threads")}
    return {**now, **known, **{key: [*rows, *now[key]] for key, rows in kept.items()}}


def _bench(context: Context) -> Bench:
    model = model_of(context.options)
    peers_dir = _made((context.options["peers_dir"] or cache_home() / "peers").expanduser())
    only = context.options["only"]
    only = GGUF_PEERS if only is None and not model.folder else only
    return Bench(
        context=replace(context, name=run_name(context.name, model)),
        tokenizer=tokenizer_of(model),
        model=model,
        roster={n: p for n, p in read_roster().items() if n == OURS or only is None or n in only},
        folder=peers_dir,
    )


def _made(folder: Path) -> Path:
    """The folder of the peers' environments and logs, which the first run makes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SystemExit(f"--peers-dir: {folder} cannot be made: {error.strerror}") from error
    return folder
