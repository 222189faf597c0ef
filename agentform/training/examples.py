"""Labelled examples as JSON lines: fields of a text, whole forms, and calls.

::

    {"text": "...", "field": "topic", "options": ["billing", "bug"], "gold": "bug", "description": "..."}
    {"text": "...", "schema": {...}, "value": {...}, "instructions": "..."}
    {"messages": [{"role": "user", "content": "..."}], "tools": [...], "call": {"name": "...", "arguments": {...}}}

`messages` may stand instead of a `text` everywhere. Tools are as chat completions have them, with a `function` or
without.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from agentform.errors import AgentformError, InvalidInput
from agentform.forms.fill import Prompts
from agentform.forms.labelled_forms import form_decisions
from agentform.forms.scoring import Scoring
from agentform.messages import Message
from agentform.runtime.engine import Engine
from agentform.runtime.labelled import LabelledDecision
from agentform.schema.json_text import loads
from agentform.schema.target import Target, load
from agentform.turn.labelled_calls import LabelledCall, call_decisions

__all__ = ["read_decisions"]

_ROLES = ("system", "user", "assistant")


def read_decisions(engine: Engine, file: Path) -> list[LabelledDecision]:
    """The decisions of every example of a file; those that leave nothing to decide are left out.

    Raises:
        InvalidInput: the file cannot be read or a line is no example; it names the line.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read {file}: {error}") from error
    found: list[LabelledDecision] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                own = _decisions(engine, loads(line))
            except (KeyError, TypeError, ValueError, AgentformError) as error:
                what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
                raise InvalidInput(f"{file}, line {number}: {what}") from error
            found += [replace(decision, example=number) for decision in own if decision.steps]
    if not found:
        raise InvalidInput(f"{file} holds no example with anything to decide")
    return found


def _decisions(engine: Engine, item: Any) -> list[LabelledDecision]:
    if not isinstance(item, Mapping):
        raise InvalidInput("an example is a JSON object")
    given = cast("Mapping[str, Any]", item)
    if "call" in given:
        return call_decisions(engine, _call(given))
    if "schema" in given:
        return _form(engine, load(given["schema"], name="example"), given, given["value"])
    if "options" in given:
        leaf = {"enum": list(given["options"]), "description": given.get("description", "")}
        schema = {"type": "object", "properties": {given["field"]: leaf}, "required": [given["field"]]}
        return _form(engine, load(schema, name="example"), given, {given["field"]: given["gold"]})
    raise InvalidInput("an example has a `call`, a `schema` with its `value`, or `options` with the `gold` one")


def _form(engine: Engine, target: Target, given: Mapping[str, Any], value: Any) -> list[LabelledDecision]:
    scoring = Scoring.of(engine)
    prompts = Prompts(engine, target, given.get("instructions", ""), scoring.list_fields)
    return form_decisions(engine.tokenizer, target, prompts.point(_messages(given)), value, scoring)


def _call(given: Mapping[str, Any]) -> LabelledCall:
    call = given["call"]
    arguments = call["arguments"]
    return LabelledCall(
        messages=_messages(given),
        targets=_targets(given["tools"]),
        name=call["name"],
        arguments=json.loads(arguments) if isinstance(arguments, str) else arguments,
        instructions=given.get("instructions", ""),
    )


def _targets(tools: Sequence[Mapping[str, Any]]) -> dict[str, Target]:
    functions = [tool.get("function", tool) for tool in tools]
    found: dict[str, Target] = {}
    for each in functions:
        target = load(each.get("parameters") or {"type": "object", "properties": {}}, name=each["name"])
        found[target.name] = replace(target, description=each.get("description", ""))
    return found


def _messages(given: Mapping[str, Any]) -> list[Message]:
    if "messages" not in given:
        return [Message(role="user", content=given["text"])]
    found: list[Message] = []
    for message in given["messages"]:
        if message.get("role") not in _ROLES or not isinstance(message.get("content"), str):
            raise InvalidInput("a message has a `role` (system, user or assistant) and a text as `content`")
        found.append(Message(role=message["role"], content=message["content"]))
    return found
