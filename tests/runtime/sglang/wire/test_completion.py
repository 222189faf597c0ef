from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.errors import EngineError, InvalidRequest
from agentform.grammar.compile import Compiler
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.vocabulary import Vocabulary
from agentform.runtime.engine import GenerateRequest
from agentform.runtime.sglang.wire.completion import Completion
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from tests.support.tiny_tokenizer import write_tiny_tokenizer

EOS = 2


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return HFTokenizer(write_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture(scope="module")
def compiler(tokenizer):
    return Compiler(Vocabulary(tokenizer.tokenizer_json, size=tokenizer.vocabulary_size, eos_ids=tokenizer.eos_ids))


@pytest.fixture
def completion(tokenizer):
    def make(grammar=None, **options):
        request = GenerateRequest(prompt_ids=(5, 6, 7), max_tokens=100, **options)
        matcher = grammar.matcher() if grammar is not None else None
        return Completion(request, token_bytes=tokenizer.token_bytes, eos_ids={EOS}, matcher=matcher)

    return make


def replies(ids, pieces, *, cumulative, finish=None, cached=1):
    """What SGLang sends for `ids`, cut after the numbers of tokens in `pieces`."""
    ends = [*sorted({min(piece, len(ids)) for piece in pieces}), len(ids)]
    start = 0
    for index, end in enumerate(ends):
        last = index == len(ends) - 1
        meta = {"completion_tokens": end, "cached_tokens": cached, "finish_reason": finish if last else None}
        yield {"output_ids": list(ids[0 if cumulative else start : end]), "meta_info": meta}
        start = end


def run(completion, said):
    chunks = []
    for reply in said:
        chunk = completion.feed(reply)
        chunks += [chunk] if chunk is not None else []
        if completion.done:
            break
    text = "".join(chunk.text for chunk in chunks)
    return text, tuple(token for chunk in chunks for token in chunk.token_ids), chunks[-1]


LENGTH = {"type": "length", "length": 3}


@given(
    st.lists(st.integers(3, 250), min_size=1, max_size=12),
    st.lists(st.integers(0, 12), max_size=4),
    st.booleans(),
    st.sampled_from([(), ("a",), ("ab", "b")]),
)
def test_how_replies_are_cut_changes_nothing(tokenizer, ids, pieces, cumulative, stop):
    def made():
        request = GenerateRequest(prompt_ids=(5,), max_tokens=100, stop=stop)
        return Completion(request, token_bytes=tokenizer.token_bytes, eos_ids={EOS})

    whole = run(made(), replies(ids, [], cumulative=True, finish=LENGTH))
    assert run(made(), replies(ids, pieces, cumulative=cumulative, finish=LENGTH))[:2] == whole[:2]


def test_eos_ends_and_is_in_neither_text_nor_ids(completion, tokenizer):
    ids = (*tokenizer.encode("hello"), EOS)
    text, taken, last = run(completion(), replies(ids, [1], cumulative=False, finish={"type": "stop", "matched": EOS}))
    assert (text, taken, last.finish) == ("hello", ids[:-1], "eos")
    assert (last.usage.completion_tokens, last.usage.cached_tokens) == (len(ids), 1)
    assert last.usage.computed_tokens == 3 - 1 + len(ids) - 1


def test_a_stop_string_is_found_here_and_cuts_the_text(completion, tokenizer):
    ids = tokenizer.encode("hello world and more")
    text, taken, last = run(completion(stop=("wor", "d")), replies(ids, range(20), cumulative=True))
    assert (text, last.finish, last.stop) == ("hello ", "stop", "wor")
    assert len(taken) < len(ids)
    assert last.usage.completion_tokens == len(taken)


def test_half_characters_wait_and_an_incomplete_one_is_dropped(completion, tokenizer):
    ids = tokenizer.encode("é🚀")
    text, taken, last = run(completion(), replies(ids[:-1], range(9), cumulative=False, finish=LENGTH))
    assert (text, taken, last.finish) == ("é", ids[:-1], "length")


def test_a_grammar_ends_with_the_text_that_it_forces(completion, compiler, tokenizer):
    schema = json.dumps({"enum": ["yes", "no"]})
    grammar = compiler.compile(GrammarSpec(kind="json_schema", text=schema, follow=", "))
    ids = tokenizer.encode('"ye')
    text, taken, last = run(completion(grammar), replies(ids, range(9), cumulative=False))
    assert (text, last.finish) == ('"yes", ', "grammar")
    assert taken == ids[: len(taken)]


def test_a_wholly_forced_grammar_needs_no_reply(completion, compiler):
    grammar = compiler.compile(GrammarSpec(kind="json_schema", text='{"const": "é"}', follow=", "))
    last = completion(grammar).begin()
    assert (last.text, last.token_ids, last.finish) == ('"é", ', (), "grammar")
    assert (last.usage.completion_tokens, last.usage.cached_tokens) == (0, None)


def test_a_deadline_gives_what_was_held_back(completion, tokenizer):
    running = completion(stop=("<end>",))
    running.feed(next(replies(tokenizer.encode("a<e"), [], cumulative=True)))
    last = running.expire()
    assert (last.text, last.finish, running.done) == ("<e", "deadline", True)


def test_an_abort_by_sglang_is_an_error(completion):
    reason = {"type": "abort", "message": "no", "status_code": 400}
    with pytest.raises(InvalidRequest, match="SGLang: no"):
        run(completion(), replies((), [], cumulative=True, finish=reason))


def test_lost_tokens_are_noticed(completion):
    with pytest.raises(EngineError, match="1 of 3 new tokens"):
        completion().feed({"output_ids": [5], "meta_info": {"completion_tokens": 3}})
