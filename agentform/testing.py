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

from agentform.agent.testing import (
    ByteTokenizer,
    Call,
    Fail,
    Fill,
    Say,
    ScriptedEngine,
    assert_calls,
    assert_script_done,
    prompts,
    scripted_call,
)

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
