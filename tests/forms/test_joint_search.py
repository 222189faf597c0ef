"""The search for answers that a validator accepts, against trying them all and on forms too large for that."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from random import Random

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentform import fill_sync
from agentform.decoding.limits import Limits
from agentform.errors import CallRejected, Violation
from agentform.forms.answer import Answer
from agentform.forms.questions import open_questions
from agentform.forms.repair import as_written, joint_solution
from agentform.forms.state import FormState
from agentform.schema.target import load
from agentform.testing import Fill, ScriptedEngine

PATIENT = Limits(joint_s=60.0)


class RuleBook:
    """A validator as pydantic's are: it tells of the first broken rule, and not which fields that is about."""

    def __init__(self, *rules):
        self.rules = rules
        self.num_checks = 0

    def check(self, value):
        self.num_checks += 1
        broken = next((at for at, rule in enumerate(self.rules) if not rule(value)), None)
        return () if broken is None else (Violation(pointer="", reason=f"rule {broken}"),)


def form(options, random, *, gold=None):
    """A form with one field for each list of options, answered at random; the more surely, the more `gold` has it."""
    names = {f"f{at}": {"enum": list(own)} for at, own in enumerate(options)}
    schema = {"type": "object", "properties": names, "required": list(names), "additionalProperties": False}
    state = FormState(root=load(schema).form.root)
    return state.with_answers({q.key: answer_to(q, random, gold) for q in open_questions(state)})


def answer_to(question, random, gold):
    weights = [random.uniform(0.05, 1.0) for _ in question.answers]
    if gold is not None and random.random() < 0.7:
        weights[question.answers.index(gold[question.path[0]])] += 2.0
    shares = tuple(weight / sum(weights) for weight in weights)
    best = shares.index(max(shares))
    return Answer(question=question, index=best, probabilities=shares, raw_probabilities=shares, legal_mass=1.0)


def solved(book, state):
    async def search():
        return await joint_solution(book, state, book.check(state.value), PATIENT)

    return anyio.run(search)


def cost_of(state):
    return sum(math.log(max(a.probabilities)) - math.log(a.probabilities[a.index]) for a in state.answers.values())


def every(state):
    for picks in itertools.product(*(range(len(answer.probabilities)) for answer in state.answers.values())):
        chosen = zip(state.answers.items(), picks, strict=True)
        yield state.with_answers({key: replace(answer, index=at) for (key, answer), at in chosen})


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    sizes=st.lists(st.integers(2, 4), min_size=2, max_size=4),
    legal=st.sets(st.integers(0, 255), max_size=40),
    seed=st.integers(0, 10_000),
)
def test_of_a_small_form_the_most_probable_accepted_answers_are_found_whenever_there_are_any(sizes, legal, seed):
    state = form([range(size) for size in sizes], Random(seed))
    number = lambda value: sum(4**at * value[f"f{at}"] for at in range(len(sizes)))  # noqa: E731
    book = RuleBook(lambda value: number(value) in legal)
    accepted = [cost_of(other) for other in every(state) if not book.check(other.value)]
    found = solved(book, state)
    assert (found is None) == (not accepted)
    if found is not None:
        assert not book.check(found.value)
        assert cost_of(found) == pytest.approx(min(accepted))


def pairs_equal(num):
    return [lambda v, at=at: v[f"f{at}"] == v[f"f{at + 1}"] for at in range(0, num - 1, 2)]


def sums(num, gold):
    def adds_up(at):
        names = [f"f{at}", f"f{at + 1}", f"f{at + 2}"]
        total = sum(gold[name] for name in names)
        return lambda value: sum(value[name] for name in names) == total

    return [adds_up(at) for at in range(0, num - 2, 3)]


def implications(num, gold):
    return [
        lambda v, at=at: v[f"f{at}"] != gold[f"f{at}"] or v[f"f{at + 1}"] == gold[f"f{at + 1}"] for at in range(num - 1)
    ]


def all_differ(num):
    return [lambda value: len(set(value.values())) == num]


def in_order(num):
    return [lambda value: all(value[f"f{at}"] <= value[f"f{at + 1}"] for at in range(num - 1))]


@pytest.mark.parametrize("num", [9, 24])
@pytest.mark.parametrize("kind", ["equal", "sums", "implications", "differ", "order"])
def test_rules_of_many_fields_are_kept_however_many_there_are(kind, num):
    random = Random(num + 1)
    options = [range(num if kind == "differ" else 4)] * num
    values = random.sample(range(num), num) if kind == "differ" else [random.randrange(4) for _ in range(num)]
    if kind == "equal":
        values = [values[at - at % 2] for at in range(num)]
    gold = {f"f{at}": value for at, value in enumerate(sorted(values) if kind == "order" else values)}
    rules = {
        "equal": lambda: pairs_equal(num),
        "sums": lambda: sums(num, gold),
        "implications": lambda: implications(num, gold),
        "differ": lambda: all_differ(num),
        "order": lambda: in_order(num),
    }[kind]()
    book = RuleBook(*rules)
    state = form(options, random, gold=gold)
    assert book.check(state.value)
    found = solved(book, state)
    assert found is not None
    assert not book.check(found.value)
    assert any(how == "joint" for how in found.how.values())


def test_a_rule_that_nothing_keeps_has_no_solution_and_the_search_for_one_ends():
    book = RuleBook(lambda value: False)
    assert solved(book, form([range(4)] * 6, Random(1))) is None
    assert book.num_checks <= 4**6 + 1


def test_of_rules_that_nothing_keeps_the_fewest_are_named():
    schema = {
        "type": "object",
        "properties": {name: {"enum": [1, 2]} for name in "ab"},
        "required": ["a", "b"],
        "additionalProperties": False,
    }

    def check(value):
        broken = {"a must be b": value["a"] != value["b"], "a must not be b": value["a"] == value["b"]}
        also = {"b is 1": value["b"] == 1}
        return tuple(Violation(pointer="", reason=reason) for reason, is_broken in (broken | also).items() if is_broken)

    plain = load(schema)
    validator = RuleBook()
    validator.check, validator.build = check, plain.validator.build
    engine = ScriptedEngine([Fill("pick", {"a": 1, "b": 2})], probability=0.6)
    with pytest.raises(CallRejected) as caught:
        fill_sync(engine, "pick", replace(plain, validator=validator))
    assert {rule.reason for rule in caught.value.unsatisfied} == {"a must be b", "a must not be b"}
    assert "a must not be b" in str(caught.value)


def test_choices_that_were_written_are_taken_as_the_engines_own_and_text_that_is_no_option_changes_none():
    state = form([("a", "b"), ("c", "d")], Random(0))
    first, second = state.answers
    old = state.with_answers({key: replace(each, index=0, by="another") for key, each in state.answers.items()})
    written = FormState(root=state.root, texts={first[0]: '"b"', second[0]: '"neither"'})
    found = as_written(old, written)
    assert found.value == {"f0": "b", "f1": "c"}
    assert [found.answers[key].by for key in (first, second)] == ["", "another"]
