"""Typed decisions, tuning and probing, on an engine whose leanings are known."""

import math
from dataclasses import replace
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel

from agentform import DependsOn, Limits, OneOf, Score, Scoring, YesNo, decide
from agentform.errors import Abstained, InvalidInput, UnsupportedSchema
from agentform.forms.coupling import missing, probe
from agentform.forms.probe_items import PROBE_EXAMPLES
from agentform.forms.tuning import Example, tune
from agentform.schema.target import load
from tests.support.recording_engine import RecordingEngine

pytestmark = pytest.mark.anyio
RAW = Scoring(calibration=0)


def by_key(weights):
    """Scores by the last key before the options; a weight may be a function of the whole text."""

    def score(prompt, branch):
        text = prompt + bytes(branch.path).decode()
        found = weights[max(weights, key=lambda name: text.rfind(f'"{name}":'))]
        row = found(text) if callable(found) else found
        return tuple(math.log(row[chr(c)]) for c in branch.candidates)

    return score


async def test_every_kind_of_question_is_answered_in_one_batch_without_a_token():
    weights = {
        "late": {"t": 0.6, "f": 0.2},
        "topic": {"m": 0.1, "p": 0.3},
        "mood": {"1": 0.2, "2": 0.2, "3": 0.4},
    }
    engine = RecordingEngine(score_branch=by_key(weights))
    questions = {
        "late": YesNo("Is it late?"),
        "topic": OneOf("What is it?", ["money", "post"]),
        "mood": Score("How happy?", 1, 3),
    }
    found = await decide(engine, "It is late.", questions, scoring=RAW)
    assert {name: decision.value for name, decision in found.items()} == {"late": True, "topic": "post", "mood": 3}
    assert found["late"].probabilities == ((True, pytest.approx(0.75)), (False, pytest.approx(0.25)))
    assert found["late"].legal_mass == pytest.approx(0.8)
    assert found["mood"].expected == pytest.approx(1 * 0.25 + 2 * 0.25 + 3 * 0.5)
    assert (len(engine.scored), engine.generated, found.usage.completion_tokens) == (1, [], 0)


async def test_what_is_said_of_options_is_read_with_the_question():
    weights = {"late": {"t": 0.6, "f": 0.2}, "topic": {"m": 0.1, "p": 0.3}, "mood": {"0": 0.2, "1": 0.8}}
    engine = RecordingEngine(score_branch=by_key(weights))
    questions = {
        "late": YesNo("Is it late?", yes="after noon"),
        "topic": OneOf("What is it?", ["money", "post"], ["", "parcels"]),
        "mood": Score("How happy?", least=0, levels=["sad", "glad"]),
    }
    found = await decide(engine, "It is late.", questions, scoring=Scoring(calibration=0, lead_in="described"))
    assert [option for option, _ in found["mood"].probabilities] == [0, 1]
    [request] = engine.scored
    read = engine.tokenizer.decode(request.prompt_ids) + "".join(
        engine.tokenizer.decode(branch.path) for branch in request.branches
    )
    for said in ("Is it late? (true: after noon)", "What is it? (post: parcels)", "How happy? (0: sad; 1: glad)"):
        assert said in read


async def test_an_expected_value_needs_numbers():
    engine = RecordingEngine(score_branch=by_key({"topic": {"m": 0.1, "p": 0.3}}))
    found = await decide(engine, "x", {"topic": OneOf("What?", ["money", "post"])}, scoring=RAW)
    with pytest.raises(InvalidInput, match="numbers"):
        _ = found["topic"].expected


async def test_bad_questions_are_refused_and_unsure_answers_abstained_from():
    engine = RecordingEngine(score_branch=by_key({"a": {"t": 0.2, "f": 0.2}}))
    with pytest.raises(InvalidInput, match="at least one question"):
        await decide(engine, "x", {})
    with pytest.raises(UnsupportedSchema):
        await decide(engine, "x", {"a": OneOf("?", [])})
    with pytest.raises(UnsupportedSchema, match="'a' needs at least two options to choose from; got 1"):
        await decide(engine, "x", {"a": Score("?", 3, 3)})
    with pytest.raises(Abstained, match=r"legal mass 0\.4 is below the limit of 0\.5"):
        await decide(engine, "x", {"a": YesNo("?")}, scoring=RAW, limits=Limits(min_legal_mass=0.5))


def leaning(text):
    """Leans to "good" whatever is said, most of all where nothing is; told apart only by how much."""
    if '"mood": ' not in text:
        return {"A": 0.5, "B": 0.5}
    return {"g": 0.7, "b": 0.3} if "awful" in text else {"g": 0.9, "b": 0.1}


async def test_tuning_finds_that_a_lean_is_to_be_taken_out():
    texts = ["great", "awful"] * 8
    # Halves are every second example; this order gives each half both kinds.
    examples = [
        Example(text=text, field="mood", options=("good", "bad"), gold="bad" if text == "awful" else "good")
        for pair in zip(texts[::2], texts[::2], texts[1::2], texts[1::2], strict=True)
        for text in pair
    ]

    def score(prompt, branch):
        text = prompt + bytes(branch.path).decode()
        return tuple(math.log(leaning(text)[chr(c)]) for c in branch.candidates)

    steps = []
    found = await tune(RecordingEngine(score_branch=score), examples, on_progress=lambda d, of: steps.append((d, of)))
    assert found.scoring.lead_in == "key"
    assert found.scoring.calibration == 0.9  # others do as well, and none does better than the default
    assert found.scoring.temperature < 1
    assert found.held_out == 1.0
    raw = next(t for t in found.trials if t.scoring.calibration == 0 and t.scoring.lead_in == "key")
    assert raw.accuracy == 0.5
    assert steps[-1] == (8 * len(examples), 8 * len(examples))


async def test_a_setting_that_is_better_by_chance_alone_does_not_take_the_place_of_the_defaults():
    def score(prompt, branch):
        text = prompt + bytes(branch.path).decode()
        right = "b" if "awful" in text else "g"
        mistaken = "odd" in text and "Text with" not in text
        return tuple(math.log(0.9 if (chr(c) == right) != mistaken else 0.1) for c in branch.candidates)

    texts = [f"{'odd ' if at == 0 else ''}{'awful' if at % 4 < 2 else 'great'}" for at in range(16)]
    examples = [
        Example(text=text, field="mood", options=("good", "bad"), gold="bad" if "awful" in text else "good")
        for text in texts
    ]
    steps = []
    engine = RecordingEngine(score_branch=score)
    found = await tune(engine, examples, lead_ins=(), on_progress=lambda d, of: steps.append((d, of)))
    assert not found.scoring.list_fields
    assert {trial.scoring.lead_in for trial in found.trials} == {"key"}
    assert steps[-1] == (2 * len(examples), 2 * len(examples))


def test_either_half_of_the_examples_that_come_along_holds_every_kind_of_question_and_of_answer():
    for half in (PROBE_EXAMPLES[::2], PROBE_EXAMPLES[1::2]):
        golds = {example.field: {item.gold for item in half if item.field == example.field} for example in half}
        assert golds.keys() == {"urgent", "mood", "subject", "room"}
        assert all(len(answers) > 1 for answers in golds.values())


async def test_a_question_is_told_whole_where_the_scoring_lists_fields():
    prompts = []

    def score(prompt, branch):
        prompts.append(prompt)
        return (math.log(0.5),) * len(branch.candidates)

    asked = {"late": YesNo("Did it come too late?")}
    for listed in (True, False):
        prompts.clear()
        scoring = Scoring(list_fields=listed, calibration=0)
        await decide(RecordingEngine(score_branch=score), "It came.", asked, scoring=scoring)
        assert all(("Did it come too late?" in prompt) == listed for prompt in prompts)


async def test_tuning_refuses_too_few_examples_and_a_gold_that_is_no_option():
    with pytest.raises(InvalidInput, match="at least four"):
        await tune(RecordingEngine(), [])
    with pytest.raises(InvalidInput, match="'c' is not among"):
        Example(text="x", field="f", options=("a", "b"), gold="c")


class Pet(BaseModel):
    kind: Literal["cat", "dog"]
    sound: Literal["meow", "bark"]
    old: bool


PETS = {
    "kind": lambda text: (
        {"c": 0.5, "d": 0.5}
        if '"sound":' not in text
        else {"c": 0.8, "d": 0.2}
        if "meow" in text
        else {"c": 0.2, "d": 0.8}
    ),
    "sound": lambda text: (
        {"m": 0.5, "b": 0.5}
        if '"kind":' not in text
        else {"m": 0.99, "b": 0.01}
        if "cat" in text
        else {"m": 0.01, "b": 0.99}
    ),
    "old": {"t": 0.3, "f": 0.7},
}


TEXTS = ["A pet.", "Another pet.", "One more.", "The last one."]


async def test_a_probe_finds_the_pair_that_is_coupled_in_both_directions_and_only_that():
    engine = RecordingEngine(score_branch=by_key(PETS))
    found = await probe(engine, load(Pet), TEXTS)
    first, back, *others = found
    assert (first.parent, first.child, first.declared, first.coupled) == ("kind", "sound", False, True)
    assert (back.parent, back.child, back.coupled, back.strength) == ("sound", "kind", True, first.strength)
    assert first.shift > 0.8
    assert first.changed == 1.0
    assert [(o.shift, o.changed, o.coupled) for o in others] == [(pytest.approx(0, abs=1e-9), 0.0, False)] * 4
    assert missing(found) == [first]


async def test_a_child_that_is_moved_much_is_coupled_although_its_parent_is_not_moved_by_it():
    one_way = {**PETS, "kind": {"c": 0.5, "d": 0.5}}
    found = await probe(RecordingEngine(score_branch=by_key(one_way)), load(Pet), TEXTS)
    assert [(c.parent, c.child) for c in found if c.coupled] == [("kind", "sound"), ("sound", "kind")]
    assert [(c.parent, c.child) for c in missing(found)] == [("kind", "sound")]
    assert found[0].strength == 0


async def test_a_probe_needs_more_than_three_texts_to_name_a_pair():
    found = await probe(RecordingEngine(score_branch=by_key(PETS)), load(Pet), TEXTS[:3])
    assert not any(coupling.coupled for coupling in found)


class News(BaseModel):
    topic: Literal["world", "sports", "science"]
    is_sports: bool


def of_news(text, *, words=("sports",)):
    """A model that hardly knows what is_sports is about; a topic among `words` before it moves it a little."""
    if '"is_sports": ' not in text or text.rfind('"topic":') > text.rfind('"is_sports":'):
        return {"w": 0.3, "s": 0.7, "p": 0.6, "c": 0.4}
    return {"t": 0.45, "f": 0.55} if any(f'"{word}"' in text for word in words) else {"t": 0.35, "f": 0.65}


@pytest.mark.parametrize(("words", "coupled"), [(("sports",), True), (("world",), False), ((), False)])
async def test_where_a_value_names_a_field_little_is_enough_and_only_in_the_right_place(words, coupled):
    def score(prompt, branch):
        row = of_news(prompt + bytes(branch.path).decode(), words=words)
        return tuple(math.log(row[chr(c)]) for c in branch.candidates)

    found = await probe(RecordingEngine(score_branch=score), load(News), TEXTS)
    assert [(c.named, c.coupled) for c in found] == [(True, coupled)] * 2
    assert all(coupling.strength < 0.4 for coupling in found)
    assert [(c.parent, c.child) for c in missing(found)] == [("topic", "is_sports")] * coupled


async def test_values_that_are_only_repeated_are_not_coupled():
    class Flags(BaseModel):
        wrapped: bool
        insured: bool

    def score(prompt, branch):
        likely = "t" if "true, " in prompt + bytes(branch.path).decode() else "f"
        return tuple(math.log(0.9 if chr(c) == likely else 0.1) for c in branch.candidates)

    found = await probe(RecordingEngine(score_branch=score), load(Flags), TEXTS)
    assert found[0].strength > 0.4
    assert not any(coupling.coupled for coupling in found)


async def test_a_probe_says_what_is_declared_already_and_suggests_no_circle():
    class Known(BaseModel):
        kind: Literal["cat", "dog"]
        sound: Annotated[Literal["meow", "bark"], DependsOn("kind")]

    found = await probe(RecordingEngine(score_branch=by_key(PETS)), load(Known), TEXTS)
    assert [(c.coupled, c.declared) for c in found] == [(True, True)] * 2
    assert missing(found) == []
    free = [replace(c, declared=False) for c in found]
    ring = [replace(free[0], parent=a, child=b) for a, b in (("x", "y"), ("y", "z"), ("z", "x"), ("x", "z"))]
    assert [(c.parent, c.child) for c in missing(ring)] == [("x", "y"), ("y", "z"), ("x", "z")]


async def test_a_probe_needs_examples_and_two_closed_fields():
    with pytest.raises(InvalidInput, match="at least one example"):
        await probe(RecordingEngine(), load(Pet), [])


async def test_rotations_take_out_a_lean_to_a_letter():
    def always_a(prompt, branch):
        return tuple(math.log(0.8 if chr(c) == "A" else 0.1) for c in branch.candidates)

    engine = RecordingEngine(score_branch=always_a)
    questions = {"topic": OneOf("What?", ["money", "post", "praise"])}
    letters = Scoring(calibration=0, lead_in="letters")
    found = await decide(engine, "x", questions, scoring=letters)
    assert found["topic"].probability == pytest.approx(0.8)
    found = await decide(engine, "x", questions, scoring=replace(letters, rotations=3))
    assert [p for _, p in found["topic"].probabilities] == pytest.approx([1 / 3] * 3)
