"""Where something refused is decided again: after a turn that shows it and says what was wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentform.decoding.insertion_point import Place, at
from agentform.decoding.token_context import Context
from agentform.errors import Violation
from agentform.forms.repair import refusal
from agentform.messages import Message, ToolCall, ToolResult
from agentform.schema.json_text import loads

if TYPE_CHECKING:
    from agentform.turn.turn import Caller

__all__ = ["CallRetry", "FormRetry"]


@dataclass(frozen=True)
class CallRetry:
    """A call: shown as one that the tool itself refused."""

    caller: Caller
    messages: Sequence[Message]
    content: str
    name: str

    async def place(self, arguments: str, violations: Sequence[Violation]) -> Place:
        """Where the arguments begin again."""
        value = loads(arguments)
        call = ToolCall(id="refused", name=self.name, arguments=value if isinstance(value, dict) else {})
        reasons = "; ".join(f"{v.pointer or 'arguments'}: {v.reason}" for v in violations)
        result = ToolResult(call_id=call.id, name=self.name, content=f"Invalid: {reasons}", is_error=True)
        refused = Message(role="assistant", content=self.content, calls=(call,))
        reply = Message(role="tool", content=result.content, result=result)
        prompt = self.caller.prompt([*self.messages, refused, reply])
        return self.caller.arguments(Context(ids=prompt), self.name)


@dataclass(frozen=True)
class FormRetry:
    """A form: shown as an answer that the user refused."""

    caller: Caller
    messages: Sequence[Message]

    async def place(self, refused: str, violations: Sequence[Violation]) -> Place:
        """Where the form begins again."""
        shown = [Message(role="assistant", content=refused), Message(role="user", content=refusal(violations))]
        return at(Context(ids=self.caller.prompt([*self.messages, *shown])))
