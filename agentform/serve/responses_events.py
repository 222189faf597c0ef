"""An answer as the typed events of a stream, in the shape of OpenAI's Responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from agentform.agent.responder import Response
from agentform.events import Event
from agentform.messages import ToolCall
from agentform.schema.json_text import dumps
from agentform.serve.evidence_fields import logprob_bodies
from agentform.serve.responses_reply import ResponsesReply, call_item, message_item, reasoning_item, text_part
from agentform.serve.text_deltas import TextDelta, TextDeltas

__all__ = ["ResponsesEvents"]


class ResponsesEvents:
    """Turns the events of a turn into events which, put together, are the whole answer's output."""

    def __init__(self, reply: ResponsesReply) -> None:
        self._reply = reply
        self._deltas = TextDeltas(reply.request, separate=reply.separate_text)
        self._number = 0
        self._index = -1
        self._open: Literal["content", "reasoning"] | None = None
        self._text = ""
        self._logprobs: list[dict[str, Any]] = []

    def begin(self) -> Iterator[dict[str, Any]]:
        """Before anything is known."""
        yield self._event("created", response=self._reply.begun())
        yield self._event("in_progress", response=self._reply.begun())

    def of(self, event: Event) -> Iterator[dict[str, Any]]:
        """The events that an event of the turn makes."""
        for delta in self._deltas.of(event):
            yield from self._delta(delta)

    def end(self, response: Response, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The rest; `body` is the whole answer's."""
        self._logprobs = logprob_bodies(response.logprobs)
        content, reasoning = self._reply.texts(response)
        for delta in self._deltas.end(content, reasoning):
            yield from self._delta(delta)
        yield from self._close()
        if self._index < 0 and not response.calls:  # an answer that is empty is one all the same
            yield from self._begin_text("content")
            yield from self._close()
        for number, call in enumerate(response.calls):
            yield from self._call(self._reply.item_id("fc", number), call)
        yield self._event(body["status"], response=body)

    def error(self, body: dict[str, Any]) -> dict[str, Any]:
        """What ended the stream."""
        return self._event("", **body) | {"type": "error"}

    def _delta(self, delta: TextDelta) -> Iterator[dict[str, Any]]:
        if self._open != delta.kind:
            yield from self._close()
            yield from self._begin_text(delta.kind)
        self._text += delta.text
        if delta.kind == "content":
            yield self._part("output_text.delta", delta=delta.text, logprobs=[])
        else:
            yield self._part("reasoning_text.delta", delta=delta.text)

    def _begin_text(self, kind: Literal["content", "reasoning"]) -> Iterator[dict[str, Any]]:
        self._open, self._text = kind, ""
        self._index += 1
        yield self._item("added", self._whole(None))
        yield self._part("content_part.added", part=self._whole("")["content"][0])

    def _close(self) -> Iterator[dict[str, Any]]:
        if self._open is None:
            return
        part = text_part(self._text, self._logprobs)
        if self._open == "content":
            yield self._part("output_text.done", text=self._text, logprobs=part["logprobs"])
        else:
            yield self._part("reasoning_text.done", text=self._text)
        item = self._whole(self._text)
        yield self._part("content_part.done", part=item["content"][0])
        yield self._item("done", item)
        self._open = None

    def _whole(self, text: str | None) -> dict[str, Any]:
        if self._open == "reasoning":
            return reasoning_item(self._reply.item_id("rs"), text)
        return message_item(self._reply.item_id("msg"), text, self._logprobs)

    def _call(self, id: str, call: ToolCall) -> Iterator[dict[str, Any]]:
        self._index += 1
        arguments = dumps(call.arguments)
        yield self._item("added", call_item(id, call.id, call.name, None))
        place = {"item_id": id, "output_index": self._index}
        yield self._event("function_call_arguments.delta", **place, delta=arguments)
        yield self._event("function_call_arguments.done", **place, name=call.name, arguments=arguments)
        yield self._item("done", call_item(id, call.id, call.name, arguments))

    def _item(self, what: str, item: dict[str, Any]) -> dict[str, Any]:
        return self._event(f"output_item.{what}", output_index=self._index, item=item)

    def _part(self, kind: str, **told: Any) -> dict[str, Any]:
        id = self._reply.item_id("rs" if self._open == "reasoning" else "msg")
        return self._event(kind, item_id=id, output_index=self._index, content_index=0, **told)

    def _event(self, kind: str, /, **told: Any) -> dict[str, Any]:
        body = {"type": f"response.{kind}", "sequence_number": self._number, **told}
        self._number += 1
        return body
