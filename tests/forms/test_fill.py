"""`fill`: forms of all kinds of leaves, repair of those that the true schema refuses, and what is said of each."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import pytest
from annotated_types import Ge
from pydantic import BaseModel, Field, field_validator, model_validator

from agentform.decoding.limits import Limits
from agentform.errors import Abstained, ArgumentsTruncated, CallRejected, InvalidInput, ScriptMismatch
from agentform.forms.fill import fill, fill_sync
from agentform.forms.scoring import Scoring
from agentform.messages import Message
from agentform.runtime.engine import GenerateRequest
from agentform.runtime.scripted.engine import ScriptedEngine
from agentform.runtime.scripted.script import Fill
from tests.support.recording_engine import RecordingEngine

pytestmark = pytest.mark.anyio


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: Literal[1, 12, 2]


class Box(BaseModel):
    kind: Literal["box"]
    label: str


class Order(BaseModel):
    """What the customer wants."""

    size: Literal["S", "M"]
    name: str
    shape: Annotated[Circle | Box, Field(discriminator="kind")]
    gift: bool
    note: str | None
    version: Literal[3] = 3
    colour: Literal["red", "blue"] = "red"


ORDER = {
    "size": "M",
    "name": "Ö 🚀",
    "shape": {"kind": "circle", "radius": 12},
    "gift": True,
    "note": None,
    "colour": "red",
}


async def test_a_mixed_form_is_filled_as_scripted():
    value = ORDER | {"version": 3, "colour": "blue"}
    filled = await fill(ScriptedEngine([Fill("Hello", value)]), "Hello", Order)
    assert filled.value == Order.model_validate(value)
    assert isinstance(filled.value.shape, Circle)
    hows = {e.pointer: e.how for e in filled.evidence}
    assert hows == {
        "/size": "scored",
        "/name": "generated",
        "/shape": "scored",
        "/shape/kind": "fixed",
        "/shape/radius": "scored",
        "/gift": "scored",
        "/note": "scored",
        "/version": "fixed",
        "/colour": "scored",
    }
    assert filled["/name"].value == "Ö 🚀"
    assert filled["/size"].probability == pytest.approx(0.9)
    with pytest.raises(KeyError):
        filled["/shape/label"]


async def test_only_free_leaves_cost_completion_tokens():
    filled = await fill(ScriptedEngine([Fill("Hello", ORDER)]), "Hello", Order)
    assert filled.usage.completion_tokens == len('"Ö 🚀"'.encode())


async def test_the_other_arm_brings_its_own_leaves():
    value = ORDER | {"shape": {"kind": "box", "label": "x"}, "note": 'say "hi"'}
    filled = await fill(ScriptedEngine([Fill("Hello", value)]), "Hello", Order)
    assert filled.value.shape == Box(kind="box", label="x")
    assert filled.value.note == 'say "hi"'


async def test_optional_properties_are_left_out_or_filled():
    schema = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}, "b": {"type": "integer"}}}
    engine = ScriptedEngine([Fill("none", {}), Fill("both", {"a": "y", "b": 7})])
    assert (await fill(engine, "none of it", schema)).json_text == "{}"
    filled = await fill(engine, "both of it", schema)
    assert filled.value == {"a": "y", "b": 7}


@pytest.mark.parametrize("value", [1, 12])
async def test_a_form_that_is_one_choice_of_numbers_that_begin_alike(value):
    assert (await fill(ScriptedEngine([Fill("Hello", value)]), "Hello", Literal[1, 12])).value == value


async def test_messages_may_be_a_conversation_and_must_not_be_none():
    messages = [Message(role="user", content="Hi"), Message(role="user", content="about this")]
    assert (await fill(ScriptedEngine([Fill("about", True)]), messages, bool)).value is True
    with pytest.raises(InvalidInput, match="at least one message"):
        await fill(ScriptedEngine([]), [], bool)


def test_without_an_event_loop_it_runs_as_well():
    assert fill_sync(ScriptedEngine([Fill("Hello", False)]), "Hello", bool).value is False


async def test_inside_an_event_loop_the_blocking_form_works_too():
    assert fill_sync(ScriptedEngine([Fill("Hello", True)]), "Hello", bool).value is True


class Trip(BaseModel):
    there: Literal["mon", "tue", "wed"]
    back: Literal["mon", "tue", "wed"]
    meal: Literal["meat", "none"]

    @model_validator(mode="after")
    def _in_order(self) -> Trip:
        days = ("mon", "tue", "wed")
        if days.index(self.back) <= days.index(self.there):
            raise ValueError("the way back is after the way there")
        return self


def by_leaf(weights):
    """Scores by the key at the prompt's end, in the branch that tells the options' first letters apart."""

    def score(prompt, branch):
        text = prompt + bytes(branch.path).decode()
        key = max(weights, key=lambda name: text.rfind(f'"{name}": "'))
        return tuple(math.log(weights[key][chr(c)]) for c in branch.candidates)

    return score


async def test_two_closed_leaves_that_contradict_are_solved_together():
    weights = {
        "there": {"m": 0.1, "t": 0.6, "w": 0.3},
        "back": {"m": 0.6, "t": 0.3, "w": 0.1},
        "meal": {"m": 0.2, "n": 0.8},
    }
    engine = RecordingEngine(score_branch=by_leaf(weights))
    filled = await fill(engine, "Hello", Trip, scoring=Scoring(calibration=0))
    # Pairs in order: (t, m) .36, (t, t) .18, (w, m) .18, (w, t) .09, (t, w) .06, (m, m) .06, (m, t) .03 …
    assert (filled.value.there, filled.value.back, filled.value.meal) == ("tue", "wed", "none")
    assert engine.generated == []
    back = filled["/back"]
    assert back.how == "joint"
    assert back.gap == pytest.approx(math.log(0.6) - math.log(0.1))
    assert back.probability == pytest.approx(0.1)
    assert (filled["/there"].how, filled["/meal"].how) == ("scored", "scored")
    assert filled["/there"].gap is None


class Never(BaseModel):
    mood: Literal["bad", "good"]
    day: Literal["mon", "tue"]

    @model_validator(mode="after")
    def _refuse(self) -> Never:
        raise ValueError("it is never right")


async def test_closed_leaves_that_no_assignment_makes_right_are_a_rejection_with_every_attempt():
    engine = ScriptedEngine([Fill("Hello", {"mood": "good", "day": "mon"})])
    with pytest.raises(CallRejected, match="it is never right") as caught:
        await fill(engine, "Hello", Never, limits=Limits(repairs=1))
    assert [a.arguments for a in caught.value.attempts] == [{"mood": "good", "day": "mon"}] * 2
    assert caught.value.target == "Never"


class Stay(BaseModel):
    room: Literal["big", "small"]
    nights: Annotated[int, Ge(1)]
    guest: str

    @field_validator("guest")
    @classmethod
    def _known(cls, guest: str) -> str:
        if guest != "Ada":
            raise ValueError("only Ada is known here")
        return guest


async def test_a_failing_free_leaf_is_written_again_with_the_fault_in_view_and_the_others_are_kept():
    first = {"room": "small", "nights": 3, "guest": "Bob"}
    engine = ScriptedEngine([Fill("Hello", first, repairs=[{"guest": "Ada", "nights": 9, "room": "big"}])])
    filled = await fill(engine, "Hello", Stay)
    assert filled.value == Stay(room="small", nights=3, guest="Ada")
    assert [filled[p].how for p in ("/room", "/nights", "/guest")] == ["scored", "generated", "repaired"]
    asked = [engine.tokenizer.decode(r.prompt_ids) for r in engine.requests if isinstance(r, GenerateRequest)]
    assert len(asked) == 3
    assert "only Ada is known here" not in asked[1]
    assert '"guest": "Bob"' in asked[2]
    assert "/guest: Value error, only Ada is known here" in asked[2]


async def test_a_second_repair_sees_what_the_first_one_wrote():
    first = {"room": "small", "nights": 3, "guest": "Bob"}
    engine = ScriptedEngine([Fill("Hello", first, repairs=[{"guest": "Eve"}, {"guest": "Ada"}])])
    filled = await fill(engine, "Hello", Stay)
    assert filled.value == Stay(room="small", nights=3, guest="Ada")
    assert filled["/guest"].how == "repaired"
    assert '"guest": "Eve"' in engine.tokenizer.decode(engine.requests[-1].prompt_ids)


async def test_what_stays_invalid_is_a_rejection_that_carries_every_attempt():
    value = {"room": "small", "nights": 3, "guest": "Bob"}
    engine = ScriptedEngine([Fill("Hello", value, repairs=[{"guest": "Eve"}, {"guest": "Kim"}])])
    with pytest.raises(CallRejected) as caught:
        await fill(engine, "Hello", Stay, limits=Limits(repairs=2))
    assert [a.arguments["guest"] for a in caught.value.attempts] == ["Bob", "Eve", "Kim"]
    assert {v.pointer for a in caught.value.attempts for v in a.violations} == {"/guest"}


async def test_without_repairs_the_first_attempt_is_the_last():
    engine = ScriptedEngine([Fill("Hello", {"room": "small", "nights": 0, "guest": "Ada"})])
    with pytest.raises(CallRejected) as caught:
        await fill(engine, "Hello", Stay, limits=Limits(repairs=0))
    assert [v.pointer for v in caught.value.attempts[0].violations] == ["/nights"]


async def test_a_free_leaf_beyond_its_budget_is_truncation_and_not_a_form():
    engine = ScriptedEngine([Fill("Hello", {"room": "small", "nights": 3, "guest": "A" * 50})])
    with pytest.raises(ArgumentsTruncated, match="'/guest' was not complete after 20 tokens"):
        await fill(engine, "Hello", Stay, limits=Limits(argument_tokens=20))


@pytest.mark.parametrize("limits", [Limits(min_probability=0.5), Limits(min_legal_mass=0.9)])
async def test_a_form_that_the_model_is_not_sure_of_is_an_abstention(limits):
    engine = ScriptedEngine([Fill("Hello", "b")], probability=0.35, legal_mass=0.8)
    assert (await fill(engine, "Hello", Literal["a", "b", "c"])).value == "b"
    with pytest.raises(Abstained) as caught:
        await fill(engine, "Hello", Literal["a", "b", "c"], limits=limits)
    [evidence] = caught.value.evidence
    assert (evidence.value, round(evidence.legal_mass, 6)) == ("b", 0.8)


async def test_a_key_that_the_script_does_not_hold_is_named():
    engine = ScriptedEngine([Fill("Hello", {"room": "small"})])
    with pytest.raises(ScriptMismatch, match="asked for 'nights'"):
        await fill(engine, "Hello", Stay)
