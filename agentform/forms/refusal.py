"""Where something refused is filled again: after a turn that shows it and says what was wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from agentform.decoding.insertion_point import InsertionPoint
from agentform.errors import InvalidInput, Violation
from agentform.messages import JsonValue, Message, ToolCall, ToolResult
from agentform.schema.json_text import loads

__all__ = ["RefusalPrompt"]


@dataclass(frozen=True, kw_only=True)
class RefusalPrompt:
    """A form is shown as an answer that the user refused, a tool's arguments as a call that the tool itself refused."""

    messages: Sequence[Message]
    """The conversation in which the form was first filled."""
    point: Callable[[Sequence[Message]], InsertionPoint]
    """Where the form's JSON begins after given messages."""
    tool: str = ""
    """The tool whose arguments the form is; empty for a form that is an answer."""
    content: str = ""
    """The free text before the call."""

    def after(self, json_text: str, violations: Sequence[Violation]) -> InsertionPoint:
        """Where the form is filled again once `json_text` was refused for these violations."""
        shown = self._call(json_text, violations) if self.tool else self._answer(json_text, violations)
        return self.point([*self.messages, *shown])

    def _answer(self, json_text: str, violations: Sequence[Violation]) -> tuple[Message, Message]:
        told = f"That is not valid: {_reasons(violations, 'form')}. Fill in the form again."
        return Message(role="assistant", content=json_text), Message(role="user", content=told)

    def _call(self, json_text: str, violations: Sequence[Violation]) -> tuple[Message, Message]:
        arguments: JsonValue = {}
        with suppress(InvalidInput):  # what is no JSON cannot be shown as a call
            arguments = loads(json_text)
        call = ToolCall(id="refused", name=self.tool, arguments=arguments if isinstance(arguments, dict) else {})
        told = f"Invalid: {_reasons(violations, 'arguments')}"
        result = ToolResult(call_id=call.id, name=self.tool, content=told, is_error=True)
        refused = Message(role="assistant", content=self.content, calls=(call,))
        return refused, Message(role="tool", content=told, result=result)


def _reasons(violations: Sequence[Violation], whole: str) -> str:
    return "; ".join(f"{violation.pointer or whole}: {violation.reason}" for violation in violations)
