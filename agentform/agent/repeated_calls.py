"""Calls that a conversation already holds, with results that say nothing new."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from agentform.messages import JsonValue, Message, ToolCall

__all__ = ["repeated_call", "stale_calls"]


def stale_calls(messages: Sequence[Message], times: int) -> list[ToolCall]:
    """Calls since the user spoke last that were made so often with equal arguments, all with equal results.

    The last of each is told. One whose results differ is asked again for a reason.
    """
    start = max((at for at, message in enumerate(messages) if message.role == "user"), default=0)
    results = {m.result.call_id: m.result.content for m in messages[start:] if m.result is not None}
    made = [call for message in messages[start:] for call in message.calls if call.id in results]
    alike: dict[Hashable, list[ToolCall]] = {}
    for call in made:
        alike.setdefault(_key(call), []).append(call)
    return [like[-1] for like in alike.values() if len(like) >= times and len({results[call.id] for call in like}) == 1]


def repeated_call(calls: Sequence[ToolCall], stale: Sequence[ToolCall]) -> ToolCall | None:
    """The first of `calls` that is among those that are stale."""
    known = {_key(call) for call in stale}
    return next((call for call in calls if _key(call) in known), None)


def _key(call: ToolCall) -> Hashable:
    """Equal for calls of one tool with equal arguments: a conversation may hold thousands to be compared."""
    return call.name, _frozen(call.arguments)


def _frozen(value: JsonValue) -> Hashable:
    if isinstance(value, Mapping):
        return frozenset((name, _frozen(inner)) for name, inner in value.items())
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value
