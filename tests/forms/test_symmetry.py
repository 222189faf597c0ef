"""The ways in which a question is put, and the answer that is their mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform import OneOf, Score, Scoring, YesNo, decide
from agentform.errors import InvalidInput, UnsupportedSchema
from agentform.forms.asked import Asked
from agentform.forms.isolated import decide_isolated
from agentform.forms.symmetry import some_of, ways_of
from agentform.runtime.engine import ScoreRequest
from agentform.testing import Fill, ScriptedEngine

TEXTS = st.text("abc d", min_size=1, max_size=4)
NOTED = st.dictionaries(TEXTS, st.sampled_from(["", "", "x", "y", "z"]), min_size=2, max_size=6)


def leaning_mean(asked: Asked) -> dict[str, float]:
    """By option, the mean over the ways of what a model scores that leans to positions and to texts."""
    rows = [
        way.spread([-0.3 * place - 0.1 * len(f"{option}{said}") for place, (option, said) in enumerate(way.told)])
        for way in ways_of(asked)
    ]
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    return {str(option): round(mean, 9) for (option, _), mean in zip(asked.told, means, strict=True)}


@given(NOTED, st.randoms())
def test_the_order_of_the_options_plays_no_part(noted: dict[str, str], draw):
    shuffled = list(noted.items())
    draw.shuffle(shuffled)
    found = [leaning_mean(OneOf("?", list(own), list(own.values()))) for own in (noted, dict(shuffled))]
    assert found[0] == found[1]
    first = [ways_of(OneOf("?", list(own), list(own.values())))[0].told for own in (noted, dict(shuffled))]
    assert first[0] == first[1]


@given(st.lists(TEXTS, min_size=2, max_size=5, unique_by=lambda text: text.strip()))
def test_every_option_stands_once_at_every_place(options: list[str]):
    ways = ways_of(OneOf("?", options, [f"say {option.strip()}" for option in options]))
    for place in range(len(ways)):
        assert len({str(way.told[place][0]) for way in ways}) == len(ways)


def test_levels_from_the_last_to_the_first_are_the_same_question():
    there, back = (
        leaning_mean(Score("?", least=0, levels=own)) for own in (["sad", "so", "glad"], ["glad", "so", "sad"])
    )
    assert [there[level] for level in "012"] == [back[level] for level in "210"]


def test_an_option_that_stands_twice_shares_its_probability():
    for options, notes in ((["a", "b", "a "], []), (["a", "b", "c"], ["x", "y", "x"]), (["a", "b", "a"], [])):
        [*ways] = ways_of(OneOf("?", options, notes))
        assert [len(way.told) for way in ways] == [2, 2]
        scores = ways[0].spread([0.0, 0.0])
        assert scores[0] == scores[2] < scores[1] == 0.0


def test_options_that_differ_in_case_are_two():
    assert len(ways_of(OneOf("?", ["US", "us", "EU"]))[0].told) == 3


def test_what_says_the_same_of_all_options_is_asked_as_it_is():
    assert [len(way.told) for way in ways_of(OneOf("?", ["a", "b"], ["x", "x"]))] == [2, 2]


def test_a_denied_statement_counts_for_the_other_answer():
    plain, denied, *_ = ways_of(YesNo("Late?", yes="after noon"))
    assert plain.spread([-1.0, -2.0]) == denied.spread([-2.0, -1.0]) == (-1.0, -2.0)
    assert denied.told == ((True, ""), (False, "after noon"))


@given(st.integers(1, 9), st.data())
def test_those_that_can_be_paid_for_begin_with_the_plainest(num_ways: int, data):
    ways = ways_of(OneOf("?", [f"{at}" for at in range(num_ways + 1)]))
    some = some_of(ways, data.draw(st.integers(1, len(ways))))
    assert some[0] == ways[0]
    assert len({way.told for way in some}) == len(some)


def engine() -> ScriptedEngine:
    return ScriptedEngine([Fill("What", {"answer": "post"})], probability=0.8)


def read(scripted: ScriptedEngine) -> list[ScoreRequest]:
    return [request for request in scripted.requests if isinstance(request, ScoreRequest) and not request.aside]


@pytest.mark.anyio
async def test_one_request_reads_the_text_once_for_all_ways_and_the_evidence_counts_them():
    scripted, asked = engine(), {"topic": OneOf("What is it?", ["post", "money", "a parcel"])}
    found = (await decide(scripted, "Noon.", asked, instructions="Be fair.", scoring=Scoring(symmetry="exact")))[
        "topic"
    ]
    [request] = read(scripted)
    assert scripted.tokenizer.decode(request.prompt_ids).endswith("Be fair.\n\nNoon.\n\nWhat is it?\n- ")
    assert len(request.branches) == 3
    assert (found.value, found.ways, found.as_evidence("topic").ways) == ("post", 3, 3)
    assert [option for option, _ in found.probabilities] == ["post", "money", "a parcel"]


@pytest.mark.anyio
async def test_the_budget_says_how_many_ways_are_read():
    asked = {"it": OneOf("What is it?", ["post", "money", "a parcel"])}
    for symmetry, ways in ((0, 1), (10_000, 3)):
        found = await decide_isolated(engine(), "Noon.", asked, scoring=Scoring(symmetry=symmetry))
        assert found["it"].ways == ways


@pytest.mark.anyio
async def test_what_is_no_budget_or_no_choice_is_refused():
    for odd in (-1, 1.5, True, "all"):
        with pytest.raises(InvalidInput, match="symmetry must be"):
            Scoring(symmetry=odd)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="given twice"):
        ways_of(OneOf("?", ["a", "b", "a"], ["x", "y", "z"]))
    with pytest.raises(UnsupportedSchema, match="at least two options"):
        await decide_isolated(engine(), "x", {"a": OneOf("?", ["one", "one"])})
