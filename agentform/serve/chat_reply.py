"""A response in the shape of OpenAI's chat completions: whole, or as the chunks of a stream."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agentform.agent.responder import Response
from agentform.events import AnswerDelta, ChoiceMade, Event, ReasoningDelta, ThoughtDelta
from agentform.messages import ToolCall
from agentform.schema.json_text import dumps

__all__ = ["ChatChunks", "ChatCompletion", "usage_body"]

_FINISH = {"answer": "stop", "length": "length", "calls": "tool_calls"}
_MAY_BEGIN_A_CALL = ("{", "```")


def usage_body(response: Response) -> dict[str, Any]:
    """Tokens of the prompt, of it cached, and sampled. What is not known is left out."""
    prompt, total = response.prompt_usage, response.usage
    body: dict[str, Any] = {
        "prompt_tokens": prompt.prompt_tokens,
        "completion_tokens": total.completion_tokens,
        "total_tokens": prompt.prompt_tokens + total.completion_tokens,
        "completion_tokens_details": {"reasoning_tokens": total.reasoning_tokens},
    }
    if prompt.cached_tokens is not None:
        body["prompt_tokens_details"] = {"cached_tokens": prompt.cached_tokens}
    return body


@dataclass(frozen=True, kw_only=True)
class ChatCompletion:
    """What all bodies of one answer have in common."""

    model: str
    fingerprint: str
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def body(self, response: Response) -> dict[str, Any]:
        """The whole answer."""
        message: dict[str, Any] = {"role": "assistant", "content": response.message.content or None, "refusal": None}
        if response.calls:
            message["tool_calls"] = [{"id": c.id, "type": "function", "function": _function(c)} for c in response.calls]
        else:
            message["content"] = response.message.content
        if response.reasoning:
            message["reasoning_content"] = response.reasoning
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _FINISH[response.finish]}
        return self._head("chat.completion") | {"choices": [choice], "usage": usage_body(response)}

    def chunk(self, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        """A piece of the answer."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._head("chat.completion.chunk") | {"choices": [choice]}

    def usage_chunk(self, response: Response) -> dict[str, Any]:
        """The piece after the last, with the usage alone."""
        return self._head("chat.completion.chunk") | {"choices": [], "usage": usage_body(response)}

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
        }


def _function(call: ToolCall) -> dict[str, str]:
    return {"name": call.name, "arguments": dumps(call.arguments)}


class ChatChunks:
    """Turns the events of a turn into deltas whose contents, put together, are the whole answer's.

    Free text is held back where it may yet be taken back: white space at its end, which an answer is stripped of, and
    with tools what may be a call written as prose. With a form, free text is shown only before a call.
    """

    def __init__(self, completion: ChatCompletion, *, with_tools: bool, with_form: bool) -> None:
        self._completion = completion
        self._undecided = with_tools
        self._with_form = with_form
        self._text = ""
        self._sent = ""

    def begin(self) -> dict[str, Any]:
        """The first chunk."""
        return self._completion.chunk({"role": "assistant", "content": ""})

    def of(self, event: Event) -> Iterator[dict[str, Any]]:
        """The chunks that an event makes."""
        match event:
            case ThoughtDelta():
                yield self._completion.chunk({"reasoning_content": event.text})
                return
            case ReasoningDelta() | AnswerDelta():
                self._text += event.text
            case ChoiceMade():
                self._undecided = False
                if event.decision.how == "generated":  # a call written as prose: what is content is known at the end
                    self._text = self._sent
            case _:
                return
        if not self._with_form:
            yield from self._content(self._safe())

    def end(self, response: Response) -> Iterator[dict[str, Any]]:
        """The rest: content, calls, and how the turn ended."""
        yield from self._content(response.message.content)
        for index, call in enumerate(response.calls):
            yield from self._call(index, call)
        yield self._completion.chunk({}, _FINISH[response.finish])

    def _content(self, text: str) -> Iterator[dict[str, Any]]:
        if text.startswith(self._sent) and len(text) > len(self._sent):
            yield self._completion.chunk({"content": text[len(self._sent) :]})
            self._sent = text

    def _safe(self) -> str:
        text = self._text.strip()
        if not self._undecided:
            return text
        found = [at for mark in _MAY_BEGIN_A_CALL if (at := text.find(mark)) >= 0]
        # A fence may come in pieces.
        return text[: min(found)].rstrip() if found else text.rstrip("`").rstrip()

    def _call(self, index: int, call: ToolCall) -> Iterator[dict[str, Any]]:
        function = _function(call)
        opened = {"name": function["name"], "arguments": ""}
        head = {"index": index, "id": call.id, "type": "function", "function": opened}
        yield self._completion.chunk({"tool_calls": [head]})
        arguments = {"index": index, "function": {"arguments": function["arguments"]}}
        yield self._completion.chunk({"tool_calls": [arguments]})
