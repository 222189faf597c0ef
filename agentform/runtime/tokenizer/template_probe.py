"""What a chat template can do, found out by rendering words that occur nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from agentform.errors import InvalidRequest
from agentform.runtime.tokenizer.chat_template import ChatTemplate

__all__ = ["renders_tools", "turn_end"]

_QUESTION = {"role": "user", "content": "zqquestion"}
_ANSWER = "zqanswer"
_TOOL = {
    "type": "function",
    "function": {
        "name": "zqtool",
        "description": "zqdescription",
        "parameters": {"type": "object", "properties": {"zqkey": {"type": "string"}}, "required": ["zqkey"]},
    },
}


def renders_tools(template: ChatTemplate) -> bool:
    """Whether the template writes out a tool that it is given, and a call in an assistant message."""
    offered = _try(template, [_QUESTION], [_TOOL])
    if offered is None or "zqtool" not in offered:
        return False
    # Templates differ in whether they want arguments as an object or as its JSON text.
    for arguments in ({"zqkey": "zqvalue"}, '{"zqkey": "zqvalue"}'):
        called = _try(template, [_QUESTION, _call(arguments)], [_TOOL])
        if called is not None and "zqvalue" in called:
            return True
    return False


def turn_end(template: ChatTemplate, control: Iterable[str]) -> str | None:
    """The control token that the template writes right after an assistant's text, if there is one."""
    text = _try(template, [_QUESTION, {"role": "assistant", "content": _ANSWER}], None)
    if text is None or _ANSWER not in text:
        return None
    rest = text.rpartition(_ANSWER)[2].lstrip()
    tokens = "|".join(map(re.escape, sorted(control, key=len, reverse=True)))
    match = re.match(tokens, rest) if tokens else None
    return match[0] if match else None


def _try(template: ChatTemplate, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
    try:
        return template.render(messages, tools, generation_prompt=False)
    except InvalidRequest:
        return None


def _call(arguments: Any) -> dict[str, Any]:
    # Nine letters: the only form of id that every template with an opinion accepts.
    call = {"id": "zqzqzqzqz", "type": "function", "function": {"name": "zqtool", "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}
