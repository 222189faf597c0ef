"""(i) Tokens and prompts by the clock and by the processor, on one thread and on two, beside the speed of memory.

agentform with each kind of weights, and llama.cpp, which has the 4-bit ones. On one thread the processor's time does
not count what other work on the machine takes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

import torch

from agentform.cli.tables import Table
from benchmarks.common.bootstrap import Values, ratio
from benchmarks.common.processes import ChildFailed
from benchmarks.common.timing_form import timing_item
from benchmarks.peers.bench import Bench, Row, rotated
from benchmarks.peers.process import Process
from benchmarks.peers.prompts import form_task, text_task
from benchmarks.peers.roster import OURS
from benchmarks.peers.task import Task

__all__ = ["LENGTHS", "THREADS", "measure", "table"]

THREADS = (1, 2)
LENGTHS = (64, 512, 1024)
_TOKENS = 64
_LLAMA = "llama_cpp"
_WAYS = {"both": OURS, "four_bit": OURS, "wide": OURS, "llama.cpp": _LLAMA}
"""By the kind of weights, whose they are."""
_WIDER = ("four_bit", "wide")
"""Ways of the engine on torch alone."""
_READ_BYTES = 1 << 28
_Figure = Callable[[Sequence[Row], str, int, str], Values]
"""Of a way after prompts of a length: by round, from the rows' field named last."""


def measure(bench: Bench) -> None:
    """Rows of work "speed", cases "prompt", "1" and "65", with "threads", "weights", "length" and "cpu_s"."""
    for threads in THREADS[:1] if bench.context.quick else THREADS:
        bench.add(OURS, work="read", case=str(threads), turn=0, bytes_per_s=_read_speed(threads))
        with ExitStack() as stack:
            _rounds(bench, dict(_started(bench, threads, stack)), threads)
        bench.context.console.print(table(bench.rows, threads))


def _started(bench: Bench, threads: int, stack: ExitStack) -> Iterator[tuple[str, Process]]:
    for way, name in _WAYS.items():
        if name not in bench.pythons or (bench.model.engine != "torch" and way in _WIDER):
            continue
        process = bench.start(bench.roster[name], f"{name}-speed-{way}")
        stack.callback(process.close)
        try:
            process.load(replace(bench.model, threads=threads, weights=way if name == OURS else "both"))
            yield way, process
        except ChildFailed as error:
            bench.fault(name, work="speed", case=way, turn=0, reason=str(error))


def _rounds(bench: Bench, processes: dict[str, Process], threads: int) -> None:
    """What runs first is not counted."""
    rounds, lengths = (1, LENGTHS[:1]) if bench.context.quick else (9, LENGTHS)
    for turn in range(-1, rounds):
        for length in lengths:
            for way in rotated(list(processes), max(turn, 0)):
                item = timing_item(bench.tokenizer, 1, length, f"{threads} {turn} {way}")
                told = {"threads": threads, "weights": way, "length": length, "turn": turn}
                _ask(bench, processes[way], form_task(bench.tokenizer, item), told)
    for way, process in processes.items():
        peak = process.ask({"op": "memory"})
        bench.add(_WAYS[way], work="speed", case="memory", turn=0, threads=threads, weights=way, bytes=peak)


def _ask(bench: Bench, process: Process, prompt: Task, told: Row) -> None:
    """The prompt that nobody has seen, then one token and many after it: what these differ in is the time of tokens."""
    for case, tokens in (("prompt", 1), ("1", 1), (str(1 + _TOKENS), 1 + _TOKENS)):
        try:
            written = process.run(text_task(prompt, max_tokens=tokens))
        except ChildFailed as error:
            bench.fault(_WAYS[told["weights"]], work="speed", case=case, turn=told["turn"], reason=str(error))
            return
        if told["turn"] >= 0:
            figures = {"seconds": written.seconds, "cpu_s": written.cpu_s, "tokens": written.completion_tokens}
            bench.add(_WAYS[told["weights"]], work="speed", case=case, prompt=len(prompt.ids), **figures, **told)


def _read_speed(threads: int) -> float:
    """Bytes a second that a sum over a large tensor reads: no step reads its weights faster."""
    data, before = torch.ones(_READ_BYTES, dtype=torch.int8).view(torch.int64), torch.get_num_threads()
    torch.set_num_threads(threads)
    times: list[float] = []
    for _ in range(7):
        started = time.perf_counter()
        data.sum()
        times.append(time.perf_counter() - started)
    torch.set_num_threads(before)
    return data.nbytes / min(times)


def table(rows: Sequence[Row], threads: int) -> Table:
    """Medians, and their ratios to llama.cpp's within a round: of times, above 1 is slower; of speeds, faster."""
    heads = ("after", "ms a token", "ratio", "cpu ms", "ratio", "prompt tokens/s", "ratio", "by cpu", "ratio", "MB")
    made = Table(f"{threads} thread(s)", *heads)
    own = [row for row in rows if row["work"] == "speed" and row["threads"] == threads]
    for way in _WAYS:
        peak = next((row["bytes"] for row in own if (row["weights"], row["case"]) == (way, "memory")), None)
        for length in LENGTHS:
            cells = [cell for of in ("seconds", "cpu_s") for cell in _cells(own, way, length, of, _per_token, 1e3)]
            cells += [cell for of in ("seconds", "cpu_s") for cell in _cells(own, way, length, of, _per_second, 1)]
            if cells[0]:
                made.add_row(way, str(length), *cells, "" if peak is None else f"{peak / 1e6:.0f}")
    return made


def _cells(rows: Sequence[Row], way: str, length: int, of: str, figure: _Figure, scale: float) -> tuple[str, str]:
    own, theirs = figure(rows, way, length, of), figure(rows, "llama.cpp", length, of)
    times = ratio(own, theirs) if way != "llama.cpp" else None
    shown = f"{scale * statistics.median(own.values()):.4g}" if own else ""
    return shown, f"{times.median:.2f}" if times is not None else ""


def _per_token(rows: Sequence[Row], way: str, length: int, of: str) -> Values:
    first, many = _by_turn(rows, way, length, "1"), _by_turn(rows, way, length, str(1 + _TOKENS))
    more = {turn: row[of] - first[turn][of] for turn, row in many.items() if turn in first and row["tokens"] > 1}
    return {turn: taken / (many[turn]["tokens"] - 1) for turn, taken in more.items() if taken > 0}


def _per_second(rows: Sequence[Row], way: str, length: int, of: str) -> Values:
    return {turn: row["prompt"] / row[of] for turn, row in _by_turn(rows, way, length, "prompt").items() if row[of]}


def _by_turn(rows: Sequence[Row], way: str, length: int, case: str) -> dict[int, Row]:
    return {
        row["round"]: row
        for row in rows
        if row["case"] == case and row["weights"] == way and row.get("length") == length and row["cpu_s"] is not None
    }
