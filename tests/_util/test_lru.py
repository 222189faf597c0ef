from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentform._util.lru import BoundedDict


def test_what_was_set_is_found_and_nothing_else():
    known = BoundedDict[str, int](2)
    known["a"] = 1
    assert (known.get("a"), known.use("a"), known.get("b"), known.use("b")) == (1, 1, None, None)
    assert "a" in known
    assert "b" not in known


def test_what_was_not_used_for_longest_is_dropped_and_told():
    gone = []
    known = BoundedDict[str, int](2, dropped=lambda key, value: gone.append((key, value)))
    known["a"], known["b"] = 1, 2
    known.use("a")
    known.get("b")  # no use
    known["c"] = 3
    assert gone == [("b", 2)]
    assert known.items() == [("a", 1), ("c", 3)]


def test_what_is_replaced_or_popped_was_not_dropped():
    gone = []
    known = BoundedDict[str, int](1, dropped=lambda key, value: gone.append(key))
    known["a"] = 1
    known["a"] = 2
    assert known.pop("a") == 2
    assert known.pop("a") is None
    assert (gone, len(known), known.total) == ([], 0, 0)


def test_a_default_is_set_once_and_using_it_keeps_it():
    known = BoundedDict[str, list[int]](2)
    known.setdefault("a", []).append(1)
    known["b"] = []
    assert known.setdefault("a", []) == [1]
    known["c"] = []
    assert "b" not in known


def test_what_alone_is_too_heavy_does_not_stay():
    gone = []
    known = BoundedDict[str, str](3, weight=lambda _, value: len(value), dropped=lambda key, _: gone.append(key))
    known["a"], known["b"] = "xx", "xxxx"
    assert (gone, len(known)) == (["a", "b"], 0)


@given(texts=st.lists(st.text(max_size=6), max_size=30), limit=st.integers(0, 12))
def test_the_bound_holds_and_the_total_is_that_of_the_entries(texts, limit):
    known = BoundedDict[str, int](limit, weight=lambda key, _: len(key))
    for text in texts:
        if known.use(text) is None:
            known[text] = len(text)
        assert known.total == sum(len(key) for key, _ in known.items()) <= limit


@given(keys=st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=40), limit=st.integers(1, 5))
def test_the_last_distinct_uses_are_what_stays(keys, limit):
    known = BoundedDict[str, int](limit)
    uses: list[str] = []
    for at, (key, sets) in enumerate(keys):
        if sets:
            known[key] = at
        if sets or known.use(key) is not None:
            uses = [*(use for use in uses if use != key), key][-limit:]
    assert [key for key, _ in known.items()] == uses
