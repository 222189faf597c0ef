"""A response in the shape of OpenAI's chat completions."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentform.agent.responder import Response
from agentform.messages import ToolCall
from agentform.schema.json_text import dumps
from agentform.serve.answer_texts import answer_texts
from agentform.serve.evidence_fields import logprob_bodies, response_evidence
from agentform.serve.turn_request import TurnRequest

__all__ = ["FINISH", "ChatCompletion", "function_body", "usage_body"]

FINISH = {"answer": "stop", "length": "length", "calls": "tool_calls"}


def usage_body(responses: Sequence[Response]) -> dict[str, Any]:
    """Tokens of the prompt, of it cached, and sampled for all answers. What is not known is left out."""
    prompt = responses[0].prompt_usage
    completion = sum(response.usage.completion_tokens for response in responses)
    body: dict[str, Any] = {
        "prompt_tokens": prompt.prompt_tokens,
        "completion_tokens": completion,
        "total_tokens": prompt.prompt_tokens + completion,
        "completion_tokens_details": {"reasoning_tokens": sum(r.usage.reasoning_tokens for r in responses)},
    }
    if prompt.cached_tokens is not None:
        body["prompt_tokens_details"] = {"cached_tokens": prompt.cached_tokens}
    return body


@dataclass(frozen=True, kw_only=True)
class ChatCompletion:
    """What all bodies of the answers to one request have in common."""

    model: str
    fingerprint: str
    request: TurnRequest
    is_choice: bool = False
    """Whether the answer is one of given texts, told as it is and not as JSON."""
    separate_text: bool = True
    """Whether the text before a call is reasoning, not content."""
    with_evidence: bool = False
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def body(self, responses: Sequence[Response]) -> dict[str, Any]:
        """The whole answer."""
        choices = [self._choice(at, response) for at, response in enumerate(responses)]
        return self._head("chat.completion") | {"choices": choices, "usage": usage_body(responses)}

    def _choice(self, index: int, response: Response) -> dict[str, Any]:
        content, reasoning = self.texts(response)
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if response.calls:
            message["content"] = content or None
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": function_body(call)} for call in response.calls
            ]
        if reasoning:
            message["reasoning_content"] = reasoning
        if self.with_evidence:
            message["agentform"] = response_evidence(response)
        return {
            "index": index,
            "message": message,
            "logprobs": self.logprobs(response),
            "finish_reason": FINISH[response.finish],
        }

    def texts(self, response: Response) -> tuple[str, str]:
        """Content and reasoning of a whole answer."""
        return answer_texts(response, self.request, separate=self.separate_text, is_choice=self.is_choice)

    def logprobs(self, response: Response) -> dict[str, Any] | None:
        """Of the content's tokens, if they were asked for."""
        if self.request.logprobs is None:
            return None
        return {"content": logprob_bodies(response.logprobs), "refusal": None}

    def chunk(self, index: int, delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
        """A piece of an answer."""
        choice = {"index": index, "delta": delta, "logprobs": more.pop("logprobs", None), "finish_reason": finish}
        return self._head("chat.completion.chunk") | {"choices": [choice]} | more

    def usage_chunk(self, responses: Sequence[Response]) -> dict[str, Any]:
        """The piece after the last, with the usage alone."""
        return self._head("chat.completion.chunk") | {"choices": [], "usage": usage_body(responses)}

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
        }


def function_body(call: ToolCall) -> dict[str, str]:
    """A call's function, its arguments as JSON text."""
    return {"name": call.name, "arguments": dumps(call.arguments)}
