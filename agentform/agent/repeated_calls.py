"""Calls that a conversation already holds, with results that say nothing new."""

from __future__ import annotations

from collections.abc import Sequence

from agentform.messages import Message, ToolCall

__all__ = ["repeated_call", "stale_calls"]


def stale_calls(messages: Sequence[Message], times: int) -> list[ToolCall]:
    """Calls since the user spoke last that were made so often with equal arguments, all with equal results.

    The last of each is told. One whose results differ is asked again for a reason.
    """
    start = max((at for at, message in enumerate(messages) if message.role == "user"), default=0)
    results = {m.result.call_id: m.result.content for m in messages[start:] if m.result is not None}
    made = [call for message in messages[start:] for call in message.calls if call.id in results]
    found: list[ToolCall] = []
    for call in reversed(made):
        like = [each for each in made if _equal(each, call)]
        told = {results[each.id] for each in like}
        if len(like) >= times and len(told) == 1 and not any(_equal(each, call) for each in found):
            found.append(call)
    return found


def repeated_call(calls: Sequence[ToolCall], stale: Sequence[ToolCall]) -> ToolCall | None:
    """The first of `calls` that is among those that are stale."""
    return next((call for call in calls if any(_equal(call, each) for each in stale)), None)


def _equal(one: ToolCall, other: ToolCall) -> bool:
    return (one.name, one.arguments) == (other.name, other.arguments)
