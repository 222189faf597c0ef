"""Real chat templates: what is learned of each, and whether calls come back from what is written for them.

For every ``*.jinja`` in DATA/templates: the format that was learned, and generated calls that are written, compared
with what the template writes for them in the next turn, and read back.
"""

from __future__ import annotations

import random
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentform.cli.tables import Table
from agentform.decoding.formats.parse import parse_calls
from agentform.decoding.formats.probe import NAMES, Probe
from agentform.decoding.formats.types import Elements
from agentform.decoding.formats.write import WrittenCall, calls_text
from agentform.decoding.tool_format import Prompt, ToolCallFormat, ToolText, conversation, learn_format, new_call_id
from agentform.errors import AgentformError
from agentform.messages import JsonValue, Message, ToolCall, ToolResult
from agentform.runtime.tokenizer.chat_template import ChatTemplate
from agentform.schema.target import load
from benchmarks.common.harness import Context

__all__ = ["run"]

_CALLS = 10_000
_SEED = 15
_TRIES = 1_000
"""Texts that are drawn for a format that can hold few."""
_LETTERS = string.ascii_letters + string.digits + " _-.,:;!?/\\'\"{}[]()&%$#@*+=~\n\téüßñЖ日本語🚀"
_TOOL = ToolText(
    name="get_weather_0",
    description="The weather at a place.",
    form=load({"type": "object", "properties": {"city": {"type": "string"}}}, name="get_weather_0").form,
)
_TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")


def run(context: Context) -> None:
    """Learn, write, compare and read for every template."""
    files = sorted(context.need("templates").glob("*.jinja"))
    calls = 200 if context.quick else _CALLS
    learned, raised = _learned(files)
    native = [name for name, format in learned.items() if format.native]
    each = -(-calls // max(1, len(native)))
    rows: list[dict[str, Any]] = []
    for path in files:
        if path.stem in learned:
            try:
                rows.append(_row(path, learned[path.stem], each))
            except AgentformError as error:
                raised[path.stem] = str(error)
    context.console.print(_table(rows))
    figures = _figures(rows, raised)
    context.console.print({key: value for key, value in figures.items() if key != "templates"})
    context.write(figures, seeds=[_SEED])


def _learned(files: Sequence[Path]) -> tuple[dict[str, ToolCallFormat], dict[str, str]]:
    """The formats by template, and what was raised."""
    learned: dict[str, ToolCallFormat] = {}
    raised: dict[str, str] = {}
    for path in files:
        try:
            learned[path.stem] = learn_format(ChatTemplate.of_file(path))
        except Exception as error:  # none should: counted, whatever it is
            raised[path.stem] = f"{type(error).__name__}: {error}"
    return learned, raised


def _row(path: Path, format: ToolCallFormat, calls: int) -> dict[str, Any]:
    listed = _renders_tools(ChatTemplate.of_file(path), format)
    row: dict[str, Any] = {
        "template": path.stem,
        "native": format.native,
        "renders_tools": listed,
        "style": format.style if format.native else "default",
        "call": _example(format),
        "reasoning": None if format.reasoning is None else [format.reasoning.open, format.reasoning.close],
        "reason": format.reason,
    }
    return row | (_round_trips(path, format, calls) if format.native else {"calls": 0, "written": 0, "read": 0})


def _renders_tools(template: ChatTemplate, format: ToolCallFormat) -> bool:
    """Whether a tool that the template is given stands in the prompt, whatever was learned of calls."""
    probe = Probe(template, format.rules)
    return NAMES[0] in (probe.render([probe.user()], generation_prompt=True) or "")


def _example(format: ToolCallFormat) -> str:
    call = WrittenCall(name="get_weather", arguments={"city": "Paris", "days": 3}, id="a1b2c3d4e")
    return calls_text(format, [call])


def _round_trips(path: Path, format: ToolCallFormat, calls: int) -> dict[str, Any]:
    """Generated turns of one or two calls: how many calls were written as the template does, and read as they were."""
    template, draw = ChatTemplate.of_file(path), random.Random(f"{_SEED} {path.stem}")
    found: Counter[str] = Counter()
    wrong: list[str] = []
    while found["calls"] < calls:
        num = draw.choice((1, 1, 2)) if format.layout.max_calls is None else 1
        made = [_call(draw, format, at) for at in range(num)]
        text = draw.choice(("", "", "One moment.")) if format.rules.content_with_calls else ""
        found["calls"] += num
        written = _written(format, [call for call, _ in made], text)
        if _is_rendered(template, format, [call for call, _ in made], text, written):
            found["written"] += num
        else:
            wrong.append(written)
        if _is_read(format, made, written):
            found["read"] += num
        else:
            wrong.append(written)
    return {"calls": found["calls"], "written": found["written"], "read": found["read"], "wrong": wrong[:3]}


def _written(format: ToolCallFormat, calls: Sequence[ToolCall], text: str) -> str:
    written = [WrittenCall(name=call.name, arguments=call.arguments, id=call.id) for call in calls]
    opening = format.text_open_with_calls if text else ""
    return opening + text + calls_text(format, written, after_text=bool(text))


def _is_rendered(
    template: ChatTemplate, format: ToolCallFormat, calls: Sequence[ToolCall], text: str, written: str
) -> bool:
    """Whether the next turn's prompt goes on after this turn's with what was written."""
    asked = Message(role="user", content="What now?")
    results = [
        Message(role="tool", content="Done.", result=ToolResult(call_id=call.id, name=call.name, content="Done."))
        for call in calls
    ]
    prompt = _render(template, conversation(format, [asked], tools=[_TOOL]), generation_prompt=True)
    answered = [asked, Message(role="assistant", content=text, calls=tuple(calls)), *results]
    later = conversation(format, answered, tools=[_TOOL])
    following = _render(template, later, generation_prompt=True)
    if following.startswith(prompt):
        return following.startswith(prompt + written)
    marks = format.reasoning
    begin = prompt.removesuffix(marks.prompted) + marks.empty if marks else prompt
    # Some templates end every prompt with an instruction, so that no prompt is the beginning of the next.
    return following.startswith(begin + written) or following.count(written) == 1


def _render(template: ChatTemplate, prompt: Prompt, *, generation_prompt: bool) -> str:
    return template.render(
        prompt.messages, prompt.tools, generation_prompt=generation_prompt, arguments=prompt.arguments
    )


def _is_read(format: ToolCallFormat, made: Sequence[tuple[ToolCall, Mapping[str, Any]]], written: str) -> bool:
    schemas = {call.name: schema for call, schema in made}
    read = parse_calls(format, written, schemas).calls
    return [(call.name, call.arguments) for call in read] == [(call.name, call.arguments) for call, _ in made]


def _call(draw: random.Random, format: ToolCallFormat, index: int) -> tuple[ToolCall, dict[str, Any]]:
    """A call and its tool's schema."""
    keys = [f"{draw.choice(('city', 'when', 'note', 'Max_items', 'b'))}{at}" for at in range(draw.randint(0, 4))]
    types = [draw.choice(_TYPES) for _ in keys]
    arguments = {key: _value(draw, kind, format) for key, kind in zip(keys, types, strict=True)}
    properties = {key: {"type": kind} for key, kind in zip(keys, types, strict=True)}
    name = f"{draw.choice(('get_weather', 'look-up', 'Search'))}_{index}"
    call = ToolCall(id=new_call_id(format, name, index), name=name, arguments=arguments)
    return call, {"type": "object", "properties": properties}


def _value(draw: random.Random, kind: str, format: ToolCallFormat, depth: int = 0) -> JsonValue:
    if kind == "string":
        return _text(draw, format)
    if kind == "integer":
        return draw.choice((0, -3, draw.randint(-(10**12), 10**12)))
    if kind == "number":
        return draw.choice((0.5, -2.25, draw.random() * 1000))
    if kind == "boolean":
        return draw.random() < 0.5
    if kind == "null" or depth > 2:
        return None
    if kind == "array":
        return [_value(draw, draw.choice(_TYPES), format, depth + 1) for _ in range(draw.randint(0, 3))]
    return {f"k{at}": _value(draw, draw.choice(_TYPES), format, depth + 1) for at in range(draw.randint(0, 3))}


def _text(draw: random.Random, format: ToolCallFormat) -> str:
    """Any text but such as the format cannot hold: it would end the value, or the template trims it."""
    style = format.arguments
    for _ in range(_TRIES):
        text = "".join(draw.choice(_LETTERS) for _ in range(draw.randint(0, 24)))
        if not isinstance(style, Elements):
            return text
        if text == text.strip() and style.can_hold(text):
            return text
    return "x"


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("template", "calls", "style", "written", "read", "one call", "reason", show_lines=False)
    for row in rows:
        share = [f"{row[key]}/{row['calls']}" if row["calls"] else "" for key in ("written", "read")]
        native = "native" if row["native"] else "default"
        table.add_row(row["template"], native, row["style"], *share, repr(row["call"])[1:-1], row["reason"])
    return table


def _figures(rows: Sequence[Mapping[str, Any]], raised: Mapping[str, str]) -> dict[str, Any]:
    listing = [row for row in rows if row["renders_tools"]]
    return {
        "templates_examined": len(rows) + len(raised),
        "raised": dict(raised),
        "native": sum(row["native"] for row in rows),
        "render_tools": len(listing),
        "native_of_those_that_render_tools": sum(row["native"] for row in listing) / max(1, len(listing)),
        "calls": sum(row["calls"] for row in rows),
        "written_as_the_template_does": sum(row["written"] for row in rows),
        "read_back": sum(row["read"] for row in rows),
        "templates": list(rows),
    }
