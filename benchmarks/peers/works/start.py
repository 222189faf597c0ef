"""(f, g) A process of its own: from its start to its first call, then the most memory it held after fixed work."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from agentform.messages import Message
from benchmarks.common.processes import ChildFailed
from benchmarks.common.timing_form import timing_item
from benchmarks.peers.bench import Bench, rotated
from benchmarks.peers.prompts import call_task, form_task, text_task
from benchmarks.peers.roster import OURS
from benchmarks.peers.task import Task
from benchmarks.peers.works.conversation import TOOLS

__all__ = ["measure"]

_ASKED = (Message(role="user", content="Please switch on the light in the kitchen, at 40 percent."),)
_PROMPT_TOKENS = 1024
_TEXT_TOKENS = 64


def measure(bench: Bench) -> None:
    """Rows of work "start" (seconds) and "memory" ("bytes"); and "plan", which is agentform's alone.

    agentform's memory is measured once more with nothing but its 4-bit weights, which llama.cpp has too. Every file
    was read shortly before: a start that is not measured comes first.
    """
    rounds = bench.rounds(2)
    call = call_task(bench.tokenizer, _ASKED, TOOLS)
    form = form_task(bench.tokenizer, timing_item(bench.tokenizer, 9, _PROMPT_TOKENS, "memory"))
    for turn in range(-1, rounds):
        for name in rotated(bench.names, turn):
            if turn >= 0 or name == OURS:
                _start(bench, name, call, form, turn)
        if turn >= 0 and bench.model.engine == "torch":
            _start(bench, OURS, call, form, turn, weights="four_bit")
    _plan(bench, rounds)


def _start(bench: Bench, name: str, call: Task, form: Task, turn: int, *, weights: str = "both") -> None:
    process = bench.start(bench.roster[name], f"{name}-start")
    try:
        process.load(replace(bench.model, weights=weights))
        first = process.run(call)
        seconds = time.perf_counter() - process.started
        for task in (form, text_task(form, max_tokens=_TEXT_TOKENS)):
            process.run(task)
        peak = process.ask({"op": "memory"})
    except ChildFailed as error:
        bench.fault(name, work="start", case="first call", turn=turn, reason=str(error))
        return
    finally:
        process.close()
    if turn < 0:
        return
    if weights == "both":
        bench.add(name, work="start", case="first call", turn=turn, seconds=seconds, text=first.text)
    if peak is not None:
        bench.add(name, work="memory", case="peak" if weights == "both" else weights, turn=turn, bytes=peak)


def _plan(bench: Bench, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        schema = Path(folder, "light.json")
        schema.write_text(json.dumps(TOOLS[0]["parameters"]), encoding="utf-8")
        for turn in range(-1, 2 * rounds):
            started = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-m", "agentform", "plan", str(schema)], capture_output=True, text=True, check=False
            )
            seconds = time.perf_counter() - started
            if done.returncode:
                bench.fault(OURS, work="plan", case="plan", turn=turn, reason=done.stderr[-300:])
            elif turn >= 0:
                bench.add(OURS, work="plan", case="plan", turn=turn, seconds=seconds)
