"""Options as tokens in context: scores are those of a walk over all options, decision by decision."""

from __future__ import annotations

import math
import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.errors import TokenizationChanged
from agentform.forms.option_trie import build_trie, option_lines
from agentform.runtime.scripted.byte_tokenizer import ByteTokenizer
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from agentform.schema.json_text import dumps
from tests.support.piece_tokenizer import PieceTokenizer
from tests.support.tiny_tokenizer import write_tiny_tokenizer

AWKWARD = ["get", "get_all", "get_all_now", "", "名古屋", "名前", "Österreich", 'say "hi"', "a\n   b", "<|im_end|>"]


def log_p(prefix: tuple[int, ...], token: int) -> float:
    """Some model: any function of prefix and token will do."""
    return math.log(random.Random(f"{prefix}{token}").uniform(0.01, 1))


def brute_force(lines) -> list[float]:
    """Per line, the product over the positions at which another line that came this far goes elsewhere."""
    scores = []
    for line in lines:
        score = 0.0
        for depth, token in enumerate(line):
            prefix = line[:depth]
            if len({other[depth] for other in lines if other[:depth] == prefix and len(other) > depth}) > 1:
                score += log_p(prefix, token)
        scores.append(score)
    return scores


def scores_of(trie) -> tuple[float, ...]:
    asked = [tuple(log_p(branch.path, c) for c in branch.candidates) for branch in trie.branches]
    return trie.log_scores(asked)


texts = st.text(alphabet='ab_"é\n', max_size=8)
option_sets = st.lists(texts, min_size=2, max_size=8, unique=True)


@given(options=option_sets, pieces=st.lists(st.text(alphabet='ab_"', min_size=2, max_size=4), max_size=6), lead=texts)
def test_scores_are_the_products_over_decision_nodes(options, pieces, lead):
    tokenizer = PieceTokenizer(pieces)
    lines = option_lines(tokenizer, lead, [dumps(option) + "}" for option in options])
    trie = build_trie(lines)
    assert scores_of(trie) == pytest.approx(brute_force(lines))
    assert all(len(branch.candidates) > 1 for branch in trie.branches)
    assert len({branch.path for branch in trie.branches}) == len(trie.branches)


@given(options=option_sets)
def test_with_all_probability_on_one_path_its_option_has_the_highest_score(options):
    lines = option_lines(ByteTokenizer(), "x", [dumps(option) for option in options])
    trie = build_trie(lines)
    for index, line in enumerate(lines):
        asked = [
            tuple(0.0 if line[: len(b.path) + 1] == (*b.path, c) else -9.0 for c in b.candidates) for b in trie.branches
        ]
        scores = trie.log_scores(asked)
        assert scores[index] == 0.0
        assert max(s for i, s in enumerate(scores) if i != index) <= -9.0


@pytest.mark.parametrize("kind", ["bytes", "bpe"])
def test_awkward_options_can_all_be_told_apart(kind, tmp_path):
    tokenizer = ByteTokenizer() if kind == "bytes" else HFTokenizer(write_tiny_tokenizer(tmp_path))
    texts = [f" {dumps(option)}}}" for option in AWKWARD]
    lines = option_lines(tokenizer, '{"a":', texts)
    trie = build_trie(lines)
    assert scores_of(trie) == pytest.approx(brute_force(lines))
    assert len(set(trie.turns)) == len(AWKWARD)
    assert [tokenizer.decode(line) for line in lines] == ['{"a":' + text for text in texts]
    control = {tokenizer.encode(text, control=True)[0] for text in ("<|im_start|>", "<|im_end|>")}
    assert not control & {token for line in lines for token in line}


def test_an_option_that_begins_another_is_told_apart_where_it_ends():
    lines = option_lines(ByteTokenizer(), "", [dumps(o) for o in ("get", "get_all", "get_all_now")])
    trie = build_trie(lines)
    assert [bytes(b.path) for b in trie.branches] == [b'"get', b'"get_all']
    assert [bytes(b.candidates) for b in trie.branches] == [b'"_', b'"_']
    assert trie.turns == (((0, 0),), ((0, 1), (1, 0)), ((0, 1), (1, 1)))


def test_merges_across_the_seam_hold():
    tokenizer = PieceTokenizer([':"', 'a"'])
    assert option_lines(tokenizer, "k:", ['"a"', '"b"']) == (
        (ord("k"), 1000, 1001),
        (ord("k"), 1000, ord("b"), ord('"')),
    )


def test_five_thousand_options_ask_at_fewer_places_than_there_are_options():
    options = [f'"customer {i * 7919 % 100_000:05d} / region {i % 17}"}}' for i in range(5000)]
    lead = "x" * 40 + '\n{"customer": {"id":'
    trie = build_trie(option_lines(ByteTokenizer(), lead, options))
    assert len(set(trie.turns)) == 5000
    assert len(trie.branches) < 5000
    assert sum(len(branch.candidates) for branch in trie.branches) < 2 * 5000
    assert len(trie.branches[0].path) == len(lead) + len('"customer ')


@given(near=st.integers(0, 3), pieces=st.lists(st.sampled_from(["\n{", ' "', "x\n", "y z"]), max_size=3))
def test_many_options_have_the_same_lines_as_few(near, pieces):
    tokenizer = PieceTokenizer(pieces)
    options = [f' "o{i}"}}' for i in range(40)]
    lead = 'xy zx\n{"a": {' + '"b":' * near
    assert option_lines(tokenizer, lead, options) == tuple(tokenizer.encode(lead + o) for o in options)


@pytest.mark.parametrize("lines", [[(1, 2), (1, 2)], [(1, 2), (1, 2, 3)], [(4,), (1, 2, 3), (1, 2)]])
def test_lines_that_cannot_be_told_apart_are_refused(lines):
    with pytest.raises(TokenizationChanged, match="cannot be told"):
        build_trie(lines)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_option_that_the_tokenizer_changes_is_refused(at):
    class Normalising(ByteTokenizer):
        def encode(self, text, *, control=False):
            return super().encode(unicodedata.normalize("NFC", text), control=control)

    options = ['"x"', '"y"', '"z"']
    options[at] = '"e\u0301"'
    with pytest.raises(TokenizationChanged, match="does not survive"):
        option_lines(Normalising(), "k:", options)
