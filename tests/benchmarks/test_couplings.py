"""The parts of the benchmarks `couplings` and `forms` that need no model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.forms.option_trie import build_trie
from benchmarks.couplings.collection import FORMS
from benchmarks.forms.recording import written


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_form_says_of_every_pair_whether_it_is_coupled_and_its_texts_are_always_the_same(form):
    assert form.coupled | form.undecided <= set(form.pairs)
    assert not form.coupled & form.undecided
    assert form.examples(5) == form.examples(7)[:5]
    assert not any("{" in text for text in form.examples(20))
    assert [field.name for field in form.target().form.root.fields] == list(form.options)


def test_a_held_out_form_has_pairs_of_every_kind_and_one_has_numbers_that_are_only_repeated():
    held_out = [form for form in FORMS if form.held_out]
    assert sum(len(form.coupled) for form in held_out) >= 4
    [numbers] = [form for form in held_out if not form.coupled]
    assert numbers.options["boxes"] == numbers.options["floor"]


@given(st.data())
def test_writing_takes_the_most_probable_token_at_every_node(data):
    lines = [(1, 5, 7), (1, 5, 8, 9), (1, 6), (2, 3)]
    trie = build_trie(lines)
    logprobs = [data.draw(st.lists(st.floats(-9, 0), min_size=n, max_size=n)) for n in map(_width, trie.branches)]
    alive, depth = lines, 0
    while len(alive) > 1:
        path = alive[0][:depth]
        branch = next((at for at, b in enumerate(trie.branches) if b.path == path), None)
        if branch is not None:
            row = logprobs[branch]
            token = trie.branches[branch].candidates[max(range(len(row)), key=row.__getitem__)]
            alive = [line for line in alive if line[depth] == token]
        depth += 1
    assert lines[written(trie, logprobs)] == alive[0]


def _width(branch):
    return len(branch.candidates)
