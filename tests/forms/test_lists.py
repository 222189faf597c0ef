"""Lists that are chosen: distinct values with bounds on their number, and short lists of closed items."""

import itertools
import math
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from agentform.forms.beam_search import best_subset
from agentform.forms.fill import fill
from agentform.forms.questions import open_questions
from agentform.forms.scoring import Scoring
from agentform.schema.target import load
from tests.support.form_states import state_of
from tests.support.recording_engine import RecordingEngine

pytestmark = pytest.mark.anyio
RAW = Scoring(calibration=0)


@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=7), st.data())
def test_the_best_subset_is_the_most_probable_one_within_the_bounds(probabilities, data):
    least = data.draw(st.integers(0, len(probabilities)))
    most = data.draw(st.integers(least, len(probabilities)))

    def log_p(taken):
        return sum(math.log(p if member else 1 - p) for p, member in zip(probabilities, taken, strict=True))

    every = itertools.product((True, False), repeat=len(probabilities))
    legal = [taken for taken in every if least <= sum(taken) <= most]
    found = best_subset(probabilities, least=least, most=most)
    assert found in legal
    assert log_p(found) == pytest.approx(max(map(log_p, legal)))


class Shirt(BaseModel):
    colours: Annotated[
        list[Literal["red", "green", "blue"]], Field(max_length=2, json_schema_extra={"uniqueItems": True})
    ]


def wanting(probabilities):
    def score(prompt, branch):
        text = prompt + bytes(branch.path).decode()
        key = max(probabilities, key=lambda name: text.rfind(f'"{name}":'))
        yes = probabilities[key]
        return tuple(math.log(yes if chr(c) == "t" else 1 - yes) for c in branch.candidates)

    return score


async def test_a_list_holds_the_likeliest_values_that_fit_and_no_token_is_written():
    engine = RecordingEngine(score_branch=wanting({"red": 0.9, "green": 0.6, "blue": 0.8}))
    filled = await fill(engine, "Hello", Shirt, scoring=RAW)
    assert filled.value.colours == ["red", "blue"]
    assert engine.generated == []
    assert len(engine.scored) == 1
    assert filled["/colours"].value == ["red", "blue"]
    assert filled["/colours"].probability == pytest.approx(0.9 * 0.4 * 0.8)


async def test_a_list_without_a_likely_value_is_empty():
    engine = RecordingEngine(score_branch=wanting({"red": 0.1, "green": 0.2, "blue": 0.3}))
    assert (await fill(engine, "Hello", Shirt, scoring=RAW)).value.colours == []


class Item(BaseModel):
    size: Literal["S", "M"]


class Order(BaseModel):
    items: Annotated[list[Item], Field(min_length=1, max_length=3)]


def test_the_number_of_items_comes_first_and_each_item_sees_those_before_it():
    root = load(Order).form.root
    [count] = open_questions(state_of(root))
    assert (count.lead, count.answers) == ('{"items count":', (1, 2, 3))
    decided = {count.key: 1}
    [first] = open_questions(state_of(root, decided))
    assert first.lead == '{"items": [{"size":'
    assert first.texts == (' "S"}]}', ' "M"}]}')
    decided[first.key] = 0
    [second] = open_questions(state_of(root, decided))
    assert second.lead == '{"items": [{"size": "S"}, {"size":'
    assert second.for_prior.lead == '{"items": [{"size":'
    decided[second.key] = 1
    assert open_questions(state_of(root, decided)) == []
    assert state_of(root, decided).pieces() == ['{"items": [{"size": "S"}, {"size": "M"}]}']


def test_no_item_is_an_empty_list():
    root = load({"type": "array", "items": {"type": "boolean"}, "maxItems": 2}).form.root
    [count] = open_questions(state_of(root))
    assert (count.lead, count.answers) == ('{"count":', (0, 1, 2))
    assert state_of(root, {count.key: 0}).pieces() == ["[]"]
