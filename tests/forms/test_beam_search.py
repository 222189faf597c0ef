"""Leaves that depend on one another: order, what is in view, and the beam over parents."""

import math
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from agentform.decoding.limits import Limits
from agentform.forms.fill import fill
from agentform.forms.questions import early_free_leaves, open_questions
from agentform.forms.repair import in_sequence
from agentform.forms.scoring import Scoring
from agentform.schema.dependencies import DependsOn
from agentform.schema.form import Choice, Field, Free, Record
from agentform.schema.target import load
from tests.support.form_states import state_of
from tests.support.recording_engine import RecordingEngine

pytestmark = pytest.mark.anyio
RAW = Scoring(calibration=0)


class Pet(BaseModel):
    kind: Literal["cat", "dog"]
    breed: Annotated[Literal["siamese", "terrier"], DependsOn("kind")]
    old: bool


def after(pairs):
    """Scores by the text that the lead ends with: the longest ending that is known decides."""

    def score(prompt, branch):
        text = prompt + bytes(branch.path).decode()
        found = max((end for end in pairs if end in text), key=lambda end: (text.rfind(end) + len(end), len(end)))
        return tuple(math.log(pairs[found][chr(c)]) for c in branch.candidates)

    return score


PAIRS = {
    '{"kind": "': {"c": 0.6, "d": 0.4},
    '{"kind": "cat", "breed": "': {"s": 0.5, "t": 0.5},
    '{"kind": "dog", "breed": "': {"s": 0.05, "t": 0.95},
    '{"old": ': {"t": 0.9, "f": 0.1},
}


async def test_the_best_pair_wins_over_the_greedy_parent():
    # cat .6 * .5 = .30 for either breed; dog .4 * .95 = .38 for terrier.
    filled = await fill(RecordingEngine(score_branch=after(PAIRS)), "Hello", Pet, scoring=RAW)
    assert filled.value == Pet(kind="dog", breed="terrier", old=True)
    assert filled["/kind"].how == "joint"
    assert filled["/kind"].gap == pytest.approx(math.log(0.6 / 0.4))
    assert filled["/breed"].how == "scored"
    assert filled["/breed"].probability == pytest.approx(0.95)


async def test_with_a_beam_of_one_the_parent_is_greedy():
    scoring = Scoring(calibration=0, beam=1)
    filled = await fill(RecordingEngine(score_branch=after(PAIRS)), "Hello", Pet, scoring=scoring)
    assert filled.value.kind == "cat"
    assert filled["/kind"].how == "scored"


async def test_independent_leaves_share_the_first_batch_and_children_of_all_parents_the_second():
    engine = RecordingEngine(score_branch=after(PAIRS))
    await fill(engine, "Hello", Pet, scoring=RAW)
    assert [len(request.branches) for request in engine.scored] == [2, 2]


class Note(BaseModel):
    urgent: Annotated[bool, DependsOn("text")]
    text: str


def test_a_choice_that_depends_on_a_free_leaf_waits_for_its_text():
    root = load(Note).form.root
    assert open_questions(state_of(root)) == []
    [early] = early_free_leaves(state_of(root))
    assert (early.leaf.path, early.lead) == (("text",), '{"text":')
    burning = state_of(root, texts={("text",): '"it burns"'})
    [question] = open_questions(burning)
    assert question.lead == '{"text": "it burns", "urgent":'
    assert question.for_prior.lead == '{"urgent":'
    assert early_free_leaves(burning) == []


class Report(BaseModel):
    text: Annotated[str, DependsOn("mood")]
    mood: Literal["good", "bad"]


def test_a_free_leaf_that_depends_on_a_later_field_is_written_with_it_in_view():
    root = load(Report).form.root
    assert early_free_leaves(state_of(root)) == []
    [early] = early_free_leaves(state_of(root, {(("mood",), "value"): 1}))
    assert early.lead == '{"mood": "bad", "text":'


def test_a_free_leaf_that_depends_on_an_earlier_field_waits_for_its_turn():
    class Fine(BaseModel):
        mood: Literal["good", "bad"]
        text: Annotated[str, DependsOn("mood")]

    assert early_free_leaves(state_of(load(Fine).form.root, {(("mood",), "value"): 0})) == []


@st.composite
def records(draw) -> Record:
    names = draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True))
    fields = []
    for at, name in enumerate(names):
        parents = tuple(n for n in names[:at] if draw(st.booleans()))
        closed = draw(st.booleans())
        node = Choice(path=(name,), options=(1, 2)) if closed else Free(path=(name,), schema={"type": "string"})
        fields.append(Field(name=name, node=node, depends_on=parents))
    order = draw(st.permutations(fields))
    return Record(path=(), fields=tuple(order))


@given(records(), st.booleans())
def test_every_order_of_dependencies_is_decided_to_the_end(record, sequence):
    root = in_sequence(record) if sequence else record
    decisions, texts, seen = {}, {}, []
    for _ in range(20):
        wave = open_questions(state_of(root, decisions, texts))
        for question in wave:
            parents = next(f.depends_on for f in record.fields if (f.name,) == question.path)
            assert all(f'"{parent}":' in question.lead for parent in parents)
            seen.append(question.path)
            decisions[question.key] = 0
        early_leaves = [] if wave else early_free_leaves(state_of(root, decisions, texts))
        for early in early_leaves:
            texts[early.leaf.path] = '"x"'
        if not wave and not early_leaves:
            break
    closed = [f.node.path for f in record.fields if isinstance(f.node, Choice)]
    assert sorted(seen) == sorted(closed)
    rest = {f.node.path: '"y"' for f in record.fields if isinstance(f.node, Free)}
    assert state_of(root, decisions, rest | texts).text_of(root) is not None


OPTIONAL = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}, "b": {"type": "boolean"}}}
OPTIONAL_PAIRS = {
    '{"a":': {" ": 1.0},
    '{"a": ': {"n": 0.2, '"': 0.8},
    '{"a": "': {"x": 0.3, "y": 0.7},
    '{"b": ': {"n": 0.6, "t": 0.3, "f": 0.1},
}


async def test_values_of_optional_properties_are_asked_for_with_their_presence():
    engine = RecordingEngine(score_branch=after(OPTIONAL_PAIRS))
    filled = await fill(engine, "Hello", OPTIONAL, scoring=RAW)
    assert filled.json_text == '{"a": "y"}'
    assert len(engine.scored) == 1
    assert filled["/a"].probability == pytest.approx(0.7)
    assert [e.pointer for e in filled.evidence] == ["/a", "/b"]
    assert filled["/b"].value is None
    assert filled["/b"].probability == pytest.approx(0.6)


async def test_what_is_absent_is_not_held_against_the_limits():
    # Present or not is sure, but the value of "b" would be a toss-up.
    pairs = OPTIONAL_PAIRS | {'{"b": ': {"n": 0.98, "t": 0.01, "f": 0.01}}
    engine = RecordingEngine(score_branch=after(pairs))
    filled = await fill(engine, "Hello", OPTIONAL, scoring=RAW, limits=Limits(min_probability=0.65))
    assert filled.json_text == '{"a": "y"}'


async def test_with_a_running_prior_a_value_is_asked_for_only_where_it_is_there():
    engine = RecordingEngine(score_branch=after(OPTIONAL_PAIRS))
    await fill(engine, "Hello", OPTIONAL, scoring=Scoring(calibration=0, running=0.5))
    assert len(engine.scored) == 2
