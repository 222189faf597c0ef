"""A tokenizer that is read already gives the vocabulary that its JSON text gives."""

from __future__ import annotations

import hashlib
import json
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, pre_tokenizers

from agentform.grammar.compile import Compiler
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.vocabulary import ReadTokenizer, Vocabulary
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from tests.support.tiny_tokenizer import CHATML_WITH_TOOLS, write_tiny_tokenizer

SPECS = [
    GrammarSpec(kind="regex", text=r"(.|\n)+"),
    GrammarSpec(kind="regex", text="[ab]", lead="hello the wörld ", follow='", '),
    GrammarSpec(kind="json_schema", text='{"type": "object", "properties": {"é<": {"enum": ["hello", "user"]}}}'),
    GrammarSpec(kind="lark", text='start: "the" <tool_call> /[0-9]+/ <|im_end|>'),
]


@cache
def tokenizer():
    with tempfile.TemporaryDirectory() as folder:
        return HFTokenizer(write_tiny_tokenizer(Path(folder), template=CHATML_WITH_TOOLS))


@cache
def both(more=0):
    size = tokenizer().vocabulary_size + more
    read = tokenizer().for_grammars()
    assert isinstance(read, ReadTokenizer)
    return [Vocabulary(made, size=size, eos_ids=tokenizer().eos_ids) for made in (read, tokenizer().tokenizer_json)]


def control_tokens():
    read = tokenizer().for_grammars()
    return [read.token_bytes[token] for token in read.special_ids]


@pytest.mark.parametrize("more", [0, 5])
def test_tokens_and_their_bytes_are_the_same(more):
    read, text = both(more)
    for token in range(read.size):
        assert read.native.is_special_token(token) == text.native.is_special_token(token)
        assert read.token_bytes(token) == text.token_bytes(token)
    assert (read.size, read.eos_ids, read.digest) == (text.size, text.eos_ids, text.digest)


def test_the_digest_is_over_the_whole_tokenizer():
    read, _ = both()
    said = f"{read.size} {read.eos_ids} {tokenizer().tokenizer_json}"
    assert read.digest == hashlib.sha256(said.encode()).hexdigest()


@given(text=st.text(alphabet=st.sampled_from("he lo\nusr<|im_end|>_tcaé🚀\"',:"), max_size=30) | st.just("a<think>"))
@settings(max_examples=200, deadline=None)
def test_text_is_cut_into_the_same_tokens(text):
    read, other = both()
    cut = text.encode()[:-1]  # perhaps within a character
    if not any(spelt in cut for spelt in control_tokens()):  # from JSON, llguidance takes these for the tokens
        assert read.tokenize(cut) == other.tokenize(cut)
    assert read.tokenize(text.encode()) == (list(tokenizer().encode(text)))


@pytest.mark.parametrize("spelt", ["<|im_end|>", "x<tool_call>y", "</tool_call><|endoftext|>"])
def test_text_that_spells_a_control_token_is_cut_into_others(spelt):
    read, _ = both()
    ids = read.tokenize(spelt.encode())
    assert b"".join(map(read.token_bytes, ids)) == spelt.encode()
    matcher = Compiler(read).compile(GrammarSpec(kind="regex", text="[ab]", lead=f"so {spelt} ")).matcher()
    matcher.accept(*matcher.forced().token_ids)
    assert not matcher.is_complete()


@pytest.mark.parametrize("spec", SPECS)
def test_a_grammar_allows_and_forces_the_same(spec):
    a, b = (Compiler(vocabulary).compile(spec).matcher() for vocabulary in both())
    for step in range(12):
        assert np.array_equal(a.allowed(), b.allowed())
        assert a.forced() == b.forced()
        choices = np.flatnonzero(a.allowed())
        if a.forced().ends or not len(choices):
            break
        token = int(choices[step * 7 % len(choices)])
        a.accept(token)
        b.accept(token)


@pytest.mark.parametrize("change", ["a space before the first word", "words, not bytes"])
def test_where_the_bytes_of_a_text_are_not_those_of_its_ids_llguidance_reads_the_tokenizer(tmp_path, change):
    folder = write_tiny_tokenizer(tmp_path)
    backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
    if change == "words, not bytes":
        backend.decoder = None
    else:
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    backend.save(str(folder / "tokenizer.json"))
    made = HFTokenizer(folder).for_grammars()
    assert isinstance(made, str)
    assert json.loads(made)["model"]["type"] == "BPE"
