"""Finds out what a template demands of messages, and adapts messages to it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from agentform.decoding.formats.learn_thought_key import learn_thought_key
from agentform.decoding.formats.probe import KEYS, NAMES, RESULT, TEXT, USER, Probe, ProbeCall, define
from agentform.decoding.formats.types import RESULT_OPEN, TemplateRules
from agentform.decoding.formats.with_thought import with_thought
from agentform.schema.json_text import dumps

__all__ = ["adapt_messages", "adapt_tools", "learn_rules"]

_SYSTEM, _LATER = "Zqsystem rules.", "Zqlater rules."
_TOOL_ARGUMENT = re.compile(r"\b\w*(?:tool|function)s?\w*\b")
_NINE = re.compile(r"[a-zA-Z0-9]{9}")
_BARE = {"type": "object", "properties": {KEYS[0]: {"type": "string"}, KEYS[1]: {"enum": ["a", "b"]}}}
_DATES = ("datetime", "date_string", "current_date", "date")
_OPENING = "(The conversation begins.)"
_JOIN = "\n\n"


def learn_rules(probe: Probe) -> TemplateRules:
    """The rules of a template, each found by rendering what it may refuse."""
    probe = _with_thoughts(_with_content(probe))
    probe = _with_tools(probe)
    bare = replace(probe, with_tools=False)
    plain = bare if bare.render([bare.user()]) is not None else probe
    rules = replace(
        probe.rules,
        needs_tools=bare.render([bare.user()]) is None and probe.render([probe.user()], tools=[]) is not None,
        system=_system(plain),
        alternating=_shows(plain, [plain.user(), plain.user("Zqagain asks.")], "Zqagain asks.") is False,
        user_first=_shows(plain, [plain.assistant(TEXT), plain.user()], USER) is False,
    )
    rules = replace(rules, **_of_calls(replace(probe, rules=rules)))
    return replace(rules, thought_key=learn_thought_key(replace(probe, rules=rules)))


def _with_content(probe: Probe) -> Probe:
    for content in ("string", "parts"):
        found = replace(probe, with_tools=False).under(content=content)
        text = found.render([found.user()])
        if text is not None and USER in text and "'type'" not in text and '"type"' not in text:
            return probe.under(content=content)
    return probe


def _with_thoughts(probe: Probe) -> Probe:
    """Whether the template refuses messages of the model's that have no thought."""
    bare = replace(probe, with_tools=False)
    needed = bare.under(thoughts_needed=True)
    for under in (bare, needed):
        if under.render([under.user(), under.assistant(TEXT), under.user()]) is not None:
            return probe.under(thoughts_needed=under is needed)
    return probe


def _with_tools(probe: Probe) -> Probe:
    """The argument under which the template reads its tools, and whether it needs descriptions."""
    for found in (probe, probe.under(tools_with_system=True)):
        listed = found.render([found.user()])
        if listed is not None and NAMES[0] in listed:
            described = found.render([found.user()], tools=[define(NAMES[0], _BARE)]) is None
            return found.under(described=described)
    source = probe.template.template_source
    date = next((name for name in _DATES if probe.render([probe.user()]) is None and name in source), "")
    for name in _tool_arguments(source):
        for as_text in (False, True):
            other = probe.under(tools_argument=name, tools_as_text=as_text, date_argument=date)
            text = other.render([other.user()])
            if text is not None and NAMES[0] in text:
                return other
    return probe


def _tool_arguments(source: str) -> Iterator[str]:
    """Words of a template that may be an argument which lists tools."""
    words = dict.fromkeys(_TOOL_ARGUMENT.findall(source))
    yield from (word for word in words if word.endswith("s") and f"message.{word}" not in source and word != "tools")


def _system(probe: Probe) -> Any:
    first = {"role": "system", "content": probe.user(_SYSTEM)["content"]}
    later = {**first, "content": probe.user(_LATER)["content"]}
    if not _shows(probe, [first, probe.user()], _SYSTEM):
        return "none"
    between = [first, probe.user(), probe.assistant(TEXT), later, probe.user("Zqagain asks.")]
    return "any" if _shows(probe, between, _LATER) else "first"


def _of_calls(probe: Probe) -> dict[str, Any]:
    call = ProbeCall(arguments={KEYS[0]: "zqvalue"})
    role = False
    for arguments in ("object", "text"):
        under = probe.under(arguments=arguments)
        results = under.called(call)
        role = role or (results is not None and f"{RESULT}0" in results)
    nine = any(_shortens(probe.under(arguments=kind), call) for kind in ("object", "text"))
    return {"tool_role": role, "ids": "nine" if nine else "any"}


def _shortens(probe: Probe, call: ProbeCall) -> bool:
    """Whether ids of nine characters are taken, and longer ones refused or written in part."""
    long_id = "call_0123456789ab"
    short, long = probe.called(call), probe.called(replace(call, id=long_id))
    return short is not None and (long is None or (call.id in short and long_id not in long))


def _shows(probe: Probe, messages: Sequence[Mapping[str, Any]], text: str) -> bool | None:
    """Whether a conversation is rendered with this text in it; `False` also where it is refused."""
    rendered = probe.render(messages, generation_prompt=True)
    return rendered is not None and text in rendered


def adapt_messages(rules: TemplateRules, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages, in Hugging Face's layout, as the template takes them."""
    adapted = [_adapted(rules, message) for message in messages]
    adapted = _systems(rules, adapted)
    if rules.alternating:
        adapted = _merged(adapted)
    if rules.user_first:
        first = next((at for at, m in enumerate(adapted) if m["role"] != "system"), None)
        if first is not None and adapted[first]["role"] == "assistant":
            adapted.insert(first, {"role": "user", "content": _OPENING})
    if rules.content == "parts":
        adapted = [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in adapted]
    return [_thinking(rules, message) for message in adapted]


def _thinking(rules: TemplateRules, message: dict[str, Any]) -> dict[str, Any]:
    thought = message.pop("reasoning_content", None)
    if thought is None and rules.thoughts_needed and message["role"] == "assistant":
        thought = ""
    return message if thought is None else with_thought(rules.thought_key, message, thought)


def _adapted(rules: TemplateRules, message: Mapping[str, Any]) -> dict[str, Any]:
    adapted = dict(message)
    if calls := adapted.get("tool_calls"):
        adapted["tool_calls"] = [_adapted_call(rules, call) for call in calls]
    if "tool_call_id" in adapted:
        adapted["tool_call_id"] = adapted_id(rules, adapted["tool_call_id"])
    if adapted["role"] == "tool" and not rules.tool_role:
        return {"role": "user", "content": f"{RESULT_OPEN}\n{adapted['content']}\n</tool_response>"}
    return adapted


def _adapted_call(rules: TemplateRules, call: Mapping[str, Any]) -> dict[str, Any]:
    function = dict(call["function"])
    if rules.arguments == "text" and not isinstance(function["arguments"], str):
        function["arguments"] = dumps(function["arguments"])
    return {**call, "id": adapted_id(rules, str(call.get("id", ""))), "function": function}


def adapted_id(rules: TemplateRules, given: str) -> str:
    """An id in a form that the template takes, always the same for the same id."""
    if rules.ids == "any" or _NINE.fullmatch(given):
        return given
    return hashlib.sha256(given.encode()).hexdigest()[:9]


def _systems(rules: TemplateRules, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """System messages where the template takes none become a part of what the user says next."""
    if rules.system == "any":
        return messages
    kept: list[dict[str, Any]] = []
    pending: list[str] = []
    for at, message in enumerate(messages):
        if message["role"] == "system" and not (rules.system == "first" and at == 0):
            pending.append(str(message["content"]))
        elif message["role"] == "user" and pending:
            kept.append({**message, "content": _JOIN.join([*pending, str(message["content"])])})
            pending = []
        else:
            kept += [{"role": "user", "content": _JOIN.join(pending)}] if pending else []
            kept, pending = [*kept, message], []
    return [*kept, {"role": "user", "content": _JOIN.join(pending)}] if pending else kept


def _merged(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    merged: list[dict[str, Any]] = []
    for message in messages:
        last = merged[-1] if merged else None
        same = last is not None and last["role"] == message["role"] and message["role"] in ("user", "assistant")
        if same and not message.get("tool_calls") and not (last or {}).get("tool_calls"):
            merged[-1] = {**merged[-1], "content": _JOIN.join((merged[-1]["content"], message["content"]))}
        else:
            merged.append(message)
    return merged


def adapt_tools(rules: TemplateRules, tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The tools' definitions as the template takes them."""
    return [_described(tool) if rules.described else dict(tool) for tool in tools]


def _described(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = dict(tool["function"])
    parameters = dict(function.get("parameters") or {})
    properties = cast("Mapping[str, Any]", parameters.get("properties") or {})
    parameters["properties"] = {
        key: {"type": "string", "description": "", **value} if isinstance(value, Mapping) else {"description": ""}
        for key, value in properties.items()
    }
    parameters.setdefault("required", [])
    parameters.setdefault("type", "object")
    return {**tool, "function": {"description": "", **function, "parameters": parameters}}
