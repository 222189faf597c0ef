"""What a model did in one turn, as one LangChain message or as chunks while it happens."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk

from agentform import AnswerDelta, CallReady, ChoiceMade, Event, ReasoningDelta, Response, ThoughtDelta, ToolCall
from agentform.errors import Abstained, ArgumentMalformed, ArgumentsTruncated, CallError, CallRejected
from langchain_agentform.usage import usage_metadata

__all__ = ["Reply", "failed", "failed_chunk", "last_chunk", "message"]

_FINISH = {"answer": "stop", "length": "length", "calls": "tool_calls"}


@dataclass(kw_only=True)
class Reply:
    """Follows a turn by its events; hands its text and calls out as chunks."""

    model_name: str
    hide_notes: bool
    """Whether free text is reasoning and no part of the content: where the answer is a form, or apart from a note."""
    hand_out: Callable[[AIMessageChunk], None] | None = None
    tool: str | None = None
    """Name of the tool whose call is being made."""
    text: str = ""
    """Free text that is content, so far."""
    note: str = ""
    """Free text that is reasoning, so far."""
    thought: str = ""
    """What the model thought between its own marks, so far."""
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    _blocks: set[str] = field(default_factory=set[str])

    @property
    def next_index(self) -> int:
        """The index of the next call's chunks: they are merged by it with those of text, which is numbered first."""
        return len(self._blocks) + len(self.calls)

    async def on_event(self, event: Event) -> None:
        """Follow the turn by one event."""
        match event:
            case ThoughtDelta():
                self.thought += event.text
                self._out(additional_kwargs={"reasoning_content": event.text})
            case ReasoningDelta() if self.hide_notes:
                seam = "\n\n" if self.thought and not self.note else ""
                self.note += seam + event.text
                self._out(additional_kwargs={"reasoning_content": seam + event.text})
            case ReasoningDelta() | AnswerDelta():
                piece = event.text if self.text else event.text.lstrip()  # no answer begins with white space
                self.text += piece
                self._out(content=piece)
            case ChoiceMade():
                self.tool = None if event.decision.value is None else str(event.decision.value)
            case CallReady():
                self._call(event.call)
            case _:
                pass

    def _call(self, call: ToolCall) -> None:
        """A call is handed out once it is valid: one that is not could pass for one while it is pieced together."""
        number = self.next_index
        self.calls.append(call)
        named = tool_call_chunk(name=call.name, args="", id=call.id, index=number)
        written = tool_call_chunk(name=None, args=_json(call.arguments), id=None, index=number)
        self._out(tool_call_chunks=[named])
        self._out(tool_call_chunks=[written])

    def _out(self, content: str = "", **parts: Any) -> None:
        if not content and not parts:
            return
        self._blocks |= ({"text"} if content else set[str]()) | (parts.keys() & {"additional_kwargs"})
        if self.hand_out is not None:
            self.hand_out(AIMessageChunk(content=content, **parts))


def message(reply: Reply, response: Response) -> AIMessage:
    """The whole turn."""
    return AIMessage(
        content="" if reply.hide_notes and response.calls else response.message.content,
        tool_calls=[_tool_call(call) for call in response.calls],
        additional_kwargs=_note(reply),
        response_metadata=_metadata(reply, response),
        usage_metadata=usage_metadata(response.prompt_usage, response.usage),
    )


def last_chunk(reply: Reply, response: Response) -> AIMessageChunk:
    """What was not handed out while the turn went on: a form that was filled, and what the turn cost."""
    filled = response.message.content if reply.hide_notes and response.output is not None else ""
    return AIMessageChunk(
        content=filled,
        response_metadata=_metadata(reply, response),
        usage_metadata=usage_metadata(response.prompt_usage, response.usage),
        chunk_position="last",
    )


def failed(reply: Reply, error: CallError, response: Response | None = None) -> AIMessage:
    """A turn whose call, form or choice could not be completed; what is wrong is `response_metadata["error"]`.

    A call with bad arguments is an invalid one, a choice that the model abstained from a refusal. The calls before it
    in the turn are complete. `response` is what is known of the turn, if it was cut off.
    """
    reason = "length" if isinstance(error, ArgumentsTruncated) else "error"
    made = AIMessage(content=reply.text.strip(), tool_calls=[_tool_call(call) for call in reply.calls])
    made.additional_kwargs = _note(reply)
    made.response_metadata = _named(reply) | {"finish_reason": reason, "error": str(error)}
    if response is not None:
        made.usage_metadata = usage_metadata(response.prompt_usage, response.usage)
    if isinstance(error, Abstained):
        made.response_metadata |= {"finish_reason": "refusal", "evidence": _evidence("", error.evidence)}
        made.content = [{"type": "refusal", "refusal": str(error)}]
    elif reply.tool is not None:
        call_id = f"call_{uuid.uuid4().hex[:12]}"
        made.invalid_tool_calls = [
            invalid_tool_call(name=reply.tool, args=_written(error), id=call_id, error=str(error))
        ]
    return made


def failed_chunk(reply: Reply, error: CallError, response: Response | None = None) -> AIMessageChunk:
    """The same as the last chunk.

    Chunks are put together by reading JSON leniently, by which a truncated text would become a valid call. So the
    arguments stand in quotes: a JSON text, but no object.
    """
    made = failed(reply, error, response)
    return AIMessageChunk(
        content=made.content if isinstance(error, Abstained) else "",
        tool_call_chunks=[
            tool_call_chunk(name=call["name"], args=_json(call["args"]), id=call["id"], index=reply.next_index)
            for call in made.invalid_tool_calls
        ],
        response_metadata=made.response_metadata,
        usage_metadata=made.usage_metadata,
        chunk_position="last",
    )


def _tool_call(call: ToolCall) -> Any:
    return tool_call(name=call.name, args=json.loads(_json(call.arguments)), id=call.id)


def _metadata(reply: Reply, response: Response) -> dict[str, Any]:
    found = [item for call in response.calls for item in _evidence(call.id, call.evidence)]
    found += _evidence("", response.evidence)
    made = _named(reply) | {"finish_reason": _FINISH[response.finish]}
    if response.repeated is not None:  # wanted once more, with arguments and a result that are known
        made |= {"repeated_call": response.repeated.name}
    return made | {"evidence": found} if found else made


def _note(reply: Reply) -> dict[str, Any]:
    """What was thought: between the model's own marks, and as a note, which counts as said where it stands alone."""
    text = reply.thought + reply.note
    return {"reasoning_content": text} if text else {}


def _named(reply: Reply) -> dict[str, Any]:
    named: dict[str, Any] = {"model_name": reply.model_name, "model_provider": "agentform"}
    return named | {"thought": True} if reply.thought else named


def _evidence(call_id: str, evidence: Any) -> list[dict[str, Any]]:
    return [
        {
            "call_id": call_id,
            "pointer": item.pointer,
            "how": item.how,
            "probability": item.probability,
            "legal_mass": item.legal_mass,
            **({"by": item.by} if item.by else {}),
        }
        for item in evidence
    ]


def _written(error: CallError) -> str:
    """What the model had written when it failed, as far as it is known."""
    if isinstance(error, ArgumentsTruncated | ArgumentMalformed):
        return error.written
    return _json(error.attempts[-1].arguments) if isinstance(error, CallRejected) else ""


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
