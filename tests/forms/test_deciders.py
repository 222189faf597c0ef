"""Two brains: a decision model answers closed questions, the engine writes, and answers where the other fails."""

from __future__ import annotations

from enum import Enum
from typing import Literal

import anyio
import pytest
from langchain_core.decisions import BaseDecisionModel, ClassifierResponse
from pydantic import BaseModel, model_validator

from agentform import (
    Agent,
    Decider,
    Decision,
    EngineDecisions,
    Limits,
    Message,
    OneOf,
    Responder,
    Score,
    YesNo,
    decide,
    decide_sync,
    fill,
    load_decider,
    tool,
)
from agentform.errors import (
    Abstained,
    DeadlineExceeded,
    DecisionFailed,
    EngineUnavailable,
    InvalidInput,
    ReplyMalformed,
)
from agentform.forms.system_one import answer_body, question_body
from agentform.testing import Call, Fill, Say, ScriptedEngine

pytestmark = pytest.mark.anyio


class Mood(Enum):
    GLAD = "glad"
    SAD = "sad"


class Report(BaseModel):
    mood: Mood
    urgent: bool
    stars: Literal[1, 2, 3]
    note: str


WRITTEN = {"mood": "sad", "urgent": False, "stars": 1, "note": "all dark"}


class Known:
    """Chooses the option that `wanted` names, whatever is asked."""

    name = "known"

    def __init__(self, *wanted, error=None, waits=False) -> None:
        self.wanted = wanted
        self.error = error
        self.waits = waits
        self.asked: list[tuple[str, dict]] = []

    async def decide(self, state, questions):
        self.asked.append((state, dict(questions)))
        if self.waits:
            await anyio.sleep_forever()
        if self.error:
            raise self.error
        return {name: self._decision(question) for name, question in questions.items()}

    def _decision(self, question) -> Decision:
        options = [option for option, _ in question.told]
        best = next((option for option in options if (type(option), option) in map(typed, self.wanted)), options[-1])
        rows = tuple((option, 0.9 if option is best else 0.1 / (len(options) - 1)) for option in options)
        return Decision(value=best, probability=0.9, probabilities=rows)


def typed(value):
    return type(value), value


async def test_the_decision_model_chooses_and_the_engine_writes():
    known = Known("glad", True, 3)
    engine = ScriptedEngine([Fill("", WRITTEN)])
    filled = await fill(engine, "It is dark.", Report, decider=known, instructions="Read the report.")
    assert filled.value == Report(mood=Mood.GLAD, urgent=True, stars=3, note="all dark")
    assert {item.pointer: item.by for item in filled.evidence} == {
        "/mood": "known",
        "/urgent": "known",
        "/stars": "known",
        "/note": "",
    }
    assert (filled["/mood"].probability, filled["/mood"].legal_mass) == (0.9, None)
    [(state, questions)] = known.asked
    assert state == "It is dark."
    assert [type(question) for question in questions.values()] == [OneOf, YesNo, OneOf]
    assert all("Read the report." in question.question for question in questions.values())


async def test_what_it_decided_and_the_schema_refuses_is_solved_with_its_own_probabilities():
    class Ruled(BaseModel):
        mood: Mood
        urgent: bool

        @model_validator(mode="after")
        def _sad_is_urgent(self):
            if self.urgent and self.mood is Mood.GLAD:
                raise ValueError("only sad ones are urgent")
            return self

    filled = await fill(ScriptedEngine([]), "x", Ruled, decider=Known("glad", True))
    assert filled.value in (Ruled(mood=Mood.SAD, urgent=True), Ruled(mood=Mood.GLAD, urgent=False))
    assert {(item.how, item.by) for item in filled.evidence} == {("joint", "known"), ("scored", "known")}


@pytest.mark.parametrize(
    "failure",
    [
        {"error": EngineUnavailable("gone")},
        {"error": ReplyMalformed("odd")},
        {"error": ZeroDivisionError("its own")},
        {"waits": True},
    ],
)
async def test_the_engine_answers_for_one_that_fails_and_it_rests(failure):
    model = Known(**failure)
    decider = Decider(model=model, timeout_s=0.05, rest_s=1000)
    for _ in range(2):
        filled = await fill(ScriptedEngine([Fill("", WRITTEN)]), "It is dark.", Report, decider=decider)
        assert filled.value == Report(**WRITTEN)
        assert {item.by for item in filled.evidence} == {""}
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        ({"error": ReplyMalformed("odd")}, ReplyMalformed),
        ({"error": ZeroDivisionError("its own")}, DecisionFailed),
        ({"waits": True}, EngineUnavailable),
    ],
)
async def test_without_a_fallback_the_failure_is_raised(failure, error):
    decider = Decider(model=Known(**failure), timeout_s=0.05, fallback=False)
    with pytest.raises(error):
        await fill(ScriptedEngine([Fill("", WRITTEN)]), "It is dark.", Report, decider=decider)


NO_ANSWERS = [
    None,
    Decision(value=True, probability=1.0, probabilities=((True, 1.0),)),
    Decision(value="perhaps", probability=1.0, probabilities=((True, 0.0), (False, 0.0), ("perhaps", 1.0))),
    Decision(value=1, probability=1.0, probabilities=((1, 1.0), (0, 0.0))),
]


@pytest.mark.parametrize("decision", NO_ANSWERS)
async def test_a_decision_between_other_options_is_a_failure_of_the_model(decision):
    class Odd(Known):
        def _decision(self, question):
            return decision

    with pytest.raises(DecisionFailed, match="known did not decide between the options asked: late"):
        await decide(Odd(), "x", {"late": YesNo("Late?")})
    filled = await fill(ScriptedEngine([Fill("", WRITTEN)]), "It is dark.", Report, decider=Odd())
    assert filled.value == Report(**WRITTEN)


async def test_the_deadline_of_the_run_is_no_failure_of_the_decision_model():
    decider = Decider(model=Known(waits=True), timeout_s=1000)
    with pytest.raises(DeadlineExceeded):
        await fill(ScriptedEngine([]), "x", Report, decider=decider, limits=Limits(deadline_s=0.05))
    assert not decider.resting


async def test_an_unsure_decision_abstains_and_says_who_made_it():
    with pytest.raises(Abstained) as caught:
        await fill(ScriptedEngine([]), "x", Report, decider=Known("glad"), limits=Limits(min_probability=0.95))
    assert caught.value.evidence[0].by == "known"


@tool
def switch(room: Literal["hall", "office"], note: str) -> str:
    """Switch the light of a room."""
    return f"{room} is lit"


@tool
def ring() -> str:
    """Ring the bell."""
    return "rang"


async def test_an_agent_takes_the_step_and_the_closed_arguments_from_the_decision_model():
    class Once(Known):
        """Calls once, then answers."""

        def _decision(self, question):
            if len(self.asked) > 2:
                self.wanted = ("answer",)
            return super()._decision(question)

    known = Once("switch", "office")
    engine = ScriptedEngine([Call("switch", {"room": "hall", "note": "quick"}), Say("Done.")])
    agent = Agent(engine, tools=[switch, ring], decider=known)
    result = await agent.run("It is dark in the office.")
    [call] = result.calls
    assert dict(call.arguments) == {"room": "office", "note": "quick"}
    assert (call.decision.by, call.decision.value) == ("known", "switch")
    assert {item.pointer: item.by for item in call.evidence} == {"/room": "known", "/note": ""}
    assert result.output == "Done."
    assert "result of switch: office is lit" in known.asked[-1][0]


async def test_a_responder_takes_a_langchain_model_as_it_is():
    class Langchain(BaseDecisionModel):
        fails: bool = False

        @property
        def _provider(self):
            return "test"

        def _classify(self, state, questions):
            if self.fails:
                raise RuntimeError("no credit")
            known = Known("office", "switch")
            asked = {name: OneOf("", list(question.criteria)) for name, question in questions.items()}
            bodies = {name: answer_body(each, (), known._decision(each)) for name, each in asked.items()}
            return ClassifierResponse(model="m", answers=bodies)

    for model, room in [(Langchain(model="m"), "office"), (Langchain(model="m", fails=True), "hall")]:
        engine = ScriptedEngine([Call("switch", {"room": "hall", "note": "quick"})])
        response = await Responder(engine, decider=model).respond(
            [Message(role="user", content="x")], tools=[switch, ring]
        )
        assert response.calls[0].arguments["room"] == room


async def test_decide_takes_the_types_of_the_wire_and_asks_whoever_is_given():
    questions = {
        "late": {"type": "noul", "instructions": {"ask": "Late?"}},
        "who": {"type": "choice", "criteria": ["post", "money"]},
        "bad": {"type": "score", "instructions": "How bad?", "criteria": ["fine", "poor", "awful"]},
    }
    found = await decide(Known(True, "money", 2), {"room": ["hall", None]}, questions)
    assert {name: decision.value for name, decision in found.items()} == {"late": True, "who": "money", "bad": 2}
    assert (found["late"].noul, found["who"].confidence) == (0.9, 0.9)
    assert found["bad"].expected == pytest.approx(1.85)
    assert {decision.by for decision in found.values()} == {"known"}
    engine = ScriptedEngine([Fill("", {"late": True, "who": "money", "bad": 2})])
    assert (await decide(engine, {"room": "hall"}, questions))["who"].by == ""


def test_decide_sync_and_an_engine_as_a_decision_model():
    engine = ScriptedEngine([Fill("Late?", {"answer": True})])
    found = decide_sync(EngineDecisions(engine), "It is late.", {"late": YesNo("Late?")})
    assert (found["late"].value, found["late"].by) == (True, "scripted")


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({"type": "box"}, "must be 'noul', 'choice' or 'score'"),
        ({"type": "noul"}, "needs instructions"),
        ({"type": "choice", "criteria": {}}, "a map or list of options"),
        ({"type": "choice", "criteria": ["a", "a"]}, "each given once"),
        ({"type": "score", "criteria": ["one"]}, "two levels"),
        (3, "must be a YesNo"),
    ],
)
async def test_a_body_that_asks_nothing_is_named(question, said):
    with pytest.raises(InvalidInput, match=said):
        await decide(Known(), "x", {"q": question})


def test_options_that_read_alike_have_names_of_their_own():
    assert list(question_body(OneOf("", [1, "1", True]))["criteria"]) == ["1", '"1"', "true"]
    assert question_body(Score("", 1, 2))["criteria"] == ["1", "2"]


@pytest.mark.parametrize("source", [3, "http://x"])
async def test_what_is_no_decision_model_is_refused(source):
    with pytest.raises(InvalidInput, match="decider must be"):
        Agent(ScriptedEngine([]), decider=source)
    with pytest.raises(InvalidInput, match="above 0"):
        load_decider(Known(), timeout_s=0)
