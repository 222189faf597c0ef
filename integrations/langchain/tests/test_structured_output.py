"""`with_structured_output` in all its methods, for every kind of schema."""

from __future__ import annotations

import dataclasses
from datetime import date
from typing import Literal

import pytest
from langchain_core.exceptions import ModelInvalidRequestError, ModelRefusalError, OutputParserException
from pydantic import BaseModel
from typing_extensions import TypedDict

from agentform import Limits
from agentform.testing import Call, Fill, Say, ScriptedEngine
from langchain_agentform import ChatAgentform


class Ticket(BaseModel):
    """A ticket."""

    kind: Literal["billing", "other"]
    due: date
    urgent: bool


@dataclasses.dataclass
class TicketData:
    kind: Literal["billing", "other"]
    due: date
    urgent: bool


class TicketDict(TypedDict):
    kind: Literal["billing", "other"]
    due: date
    urgent: bool


VALUE = {"kind": "billing", "due": "2024-02-29", "urgent": True}
PARTS = {"kind": "billing", "due": date(2024, 2, 29), "urgent": True}
KINDS = [
    (Ticket, Ticket(**PARTS)),
    (TicketData, TicketData(**PARTS)),
    (TicketDict, PARTS),
    (Ticket.model_json_schema(), VALUE),
]
METHODS = ["json_schema", "json_mode", "function_calling"]


def scripted(method, name="Ticket", value=VALUE, **options):
    step = Call(name, value, text="Hm.") if method == "function_calling" else Fill("refund", value)
    engine = ScriptedEngine([step], **{key: options.pop(key) for key in ("legal_mass",) if key in options})
    return ChatAgentform(engine=engine, **options)


@pytest.mark.parametrize("strict", [None, True, False])
@pytest.mark.parametrize(("schema", "value"), KINDS)
@pytest.mark.parametrize("method", METHODS)
async def test_every_schema_in_every_method(method, schema, value, strict):
    name = getattr(schema, "__name__", "Ticket")
    prompt = "I want a refund."
    assert scripted(method, name).with_structured_output(schema, method=method, strict=strict).invoke(prompt) == value
    streamed = scripted(method, name).with_structured_output(schema, method=method).stream(prompt)
    assert list(streamed) == [value]
    model = scripted(method, name).with_structured_output(schema, method=method, include_raw=True)
    found = await model.ainvoke(prompt)
    assert (found["parsed"], found["parsing_error"]) == (value, None)
    raw = found["raw"]
    assert bool(raw.tool_calls) == (method == "function_calling")
    assert [item["how"] for item in raw.response_metadata["evidence"]] == ["scored", "generated", "scored"]


@pytest.mark.parametrize("method", METHODS)
def test_what_is_cut_off_is_an_error_and_not_half_a_value(method):
    def model():
        return scripted(method, limits=Limits(argument_tokens=5))

    with pytest.raises(OutputParserException, match="'/due' was not complete after 5 tokens"):
        model().with_structured_output(Ticket, method=method).invoke("I want a refund.")
    found = model().with_structured_output(Ticket, method=method, include_raw=True).invoke("I want a refund.")
    assert found["parsed"] is None
    assert isinstance(found["parsing_error"], OutputParserException)
    assert found["raw"].response_metadata["finish_reason"] == "length"


@pytest.mark.parametrize("method", METHODS)
def test_abstaining_is_a_refusal(method):
    options = {"legal_mass": 0.1, "limits": Limits(min_legal_mass=0.5)}
    with pytest.raises(ModelRefusalError, match="legal mass"):
        scripted(method, **options).with_structured_output(Ticket, method=method).invoke("I want a refund.")
    model = scripted(method, **options).with_structured_output(Ticket, method=method, include_raw=True)
    assert isinstance(model.invoke("I want a refund.")["parsing_error"], ModelRefusalError)


def test_json_mode_without_a_schema_is_any_object():
    model = scripted("json_mode", value={}).bind(response_format={"type": "json_object"})
    assert model.invoke("I want a refund.").content == "{}"


def test_a_response_format_in_openais_words():
    schema = {"name": "ticket", "schema": Ticket.model_json_schema(), "strict": True}
    model = scripted("json_schema").bind(response_format={"type": "json_schema", "json_schema": schema})
    assert model.invoke("I want a refund.").content == '{"kind": "billing", "due": "2024-02-29", "urgent": true}'


def test_a_schema_that_cannot_be_filled_is_refused_at_once():
    with pytest.raises(ModelInvalidRequestError, match="not an object"):
        scripted("json_schema").with_structured_output({"title": "List", "type": "array"})
    with pytest.raises(ValueError, match="method 'xml'"):
        scripted("json_schema").with_structured_output(Ticket, method="xml")


async def test_with_tools_the_answer_is_a_form_and_what_was_said_before_it_a_note():
    def look(what: str) -> str:
        """Look."""
        return what

    engine = ScriptedEngine([Call("look", {"what": "x"}, text="I look."), Say("It is clear."), Fill("refund", VALUE)])
    schema = {"name": "ticket", "schema": Ticket.model_json_schema()}
    said = {"type": "json_schema", "json_schema": schema}
    model = ChatAgentform(engine=engine).bind_tools([look], response_format=said)
    called = await model.ainvoke("I want a refund.")
    assert (called.tool_calls[0]["args"], called.content) == ({"what": "x"}, "")
    assert called.additional_kwargs == {"reasoning_content": "I look."}
