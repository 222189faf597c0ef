"""Calls in a model's own format against the default one: which tool and which arguments, on questions of BFCL.

::

    own             the model's format, the call decided at once        own, text       after free text of its own
    default         agentform's format for models without tools         default, text   the same after free text
    alone           what the model itself writes after its own prompt, greedily: what was meant by the format

A call is required in all but the last.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from agentform import Limits, Responder, Tool, Toolbox, load_engine
from agentform.cli.tables import Table
from agentform.decoding.formats.parse import parse_calls
from agentform.decoding.tool_format import DEFAULT_FORMAT, ToolCallFormat, format_of
from agentform.errors import AgentformError
from agentform.messages import ToolCall
from agentform.runtime.engine import Engine, GenerateRequest
from agentform.turn.prose_calls import recover
from agentform.turn.turn import TurnRunner
from benchmarks.common.harness import Context
from benchmarks.peers.ast_rule import is_accepted
from benchmarks.peers.bfcl import Question, load_questions

__all__ = ["add_arguments", "figures_of", "run"]

_NUM_QUESTIONS = 101
_TEXT_TOKENS = 64
_CALL_TOKENS = 192
_MODES = ("own", "own, text", "alone", "default", "default, text")
"""In this order the requests of one question find the most in the prefix cache."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--model`, `--engine`, `--questions`, `--rows`."""
    parser.add_argument("--model", default="qwen2.5-coder-0.5b", help="a model that was trained to call tools")
    parser.add_argument("--engine", help="torch or llama_cpp, instead of what suits the machine")
    parser.add_argument("--questions", type=int, default=_NUM_QUESTIONS)
    parser.add_argument("--mode", action="append", choices=_MODES, help="may be given several times; by default all")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="JSON lines: answers are added, those there are kept")


def run(context: Context) -> None:
    """Ask every question in every mode and count what was right."""
    questions = load_questions(context, 3 if context.quick else context.options["questions"])
    rows = _kept(context.options["rows"])
    engine = load_engine(context.options["model"], engine=context.options["engine"])
    try:
        for question in questions:
            _asked(engine, question, rows, context)
    finally:
        engine.close()  # type: ignore[attr-defined]
    wanted = {question.id for question in questions}
    rows = [row for row in rows if row["id"] in wanted]
    context.console.print(_table(figures_of(rows)))
    context.write({"model": context.options["model"], "modes": figures_of(rows), "rows": rows})


def figures_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """By mode: how many questions got a call, the right tool, and the right arguments too."""
    figures: dict[str, dict[str, Any]] = {}
    for mode in dict.fromkeys(row["mode"] for row in rows):
        own = [row for row in rows if row["mode"] == mode]
        counted = {key: sum(bool(row[key]) for row in own) for key in ("call", "tool", "right")}
        figures[mode] = {"questions": len(own), **counted}
    return figures


def _kept(file: Path | None) -> list[dict[str, Any]]:
    if file is None or not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _asked(engine: Engine, question: Question, rows: list[dict[str, Any]], context: Context) -> None:
    """The question's answers that are missing are added to `rows` and the file."""
    done = {row["mode"] for row in rows if row["id"] == question.id}
    own, file = format_of(engine.tokenizer), context.options["rows"]
    for mode in [mode for mode in context.options["mode"] or _MODES if mode not in done]:
        engine.tokenizer.learned["format"] = _default(own) if mode.startswith("default") else own
        try:
            rows.append(anyio.run(_row, engine, question, mode))
        finally:
            engine.tokenizer.learned["format"] = own
        if file is not None:
            with file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(rows[-1]) + "\n")


def _default(own: ToolCallFormat) -> ToolCallFormat:
    """What a template without tools would be given."""
    return replace(
        DEFAULT_FORMAT, rules=replace(own.rules, tool_role=False), turn_end=own.turn_end, reasoning=own.reasoning
    )


async def _row(engine: Engine, question: Question, mode: str) -> dict[str, Any]:
    try:
        call, said = await (_alone(engine, question) if mode == "alone" else _call(engine, question, mode))
    except AgentformError as error:
        call, said = None, f"{type(error).__name__}: {error}"
    named = {"name": call.name, "arguments": dict(call.arguments)} if call is not None else None
    return {
        "id": question.id,
        "mode": mode,
        "call": named,
        "tool": call is not None and call.name in question.accepted,
        "right": is_accepted(named, question.accepted, question.declared),
        "said": said,
    }


async def _call(engine: Engine, question: Question, mode: str) -> tuple[ToolCall | None, str]:
    limits = Limits(reasoning_tokens=_TEXT_TOKENS if mode.endswith("text") else 0, argument_tokens=_CALL_TOKENS)
    responder = Responder(engine, limits=limits)
    done = await responder.respond(question.messages, tools=_toolbox(question), tool_choice="required")
    return next(iter(done.calls), None), done.message.content


async def _alone(engine: Engine, question: Question) -> tuple[ToolCall | None, str]:
    """The first call in what the model writes when nothing is asked of it."""
    targets = {name: tool.target for name, tool in _toolbox(question).items()}
    caller = TurnRunner(engine=engine, targets=targets)
    text = ""
    request = GenerateRequest(prompt_ids=caller.prompt(question.messages), max_tokens=_CALL_TOKENS)
    async with aclosing(engine.generate(request)) as chunks:
        async for chunk in chunks:
            text += chunk.text
    schemas = {tool["name"]: tool["parameters"] for tool in question.tools}
    found = next(iter(parse_calls(caller.format, text, schemas).calls), None) or recover(text, targets)
    return (None if found is None else ToolCall(id="", name=found.name, arguments=found.arguments)), text


def _toolbox(question: Question) -> Toolbox:
    return Toolbox(
        Tool.from_schema(said["parameters"], name=said["name"], description=said["description"], lenient=True)
        for said in question.tools
    )


def _table(figures: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table("mode", "questions", "a call", "right tool", "right arguments")
    for mode, found in figures.items():
        counts = [str(found[key]) for key in ("questions", "call", "tool", "right")]
        table.add_row(mode, *counts)
    return table
