"""A response in the shape of OpenAI's Responses: its body, and the items that its output is made of."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from agentform.agent.responder import Response
from agentform.schema.json_text import dumps
from agentform.serve.answer_texts import answer_texts
from agentform.serve.evidence_fields import logprob_bodies, response_evidence
from agentform.serve.responses_fields import ResponsesFields
from agentform.serve.tool_choice import told_choice
from agentform.serve.turn_request import TurnRequest

__all__ = ["ResponsesReply", "call_item", "message_item", "reasoning_item", "text_part"]


def reasoning_item(id: str, text: str | None) -> dict[str, Any]:
    """What was thought, or said before a call; `None`: it is only beginning."""
    content = [] if text is None else [{"type": "reasoning_text", "text": text}]
    return {"id": id, "type": "reasoning", "summary": [], "content": content, "status": _status(text)}


def message_item(id: str, text: str | None, logprobs: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """An answer; `None`: it is only beginning."""
    content = [] if text is None else [text_part(text, logprobs)]
    return {"id": id, "type": "message", "role": "assistant", "content": content, "status": _status(text)}


def text_part(text: str, logprobs: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """The text of an answer."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs or []}


def call_item(id: str, call_id: str, name: str, arguments: str | None) -> dict[str, Any]:
    """A call; `None`: its arguments are yet to come."""
    return {
        "id": id,
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": arguments or "",
        "status": _status(arguments),
    }


def _status(told: str | None) -> str:
    return "in_progress" if told is None else "completed"


@dataclass(frozen=True, kw_only=True)
class ResponsesReply:
    """What all bodies of one answer have in common."""

    model: str
    fields: ResponsesFields
    request: TurnRequest
    separate_text: bool = True
    with_evidence: bool = False
    id: str = field(default_factory=lambda: f"resp_{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def item_id(self, kind: str, number: int = 0) -> str:
        """The id of an item, the same in every event and body."""
        return f"{kind}_{self.id.removeprefix('resp_')}{number:02d}"

    def texts(self, response: Response) -> tuple[str, str]:
        """Content and reasoning of a whole answer."""
        return answer_texts(response, self.request, separate=self.separate_text)

    def output(self, response: Response) -> list[dict[str, Any]]:
        """The items of a whole answer."""
        content, reasoning = self.texts(response)
        items = [reasoning_item(self.item_id("rs"), reasoning)] if reasoning else []
        if content or not (response.calls or reasoning):
            items.append(message_item(self.item_id("msg"), content, logprob_bodies(response.logprobs)))
        for at, call in enumerate(response.calls):
            items.append(call_item(self.item_id("fc", at), call.id, call.name, dumps(call.arguments)))
        return items

    def begun(self) -> dict[str, Any]:
        """The body before anything is known."""
        return self._body("in_progress", [], None, None)

    def body(self, response: Response) -> dict[str, Any]:
        """The whole answer."""
        cut_off = {"reason": "max_output_tokens"} if response.finish == "length" else None
        status = "incomplete" if cut_off else "completed"
        body = self._body(status, self.output(response), _usage(response), cut_off)
        return body | {"agentform": response_evidence(response)} if self.with_evidence else body

    def _body(self, status: str, output: list[Any], usage: Any, cut_off: Any) -> dict[str, Any]:
        said = self.fields
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "completed_at": int(time.time()) if usage else None,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": cut_off,
            "instructions": said.instructions,
            "max_output_tokens": said.max_output_tokens,
            "metadata": said.metadata or {},
            "model": self.model,
            "output": output,
            "parallel_tool_calls": bool(said.parallel_tool_calls),
            "previous_response_id": said.previous_response_id,
            "prompt_cache_key": said.prompt_cache_key,
            "reasoning": {"effort": said.reasoning.effort if said.reasoning else None, "summary": None},
            "service_tier": "default",
            "store": said.store is not False,
            "temperature": said.temperature if said.temperature is not None else 0.0,
            "text": {"format": _plain(said.text.format) if said.text and said.text.format else {"type": "text"}},
            "tool_choice": told_choice(said.tool_choice),
            "tools": [{"strict": bool(tool.strict)} | _plain(tool) for tool in said.tools or ()],
            "top_logprobs": said.top_logprobs or 0,
            "top_p": said.top_p if said.top_p is not None else 1.0,
            "truncation": "disabled",
            "usage": usage,
            "user": said.user,
        }


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else value.model_dump(by_alias=True, exclude_none=True)


def _usage(response: Response) -> dict[str, Any]:
    prompt, total = response.prompt_usage, response.usage
    return {
        "input_tokens": prompt.prompt_tokens,
        "input_tokens_details": {"cached_tokens": prompt.cached_tokens or 0, "cache_write_tokens": 0},
        "output_tokens": total.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": total.reasoning_tokens},
        "total_tokens": prompt.prompt_tokens + total.completion_tokens,
    }
