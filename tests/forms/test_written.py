"""Forms and turns with an engine that writes and cannot score."""

from __future__ import annotations

import json
from typing import Literal

import pytest
from pydantic import BaseModel, model_validator

from agentform import Agent, Decision, Limits, YesNo, decide, fill, tool
from agentform.errors import ArgumentMalformed, CallRejected, CannotScore, EngineError, EngineUnavailable
from agentform.runtime.http.retry_policy import RetryPolicy
from agentform.runtime.openai_server.engine import OpenAIServer
from tests.support.fake_openai import FakeOpenAI, schema_in

pytestmark = pytest.mark.anyio


class Address(BaseModel):
    city: str
    main: bool


class Ticket(BaseModel):
    category: Literal["billing", "delivery"]
    about: str
    address: Address | None = None

    @model_validator(mode="after")
    def _billing_has_no_address(self):
        if self.category == "billing" and self.address is not None:
            raise ValueError("billing has no address")
        return self


GOOD = {"category": "delivery", "about": "a parcel", "address": {"city": "Ulm", "main": True}}
BAD = {**GOOD, "category": "billing"}


def server(fake: FakeOpenAI) -> OpenAIServer:
    return OpenAIServer("http://openai.test", retries=RetryPolicy(retries=0), **fake.transports)


def methods(evidence) -> dict[str, str]:
    return {item.pointer: item.how for item in evidence}


async def test_a_form_is_written_whole_and_every_leaf_of_it_is_evidence_without_a_probability():
    fake = FakeOpenAI(json.dumps(GOOD))
    async with server(fake) as engine:
        filled = await fill(engine, "Where is my parcel?", Ticket)
    assert filled.value == Ticket.model_validate(GOOD)
    assert methods(filled.evidence) == {
        "/category": "written",
        "/about": "generated",
        "/address/city": "generated",
        "/address/main": "written",
    }
    assert {item.probability for item in filled.evidence} == {None}
    assert {item.legal_mass for item in filled.evidence} == {None}
    assert schema_in(fake.asked[0])["properties"].keys() == GOOD.keys()
    assert filled.usage.completion_tokens == 5


@pytest.mark.parametrize("first", [json.dumps(BAD), "no JSON at all", '{"category": "delivery"', '{"about": 1e999}'])
async def test_what_the_schema_refuses_is_written_again_with_the_refusal_in_view(first):
    fake = FakeOpenAI(first, json.dumps(GOOD), follows="text")
    async with server(fake) as engine:
        filled = await fill(engine, "Where is my parcel?", Ticket)
    assert set(methods(filled.evidence).values()) == {"repaired"}
    said = [message["content"] for message in fake.asked[1]["messages"]]
    assert first in said
    assert "That is not valid" in said[-1]


async def test_what_stays_refused_is_a_typed_error():
    async with server(FakeOpenAI(*[json.dumps(BAD)] * 2)) as engine:
        with pytest.raises(CallRejected, match="billing has no address"):
            await fill(engine, "Hello", Ticket, limits=Limits(repairs=1))
    async with server(FakeOpenAI("Hm.", "Well.", follows="text")) as engine:
        with pytest.raises(ArgumentMalformed, match="Well"):
            await fill(engine, "Hello", Ticket, limits=Limits(repairs=1))


async def test_decisions_and_limits_on_probabilities_are_refused_with_what_would_work():
    async with server(FakeOpenAI()) as engine:
        with pytest.raises(CannotScore, match=r"fill.*load_decider"):
            await decide(engine, "Hello", {"angry": YesNo("Is the user angry?")})
        with pytest.raises(CannotScore, match="held to a limit"):
            await fill(engine, "Hello", Ticket, limits=Limits(min_probability=0.5))


async def test_an_agent_calls_tools_and_answers():
    @tool
    def set_light(room: Literal["kitchen", "office"], on: bool) -> str:
        """Switch the light in a room."""
        return f"{room} {on}"

    step = '{"value": "set_light"}'
    arguments = '{"room": "office", "on": true}'
    fake = FakeOpenAI("It is dark.", "Hm.", step, arguments, "It is on.", '{"value": "answer"}', follows="text")
    async with server(fake) as engine:
        result = await Agent(engine, tools=[set_light]).run("Light in the office, please!")
    assert result.calls[0].arguments == {"room": "office", "on": True}
    assert methods(result.calls[0].evidence) == {"/room": "written", "/on": "written"}
    decision = result.calls[0].decision
    assert decision is not None
    assert (decision.how, decision.value, decision.probability) == ("written", "set_light", None)
    assert "It is on." in result.output
    assert fake.asked[1]["messages"][-2]["content"].endswith("Next step: ")


class Chooser:
    """A decision model that takes the first option, or fails."""

    name = "chooser"

    def __init__(self, error: EngineError | None = None) -> None:
        self.error = error

    async def decide(self, state, questions):
        if self.error is not None:
            raise self.error
        return {name: self._first([option for option, _ in asked.told]) for name, asked in questions.items()}

    def _first(self, options) -> Decision:
        rows = tuple((option, float(at == 0)) for at, option in enumerate(options))
        return Decision(value=options[0], probability=1.0, probabilities=rows)


class Parcel(BaseModel):
    category: Literal["delivery", "billing"]
    about: str


async def test_a_decision_model_chooses_and_the_engine_writes_what_is_free():
    fake = FakeOpenAI('{"value": "a parcel"}')
    async with server(fake) as engine:
        filled = await fill(engine, "Where is my parcel?", Parcel, decider=Chooser())
    assert filled.value == Parcel(category="delivery", about="a parcel")
    assert methods(filled.evidence) == {"/category": "scored", "/about": "generated"}
    assert filled["/category"].by == "chooser"
    assert '"category": "delivery"' in fake.asked[0]["messages"][-2]["content"]


async def test_where_the_decision_model_fails_the_whole_form_is_written():
    fake = FakeOpenAI('{"category": "billing", "about": "a bill"}')
    async with server(fake) as engine:
        filled = await fill(engine, "My bill?", Parcel, decider=Chooser(EngineUnavailable("gone")))
    assert methods(filled.evidence) == {"/category": "written", "/about": "generated"}
