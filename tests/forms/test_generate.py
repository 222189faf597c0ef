"""The JSON of a form: decided values stand as they are, free ones are generated in their place."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.decoding.token_context import TokenContext
from agentform.errors import ArgumentMalformed, ArgumentsTruncated
from agentform.forms.generate import write_leaves
from agentform.forms.questions import open_questions
from agentform.runtime.scripted.engine import ScriptedEngine
from agentform.runtime.scripted.script import Fill
from agentform.schema.form import Free, Record
from agentform.schema.target import load
from tests.support.form_states import state_of
from tests.support.piece_tokenizer import PieceTokenizer
from tests.support.recording_engine import RecordingEngine

SCHEMA = {
    "type": "object",
    "properties": {
        "unit": {"enum": ["C", 'F"']},
        "city": {"type": "string"},
        "kind": {"const": "now"},
        "day": {"type": "integer"},
        "place": {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]},
        "note": {"enum": ["x", "y"]},
    },
    "required": ["unit", "city", "kind", "place"],
}
ROOT = load(SCHEMA).form.root
UNIT, DAY, NOTE = (("unit",), "value"), (("day",), "presence"), (("note",), "presence")


def free(path):
    pieces = state_of(ROOT, {UNIT: 0, DAY: 1, NOTE: 0}).pieces()
    return next(piece for piece in pieces if isinstance(piece, Free) and piece.path == path)


@pytest.fixture
def session():
    return Session(RecordingEngine(), limits=Limits())


def test_pieces_are_literal_text_around_free_leaves():
    assert state_of(ROOT, {UNIT: 1, DAY: 0, NOTE: 1, (("note",), "value"): 1}).pieces() == [
        '{"unit": "F\\"", "city": ',
        free(("city",)),
        ', "kind": "now", "place": {"lat": ',
        free(("place", "lat")),
        '}, "note": "y"}',
    ]


def test_an_optional_free_leaf_is_written_only_if_present():
    assert free(("day",)) in state_of(ROOT, {UNIT: 1, DAY: 1, NOTE: 0}).pieces()
    assert free(("day",)) not in state_of(ROOT, {UNIT: 1, DAY: 0, NOTE: 0}).pieces()


def test_nothing_stands_before_the_first_key_that_is_present():
    root = load({"type": "object", "properties": {"a": {"enum": [1, 2]}, "b": {"enum": [1, 2]}}}).form.root
    decisions = {(("a",), "presence"): 0, (("b",), "presence"): 1, (("b",), "value"): 1}
    assert state_of(root, decisions).pieces() == ['{"b": 2}']
    assert state_of(root, decisions | {(("b",), "presence"): 0}).pieces() == ["{}"]


@st.composite
def decided(draw):
    """Any complete set of decisions."""
    decisions = {}
    while wave := open_questions(state_of(ROOT, decisions)):
        decisions |= {q.key: draw(st.integers(0, len(q.answers) - 1)) for q in wave}
    return decisions


@given(decisions=decided())
def test_pieces_with_values_put_in_are_the_json_of_the_form(decisions):
    found = state_of(ROOT, decisions).pieces()
    assert not any(isinstance(a, str) and isinstance(b, str) for a, b in itertools.pairwise(found))
    value = json.loads("".join(p if isinstance(p, str) else "0" for p in found))
    assert isinstance(ROOT, Record)
    assert [f.name for f in ROOT.fields if f.name in value] == list(value)
    assert value["unit"] == ["C", 'F"'][decisions[UNIT]]


@pytest.mark.anyio
async def test_a_value_that_is_known_is_not_generated(session):
    known = state_of(ROOT, {UNIT: 0, DAY: 0, NOTE: 0}, {("city",): '"Rome"'})
    written = await write_leaves(session, TokenContext(ids=(1,)), known)
    assert written.json_text == '{"unit": "C", "city": "Rome", "kind": "now", "place": {"lat": 0}}'
    assert written.texts == {("city",): '"Rome"', ("place", "lat"): "0"}
    assert len(session.engine.generated) == 1


@pytest.mark.anyio
async def test_a_free_leaf_is_asked_for_after_all_that_stands_before_it_and_with_what_follows(session):
    state = state_of(ROOT, {UNIT: 0, DAY: 0, NOTE: 0})
    await write_leaves(session, TokenContext(ids=(77,), tail="!"), state, closing="}\nend")
    city, lat = session.engine.generated
    assert bytes(city.prompt_ids).decode() + city.grammar.lead == 'M!{"unit": "C", "city": '
    assert bytes(lat.prompt_ids).decode().endswith('"city": 0, "kind": "now", "place": {"lat": ')
    assert (city.grammar.follow, lat.grammar.follow) == (', "', "}}")
    assert json.loads(city.grammar.text)["type"] == "string"


@pytest.mark.anyio
async def test_a_form_that_is_one_free_leaf_is_followed_by_the_closing(session):
    await write_leaves(session, TokenContext(ids=(77,)), state_of(free(("city",))), closing="}\nend")
    assert session.engine.generated[0].grammar.follow == "}\ne"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "merged", [['": "'], [': "'], [' "'], ['": ', '": "'], ['": {"', '": ['], [" [", " -1", ": 0."], ['""']]
)
async def test_the_prompt_ends_where_no_value_can_merge_backwards(merged):
    tokenizer = PieceTokenizer(merged)
    session = Session(RecordingEngine(tokenizer), limits=Limits())
    context = TokenContext(ids=tokenizer.encode("before"), tail='x{"unit": "C", "city": ')
    await write_leaves(session, context, state_of(free(("city",))))
    [request] = session.engine.generated
    assert tokenizer.decode(request.prompt_ids) + request.grammar.lead == 'beforex{"unit": "C", "city": '
    for value in ('"a', '""', "1", "0.", "-1", "[1", '{"', "true"):
        whole = context.ids + tokenizer.encode(context.tail + value)
        assert whole[: len(request.prompt_ids)] == request.prompt_ids


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("value", "read"), [('"M\\u00fcnster"', '"Münster"'), ("1.50", "1.5"), ('{"b":1}', '{"b": 1}')]
)
async def test_a_generated_value_is_written_as_agentform_writes_json(value, read):
    session = Session(RecordingEngine(value=value), limits=Limits())
    written = await write_leaves(session, TokenContext(ids=(1,)), state_of(free(("city",))))
    assert written.json_text == read


@pytest.mark.anyio
async def test_a_value_beyond_its_budget_is_truncation():
    engine = ScriptedEngine([Fill("about", {"city": "Llanfair" * 3})])
    session = Session(engine, limits=Limits(argument_tokens=10))
    context = TokenContext(ids=engine.tokenizer.encode("about\n"), tail='{"city": ')
    with pytest.raises(ArgumentsTruncated) as caught:
        await write_leaves(session, context, state_of(free(("city",))))
    assert (caught.value.pointer, caught.value.max_tokens, caught.value.written) == ("/city", 10, '"LlanfairL')


@pytest.mark.anyio
@pytest.mark.parametrize("value", ['"open', "1e999", "NaN", '{"a": 1, "a": 2}'])
async def test_a_value_that_is_not_json_is_never_reported(value):
    session = Session(RecordingEngine(value=value), limits=Limits())
    with pytest.raises(ArgumentMalformed):
        await write_leaves(session, TokenContext(ids=(1,)), state_of(free(("city",))))
