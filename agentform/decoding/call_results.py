"""Results bound to their calls by id, in the order of the calls, with the calls' names: as chat templates read them.

::

    call 1 weather      result of 2            result of 1 (weather)
    call 2 clock    ->  result of 1        ->  result of 2 (clock)

Clients send results as they come in, and a template shows them one after the other, some without their ids. Results and
past arguments come from programs and from other models: what of them is no Unicode or no JSON is replaced, since it is
history by now; in what a user says it is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from agentform._util.text import is_unicode, unicode_text
from agentform.errors import InvalidInput
from agentform.messages import Message, ToolCall, ToolResult
from agentform.schema.json_text import problems, to_jsonable

__all__ = ["bound_results"]


def bound_results(messages: Sequence[Message]) -> list[Message]:
    """The messages with the results after each assistant message in the order of its calls.

    Results of no call of that message stay behind the others, as they were.

    Raises:
        InvalidInput: a text is no Unicode.
    """
    bound: list[Message] = []
    while len(bound) < len(messages):
        message = messages[len(bound)]
        if message.role == "tool":  # of an earlier message, or of none
            bound.append(_readable(message))
            continue
        bound.append(_checked(message, len(bound)))
        if message.calls:
            results = list(takewhile(lambda each: each.role == "tool", messages[len(bound) :]))
            bound += _in_order(message.calls, [_readable(each) for each in results])
    return bound


def _in_order(calls: Sequence[ToolCall], results: Sequence[Message]) -> list[Message]:
    """Each call takes the first result of its id that is left; two calls may share an id."""
    left = list(results)
    ordered: list[Message] = []
    for at, call in enumerate(calls):
        found = next((each for each in left if each.result and each.result.call_id == call.id), None)
        if found is None and len(left) > 0 and left[0].result is None and at == len(ordered):
            found = left[0]  # a result that was made without an id answers the call at its place
        if found is not None:
            left.remove(found)
            ordered.append(_named(found, call))
    return ordered + left


def _named(message: Message, call: ToolCall) -> Message:
    result = message.result or ToolResult(call_id=call.id, name=call.name, content=message.content)
    return replace(message, result=replace(result, name=result.name or call.name))


def _readable(message: Message) -> Message:
    content = unicode_text(message.content)
    return message if content == message.content else replace(message, content=content)


def _checked(message: Message, at: int) -> Message:
    if not is_unicode(message.content):
        raise InvalidInput(f"message {at} ({message.role}): the text holds a lone surrogate, which is no character")
    if not any(True for call in message.calls for _ in problems(call.arguments)):
        return message
    return replace(message, calls=tuple(map(_with_json_arguments, message.calls)))


def _with_json_arguments(call: ToolCall) -> ToolCall:
    arguments = to_jsonable(dict(call.arguments))
    return replace(call, arguments=arguments if isinstance(arguments, dict) else {})
