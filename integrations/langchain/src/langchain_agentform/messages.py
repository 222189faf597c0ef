"""LangChain messages, of this model and of others, as agentform's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from pydantic_core import from_json

from agentform import Message, ToolCall, ToolResult
from langchain_agentform.content import text_of
from langchain_agentform.errors import UnsupportedContent

__all__ = ["to_messages"]


def to_messages(messages: Sequence[BaseMessage]) -> list[Message]:
    """The conversation as agentform has it; names of participants are left out.

    Raises:
        UnsupportedContent: a message holds media, or is of a role that there is not.
    """
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    names: dict[str, str] = {}
    made: list[Message] = []
    for at, message in enumerate(messages):
        where = f"message {at} ({message.type})"
        if isinstance(message, AIMessage):
            calls = _calls(message, answered, at)
            names |= {call.id: call.name for call in calls}
            thought = _thought(message)
            made.append(Message(role="assistant", content=_said(message, where), calls=calls, reasoning=thought))
        elif isinstance(message, ToolMessage):
            made.append(_result(message, names, where))
        else:
            made.append(_plain(message, where))
    return made


def _plain(message: BaseMessage, where: str) -> Message:
    if isinstance(message, SystemMessage):
        return Message(role="system", content=text_of(message.content, where))
    if isinstance(message, HumanMessage):
        return Message(role="user", content=text_of(message.content, where))
    role = message.role if isinstance(message, ChatMessage) else message.type
    if role not in ("system", "user", "assistant"):
        raise UnsupportedContent(
            f"{where}: there is no role {role!r}; use system, user (human), assistant (ai) or tool"
        )
    return Message(role=role, content=text_of(message.content, where))


def _thought(message: AIMessage) -> str:
    """What the model thought between its own marks, for templates that keep it."""
    own = message.response_metadata.get("thought")
    return str(message.additional_kwargs.get("reasoning_content") or "") if own else ""


def _said(message: AIMessage, where: str) -> str:
    """The free text of a model's message.

    Calls and reasoning stand in content blocks as well, each vendor's its own; neither is text. A note of this model's
    own, which it wrote before its calls, is what it saw there.
    """
    note = message.additional_kwargs.get("reasoning_content")
    metadata = message.response_metadata
    if note and message.tool_calls and metadata.get("model_provider") == "agentform" and not metadata.get("thought"):
        return str(note)
    content = message.content
    if isinstance(content, str):
        return content
    return text_of([block for block in content if isinstance(block, str) or block.get("type") == "text"], where)


def _calls(message: AIMessage, answered: set[str], at: int) -> tuple[ToolCall, ...]:
    """The calls of a model's message, those with bad arguments only if they were answered."""
    good = [(call["id"], call["name"], call["args"]) for call in message.tool_calls]
    bad = [
        (call.get("id"), call.get("name") or "unknown", _object(call.get("args")))
        for call in message.invalid_tool_calls
        if call.get("id") in answered
    ]
    return tuple(
        ToolCall(id=call_id or f"call_{at}_{number}", name=name, arguments=arguments)
        for number, (call_id, name, arguments) in enumerate(good + bad)
    )


def _object(text: str | None) -> dict[str, Any]:
    """The arguments of an invalid call: what stands there of an object that breaks off, or else the text as it is."""
    text = (text or "").strip()
    try:
        value = from_json(text, allow_partial="trailing-strings")
    except ValueError:
        value = None
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    return {"malformed": text} if text not in ("", "null") else {}


def _result(message: ToolMessage, names: Mapping[str, str], where: str) -> Message:
    content = text_of(cast("str | Iterable[str | Mapping[str, Any]]", message.content), where)
    is_error = message.status == "error"
    if is_error and not content.lower().startswith("error"):
        content = f"Error: {content}"
    name = message.name or names.get(message.tool_call_id, "")
    result = ToolResult(call_id=message.tool_call_id, name=name, content=content, is_error=is_error)
    return Message(role="tool", content=content, result=result)
