from __future__ import annotations

import numpy as np
import pytest

from agentform.errors import GrammarError
from agentform.grammar.compile import Compiler
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.vocabulary import Vocabulary
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from tests.support.tiny_tokenizer import write_tiny_tokenizer


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    return HFTokenizer(write_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture(scope="session")
def compiler(tokenizer):
    return Compiler(Vocabulary(tokenizer.tokenizer_json, size=tokenizer.vocabulary_size, eos_ids=tokenizer.eos_ids))


def at(compiler, tokenizer, spec, text):
    """The matcher after `text`."""
    matcher = compiler.compile(spec).matcher()
    matcher.accept(*tokenizer.encode(text))
    return matcher


def regex(text, **around):
    return GrammarSpec(kind="regex", text=text, **around)


def test_allowed_names_the_tokens_that_may_come(compiler, tokenizer):
    allowed = compiler.compile(regex("[xy]z")).matcher().allowed()
    assert allowed.shape == (tokenizer.vocabulary_size,)
    assert sorted(np.flatnonzero(allowed)) == sorted([*tokenizer.encode("x"), *tokenizer.encode("y")])


def test_end_of_sequence_is_allowed_only_where_the_grammar_is_complete(compiler, tokenizer):
    matcher = compiler.compile(regex("a+")).matcher()
    assert not matcher.allowed()[list(tokenizer.eos_ids)].any()
    matcher.accept(*tokenizer.encode("a"))
    assert matcher.allowed()[list(tokenizer.eos_ids)].all()
    assert not matcher.forced().ends


def test_special_tokens_are_never_allowed_as_text(compiler, tokenizer):
    allowed = compiler.compile(regex(r"(.|\n)+")).matcher().allowed()
    assert not allowed[list(tokenizer.special_ids)].any()


def test_forced_text_in_the_middle_comes_as_tokens(compiler, tokenizer):
    forced = compiler.compile(regex("[ab]", lead="hello the ")).matcher().forced()
    assert not forced.ends
    ids = tokenizer.encode("hello the a")
    assert forced.token_ids == ids[: len(forced.token_ids)]
    assert len(forced.token_ids) >= 2


def test_the_last_forced_token_waits_where_the_next_character_may_join_it(compiler, tokenizer):
    """`"` is forced, but `",` is a token of its own: which of the two comes is the model's choice."""
    matcher = at(compiler, tokenizer, regex('"(,|x)'), "")
    assert matcher.forced().token_ids == ()
    assert matcher.allowed()[tokenizer.encode('",')[0]]


def test_forced_text_at_the_end_is_the_remainder(compiler, tokenizer):
    forced = at(compiler, tokenizer, regex("[ab]", follow=', "c": é'), "a").forced()
    assert forced.ends
    assert forced.remainder.decode() == ', "c": é'


def test_a_token_that_reaches_into_follow_leaves_the_rest(compiler, tokenizer):
    spec = GrammarSpec(kind="json_schema", text='{"type": "string"}', follow=", z")
    assert at(compiler, tokenizer, spec, '"a",').forced().remainder == b" z"


def test_a_grammar_at_its_end_has_an_empty_remainder(compiler, tokenizer):
    forced = at(compiler, tokenizer, regex("ab"), "ab").forced()
    assert (forced.ends, forced.remainder) == (True, b"")


def test_looking_ahead_does_not_advance(compiler, tokenizer):
    matcher = at(compiler, tokenizer, regex("[ab]", follow="xyz"), "a")
    assert matcher.forced() == matcher.forced()
    matcher.accept(*tokenizer.encode("xyz"))
    assert matcher.is_complete()


def test_matchers_of_one_grammar_are_independent(compiler, tokenizer):
    compiled = compiler.compile(regex("ab|cd"))
    first, second = compiled.matcher(), compiled.matcher()
    first.accept(*tokenizer.encode("a"))
    second.accept(*tokenizer.encode("cd"))
    first.accept(*tokenizer.encode("b"))
    assert first.is_complete()
    assert second.is_complete()


def test_a_token_that_is_not_allowed_is_an_error(compiler, tokenizer):
    with pytest.raises(GrammarError):
        at(compiler, tokenizer, regex("a"), "b")
