"""For tests of what is built on agentform: an engine that follows a script, and calls as a history holds them.

::

    engine = ScriptedEngine([Call("weather", {"city": "Rome"}, text="I look it up."), Say("It is sunny.")])
    result = await Agent(engine, tools=[weather]).run("How is Rome?")
"""

from __future__ import annotations

from collections.abc import Mapping

from agentform.messages import JsonValue, Message, ToolCall, ToolResult
from agentform.runtime.byte_tokenizer import ByteTokenizer
from agentform.runtime.script import Call, Fail, Fill, Say
from agentform.runtime.scripted import ScriptedEngine

__all__ = ["ByteTokenizer", "Call", "Fail", "Fill", "Say", "ScriptedEngine", "scripted_call"]


def scripted_call(
    name: str, arguments: Mapping[str, JsonValue], result: str, *, text: str = "", call_id: str = "call_scripted"
) -> tuple[Message, Message]:
    """The two messages of a past call: the assistant's, and the tool's with its result."""
    call = ToolCall(id=call_id, name=name, arguments=arguments)
    answer = ToolResult(call_id=call_id, name=name, content=result)
    return (
        Message(role="assistant", content=text, calls=(call,)),
        Message(role="tool", content=result, result=answer),
    )
