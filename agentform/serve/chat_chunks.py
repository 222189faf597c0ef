"""An answer as the chunks of a stream, in the shape of OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentform.agent.responder import Response
from agentform.events import ArgumentChosen, ArgumentDelta, ChoiceMade, Event
from agentform.messages import ToolCall
from agentform.serve.chat_reply import FINISH, ChatCompletion, function_body
from agentform.serve.evidence_fields import evidence_body, response_evidence
from agentform.serve.text_deltas import TextDelta, TextDeltas

__all__ = ["ChatChunks"]

_FIELDS = {"content": "content", "reasoning": "reasoning_content"}


class ChatChunks:
    """Turns the events of a turn into deltas which, put together, are the whole answer's message."""

    def __init__(self, completion: ChatCompletion, index: int = 0) -> None:
        self._completion = completion
        self._index = index
        self._texts = TextDeltas(completion.request, separate=completion.separate_text)
        self._begun = False

    def of(self, event: Event) -> Iterator[dict[str, Any]]:
        """The chunks that an event makes; before the first one that which begins the answer."""
        yield from self._begin()
        if not self._completion.is_choice:
            yield from map(self._text, self._texts.of(event))
        if self._completion.with_evidence:
            yield from self._evidence(event)

    def end(self, response: Response) -> Iterator[dict[str, Any]]:
        """The rest: text, calls, and how the turn ended."""
        completion = self._completion
        yield from self._begin()
        content, reasoning = completion.texts(response)
        yield from map(self._text, self._texts.end(content, reasoning))
        if not content and not response.calls:
            yield completion.chunk(self._index, {"content": ""})  # an empty text, not none
        for number, call in enumerate(response.calls):
            yield from self._call(number, call)
        if response.logprobs:
            yield completion.chunk(self._index, {}, logprobs=completion.logprobs(response))
        if completion.with_evidence:
            yield completion.chunk(self._index, {"agentform": response_evidence(response)})
        yield completion.chunk(self._index, {}, FINISH[response.finish])

    def _begin(self) -> Iterator[dict[str, Any]]:
        if not self._begun:
            self._begun = True
            yield self._completion.chunk(self._index, {"role": "assistant", "content": None})

    def _text(self, delta: TextDelta) -> dict[str, Any]:
        return self._completion.chunk(self._index, {_FIELDS[delta.kind]: delta.text})

    def _evidence(self, event: Event) -> Iterator[dict[str, Any]]:
        """Beside the choices, as clients add deltas up."""
        match event:
            case ChoiceMade():
                told: dict[str, Any] = {"decision": evidence_body(event.decision)}
            case ArgumentChosen():
                evidence = evidence_body(event.evidence)
                told = {"argument": {"call_id": event.call_id, "tool": event.tool, "evidence": evidence}}
            case ArgumentDelta():
                told = {"written": {"call_id": event.call_id, "tool": event.tool, "pointer": event.pointer}}
                told["written"] |= {"text": event.text, "attempt": event.attempt}
            case _:
                return
        yield self._completion.chunk(self._index, {}, agentform=told)

    def _call(self, number: int, call: ToolCall) -> Iterator[dict[str, Any]]:
        function = function_body(call)
        opened = {"name": function["name"], "arguments": ""}
        head = {"index": number, "id": call.id, "type": "function", "function": opened}
        yield self._completion.chunk(self._index, {"tool_calls": [head]})
        arguments = {"index": number, "function": {"arguments": function["arguments"]}}
        yield self._completion.chunk(self._index, {"tool_calls": [arguments]})
