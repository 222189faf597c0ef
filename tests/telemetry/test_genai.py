"""Spans and metrics by the GenAI names, on both event loops, and what never gets into them."""

from __future__ import annotations

import json

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentform import Agent, Conversation, YesNo, decide
from agentform.errors import EngineClosed, ToolFailed
from agentform.telemetry import OpenTelemetryObserver, traced
from agentform.telemetry import names as conventional
from agentform.testing import Call, Fail, Fill, Say, ScriptedEngine

pytestmark = pytest.mark.anyio
SECRET = "hunter2-0042"


class Watched:
    """Providers of an SDK whose exporters keep everything in memory."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meters = MeterProvider(metric_readers=[self._reader])

    def observer(self, **options):
        return OpenTelemetryObserver(tracer_provider=self.tracers, meter_provider=self.meters, **options)

    def engine(self, engine):
        return traced(engine, tracer_provider=self.tracers, meter_provider=self.meters)

    def spans(self):
        """By name, in the order in which they ended."""
        return [(span.name, span) for span in self._spans.get_finished_spans()]

    def points(self, name):
        """The points of one histogram by operation, token type and error."""
        data = self._reader.get_metrics_data()
        found = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics if m.name == name]
        keys = ("gen_ai.operation.name", "gen_ai.token.type", "error.type")
        return {
            tuple(p.attributes[key] for key in keys if key in p.attributes): p
            for m in found
            for p in m.data.data_points
        }

    def exported(self):
        """Everything that left, as text."""
        metrics = self._reader.get_metrics_data()
        return "\n".join([span.to_json() for _, span in self.spans()] + ([metrics.to_json()] if metrics else []))


@pytest.fixture
def watched():
    return Watched()


def weather(city: str) -> str:
    """How the weather is."""
    if city == SECRET:
        raise LookupError(f"there is no {city}")
    return f"sunny in {city}"


SCRIPT = [Call("weather", {"city": "Rome"}, text="I look it up."), Say("It is sunny.")]


def asking(city: str = "Rome") -> ScriptedEngine:
    return ScriptedEngine([Call("weather", {"city": city}, text="I look it up."), Say("It is sunny.")])


async def test_a_run_is_a_span_with_its_turns_and_tools_in_it(watched):
    agent = Agent(asking(), tools=[weather], name="guide", observers=[watched.observer()])
    result = await agent.run("How is Rome?", conversation=Conversation(id="conv-1"))
    names = [name for name, _ in watched.spans()]
    assert names == ["chat scripted", "execute_tool weather", "chat scripted", "invoke_agent guide"]
    (_, turn), (_, tool), (_, answer), (_, run) = watched.spans()
    assert [each.parent.span_id for each in (turn, tool, answer)] == [run.context.span_id] * 3
    assert run.parent is None
    assert dict(run.attributes) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "agentform",
        "gen_ai.agent.name": "guide",
        "gen_ai.request.model": "scripted",
        "gen_ai.conversation.id": "conv-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "agentform.finish": "answer",
        "gen_ai.usage.input_tokens": result.usage.prompt_tokens,
        "gen_ai.usage.output_tokens": result.usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.reasoning.output_tokens": result.usage.reasoning_tokens,
        "agentform.usage.computed_tokens": result.usage.computed_tokens,
        "agentform.usage.replayed_tokens": 0,
    }
    assert tool.attributes["gen_ai.tool.name"] == "weather"
    assert tool.attributes["gen_ai.tool.call.id"] == result.calls[0].id
    assert turn.attributes["gen_ai.response.finish_reasons"] == ("tool_call",)
    assert (turn.attributes["agentform.step"], answer.attributes["agentform.step"]) == (0, 1)


async def test_what_a_tool_starts_lies_in_the_tools_span(watched):
    def nested(city: str) -> str:
        """How the weather is."""
        with watched.tracers.get_tracer("user").start_as_current_span("look outside"):
            return city

    await Agent(
        ScriptedEngine([Call("nested", {"city": "Rome"}), Say("Done.")]), tools=[nested], observers=[watched.observer()]
    ).run("Hi")
    spans = dict(watched.spans())
    assert spans["look outside"].parent.span_id == spans["execute_tool nested"].context.span_id


async def test_an_agent_that_is_a_tool_runs_inside_the_tools_span(watched):
    engine = ScriptedEngine([Call("ask_guide", {"request": "How is Rome?"}), *SCRIPT, Say("Sunny, says the guide.")])
    guide = Agent(engine, tools=[weather], name="guide")
    boss = Agent(engine, tools=[guide.as_tool("ask_guide", "Ask.")], name="boss", observers=[watched.observer()])
    await boss.run("Hi")
    spans = dict(watched.spans())
    assert spans["invoke_agent guide"].parent.span_id == spans["execute_tool ask_guide"].context.span_id
    assert spans["execute_tool weather"].parent.span_id == spans["invoke_agent guide"].context.span_id


async def test_durations_and_tokens_are_recorded_once(watched):
    result = await Agent(asking(), tools=[weather], observers=[watched.observer()]).run("How is Rome?")
    durations = watched.points("gen_ai.client.operation.duration")
    assert {key: point.count for key, point in durations.items()} == {
        ("chat",): 2,
        ("execute_tool",): 1,
        ("invoke_agent",): 1,
    }
    tokens = watched.points("gen_ai.client.token.usage")
    assert {key: point.sum for key, point in tokens.items()} == {
        ("chat", "input"): result.usage.prompt_tokens,
        ("chat", "output"): result.usage.completion_tokens,
    }
    assert durations["chat",].explicit_bounds[:3] == (0.01, 0.02, 0.04)
    assert tokens["chat", "input"].explicit_bounds[-1] == 67108864


@pytest.mark.parametrize("policy", ["feed_back", "raise"])
async def test_no_secret_is_exported_unless_asked_for(watched, policy):
    def unlock(password: str) -> str:
        """Open the door."""
        return f"opened with {password}"

    script = [
        Call("unlock", {"password": SECRET}, text=f"The password is {SECRET}."),
        Call("weather", {"city": SECRET}),
        Fail(EngineClosed(f"out at {SECRET}")),
    ]
    agent = Agent(
        watched.engine(ScriptedEngine(script)),
        tools=[unlock, weather],
        instructions=f"Guard {SECRET}.",
        on_tool_error=policy,
        observers=[watched.observer()],
    )
    with pytest.raises((EngineClosed, ToolFailed)):
        await agent.run(f"Use {SECRET}.")
    exported = watched.exported()
    assert "unlock" in exported
    assert ("LookupError" if policy == "feed_back" else "ToolFailed") in exported
    assert SECRET not in exported


async def test_content_is_recorded_when_asked_for(watched):
    observer = watched.observer(record_content=True)
    await Agent(asking(SECRET), tools=[weather], observers=[observer]).run("Hi")
    _, tool, answer, _ = [span for _, span in watched.spans()]
    assert json.loads(tool.attributes["gen_ai.tool.call.arguments"]) == {"city": SECRET}
    assert "there is no" in tool.attributes["gen_ai.tool.call.result"]
    assert tool.attributes["error.type"] == "LookupError"
    [message] = json.loads(answer.attributes["gen_ai.output.messages"])
    assert message["parts"] == [{"type": "text", "content": "It is sunny."}]
    assert message["finish_reason"] == "stop"


async def test_calls_and_what_a_turn_read_are_recorded_when_asked_for(watched):
    observer = watched.observer(record_content=True)
    result = await Agent(asking(), tools=[weather], observers=[observer]).run("How is Rome?")
    turn, _, answer, _ = [span.attributes for _, span in watched.spans()]
    call = {"type": "tool_call", "id": result.calls[0].id, "name": "weather", "arguments": {"city": "Rome"}}
    [message] = json.loads(turn["gen_ai.output.messages"])
    assert message["parts"] == [{"type": "text", "content": "I look it up."}, call]
    assert message["finish_reason"] == "tool_call"
    said = json.loads(answer["gen_ai.input.messages"])
    assert [each["role"] for each in said] == ["user", "assistant", "tool"]
    assert said[0]["parts"] == [{"type": "text", "content": "How is Rome?"}]
    assert said[1]["parts"][1] == call
    assert said[2]["parts"] == [{"type": "tool_call_response", "id": call["id"], "response": "sunny in Rome"}]
    [tool] = json.loads(turn["gen_ai.tool.definitions"])
    assert (tool["type"], tool["name"], list(tool["parameters"]["properties"])) == ("function", "weather", ["city"])


def test_names_are_those_of_the_conventions_package():
    attributes = pytest.importorskip("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    metrics = pytest.importorskip("opentelemetry.semconv._incubating.metrics.gen_ai_metrics")
    known = {value for module in (attributes, metrics) for value in vars(module).values() if isinstance(value, str)}
    ours = {value for value in vars(conventional).values() if isinstance(value, str) and value.startswith("gen_ai.")}
    assert len(ours) > 20
    assert ours <= known


async def test_errors_mark_the_spans_they_end(watched):
    with pytest.raises(EngineClosed):
        await Agent(ScriptedEngine([Fail(EngineClosed("gone"))]), observers=[watched.observer()]).run("Hi")
    assert [(span.attributes["error.type"], span.status.is_ok) for _, span in watched.spans()] == [
        ("EngineClosed", False)
    ] * 2
    assert [span.events for _, span in watched.spans()] == [(), ()]
    assert ("chat", "EngineClosed") in watched.points("gen_ai.client.operation.duration")


async def test_without_an_sdk_nothing_happens():
    result = await Agent(asking(), tools=[weather], observers=[OpenTelemetryObserver()]).run("How is Rome?")
    assert result.output == "It is sunny."


async def test_a_traced_engine_shows_the_requests_of_a_form(watched):
    engine = watched.engine(ScriptedEngine([Fill("broken", {"complaint": True})]))
    found = await decide(engine, "The lamp is broken.", {"complaint": YesNo("Is this a complaint?")})
    assert found["complaint"].value is True
    names = {name for name, _ in watched.spans()}
    assert names == {"score scripted"}
    assert sum(span.attributes["gen_ai.usage.input_tokens"] for _, span in watched.spans()) == found.usage.prompt_tokens


async def test_a_traced_engine_times_the_first_token_and_ends_its_span_when_the_reader_leaves(watched):
    from agentform.runtime.engine import Engine, GenerateRequest

    engine = watched.engine(ScriptedEngine([Say("one two three"), Say("one two three")]))
    assert isinstance(engine, Engine)
    request = GenerateRequest(prompt_ids=(65, 66), max_tokens=40, conversation="conv-2")
    text = "".join([chunk.text async for chunk in engine.generate(request)])
    assert text == "one two three"
    stream = engine.generate(request)
    await anext(stream)
    await stream.aclose()
    whole, left = [span for _, span in watched.spans()]
    assert whole.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert whole.attributes["agentform.finish"] == "eos"
    assert whole.attributes["gen_ai.conversation.id"] == "conv-2"
    assert "error.type" not in left.attributes
    assert watched.points("gen_ai.server.time_to_first_token")["text_completion",].count == 2
    assert watched.points("gen_ai.server.request.duration")["text_completion",].count == 2
