from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentform.runtime.tokenizer.encodings import Encodings


def test_what_was_put_is_found_and_control_is_another_text():
    known = Encodings()
    known.put("ab", (1, 2), control=False)
    assert known.get("ab", control=False) == (1, 2)
    assert known.get("ab", control=True) is None
    assert known.get("a", control=False) is None


def test_what_was_not_used_for_longest_is_forgotten():
    known = Encodings(max_characters=4)
    known.put("ab", (1,), control=False)
    known.put("cd", (2,), control=False)
    known.get("ab", control=False)
    known.put("e", (3,), control=False)
    assert [known.get(text, control=False) for text in ("ab", "cd", "e")] == [(1,), None, (3,)]


@given(texts=st.lists(st.text(max_size=6), max_size=30), limit=st.integers(0, 12))
def test_the_bound_holds(texts, limit):
    known = Encodings(max_characters=limit)
    for text in texts:
        if known.get(text, control=False) is None:
            known.put(text, (len(text),), control=False)
        assert sum(len(text) for text, _ in known._known) <= limit
        assert known._num_characters == sum(len(text) for text, _ in known._known)
