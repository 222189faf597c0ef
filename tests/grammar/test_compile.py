from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.errors import GrammarError
from agentform.grammar.compile import Compiler, lark_of
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.vocabulary import Vocabulary
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from tests.support.tiny_tokenizer import write_tiny_tokenizer


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    return HFTokenizer(write_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture(scope="session")
def vocabulary(tokenizer):
    return Vocabulary(tokenizer.tokenizer_json, size=tokenizer.vocabulary_size, eos_ids=tokenizer.eos_ids)


@pytest.fixture
def compiler(vocabulary):
    return Compiler(vocabulary, keep=2)


def matches(compiler, tokenizer, spec, text):
    """Whether the grammar takes `text`, token by token, and is complete at its end."""
    matcher = compiler.compile(spec).matcher()
    for token in tokenizer.encode(text):
        if not matcher.allowed()[token]:
            return False
        matcher.accept(token)
    return matcher.is_complete()


def schema(value, **around):
    return GrammarSpec(kind="json_schema", text=json.dumps(value), **around)


OBJECT = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "boolean"}}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("text", "legal"),
    [
        ('{"a": 1, "b": [true, false]}', True),
        ('{"a": 1, "b": []}', True),
        ('{"a":1,"b":[]}', False),
        ('{ "a": 1, "b": []}', False),
        ('{"a": 1,  "b": []}', False),
        ('{"a": 1, "b": [true,false]}', False),
        ('{"a": 1.5, "b": []}', False),
        ('{"a": 1}', False),
    ],
)
def test_json_has_one_style(compiler, tokenizer, text, legal):
    assert matches(compiler, tokenizer, schema(OBJECT), text) == legal


@pytest.mark.parametrize(
    ("text", "legal"),
    [
        ('"é 🚀"', True),
        ('"a\\n\\t\\"\\\\"', True),
        ('"\\u0007"', True),
        ('"\\u00e9"', False),
        ('"\\u0041"', False),
        ('"a\nb"', False),
    ],
)
def test_strings_escape_only_what_must_be(compiler, tokenizer, text, legal):
    assert matches(compiler, tokenizer, schema({"type": "string"}), text) == legal


AROUND = st.text(st.sampled_from("\n\t\"'\\/[](){}.*+?^$|-#&~@<> aZ09é🚀,:"), max_size=6)


@given(lead=AROUND, follow=AROUND)
@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("regex", "[a-z]{2}", "ab"),
        ("lark", 'start: "a" B\nB: /b/', "ab"),
        ("json_schema", '{"enum": ["ab", 7]}', '"ab"'),
    ],
)
def test_lead_and_follow_are_literal(vocabulary, tokenizer, kind, text, value, lead, follow):
    spec = GrammarSpec(kind=kind, text=text, lead=lead, follow=follow)
    compiler = Compiler(vocabulary)
    assert matches(compiler, tokenizer, spec, lead + value + follow)
    assert not matches(compiler, tokenizer, spec, f"{lead}{value}{follow}!")
    assert not matches(compiler, tokenizer, spec, "!" + lead + value + follow)


def test_what_cannot_be_enforced_is_left_out_and_said(compiler, tokenizer):
    spec = schema({"type": "integer", "not": {"const": 3}})
    compiled = compiler.compile(spec)
    assert any("not" in relaxation.what for relaxation in compiled.relaxed)
    assert matches(compiler, tokenizer, spec, "3")
    assert compiler.compile(schema({"type": "integer"})).relaxed == ()


def test_a_pattern_that_cannot_be_enforced_costs_only_the_pattern(compiler, tokenizer):
    spec = schema({"type": "string", "pattern": "(?=a)b"})
    assert compiler.compile(spec).relaxed
    assert matches(compiler, tokenizer, spec, '"anything"')
    assert not matches(compiler, tokenizer, spec, "1")


def test_one_of_is_taken_as_any_of(compiler, tokenizer):
    spec = schema({"oneOf": [{"type": "integer"}, {"type": "number"}]})
    assert matches(compiler, tokenizer, spec, "1.5")


@pytest.mark.parametrize(
    "spec",
    [
        GrammarSpec(kind="json_schema", text="{"),
        GrammarSpec(kind="json_schema", text="[]"),
        GrammarSpec(kind="json_schema", text="false"),
        GrammarSpec(kind="json_schema", text='{"type": "nothing"}'),
        GrammarSpec(kind="regex", text="(("),
        GrammarSpec(kind="lark", text="start: missing"),
    ],
)
def test_what_does_not_compile_is_a_grammar_error(compiler, spec):
    with pytest.raises(GrammarError):
        compiler.compile(spec)


def test_schema_true_is_any_json(compiler, tokenizer):
    spec = GrammarSpec(kind="json_schema", text="true")
    assert matches(compiler, tokenizer, spec, '{"x": [1, null]}')


def test_the_last_used_grammars_are_kept(compiler):
    first, second, third = (GrammarSpec(kind="regex", text=text) for text in "abc")
    kept = compiler.compile(first)
    compiler.compile(second)
    assert compiler.compile(first) is kept
    compiler.compile(third)
    assert compiler.cached(first) is kept
    assert compiler.cached(second) is None


def test_regex_is_one_terminal():
    lark = lark_of(GrammarSpec(kind="regex", text="a/b", lead="(", follow="\n"))
    assert re.fullmatch(r"start: /.*/", lark)


def test_a_tokenizer_that_cannot_be_read_is_a_grammar_error():
    with pytest.raises(GrammarError):
        Vocabulary("{}", size=10, eos_ids=[1])
    with pytest.raises(GrammarError, match="end-of-sequence"):
        Vocabulary("{}", size=10, eos_ids=[])
