"""The decisions that lead to a known value, for every kind of question that a form asks."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from agentform.errors import InvalidInput
from agentform.forms.fill import Prompts
from agentform.forms.labelled_forms import form_decisions
from agentform.forms.scoring import Scoring
from agentform.messages import Message
from agentform.runtime.labelled import LabelledDecision
from agentform.runtime.scripted.engine import ScriptedEngine
from agentform.schema.target import load
from agentform.turn.labelled_calls import LabelledCall, call_decisions


class Round(BaseModel):
    kind: Literal["round"]
    size: Literal[1, 2, 12]


class Square(BaseModel):
    kind: Literal["square"]
    note: str


class Order(BaseModel):
    urgent: bool
    tags: Annotated[list[Literal["red", "green"]], Field(json_schema_extra={"uniqueItems": True})]
    nick: str | None = None
    shape: Round | Square
    counts: Annotated[list[Literal["a", "b"]], Field(max_length=2)]


VALUE = {
    "urgent": True,
    "tags": ["green"],
    "nick": "joe",
    "shape": {"kind": "round", "size": 12},
    "counts": ["b", "a"],
}


def _right(decisions: list[LabelledDecision], engine: ScriptedEngine) -> list[str]:
    return [engine.tokenizer.decode(decision.options[decision.right]) for decision in decisions]


def _decisions(value: object) -> list[str]:
    engine = ScriptedEngine([])
    target = load(Order)
    point = Prompts(engine, target, "").point([Message(role="user", content="hello")])
    return _right(form_decisions(engine.tokenizer, target, point, value, Scoring()), engine)  # pyright: ignore[reportArgumentType]


def test_every_kind_of_question_has_its_right_answer():
    found = _decisions(VALUE)
    wanted = ['"urgent": true', '"red": false', '"green": true', '"kind": "round"', '"size": 12', '"counts count": 2']
    for text in wanted:
        assert any(text in line for line in found), (text, found)
    assert any(line.startswith('{"nick": "') for line in found)
    assert not any("square" in line or "null" in line for line in found)


def test_what_is_not_there_is_answered_with_nothing():
    found = _decisions(VALUE | {"nick": None})
    assert '{"nick": null' in " ".join(found)


def test_a_value_that_the_schema_refuses_is_refused():
    with pytest.raises(InvalidInput, match="/shape"):
        _decisions(VALUE | {"shape": {"kind": "oval"}})


def test_a_call_begins_with_its_tool():
    engine = ScriptedEngine([])
    call = LabelledCall(
        messages=[Message(role="user", content="hello")],
        targets={"order": load(Order), "shape": load(Round)},
        name="order",
        arguments=VALUE,
    )
    first, *rest = call_decisions(engine, call)
    assert "order" in engine.tokenizer.decode(first.options[first.right])
    assert len(rest) == len(_decisions(VALUE))


def test_steps_are_where_options_part():
    decision = LabelledDecision(prompt_ids=(1,), options=((5, 6, 7), (5, 6, 8), (5, 9)), right=1)
    assert [(step.at, step.candidates) for step in decision.steps] == [(1, (6, 9)), (2, (8, 7))]
