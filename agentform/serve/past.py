"""The conversation so far, put together message by message; results belong to their calls."""

from __future__ import annotations

from collections.abc import Sequence

from agentform.messages import Message, ToolCall, ToolResult
from agentform.serve.past_arguments import past_arguments
from agentform.serve.problems import bad_request

__all__ = ["PastConversation"]


class PastConversation:
    """Takes what a request tells of the past, in its order."""

    def __init__(self, *, before: Sequence[Message] = (), thinks: bool) -> None:
        """`before` is what came before it; `thinks`: whether the model thinks between marks of its own."""
        self.messages: list[Message] = list(before)
        self._names = {call.id: call.name for message in before for call in message.calls}
        self._open = [call for message in before for call in message.calls]
        self._thinks = thinks

    def say(self, role: str, content: str) -> None:
        """What the user or the system said."""
        self.messages.append(Message(role="user" if role == "user" else "system", content=content))

    def assistant(self, content: str, calls: Sequence[ToolCall] = (), reasoning: str = "") -> None:
        """What the model said and called.

        What a model that has no marks for thoughts said before a call is told to clients as its reasoning: sent back,
        it is the text that it was.
        """
        if calls and not content and not self._thinks:
            content, reasoning = reasoning, ""
        self._open = list(calls)
        self._names |= {call.id: call.name for call in calls}
        message = Message(role="assistant", content=content, calls=tuple(calls), reasoning=reasoning)
        self.messages.append(message)

    def call(self, call_id: str | None, name: str, arguments: object, number: int = 0) -> ToolCall:
        """A past call; one without an id gets one."""
        known = call_id or f"call_{len(self.messages)}_{number}"
        return ToolCall(id=known, name=name, arguments=past_arguments(arguments))

    def result(
        self, call_id: str | None, name: str | None, content: str, *, param: str, is_error: bool = False
    ) -> None:
        """What a tool returned: of the call it names, or else of the next of its tool that has no result.

        Raises:
            Refused: there is no such call; `param` is the place of the id.
        """
        answered = next((c for c in self._open if call_id in (None, c.id) and name in (None, c.name)), None)
        if answered is not None:
            self._open.remove(answered)
        elif call_id is None:
            raise bad_request("a result needs the id of its call", param=param)
        known = call_id if call_id is not None else answered.id if answered else ""
        if known not in self._names:
            message = f"{param.rpartition('.')[2]} must be the id of a call in an earlier message of the assistant"
            raise bad_request(message, param=param)
        result = ToolResult(call_id=known, name=self._names[known], content=content, is_error=is_error)
        self.messages.append(Message(role="tool", content=content, result=result))

    def whole(self, param: str) -> tuple[Message, ...]:
        """All of it.

        Raises:
            Refused: there is nothing to answer.
        """
        if all(message.role == "system" for message in self.messages):
            message = "there is no message to answer: at least one must not be the system's"
            raise bad_request(message, param=param)
        return tuple(self.messages)
