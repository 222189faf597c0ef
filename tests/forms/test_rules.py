"""Rules across answers: which keys stand together, values beside one another, lists as a whole."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import anyio
import anyio.to_thread
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import agentform
from agentform import fill_sync
from agentform.errors import UnsupportedSchema
from agentform.forms.answer import Answer, assumed
from agentform.forms.questions import open_questions
from agentform.forms.rules import breaks_rules, keeping_rules
from agentform.forms.state import FormState
from agentform.schema.partial import Known, Members, Rules, Unknown
from agentform.schema.target import load
from agentform.testing import Fill, ScriptedEngine
from tests.support.waiting import PATIENCE_S

TEXT = {"type": "string"}
FLAG = {"type": "boolean"}


def closed(members, **rules):
    return {"type": "object", "properties": members, "additionalProperties": False, **rules}


def fill(schema, value, probability=0.6):
    return fill_sync(ScriptedEngine([Fill("customer", value)], probability=probability), "the customer", schema)


EITHER = [{"required": ["a"]}, {"required": ["b"]}]
BOTH = {"a": "x", "b": "y"}


@pytest.mark.parametrize(
    ("schema", "said", "value"),
    [
        (closed({"a": TEXT, "b": TEXT}, oneOf=EITHER), BOTH, {"a": "x"}),
        (closed({"a": FLAG, "b": FLAG}, oneOf=EITHER), {"a": True, "b": False}, {"a": True}),
        (closed({"a": TEXT, "b": TEXT}, **{"not": {"required": ["a", "b"]}}), BOTH, {"a": "x"}),
        (closed({"a": TEXT, "b": TEXT, "c": FLAG}, maxProperties=1), {**BOTH, "c": True}, {"c": True}),
        (closed({"a": TEXT, "o": closed({"a": TEXT, "b": TEXT}, oneOf=EITHER)}), {"o": BOTH}, {"o": {"a": "x"}}),
        (
            closed({f"f{at}": FLAG for at in range(20)}, minProperties=10, maxProperties=10),
            {f"f{at}": True for at in range(20)},
            {f"f{at}": True for at in range(10)},
        ),
        (
            closed(
                {"kind": {"enum": ["x", "y"]}, "v": TEXT},
                required=["kind"],
                **{"if": {"properties": {"kind": {"const": "x"}}}, "else": {"not": {"required": ["v"]}}},
            ),
            {"kind": "y", "v": "t"},
            {"kind": "y"},
        ),
        (
            closed(
                {"kind": TEXT, "v": TEXT},
                required=["kind"],
                **{"if": {"properties": {"kind": {"const": "x"}}}, "then": {"not": {"required": ["v"]}}},
            ),
            {"kind": "x", "v": "t"},
            {"kind": "x"},
        ),
        (
            closed({name: {"type": ["string", "null"], "default": None} for name in "ab"}, oneOf=EITHER),
            BOTH,
            {"a": "x"},
        ),
    ],
)
def test_keys_that_may_not_stand_together_do_not(schema, said, value):
    filled = fill(schema, said)
    assert filled.value == value
    assert {item.how for item in filled.evidence} <= {"scored", "generated", "joint"}


@pytest.mark.anyio
async def test_rules_are_kept_while_threads_of_other_kinds_all_wait():
    threads, waiting = anyio.to_thread.current_default_thread_limiter(), []
    while threads.available_tokens:
        waiting.append(object())
        threads.acquire_on_behalf_of_nowait(waiting[-1])
    engine = ScriptedEngine([Fill("customer", {"a": True, "b": False})], probability=0.6)
    try:
        with anyio.fail_after(PATIENCE_S):
            filled = await agentform.fill(engine, "the customer", closed({"a": FLAG, "b": FLAG}, oneOf=EITHER))
    finally:
        for holder in waiting:
            threads.release_on_behalf_of(holder)
    assert filled.value == {"a": True}


def test_a_key_that_a_rule_asks_for_is_written():
    schema = closed({"a": TEXT, "b": TEXT}, required=["a"], dependentRequired={"a": ["b"]})
    engine = ScriptedEngine([Fill("customer", {"a": "x", "b": "y"})], probability=0.4)
    assert fill_sync(engine, "the customer", schema).value == {"a": "x", "b": "y"}


def test_a_property_that_only_a_rule_names_can_be_written():
    schema = {"type": "object", "properties": {"a": TEXT}, "required": ["a"], "dependentRequired": {"a": ["z"]}}
    assert fill(schema, {"a": "x", "z": "y"}).value == {"a": "x", "z": "y"}


def test_an_object_that_names_its_keys_only_in_rules_has_those():
    schema = {"type": "object", "additionalProperties": TEXT, "oneOf": EITHER}
    assert fill(schema, BOTH).value == {"a": "x"}


def test_rules_that_nothing_keeps_are_told_when_the_schema_is_loaded():
    schema = closed({"a": FLAG}, required=["a"], allOf=[{"not": {"required": ["a"]}}])
    with pytest.raises(UnsupportedSchema, match="contradict each other"):
        fill(schema, {"a": True})


def test_a_validator_of_the_users_is_kept_by_leaving_out_what_may_be_left_out():
    from pydantic import BaseModel, model_validator

    class Contact(BaseModel):
        user: str = "none"
        email: str = "none"

        @model_validator(mode="after")
        def one(self):
            assert (self.user == "none") != (self.email == "none")
            return self

    filled = fill(Contact, {"user": "12", "email": "a@b"})
    assert filled.value.model_fields_set in ({"user"}, {"email"})


def answered(root, numbers):
    """The form with every question that it can come to answered, with given probabilities and their best."""
    state = FormState(root=root)
    while True:
        there = {key: assumed(answer.question, 1) for key, answer in state.answers.items() if key[1] == "presence"}
        asked = [
            question for question in open_questions(state.with_answers(there)) if question.key not in state.answers
        ]
        if not asked:
            return state
        state = state.with_answers({question.key: answer_to(question, numbers) for question in asked})


def answer_to(question, numbers):
    weights = [next(numbers) for _ in question.answers]
    shares = tuple(weight / sum(weights) for weight in weights)
    best = shares.index(max(shares))
    return Answer(question=question, index=best, probabilities=shares, raw_probabilities=shares, legal_mass=1.0)


NAMES = ("a", "b", "c")
SOME = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)
PRESENCE = st.one_of(
    SOME.map(lambda names: {"required": names}),
    st.tuples(st.sampled_from(NAMES), st.booleans()).map(lambda pair: {"properties": {pair[0]: {"const": pair[1]}}}),
    st.tuples(st.sampled_from(NAMES), SOME).map(lambda pair: {"dependentRequired": {pair[0]: pair[1]}}),
    st.integers(0, 4).map(lambda count: {"minProperties": count}),
    st.integers(0, 4).map(lambda count: {"maxProperties": count}),
)
RULES = st.recursive(
    PRESENCE,
    lambda inner: st.one_of(
        *(
            st.lists(inner, min_size=1, max_size=3).map(lambda arms, word=word: {word: arms})
            for word in ("oneOf", "anyOf", "allOf")
        ),
        inner.map(lambda rule: {"not": rule}),
        st.tuples(inner, inner, inner).map(lambda three: dict(zip(("if", "then", "else"), three, strict=True))),
    ),
    max_leaves=5,
)


def cost_of(state):
    return sum(math.log(max(a.probabilities)) - math.log(a.probabilities[a.index]) for a in state.answers.values())


@settings(max_examples=40, deadline=None, derandomize=True)
@given(rule=RULES, seed=st.randoms(use_true_random=False), needed=st.sampled_from([[], ["a"]]))
def test_the_most_probable_answers_that_keep_the_rules_are_found_whenever_there_are_any(rule, seed, needed):
    schema = {"type": "object", "properties": dict.fromkeys(NAMES, FLAG), "required": needed, "allOf": [rule]}
    target = load({**schema, "additionalProperties": False})
    state = answered(target.form.root, iter(lambda: seed.uniform(0.1, 1.0), None))
    whole = [other for other in assignments(state) if other.text_of(other.root) is not None]
    legal = [other for other in whole if not target.validator.check(other.value)]
    kept = keeping_rules(state) or state
    assume(legal)
    assume(kept.text_of(kept.root) is not None)  # else another arm of a union has yet to be asked about
    assert target.validator.check(kept.value) == ()
    assert cost_of(kept) <= min(map(cost_of, legal)) + 1e-9


def assignments(state):
    for picks in itertools.product(*(range(len(answer.probabilities)) for answer in state.answers.values())):
        chosen = zip(state.answers.items(), picks, strict=True)
        yield state.with_answers({key: replace(answer, index=at) for (key, answer), at in chosen})


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    rule=RULES, states=st.lists(st.sampled_from(["absent", "true", "false", "open", "maybe"]), min_size=3, max_size=3)
)
def test_a_verdict_on_a_part_holds_for_every_completion(rule, states):
    flags = Unknown(frozenset({"boolean"}))
    parts = {"true": Known(True), "false": Known(False), "open": flags, "maybe": flags}
    named = dict(zip(NAMES, states, strict=True))
    there = {name: parts[state] for name, state in named.items() if state in ("true", "false", "open")}
    verdict = Rules(rule).verdict(Members(there, {n: parts[s] for n, s in named.items() if s == "maybe"}))
    ways = {"absent": [None], "true": [True], "false": [False], "open": [True, False], "maybe": [None, True, False]}
    validator = load(rule).validator
    found = {
        not validator.check({name: flag for name, flag in zip(NAMES, flags, strict=True) if flag is not None})
        for flags in itertools.product(*(ways[state] for state in states))
    }
    assert verdict is None or found == {verdict}


def test_an_expression_that_takes_too_long_over_a_key_leaves_the_verdict_open():
    rules = Rules({"patternProperties": {"(?!(a*)*b)^(a*)*$": True}})
    assert rules.verdict(Members({"a" * 5_000 + "!": Known(True)})) is None


COLOURS = {"enum": ["r", "g", "b"]}


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    items=st.sampled_from([FLAG, COLOURS, closed({"x": FLAG}, required=["x"])]),
    bounds=st.tuples(st.integers(0, 3), st.integers(0, 3)).map(sorted),
    rules=st.fixed_dictionaries(
        {},
        optional={
            "contains": st.sampled_from([{"const": "b"}, {"const": True}, {"enum": ["r", False]}]),
            "minContains": st.integers(0, 2),
            "maxContains": st.integers(1, 2),
            "uniqueItems": st.booleans(),
        },
    ),
    seed=st.randoms(use_true_random=False),
)
def test_short_lists_keep_their_rules(items, bounds, rules, seed):
    target = load({"type": "array", "items": items, "minItems": bounds[0], "maxItems": max(bounds[1], 1), **rules})
    state = answered(target.form.root, iter(lambda: seed.uniform(0.1, 1.0), None))
    kept = keeping_rules(state) if breaks_rules(state) else None
    assert kept is None or not breaks_rules(kept)
