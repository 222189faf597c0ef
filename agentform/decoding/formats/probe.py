"""Renders conversations that hold words which occur nowhere else, and cuts out what the template writes around them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Protocol

from agentform.decoding.formats.types import TemplateRules
from agentform.decoding.formats.with_thought import with_thought
from agentform.errors import AgentformError
from agentform.messages import JsonValue
from agentform.schema.json_text import dumps

__all__ = [
    "KEYS",
    "NAMES",
    "TEXT",
    "THOUGHT",
    "TOOLS_HEAD",
    "Probe",
    "ProbeCall",
    "Template",
    "common_prefix",
    "common_suffix",
    "define",
    "second",
    "template_constants",
]

NAMES = ("zqalpha", "zqgamma")
"""Of one length, so that what follows them stands at the same place."""
KEYS = ("zqkey", "zqall")
"""Not in alphabetical order, so that a template which sorts them shows."""
TEXT = "Zqtext said."
THOUGHT = "Zqthought held."
USER = "Zquser asks."
TOOLS_HEAD = "You can call functions."
"""The system message of templates that list tools only beside one, where there is no other."""
RESULT = "Zqresult"
_IDS = ("zqid00001", "zqid00002", "zqid00003")
_OPEN_MARK = re.compile(r"<[^<>\s()\[\]]*$|\[/?[A-Z_]*$")
_CLOSED_MARK = re.compile(r"[^<>\s()\[\]]*>|[A-Z_]*\]")


class Template(Protocol):
    """What renders messages: a tokenizer's chat template."""

    def render_text(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        generation_prompt: bool = True,
        arguments: Mapping[str, Any] | None = None,
    ) -> str:
        """The conversation as text."""
        ...

    @property
    def template_source(self) -> str:
        """The template's own text; empty where it is not known."""
        ...


@dataclass(frozen=True, kw_only=True)
class ProbeCall:
    """A call in a probe."""

    arguments: Mapping[str, JsonValue]
    name: str = NAMES[0]
    id: str = _IDS[0]


@dataclass(frozen=True)
class Probe:
    """Renders under the rules found so far; every method gives `None` where the template refuses."""

    template: Template
    rules: TemplateRules = field(default_factory=TemplateRules)
    with_tools: bool = True

    def under(self, **rules: Any) -> Probe:
        """The same under other rules."""
        return replace(self, rules=replace(self.rules, **rules))

    def prompt(self, **arguments: Any) -> str | None:
        """After the user's words: the generation prompt, and what ends the user's message."""
        return self._tail([self.user()], generation_prompt=True, arguments=arguments)

    def said(self, text: str = TEXT, *, thought: str | None = None, then: bool = True) -> str | None:
        """After the user's words: an answer in text, and the user again."""
        more = [self.user("Zqagain asks.")] if then else []
        return self._tail([self.user(), self.assistant(text, thought=thought), *more])

    def called(
        self, *calls: ProbeCall, text: str = "", thought: str | None = None, results: bool = True, then: bool = False
    ) -> str | None:
        """After the user's words: calls, and their results."""
        answers = [self.result(call, at) for at, call in enumerate(calls)] if results else []
        more = [self.assistant("Zqdone."), self.user("Zqagain asks.")] if then else []
        return self._tail([self.user(), self.assistant(text, calls, thought), *answers, *more])

    def called_twice(self, first: ProbeCall, second: ProbeCall) -> str | None:
        """A call in each of two turns."""
        turns = [self.assistant("", [first]), self.result(first, 0), self.assistant("", [second])]
        return self._tail([self.user(), *turns, self.result(second, 1)])

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        generation_prompt: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> str | None:
        """The text of a conversation under the rules."""
        listed = list(tools) if tools is not None else ([define(name) for name in NAMES] if self.with_tools else None)
        if listed and self.rules.tools_with_system and messages[0]["role"] != "system":
            messages = [{"role": "system", "content": self._content(TOOLS_HEAD)}, *messages]
        extra = {**template_constants(self.rules), **(arguments or {})}
        if listed is not None and self.rules.tools_argument != "tools":
            extra[self.rules.tools_argument] = json.dumps(listed) if self.rules.tools_as_text else listed
        try:
            return self.template.render_text(
                messages,
                tools=listed if self.rules.tools_argument == "tools" else None,
                generation_prompt=generation_prompt,
                arguments=extra or None,
            )
        except AgentformError:
            return None

    def user(self, text: str = USER) -> dict[str, Any]:
        """A message of the user's."""
        return {"role": "user", "content": self._content(text)}

    def assistant(self, text: str, calls: Sequence[ProbeCall] = (), thought: str | None = None) -> dict[str, Any]:
        """A message of the model's."""
        message: dict[str, Any] = {"role": "assistant", "content": self._content(text)}
        if calls:
            message["tool_calls"] = [self._call(call) for call in calls]
        if thought is None and not self.rules.thoughts_needed:
            return message
        return with_thought(self.rules.thought_key, message, thought or "")

    def result(self, call: ProbeCall, at: int) -> dict[str, Any]:
        """A message with the result of a call."""
        content = self._content(f"{RESULT}{at}")
        if not self.rules.tool_role:
            return {"role": "user", "content": content}
        return {"role": "tool", "name": call.name, "tool_call_id": call.id, "content": content}

    def _content(self, text: str) -> Any:
        return text if self.rules.content == "string" else [{"type": "text", "text": text}]

    def _call(self, call: ProbeCall) -> dict[str, Any]:
        arguments = dict(call.arguments) if self.rules.arguments == "object" else dumps(call.arguments)
        return {"type": "function", "id": call.id, "function": {"name": call.name, "arguments": arguments}}

    def _tail(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        generation_prompt: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> str | None:
        text = self.render(messages, generation_prompt=generation_prompt, arguments=arguments)
        if text is None or USER not in text:
            return None
        return text[text.index(USER) + len(USER) :]


def template_constants(rules: TemplateRules) -> dict[str, Any]:
    """Arguments without which the template fails."""
    return {rules.date_argument: date.today().isoformat()} if rules.date_argument else {}


def define(name: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A tool's definition."""
    described = {"type": "string", "description": "Zqdescribed."}
    schema = parameters or {"type": "object", "properties": dict.fromkeys(KEYS, described), "required": list(KEYS)}
    return {"type": "function", "function": {"name": name, "description": "Zqdescribed.", "parameters": schema}}


def second(arguments: Mapping[str, JsonValue]) -> ProbeCall:
    """A call of the other tool."""
    return ProbeCall(arguments=arguments, name=NAMES[1], id=_IDS[1])


def common_prefix(*texts: str) -> str:
    """What all texts begin with, ending outside of marks such as `<think>`."""
    low, high = min(texts), max(texts)
    length = next((at for at, letter in enumerate(low) if at >= len(high) or high[at] != letter), len(low))
    prefix = low[:length]
    found = _OPEN_MARK.search(prefix)
    inside = found and any(_CLOSED_MARK.match(text[length:]) for text in texts)
    return prefix[: found.start()] if found and inside else prefix


def common_suffix(one: str, other: str) -> str:
    """What both texts end with, beginning outside of marks."""
    length = 0
    while length < min(len(one), len(other)) and one[-1 - length] == other[-1 - length]:
        length += 1
    suffix = one[len(one) - length :]
    cut = len(one) - length
    opened = _OPEN_MARK.search(one[:cut]) or _OPEN_MARK.search(other[: len(other) - length])
    closed = _CLOSED_MARK.match(suffix)
    return suffix[closed.end() :] if opened and closed else suffix
