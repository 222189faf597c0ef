"""Time per token, prompt speed and memory of the demo model on the CPU, beside llama.cpp on the same 4-bit weights.

llama.cpp is taken from the package xllamacpp, in this environment or in that of the interpreter which the variable
LLAMA_PYTHON names; without it agentform is measured alone. Beside the clock's time stands the processor's: on one
thread it does not count what other work on the machine takes.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import torch
from rich.table import Table

from agentform.runtime.models.resolve import resolve_model
from benchmarks.harness import Context

__all__ = ["run"]

_CONTEXT_TOKENS = 8192
_PROMPTS = (64, 512, 1024)
_TOKENS = 64
_ROUNDS = 9
_THREADS = (1, 2)
_HERE = Path(__file__).parent


def run(context: Context) -> None:
    """Rounds of every way by turns, each with a prompt of its own; ratios are medians of the ratios in a round."""
    rounds = 2 if context.quick else _ROUNDS
    figures: dict[str, Any] = {"read_bytes_per_s": _read_speed(), "threads": {}}
    for num in _THREADS[:1] if context.quick else _THREADS:
        figures["threads"][num] = measured = _measure(num, rounds)
        context.console.print(_table(num, measured))
    context.write(figures)


def _measure(num_threads: int, rounds: int) -> dict[str, dict[str, Any]]:
    """By way: samples by prompt length, and the peak of memory."""
    numbers = random.Random(0)
    with ExitStack() as stack:
        ways = {name: stack.enter_context(_worker(command)) for name, command in _ways(num_threads).items()}
        for ask in ways.values():
            ask(_PROMPTS[-1], numbers, 1)  # what runs first is not counted
        taken: dict[str, dict[str, Any]] = {name: {"samples": {n: [] for n in _PROMPTS}} for name in ways}
        for _ in range(rounds):
            for length in _PROMPTS:
                for name, ask in ways.items():
                    taken[name]["samples"][length].append(_sample(ask, length, numbers))
        for name, ask in ways.items():
            taken[name]["peak_bytes"] = ask(_PROMPTS[-1], numbers, 1)["peak_bytes"]
    return taken


def _sample(ask: Any, length: int, numbers: random.Random) -> dict[str, float]:
    """One prompt with a single token, and one with many: what they differ in is the time of tokens."""
    single, many = ask(length, numbers, 1), ask(length, numbers, 1 + _TOKENS)
    return {
        "prompt_s": single["prompt_s"],
        "prompt_cpu_s": single["cpu_s"],
        "token_s": many["token_s"],
        "token_cpu_s": (many["cpu_s"] - single["cpu_s"]) / _TOKENS,
    }


def _ways(num_threads: int) -> dict[str, list[str]]:
    size, threads = str(_CONTEXT_TOKENS), str(num_threads)
    module = [sys.executable, "-m", "benchmarks._engine_worker"]
    ways = {weights: [*module, weights, size, threads] for weights in ("both", "four_bit", "wide")}
    if (python := _llama_python()) is not None:
        gguf = next(resolve_model("smollm2-135m").glob("*.gguf"))
        ways["llama.cpp"] = [python, str(_HERE / "_llama_worker.py"), str(gguf), size, threads]
    return ways


def _llama_python() -> str | None:
    return os.environ.get("LLAMA_PYTHON") or (sys.executable if importlib.util.find_spec("xllamacpp") else None)


@contextmanager
def _worker(command: Sequence[str]) -> Generator[Any]:
    """A way of answering, in a process of its own: a function of a prompt's length and a source of tokens."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=_HERE.parent
    )
    assert process.stdin is not None
    assert process.stdout is not None
    pipes: tuple[IO[str], IO[str]] = process.stdin, process.stdout

    def ask(length: int, numbers: random.Random, max_tokens: int) -> dict[str, float]:
        prompt = [numbers.randrange(1000, 40_000) for _ in range(length)]
        pipes[0].write(json.dumps({"prompt_ids": prompt, "max_tokens": max_tokens}) + "\n")
        pipes[0].flush()
        answer = next(line for line in pipes[1] if line.startswith("ANSWER"))
        return json.loads(answer.removeprefix("ANSWER"))

    try:
        yield ask
    finally:
        process.stdin.close()
        process.wait(60)


def _read_speed() -> dict[int, float]:
    """Bytes a second that a sum over a large tensor reads, by threads: no step reads its weights faster."""
    import time

    data = torch.ones(1 << 28, dtype=torch.int8).view(torch.int64)
    before, speeds = torch.get_num_threads(), {}
    for num in _THREADS:
        torch.set_num_threads(num)
        times: list[float] = []
        for _ in range(7):
            started = time.perf_counter()
            data.sum()
            times.append(time.perf_counter() - started)
        speeds[num] = data.nbytes / min(times)
    torch.set_num_threads(before)
    return speeds


def _table(num_threads: int, measured: Mapping[str, Mapping[str, Any]]) -> Table:
    columns = ("prompt", "ms a token", "ratio", "cpu ms", "ratio", "prompt tokens/s", "ratio", "by cpu", "ratio", "MB")
    table = Table(f"{num_threads} thread(s)", *columns)
    peer = measured.get("llama.cpp")
    for name, way in measured.items():
        for length, samples in way["samples"].items():
            theirs = peer["samples"][length] if peer is not None else None
            cells = [str(length)]
            for token in ("token_s", "token_cpu_s"):
                cells += [f"{_median(samples, token) * 1e3:.2f}", _ratio(samples, theirs, token)]
            for prompt in ("prompt_s", "prompt_cpu_s"):
                cells += [f"{length / _median(samples, prompt):.0f}", _ratio(theirs, samples, prompt)]
            table.add_row(name, *cells, f"{way['peak_bytes'] / 1e6:.0f}")
    return table


def _median(samples: Sequence[Mapping[str, float]], of: str) -> float:
    return statistics.median(sample[of] for sample in samples)


def _ratio(ours: Sequence[Mapping[str, float]] | None, theirs: Sequence[Mapping[str, float]] | None, of: str) -> str:
    if ours is None or theirs is None:
        return "-"
    return f"{statistics.median(a[of] / b[of] for a, b in zip(ours, theirs, strict=True)):.2f}"
