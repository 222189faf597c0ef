"""A response in the shape of Anthropic's messages: whole, or as the events of a stream."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agentform.agent.responder import Response
from agentform.events import Event
from agentform.messages import ToolCall
from agentform.schema.json_text import dumps, to_jsonable
from agentform.serve.answer_texts import answer_texts
from agentform.serve.evidence_fields import response_evidence
from agentform.serve.text_deltas import TextDelta, TextDeltas
from agentform.serve.turn_request import TurnRequest

__all__ = ["MessagesEvents", "MessagesReply"]

_OPENED: dict[str, dict[str, Any]] = {
    "content": {"type": "text", "text": ""},
    "reasoning": {"type": "thinking", "thinking": "", "signature": ""},
}
_DELTAS = {"content": ("text_delta", "text"), "reasoning": ("thinking_delta", "thinking")}


@dataclass(frozen=True, kw_only=True)
class MessagesReply:
    """What all bodies of one answer have in common."""

    model: str
    request: TurnRequest
    separate_text: bool = False
    """Whether the text before a call is a thought; without `thinking` it is text, as the API has it."""
    with_evidence: bool = False
    id: str = field(default_factory=lambda: f"msg_{uuid.uuid4().hex}")

    def body(self, response: Response) -> dict[str, Any]:
        """The whole answer."""
        text, thought = self.texts(response)
        content: list[dict[str, Any]] = []
        if thought:
            content.append({"type": "thinking", "thinking": thought, "signature": ""})
        if text:
            content.append({"type": "text", "text": text})
        content += [self.use(call) | {"input": to_jsonable(dict(call.arguments))} for call in response.calls]
        body = self._body(content, self.usage(response)) | self.ending(response)
        return body | {"agentform": response_evidence(response)} if self.with_evidence else body

    def texts(self, response: Response) -> tuple[str, str]:
        """Text and thinking of a whole answer."""
        return answer_texts(response, self.request, separate=self.separate_text)

    def begun(self) -> dict[str, Any]:
        """The message before anything is known."""
        nothing = {"input_tokens": 0, "output_tokens": 0}
        return self._body([], nothing) | {"stop_reason": None, "stop_sequence": None}

    def use(self, call: ToolCall) -> dict[str, Any]:
        """A call whose arguments are yet to come."""
        return {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}

    def ending(self, response: Response) -> dict[str, Any]:
        """Why the answer ended."""
        reason = {"calls": "tool_use", "length": "max_tokens"}.get(response.finish, "end_turn")
        if response.stop is not None:
            reason = "stop_sequence"
        return {"stop_reason": reason, "stop_sequence": response.stop}

    def usage(self, response: Response) -> dict[str, Any]:
        """Tokens; those of the prompt that were cached are counted apart."""
        prompt = response.prompt_usage
        cached = prompt.cached_tokens or 0
        return {
            "input_tokens": prompt.prompt_tokens - cached,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": response.usage.completion_tokens,
        }

    def _body(self, content: list[dict[str, Any]], usage: dict[str, Any]) -> dict[str, Any]:
        head = {"id": self.id, "type": "message", "role": "assistant", "model": self.model}
        return head | {"content": content, "usage": usage}


class MessagesEvents:
    """Turns the events of a turn into events which, put together, are the whole message."""

    def __init__(self, reply: MessagesReply) -> None:
        self._reply = reply
        self._deltas = TextDeltas(reply.request, separate=reply.separate_text)
        self._index = -1
        self._open = ""

    def begin(self) -> Iterator[dict[str, Any]]:
        """Before anything is known."""
        yield {"type": "message_start", "message": self._reply.begun()}
        yield {"type": "ping"}

    def of(self, event: Event) -> Iterator[dict[str, Any]]:
        """The events that an event of the turn makes."""
        for delta in self._deltas.of(event):
            yield from self._delta(delta)

    def end(self, response: Response) -> Iterator[dict[str, Any]]:
        """The rest."""
        for delta in self._deltas.end(*self._reply.texts(response)):
            yield from self._delta(delta)
        yield from self._close()
        for call in response.calls:
            yield from self._begin(self._reply.use(call))
            written = {"type": "input_json_delta", "partial_json": dumps(call.arguments)}
            yield {"type": "content_block_delta", "index": self._index, "delta": written}
            yield {"type": "content_block_stop", "index": self._index}
        told = {"agentform": response_evidence(response)} if self._reply.with_evidence else {}
        ending = self._reply.ending(response)
        yield {"type": "message_delta", "delta": ending, "usage": self._reply.usage(response), **told}
        yield {"type": "message_stop"}

    def _delta(self, delta: TextDelta) -> Iterator[dict[str, Any]]:
        if self._open != delta.kind:
            yield from self._close()
            yield from self._begin(_OPENED[delta.kind])
            self._open = delta.kind
        kind, key = _DELTAS[delta.kind]
        yield {"type": "content_block_delta", "index": self._index, "delta": {"type": kind, key: delta.text}}

    def _begin(self, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self._index += 1
        yield {"type": "content_block_start", "index": self._index, "content_block": block}

    def _close(self) -> Iterator[dict[str, Any]]:
        if self._open:
            self._open = ""
            yield {"type": "content_block_stop", "index": self._index}
