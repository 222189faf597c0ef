"""The same prompt for all: rendered once, as agentform's frame and the model's own chat template have it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentform.decoding.tool_format import DEFAULT_FORMAT, ToolText
from agentform.decoding.tool_format import conversation as shown
from agentform.messages import Message
from agentform.runtime.engine import Tokenizer
from agentform.schema.target import load
from benchmarks.common.items import Item
from benchmarks.peers.task import Task

__all__ = ["OPENING", "answer_task", "call_schema", "call_task", "form_task", "message_json", "text_task"]

OPENING = DEFAULT_FORMAT.layout.opening.split("{", 1)[0]
"""What stands before a call's JSON; peers write from behind it."""
_FORM_TOKENS = 400
_CALL_TOKENS = 400


def form_task(tokenizer: Tokenizer, item: Item) -> Task:
    """The form's description as system message, the conversation, and the answer is the form's JSON alone."""
    rendered: list[dict[str, Any]] = [{"role": "system", "content": item.about}] if item.about else []
    rendered += [{"role": said.role, "content": said.content} for said in item.messages]
    return Task(
        kind="form",
        messages=[message_json(said) for said in item.messages],
        max_tokens=_FORM_TOKENS,
        schema=item.schema,
        **_prompt(tokenizer, rendered, ""),
    )


def call_task(
    tokenizer: Tokenizer, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], **options: Any
) -> Task:
    """The tools listed in the system message, the conversation, and the answer is one call."""
    return Task(
        kind="call",
        messages=[message_json(said) for said in messages],
        tools=[dict(said) for said in tools],
        schema=call_schema(tools),
        **{"max_tokens": _CALL_TOKENS, **options},
        **_prompt(tokenizer, shown(DEFAULT_FORMAT, messages, tools=tool_texts(tools)).messages, OPENING),
    )


def answer_task(
    tokenizer: Tokenizer,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
    *,
    max_tokens: int,
    conversation: str,
) -> Task:
    """The conversation with its tools listed, and the answer is free text."""
    return Task(
        kind="text",
        messages=[message_json(said) for said in messages],
        tools=[dict(said) for said in tools],
        max_tokens=max_tokens,
        conversation=conversation,
        **_prompt(tokenizer, shown(DEFAULT_FORMAT, messages, tools=tool_texts(tools)).messages, ""),
    )


def text_task(like: Task, *, max_tokens: int) -> Task:
    """Free text after another task's prompt."""
    return replace(like, kind="text", schema=None, tools=[], max_tokens=max_tokens)


def call_schema(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One call of any of the tools: its name, then its arguments."""
    arms = [
        {
            "type": "object",
            "properties": {"name": {"const": said["name"]}, "arguments": said["parameters"]},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for said in tools
    ]
    return arms[0] if len(arms) == 1 else {"anyOf": arms}


def message_json(message: Message) -> dict[str, Any]:
    """For `Task.messages`."""
    said: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        said["calls"] = [
            {"id": call.id, "name": call.name, "arguments": dict(call.arguments)} for call in message.calls
        ]
    if message.result is not None:
        result = message.result
        said["result"] = {"call_id": result.call_id, "name": result.name, "content": result.content}
    return said


def tool_texts(tools: Sequence[Mapping[str, Any]]) -> list[ToolText]:
    """The tools as agentform lists them in a prompt."""
    texts: list[ToolText] = []
    for said in tools:
        form = load(json.loads(json.dumps(said["parameters"])), name=said["name"], lenient=True).form
        texts.append(ToolText(name=said["name"], description=said["description"], form=form))
    return texts


def _prompt(tokenizer: Tokenizer, rendered: list[dict[str, Any]], opening: str) -> dict[str, Any]:
    text = tokenizer.render_text(rendered) + opening
    ids = list(tokenizer.render(rendered)) + list(tokenizer.encode(opening))
    return {"rendered": rendered, "prompt": text, "ids": ids, "opening": opening}
