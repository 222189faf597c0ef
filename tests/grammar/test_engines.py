"""Both grammar engines by the same samples, and by what the keyword table says of each."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from agentform.errors import GrammarError
from agentform.grammar.compile import Compiler
from agentform.grammar.keywords import ENFORCED, FORMATS, KEYWORDS, PARTLY, VALIDATED
from agentform.grammar.prepare import grammar_relaxations, prepare
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.vocabulary import Vocabulary
from agentform.json_schema.keywords import ANNOTATIONS
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from agentform.schema import keywords as schema_keywords
from agentform.schema.json_text import dumps
from tests.support.keyword_samples import FORMAT_SAMPLES, SAMPLES
from tests.support.tiny_tokenizer import write_tiny_tokenizer

ENGINES = ("llguidance", "xgrammar")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return HFTokenizer(write_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture(scope="module")
def compilers(tokenizer):
    from agentform.grammar.xgrammar import XGrammarCompiler

    pytest.importorskip("xgrammar")
    vocabulary = Vocabulary(tokenizer.tokenizer_json, size=tokenizer.vocabulary_size, eos_ids=tokenizer.eos_ids)
    return {"llguidance": Compiler(vocabulary), "xgrammar": XGrammarCompiler(vocabulary)}


@pytest.fixture
def takes(compilers, tokenizer):
    """Whether an engine's grammar of a specification takes a text, each token being in the mask before it."""

    def takes(engine, spec, text):
        matcher = compilers[engine].compile(spec).matcher()
        for token in tokenizer.encode(text):
            if not matcher.allowed()[token]:
                return False
            matcher.accept(token)
        return matcher.is_complete()

    return takes


def spec_of(schema, **around):
    return GrammarSpec(kind="json_schema", text=json.dumps(schema), **around)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.keyword)
def test_samples_say_what_json_schema_means(sample):
    validator = Draft202012Validator(sample.schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    assert [value for value in sample.accepted if not validator.is_valid(value)] == []
    assert [value for value in sample.refused if validator.is_valid(value)] == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.keyword)
def test_grammar_keeps_what_the_table_says(takes, engine, sample):
    spec = spec_of(sample.schema)
    assert [value for value in sample.accepted if not takes(engine, spec, dumps(value))] == []
    level = KEYWORDS[sample.keyword].level(engine)
    passed = [value for value in sample.refused if takes(engine, spec, dumps(value))]
    if level == ENFORCED:
        assert passed == []
    elif level == VALIDATED:
        assert passed, "the table could claim more"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", FORMAT_SAMPLES)
def test_grammar_keeps_the_formats_that_it_says(takes, engine, name):
    good, bad = FORMAT_SAMPLES[name]
    spec = spec_of({"type": "string", "format": name})
    assert takes(engine, spec, dumps(good))
    assert takes(engine, spec, dumps(bad)) == (name not in FORMATS[engine])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [("regex", "[a-z]{2}", "ab"), ("json_schema", '{"enum": ["ab", 7]}', '"ab"')],
)
def test_lead_and_follow_stand_around_the_value(takes, engine, kind, text, value):
    spec = GrammarSpec(kind=kind, text=text, lead='a"', follow="\n}")
    assert takes(engine, spec, f'a"{value}\n}}')
    assert not takes(engine, spec, f"{value}\n}}")
    assert not takes(engine, spec, f'a"{value}')


@pytest.mark.parametrize("engine", ENGINES)
def test_forced_text_is_found(compilers, tokenizer, engine):
    matcher = compilers[engine].compile(spec_of({"enum": ["world one", "world two"]})).matcher()
    forced = matcher.forced()
    assert not forced.ends
    assert tokenizer.decode(forced.token_ids).startswith('"world')
    matcher.accept(*forced.token_ids)
    for token in tokenizer.encode('"world one"'[len(tokenizer.decode(forced.token_ids)) :][:2]):
        matcher.accept(token)
    last = matcher.forced()
    assert last.ends
    assert last.remainder.endswith(b'e"')


@pytest.mark.parametrize("engine", ENGINES)
def test_a_finished_value_ends(compilers, tokenizer, engine):
    matcher = compilers[engine].compile(spec_of({"const": True})).matcher()
    assert matcher.forced().remainder == b"true"
    matcher.accept(*tokenizer.encode("true"))
    assert matcher.forced().ends


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"type": "nothing"}', '{"not":' * 9_000 + "true" + "}" * 9_000, '{"items":' * 500 + "{}" + "}" * 500],
)
def test_what_is_no_schema_is_a_grammar_error(compilers, engine, text):
    with pytest.raises(GrammarError):
        compilers[engine].compile(GrammarSpec(kind="json_schema", text=text))


@pytest.mark.parametrize("engine", ENGINES)
def test_fault_09_a_lookahead_pattern_costs_only_itself(takes, compilers, engine):
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "^(?=x)y", "maxLength": 3}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    compiled = compilers[engine].compile(spec_of(schema))
    assert [(item.pointer, "lookaround" in item.what) for item in compiled.relaxed] == [("/properties/a/pattern", True)]
    assert takes(engine, spec_of(schema), '{"a": "zz", "b": 1}')
    assert not takes(engine, spec_of(schema), '{"a": "zzzz", "b": 1}')
    assert not takes(engine, spec_of(schema), '{"a": "zz", "b": "1"}')


def test_relaxations_have_their_places():
    schema = {
        "type": "object",
        "title": "T",
        "properties": {
            "a/b": {"type": "array", "items": {"type": "string", "format": "phone"}, "uniqueItems": True},
            "c": {"type": "integer", "minimum": 2**60},
            "d": {"type": "array", "uniqueItems": False},
        },
        "patternProperties": {"^(?!x)": {"type": "string"}},
        "additionalProperties": False,
        "not": {"required": ["c"]},
        "madeUp": 1,
    }
    assert [item.pointer for item in grammar_relaxations(schema)] == [
        "/not",
        "/madeUp",
        "/patternProperties/^(?!x)",
        "/properties/a~1b/uniqueItems",
        "/properties/a~1b/items/format",
        "/properties/c/minimum",
    ]
    assert grammar_relaxations({"type": "object", "properties": {"a": {"type": "string"}}}) == ()


@pytest.mark.parametrize("engine", ENGINES)
def test_bounds_beyond_exact_numbers_refuse_nothing_legal(takes, engine):
    spec = spec_of({"type": "integer", "minimum": 2**63, "maximum": 2**63 + 5})
    assert takes(engine, spec, str(2**63 + 5))
    assert not takes(engine, spec, "7")


@pytest.mark.parametrize(
    ("schema", "kept"),
    [
        ({"minimum": 2**53 + 1}, {"minimum": 2**53}),
        ({"maximum": 2**53 + 1}, {"maximum": 2**53 + 2}),
        ({"minimum": 10**17}, {"minimum": 10**17}),
        ({"exclusiveMinimum": 10**17}, {"minimum": 10**17}),
        ({"minimum": 2**60}, {"minimum": 10**18 - 128}),
        ({"maximum": 2**60}, {}),
        ({"minimum": -(2**60)}, {}),
        ({"exclusiveMaximum": -(2**60)}, {"maximum": 128 - 10**18}),
        ({"minimum": 20_000_000_000}, {"minimum": 20_000_000_000}),
    ],
)
def test_bounds_become_the_nearest_exact_ones(schema, kept):
    assert prepare(schema, "llguidance").schema == kept


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("item", "legal"),
    [
        ({"enum": [2**54 + 1, 2**54 + 3, "x"]}, f'[{2**54 + 1}, {2**54 + 3}, "x"]'),
        ({"const": 2**60 + 1}, f"[{2**60 + 1}]"),
        ({"const": [2**60 + 1]}, f"[[{2**60 + 1}]]"),
        ({"enum": [2**70 + 1, None]}, f"[{2**70 + 1}, null]"),
    ],
)
def test_values_beyond_exact_numbers_are_not_written_as_others(takes, engine, item, legal):
    assert takes(engine, spec_of({"type": "array", "items": item}), legal)


@pytest.mark.parametrize("step", [0.07, 1.0, 3])
def test_steps_that_are_not_counted_in_keep_their_decimals(takes, step):
    spec = spec_of({"type": "number", "multipleOf": step})
    assert takes("llguidance", spec, "21")
    assert not takes("llguidance", spec, "0.005")


def test_tables_of_schema_and_grammar_know_the_same_words():
    assert set(KEYWORDS) == set(schema_keywords.IMPLEMENTED)
    assert not set(KEYWORDS) & ANNOTATIONS
    assert {row.level(engine) for row in KEYWORDS.values() for engine in ENGINES} == {ENFORCED, PARTLY, VALIDATED}


HARD = [
    {"patternProperties": {"a": {"type": "integer"}, "b": {"minimum": 3}}, "type": "object"},
    {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "allOf": [{"$ref": "#/$defs/n"}, {"required": ["x"]}]}}},
    {"type": "object", "properties": {"a": {"type": "string", "pattern": "a$b"}}},
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("schema", HARD)
def test_what_an_engine_cannot_take_is_weakened_and_said(compilers, engine, schema):
    compiled = compilers[engine].compile(spec_of(schema))
    assert compiled.relaxed
    assert compiled.matcher().allowed().any()
