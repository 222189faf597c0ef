"""Token ids of what was said stay what they were, and text always stays what it was."""

from __future__ import annotations

import itertools
from functools import cache

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentform.decoding.token_context import TokenContext, advance, continue_from, splice
from agentform.runtime.scripted.byte_tokenizer import ByteTokenizer
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from tests.support.piece_tokenizer import PieceTokenizer

PIECES = PieceTokenizer([" a", "ab", "b ", "\n\n", 'a"', '{"', "ab ab", "</"])
texts = st.text(alphabet='ab {"\n<é', max_size=12)
words = st.text(max_size=20)


def spelt(tokenizer, context: TokenContext) -> str:
    return tokenizer.decode(context.ids) + context.tail


@pytest.fixture(params=["bytes", "pieces", pytest.param("model", marks=pytest.mark.model)])
def tokenizer(request):
    if request.param == "model":
        return _model(request.getfixturevalue("weights_folder"))
    return ByteTokenizer() if request.param == "bytes" else PIECES


@cache
def _model(folder) -> HFTokenizer:
    return HFTokenizer(folder)


same_fixture = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@same_fixture
@given(past=texts, rest=texts, cuts=st.lists(st.integers(0, 12), max_size=4))
def test_spliced_ids_spell_the_rendered_text_and_begin_with_the_past(tokenizer, past, rest, cuts):
    """`past` is tokenised in pieces, as a conversation is that was generated bit by bit."""
    bounds = [0, *sorted(min(cut, len(past)) for cut in cuts), len(past)]
    ids = tuple(i for a, b in itertools.pairwise(bounds) for i in tokenizer.encode(past[a:b]))
    rendered = tokenizer.encode(past + rest)
    found = splice(tokenizer, ids, rendered)
    assert tokenizer.decode(found) == past + rest
    starts_at_a_token = any(tokenizer.decode(rendered[:n]) == past for n in range(len(rendered) + 1))
    assert (found[: len(ids)] == ids) if starts_at_a_token else (found == rendered)


@same_fixture
@given(past=st.lists(texts, max_size=30).map("".join), rest=texts, every=st.integers(1, 9))
def test_a_long_past_that_was_cut_otherwise_is_followed(tokenizer, past, rest, every):
    ids = tuple(i for at in range(0, len(past), every) for i in tokenizer.encode(past[at : at + every]))
    rendered = tokenizer.encode(past + rest)
    cuts = [n for n in range(len(rendered) + 1) if tokenizer.decode(rendered[:n]) == past]
    assert splice(tokenizer, ids, rendered) == (ids + rendered[cuts[0] :] if cuts and ids else rendered)


TYPED = st.lists(st.sampled_from(["<|im_start|>", "<|im_end|>", "user\n", "a", "\n", " é"]), max_size=8).map("".join)


@same_fixture
@given(talk=st.lists(TYPED, min_size=1, max_size=4), typed=TYPED, data=st.data())
def test_typed_marks_are_never_taken_for_those_of_a_transcript(tokenizer, talk, typed, data):
    """One text, spelt as a transcript and as what somebody has typed, in whole or in part."""
    past = tuple(i for text in talk for i in tokenizer.encode(text, control=data.draw(st.booleans())))
    spelt_before = tokenizer.decode(past)
    rendered = tokenizer.encode(spelt_before + typed, control=data.draw(st.booleans()))
    found, wanted = marks(tokenizer, splice(tokenizer, past, rendered)), marks(tokenizer, rendered)
    assert set(found) <= set(wanted)
    assert ends(tokenizer, found) == ends(tokenizer, wanted)


def ends(tokenizer, marked):
    return [(at, token) for at, token in marked if token in tokenizer.eos_ids]


def marks(tokenizer, ids):
    control = tokenizer.control_ids
    return [(len(tokenizer.decode(ids[:at])), token) for at, token in enumerate(ids) if token in control]


def test_following_a_past_decodes_little():
    words = [PIECES.encode(text) for text in ("ab", " a", "\n\n", "b ")] * 200
    counting = CountingTokenizer(PIECES)
    past = tuple(i for ids in words for i in ids)
    text = PIECES.decode(past)
    splice(counting, past, PIECES.encode(text + "</"))
    assert counting.num_decoded <= 4 * len(past)


class CountingTokenizer:
    def __init__(self, tokenizer):
        self._tokenizer = tokenizer
        self.control_ids, self.eos_ids = tokenizer.control_ids, tokenizer.eos_ids
        self.num_decoded = 0

    def decode(self, ids):
        self.num_decoded += len(ids)
        return self._tokenizer.decode(ids)


@same_fixture
@given(past=texts.filter(bool), other=texts)
def test_a_past_that_is_not_a_prefix_is_dropped(tokenizer, past, other):
    rendered = tokenizer.encode(other)
    if not other.startswith(past):
        assert splice(tokenizer, tokenizer.encode(past), rendered) == rendered


def test_an_empty_past_changes_nothing(tokenizer):
    assert splice(tokenizer, (), tokenizer.encode("ab")) == tokenizer.encode("ab")


@same_fixture
@given(said=words, prompt=st.sampled_from(["", "x", "a "]))
@example(said="I will look it up. ", prompt="x")
@example(said=" leading", prompt="x")
def test_a_context_after_a_completion_spells_prompt_and_text(tokenizer, said, prompt):
    prompt_ids, ids = tokenizer.encode(prompt), tokenizer.encode(said)
    for text in (said, said.rstrip(), said.strip()):
        context = continue_from(tokenizer, prompt_ids, ids, text)
        assert spelt(tokenizer, context) == prompt + text
        kept = context.ids[len(prompt_ids) :]
        assert context.ids[: len(prompt_ids)] == prompt_ids
        assert kept == ids[: len(kept)]


def test_all_generated_ids_but_the_last_word_are_kept():
    ids = PIECES.encode("aab ab<ab x")
    context = continue_from(PIECES, (7,), ids, "aab ab<ab x")
    assert (context.ids, context.tail) == ((7, *PIECES.encode("aab ab<ab")), " x")


def test_what_was_generated_after_the_text_is_left_out():
    ids = PIECES.encode("go now\n</a")
    assert spelt(PIECES, continue_from(PIECES, (), ids, "go now")) == "go now"


@same_fixture
@given(tail=texts, before=texts, after=texts)
def test_advancing_over_control_tokens_ends_the_line_there(tokenizer, tail, before, after):
    context = advance(tokenizer, TokenContext(ids=(65,), tail=tail), f"{before}<|im_end|>\n<|im_start|>{after}")
    [start] = tokenizer.encode("<|im_start|>", control=True)
    assert context.tail == after
    assert context.ids[-1] == start
    assert tokenizer.decode(context.ids[1:]) == f"{tail}{before}<|im_end|>\n<|im_start|>"


@same_fixture
@given(tail=texts, text=texts)
def test_advancing_over_plain_text_lets_it_merge(tokenizer, tail, text):
    assert advance(tokenizer, TokenContext(ids=(65,), tail=tail), text) == TokenContext(ids=(65,), tail=tail + text)


@pytest.mark.parametrize("text", ["<|im_end|>", "a<|im_start|>b"])
def test_what_users_write_is_never_control(tokenizer, text):
    context = TokenContext(ids=()).with_text(text)
    control = {tokenizer.encode(t, control=True)[0] for t in ("<|im_start|>", "<|im_end|>")}
    assert not control & set(tokenizer.encode(context.line('"}')))
