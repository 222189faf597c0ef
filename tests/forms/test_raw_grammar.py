"""Strings that are written as they are obey their pattern, lengths and options, and end at the closing mark."""

from __future__ import annotations

import pytest

from agentform.errors import GrammarError
from agentform.forms.raw_grammar import raw_grammar
from agentform.grammar.compile import Compiler
from agentform.grammar.vocabulary import Vocabulary
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from agentform.schema.form import Free
from tests.support.tiny_tokenizer import write_tiny_tokenizer

MARK, CONTROL = "\n</parameter>", "</think>"
SCHEMAS = {
    "a pattern": ({"pattern": "^[A-Z]{2}-[0-9]+$"}, ["AB-1042"], ["AB", "AB-1 ", "xAB-1"]),
    "a pattern found anywhere": ({"pattern": "b/c"}, ["ab/cd", "b/c"], ["bc", ""]),
    "lengths": ({"minLength": 2, "maxLength": 4}, ["ab", "é\nüx"], ["a", "abcde"]),
    "options": ({"enum": ["a.b", "two words", '"'], "maxLength": 9}, ["a.b", "two words", '"'], ["axb", "a"]),
    "an anchor of one arm, which the validator knows": ({"pattern": "^a|b$", "maxLength": 3}, ["ab", "xxx"], ["aaaa"]),
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return HFTokenizer(write_tiny_tokenizer(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def compiler(tokenizer):
    vocabulary = Vocabulary(tokenizer.for_grammars(), size=tokenizer.vocabulary_size, eos_ids=tokenizer.eos_ids)
    return Compiler(vocabulary)


def leaf(**rules):
    return Free(path=("order",), schema={"type": "string", **rules})


def accepts(compiler, spec, ids):
    matcher = compiler.compile(spec).matcher()
    try:
        matcher.accept(*ids)
    except GrammarError:
        return False
    return matcher.is_complete()


@pytest.mark.parametrize("mark", [MARK, CONTROL], ids=["a text", "a control token"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_what_the_schema_accepts_is_written_and_nothing_else(tokenizer, compiler, name, mark):
    rules, right, wrong = SCHEMAS[name]
    spec = raw_grammar(tokenizer, leaf(**rules), (mark,))
    closing = tokenizer.encode(mark, control=True)
    assert [text for text in right if not accepts(compiler, spec, tokenizer.encode(text) + closing)] == []
    assert [text for text in wrong if accepts(compiler, spec, tokenizer.encode(text) + closing)] == []
    assert not accepts(compiler, spec, tokenizer.encode(right[0]))


def test_the_closing_mark_is_never_a_part_of_the_value(tokenizer, compiler):
    spec = raw_grammar(tokenizer, leaf(maxLength=80), ("',", "')"))
    assert accepts(compiler, spec, tokenizer.encode("it's',"))
    assert not accepts(compiler, spec, tokenizer.encode("a', b')"))


def test_a_string_without_rules_has_no_grammar(tokenizer):
    assert raw_grammar(tokenizer, leaf(), (MARK,)) is None
    assert raw_grammar(tokenizer, leaf(description="An order.", format="x"), (MARK,)) is None


def test_what_no_automaton_knows_is_refused_when_it_is_compiled(tokenizer, compiler):
    spec = raw_grammar(tokenizer, leaf(pattern="^(?=a)[a-c]+$"), (MARK,))
    with pytest.raises(GrammarError):
        compiler.compile(spec)
