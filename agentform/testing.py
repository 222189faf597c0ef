"""Test what you build on agentform, without a model and in milliseconds.

A `ScriptedEngine` says what its script tells it to; everything else is real: tools run, arguments are validated, limits
hold. A script is a list of turns and forms:

- `Say(text)`: a turn that ends in free text, the answer.
- `Call(name, arguments)`: a turn that calls a tool; `also=[…]` for more calls in the same turn, `repairs=[…]` for what
  is written when arguments are refused.
- `Fail(error)`: a turn at which the engine raises.
- `Fill(about, value)`: a form, filled wherever `about` is in the prompt.

`engine.requests` holds what was asked of the engine, and `prompts` the prompt of each turn as text. `assert_calls` and
`assert_script_done` check what came of it. `scripted_call` makes the messages of a past call.

::

    from agentform import Agent
    from agentform.testing import Call, Say, ScriptedEngine, assert_calls

    async def test_the_weather_is_looked_up():
        engine = ScriptedEngine([Call("weather", {"city": "Rome"}, text="I look it up."), Say("It is sunny.")])
        result = await Agent(engine, tools=[weather]).run("How is Rome?")
        assert_calls(result.calls, ("weather", {"city": "Rome"}))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agentform.messages import JsonValue, Message, ToolCall, ToolResult
from agentform.runtime.engine import GenerateRequest
from agentform.runtime.scripted.byte_tokenizer import ByteTokenizer
from agentform.runtime.scripted.engine import ScriptedEngine
from agentform.runtime.scripted.script import Call, Fail, Fill, Say

__all__ = [
    "ByteTokenizer",
    "Call",
    "Fail",
    "Fill",
    "Say",
    "ScriptedEngine",
    "assert_calls",
    "assert_script_done",
    "prompts",
    "scripted_call",
]


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


def assert_calls(calls: Iterable[ToolCall], *expected: tuple[str, Mapping[str, JsonValue]]) -> None:
    """Check the names and arguments of calls, in their order: ``assert_calls(result.calls, ("ping", {}))``.

    Raises:
        AssertionError: saying what was called and what was expected.
    """
    made = [(call.name, dict(call.arguments)) for call in calls]
    wanted = [(name, dict(arguments)) for name, arguments in expected]
    if made != wanted:
        raise AssertionError(f"calls differ\n  made:     {made}\n  expected: {wanted}")


def assert_script_done(engine: ScriptedEngine) -> None:
    """Check that every turn of the script was played.

    Raises:
        AssertionError: saying how many were not.
    """
    if engine.num_turns_left:
        raise AssertionError(f"{engine.num_turns_left} turns of the script were not played")


def prompts(engine: ScriptedEngine) -> list[str]:
    """The prompt of each turn as text, control tokens spelt out; `engine.requests` has every request as it was."""
    begun = [r for r in engine.requests if isinstance(r, GenerateRequest) and r.grammar is None]
    return [engine.tokenizer.decode(request.prompt_ids) for request in begun]
