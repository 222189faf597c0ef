"""LangChain's decision model: probabilities for typed questions."""

from __future__ import annotations

import pytest
from langchain_core.decisions import Box, Choice, Noul, NoulCriteria, Score
from langchain_core.exceptions import ModelInvalidRequestError, ModelTimeoutError
from langchain_core.messages import AIMessage, HumanMessage

from agentform.errors import DeadlineExceeded
from agentform.testing import Fill, ScriptedEngine
from langchain_agentform import AgentformDecisionModel
from langchain_agentform.decision_model import state_text

QUESTIONS = {
    "urgent": Noul(instructions="Must it be done today?", criteria=NoulCriteria(true="Today", false=None)),
    "team": Choice(instructions="Whose is it?", criteria={"billing": "Money.", "tech": None, "sales": {"a": 1}}),
    "mood": Score(instructions={"ask": "How angry?"}, criteria=["calm", "cross", "furious"]),
    "sole": Choice(instructions="Which?", criteria={"only": None}),
}
ANSWERS = {"urgent": True, "team": "tech", "mood": 2}


def scripted(state="My bill", **options):
    engine = ScriptedEngine([Fill(state, ANSWERS)], probability=0.8)
    return AgentformDecisionModel(engine=engine, **options), engine


@pytest.mark.parametrize("is_async", [False, True])
async def test_every_kind_of_question_in_one_request(is_async):
    model, engine = scripted()
    request = {"state": "My bill is wrong!", "questions": QUESTIONS}
    response = await model.ainvoke(request) if is_async else model.invoke(request)
    assert list(response.answers) == list(QUESTIONS)
    assert response.model == "scripted"
    assert response.nouls["urgent"].noul == pytest.approx(0.8)
    team = response.choices["team"]
    assert (team.choice, team.confidence) == ("tech", pytest.approx(0.8))
    assert team.probabilities == {
        "billing": pytest.approx(0.1),
        "tech": pytest.approx(0.8),
        "sales": pytest.approx(0.1),
    }
    mood = response.scores["mood"]
    assert mood.score == pytest.approx(0.1 + 2 * 0.8)
    assert (mood.legend, list(mood.probabilities)) == ({0: "calm", 1: "cross", 2: "furious"}, [0, 1, 2])
    assert response.choices["sole"].probabilities == {"only": 1.0}
    assert response.usage["input_tokens"] == len(engine.requests[0].prompt_ids)
    assert response.usage["output_tokens"] == 0


def test_the_model_is_told_the_questions_and_what_the_answers_mean():
    model, engine = scripted()
    model.invoke({"state": "My bill is wrong!", "questions": QUESTIONS})
    prompt = engine.tokenizer.decode(engine.requests[0].prompt_ids)
    assert "- urgent: Must it be done today? (true: Today)\n" in prompt
    assert '- team: Whose is it? (billing: Money.; sales: {"a": 1})\n' in prompt
    assert '- mood: {"ask": "How angry?"} (0: calm; 1: cross; 2: furious)' in prompt


def test_a_question_with_one_label_needs_no_engine():
    model, engine = scripted()
    response = model.invoke({"state": "x", "questions": {"sole": QUESTIONS["sole"]}})
    assert (response.choices["sole"].choice, engine.requests, response.usage) == ("only", [], None)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("plain", "plain"),
        (HumanMessage("said"), "said"),
        ([HumanMessage("a"), AIMessage("b")], "user: a\nassistant: b"),
        (
            {"id": 1, "log": [HumanMessage("a")]},
            '{\n "id": 1,\n "log": [\n  {\n   "role": "user",\n   "content": "a"\n  }\n ]\n}',
        ),
    ],
)
def test_states_are_text_transcripts_or_json(state, text):
    assert state_text(state) == text


@pytest.mark.parametrize(
    ("state", "questions", "reason"),
    [
        ("x", {}, "no question"),
        ("x", {"where": Box(instructions="the cat")}, "'where' asks for a box"),
        ({"type": "image", "base64": "AA"}, QUESTIONS, "the state holds content of type 'image'"),
        ("x", {"q": Noul(instructions=[{"type": "audio", "url": "u"}])}, "a question holds content of type 'audio'"),
    ],
)
def test_what_cannot_be_decided_is_refused(state, questions, reason):
    model, _ = scripted()
    with pytest.raises(ModelInvalidRequestError, match=reason):
        model.invoke({"state": state, "questions": questions})


def test_errors_are_langchains():
    engine = ScriptedEngine([Fill("My bill", ANSWERS, delay_s=600)])
    model = AgentformDecisionModel(engine=engine, timeout=0.05)
    with pytest.raises(ModelTimeoutError) as caught:
        model.invoke({"state": "My bill", "questions": QUESTIONS})
    assert isinstance(caught.value, DeadlineExceeded)


async def test_batches():
    model, _ = scripted()
    request = {"state": "My bill is wrong!", "questions": {"urgent": QUESTIONS["urgent"]}}
    assert len(await model.abatch([request] * 5)) == 5
