from __future__ import annotations

import json

import pytest

from agentform.errors import InvalidInput
from agentform.grammar.vocabulary import Vocabulary
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from benchmarks.common.bootstrap import quantiles
from benchmarks.common.harness import RESULTS, Context
from benchmarks.schemas import collection, functions
from benchmarks.schemas.cases import cases
from benchmarks.schemas.engines import ENGINES
from benchmarks.schemas.measure import Grammatical, Whole, measure_form, measure_grammar
from tests.support.tiny_tokenizer import write_tiny_tokenizer


@pytest.fixture
def context():
    return Context(name="schemas", data=None, quick=True)


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    tokenizer = HFTokenizer(write_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer")))
    return Vocabulary(tokenizer.tokenizer_json, size=tokenizer.vocabulary_size, eos_ids=tokenizer.eos_ids)


@pytest.mark.parametrize("name", ["agentform", "llguidance lenient", "xgrammar open"])
def test_engines_follow_the_shipped_cases(context, vocabulary, name):
    pytest.importorskip("xgrammar")
    engine = ENGINES[name](vocabulary)
    rows = {
        case.name: measure_grammar(engine, vocabulary, case, own=name == "agentform")
        for case in cases(context)
        if case.name in ("person", "tree")
    }
    assert rows["person"].accepted == (True, False, False)
    assert rows["tree"].accepted == (True, False)
    assert rows["tree"].first_mask_s >= rows["tree"].compile_s > 0
    assert rows["tree"].mask_s


def test_a_schema_that_does_not_compile_is_a_row_with_its_error(context, vocabulary):
    pattern = next(case for case in cases(context) if case.name == "pattern")
    row = measure_grammar(ENGINES["llguidance"](vocabulary), vocabulary, pattern, own=False)
    assert "look-around" in row.error or "lookaround" in row.error
    assert measure_grammar(ENGINES["agentform"](vocabulary), vocabulary, pattern, own=True).error == ""


def test_the_validator_judges_the_shipped_cases_as_they_say(context):
    for case in cases(context):
        assert measure_form(case).valid == tuple(valid for _, valid in case.instances)


def figures(own, other, invalid_accepted=0):
    def row(compiled, accepted, seconds):
        return {"not_compiled": 1000 - compiled, "valid_accepted": accepted, "compile_s": {"median": seconds}}

    return {
        "num_schemas": 1000,
        "samples": [],
        "engines": {"agentform": row(*own), "llguidance": row(*other)},
        "whole_path": {"not_loaded": 0, "invalid_accepted": invalid_accepted},
    }


def test_bars_hold_and_fail():
    good = collection.bars(figures((996, 90, 0.0015), (900, 90, 0.001)))
    assert [holds for _, holds, _ in good] == [True] * 4
    bad = collection.bars(figures((994, 89, 0.0016), (900, 90, 0.001), invalid_accepted=1))
    assert [holds for _, holds, _ in bad] == [False] * 4


def test_what_passes_grammar_and_validator_counts_as_accepted(context):
    [case] = [case for case in cases(context) if case.name == "person"]
    grammar = Grammatical(accepted=(True, True, True))
    form = Whole(valid=(True, False, True), writable=(True, True, True))
    found = collection._whole_figures([case], [grammar], [form])
    assert (found["valid_accepted"], found["invalid_accepted"], found["wrong"]) == (1, 1, ["person"])


def test_function_schemas_are_put_into_words_of_json_schema():
    said = {"type": "dict", "properties": {"type": {"type": "float"}, "any": {"type": "any"}, "l": {"type": "tuple"}}}
    assert functions.as_json_schema(said) == {
        "type": "object",
        "properties": {"type": {"type": "number"}, "any": {}, "l": {"type": "array"}},
    }


def test_values_listed_for_an_array_are_those_of_its_items():
    said = {"type": "array", "items": {"type": "string"}, "enum": ["a", "b"]}
    assert functions.as_json_schema(said) == {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}
    assert functions.as_json_schema({"type": "array", "enum": [["a"]]}) == {"type": "array", "enum": [["a"]]}


def test_accepted_answers_vary_one_parameter_at_a_time():
    answers = functions._answers({"a": [1, 2], "b": ["x", ""], "c": [""], "d": [{"e": ["y", "z"]}]})
    assert answers == [{"a": 1, "b": "x", "d": {"e": "y"}}, {"a": 2, "b": "x", "d": {"e": "y"}}]


def test_the_harness_says_what_it_needs(context):
    with pytest.raises(InvalidInput, match="--data"):
        context.need("schemas")
    with pytest.raises(InvalidInput, match="no-such"):
        Context(name="schemas", data=RESULTS.parent, quick=True).need("no-such")


def test_results_carry_their_circumstances(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.common.harness.RESULTS", tmp_path)
    Context(name="x", data=None, quick=True).write({"a": 1})
    assert list(tmp_path.iterdir()) == []
    Context(name="x", data=None, quick=False).write({"a": 1}, seeds=[3])
    said = json.loads((tmp_path / "x.json").read_text())
    assert (said["figures"], said["seeds"]) == ({"a": 1}, [3])
    assert said["versions"]["llguidance"]
    assert {"commit", "machine", "when"} <= said.keys()


def test_quantiles_are_values_that_were_measured():
    assert quantiles([3.0, 1.0, 2.0], points=2) == [1.0, 2.0, 3.0]
    assert quantiles([]) == []
