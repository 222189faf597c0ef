"""The demo's messages with what is expected of each, written down before a model was asked: tool, arguments, or words.

An argument that a message leaves open (how urgent, which priority, how the summary is worded) is not judged.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentform import Agent, Conversation, PriorStore, load_engine
from agentform.cli.demo.desk import INSTRUCTIONS, SupportDesk
from agentform.cli.demo.run import LIMITS, reasoning_of
from agentform.cli.demo.script import default_script, read_script
from agentform.errors import CallError
from agentform.runtime.engine import Engine
from benchmarks.common.harness import Context
from benchmarks.desk.expected import Expected, is_right

__all__ = ["EXPECTED", "add_arguments", "run"]


def _ticket(**arguments: Any) -> Expected:
    return Expected(tool="open_ticket", arguments=arguments)


def _order(order_id: str) -> Expected:
    return Expected(tool="look_up_order", arguments={"order_id": order_id})


def _call(day: str, *hours: int) -> Expected:
    return Expected(tool="schedule_callback", arguments={"day": day, "hour": hours})


EXPECTED: tuple[Expected, ...] = (
    _ticket(category="billing", refund=True),
    _order("AB-1042"),
    _ticket(category="technical", urgent=True, refund=False),
    _call("tomorrow", 10),
    Expected(),
    _order("CD-2077"),
    _call("friday", 15),
    _ticket(category="account", refund=False),
    _order("EF-3001"),
    _ticket(category="delivery", refund=False),
    _call("today", 16, 17),
    Expected(),
)
"""By message, in the order of the demo's file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--model`, `--engine`."""
    parser.add_argument("--model", action="append", help="a model; may be given several times")
    parser.add_argument("--engine", help="torch or llama_cpp, instead of what suits the machine")


def run(context: Context) -> None:
    """Serve the demo's customers with each model and count what was right."""
    models: Sequence[str] = context.options.get("model") or ["smollm2-135m", "qwen2.5-coder-0.5b"]
    figures = {name: _served(name, context) for name in models}
    for name, found in figures.items():
        context.console.print(name, {key: value for key, value in found.items() if key != "messages"})
    context.write(figures)


def _served(name: str, context: Context) -> dict[str, Any]:
    started = time.perf_counter()
    engine = load_engine(name, engine=context.options.get("engine"))
    load_s = time.perf_counter() - started
    try:
        with tempfile.TemporaryDirectory() as folder:
            rows = _rows(engine, SupportDesk(Path(folder) / "desk.sqlite"), quick=context.quick)
    finally:
        engine.close()  # type: ignore[attr-defined]
    return {
        "why": engine.info.why,
        "tool_right": sum(row["tool_right"] for row in rows),
        "wholly_right": sum(row["right"] for row in rows),
        "of": len(rows),
        "load_s": load_s,
        "seconds": sum(row["seconds"] for row in rows),
        "messages": rows,
    }


def _rows(engine: Engine, desk: SupportDesk, *, quick: bool) -> list[dict[str, Any]]:
    agent = Agent(
        engine,
        tools=desk.tools(),
        instructions=INSTRUCTIONS,
        limits=LIMITS,
        reasoning=reasoning_of(engine),
        priors=PriorStore(),
    )
    expected = iter(EXPECTED)
    rows: list[dict[str, Any]] = []
    for customer in read_script(default_script())[: 4 if quick else None]:
        conversation = Conversation()
        rows += [_row(agent, message, next(expected), conversation) for message in customer]
    return rows


def _row(agent: Agent[Any, Any], message: str, expected: Expected, conversation: Conversation) -> dict[str, Any]:
    started = time.perf_counter()
    try:
        calls = agent.run_sync(message, conversation=conversation).calls
    except CallError as error:
        return _as_row(message, (False, False), [type(error).__name__], started)
    said = [f"{call.name} {dict(call.arguments)}" for call in calls]
    return _as_row(message, is_right(expected, calls), said, started)


def _as_row(message: str, right: tuple[bool, bool], calls: list[str], started: float) -> dict[str, Any]:
    seconds = time.perf_counter() - started
    return {"message": message, "tool_right": right[0], "right": right[1], "calls": calls, "seconds": seconds}
