from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from agentform import Agent
from agentform.errors import EngineClosed
from agentform.telemetry import PrometheusObserver
from agentform.testing import Call, Fail, Say, ScriptedEngine

pytestmark = pytest.mark.anyio


def weather(city: str) -> str:
    """How the weather is."""
    if city == "Oslo":
        raise LookupError("no Oslo")
    return f"sunny in {city}"


async def test_runs_turns_tokens_and_calls_are_counted():
    registry = CollectorRegistry()
    observer = PrometheusObserver(registry=registry)
    script = [Call("weather", {"city": "Rome"}), Call("weather", {"city": "Oslo"}), Say("It is sunny.")]
    result = await Agent(ScriptedEngine(script), tools=[weather], name="guide", observers=[observer]).run("How is it?")
    with pytest.raises(EngineClosed):
        await Agent(ScriptedEngine([Fail(EngineClosed("gone"))]), name="guide", observers=[observer]).run("Hi")

    def value(name, **labels):
        return registry.get_sample_value(name, {"agent": "guide"} | labels)

    assert value("agentform_agent_runs_total", model="scripted", outcome="answer") == 1
    assert value("agentform_agent_runs_total", model="scripted", outcome="EngineClosed") == 1
    assert value("agentform_agent_turns_total", model="scripted", outcome="eos") == 3
    assert value("agentform_tool_calls_total", tool="weather", outcome="ok") == 1
    assert value("agentform_tool_calls_total", tool="weather", outcome="error") == 1
    assert value("agentform_tool_seconds_count", tool="weather") == 2
    assert value("agentform_agent_run_seconds_count", model="scripted") == 2
    tokens = {
        kind: value("agentform_agent_tokens_total", model="scripted", kind=kind)
        for kind in ("prompt", "cached", "computed", "completion", "reasoning")
    }
    assert tokens == {kind: getattr(result.usage, f"{kind}_tokens") for kind in tokens}
    assert b"Oslo" not in generate_latest(registry)
