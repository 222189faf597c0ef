"""Slots of a snapshot pool: who holds them, and that a step which does not follow is noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.errors import WrongSnapshotSlot
from agentform.runtime.sglang.plugin.slot_owners import Content, SlotLedger

ONE, OTHER = Content.of([1, 2, 3]), Content.of([1, 2, 4])


@pytest.fixture
def reports() -> list[int]:
    return []


@pytest.fixture
def ledger(reports) -> SlotLedger:
    return SlotLedger(3, report=lambda: reports.append(1))


def filled(ledger: SlotLedger, content: Content) -> int:
    taken = ledger.take(1)
    assert taken is not None
    ledger.wrote(taken[0])
    ledger.belongs(taken[0], content)
    return taken[0]


def test_slots_are_taken_in_order_and_number_0_is_never_given():
    ledger = SlotLedger(3)
    assert ledger.take(2) == [1, 2]
    assert ledger.take(2) is None
    assert ledger.num_free == 1
    ledger.give_back([1])
    assert ledger.take(2) == [3, 1]


def test_a_snapshot_is_read_by_whom_it_is_for(ledger, reports):
    slot = filled(ledger, ONE)
    ledger.expect(slot, 7, ONE)
    ledger.expect(slot, 8, ONE)
    assert ledger.read(slot, 8) == ONE
    assert ledger.read(slot, 7) == ONE
    assert (ledger.num_wrong, reports) == (0, [])


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        (lambda it: it.wrote(1), "to be stored in slot 1, which is free"),
        (lambda it: it.wrote(0), "slot 0, which is none of the 3"),
        (lambda it: it.wrote(4), "slot 4, which is none of the 3"),
        (lambda it: (it.take(1), it.belongs(1, ONE)), "were to own slot 1, which is empty"),
        (lambda it: (it.take(1), it.expect(1, 7, ONE)), "slot 1, which is empty"),
        (lambda it: (it.take(1), it.wrote(1), it.expect(1, 7, ONE)), "slot 1, which is nobody's"),
        (lambda it: it.expect(filled(it, OTHER), 7, ONE), "slot 1, which is a snapshot of 3 other tokens"),
        (lambda it: it.read(filled(it, ONE), 7), "expected was nothing"),
        (lambda it: (it.expect(filled(it, ONE), 7, ONE), it.read(2, 7)), "from slot 2; expected was slot 1"),
        (lambda it: (it.expect(filled(it, ONE), 7, ONE), it.read(1, 8)), "live state 8 .* expected was nothing"),
        (lambda it: (it.expect(filled(it, ONE), 7, ONE), it.give_back([1]), it.read(1, 7)), "matched, .* became free"),
        (lambda it: (it.expect(filled(it, ONE), 7, ONE), it.wrote(1), it.read(1, 7)), "became nobody's"),
        (lambda it: (it.expect(filled(it, ONE), 7, ONE), it.read(1, 7), it.read(1, 7)), "expected was nothing"),
    ],
)
def test_a_step_that_does_not_follow_is_noticed(ledger, reports, steps, says):
    with pytest.raises(WrongSnapshotSlot, match=says):
        steps(ledger)
    assert ledger.num_wrong == 1
    assert reports == [1]


def test_giving_back_what_is_free_changes_nothing_and_is_counted(ledger, reports):
    slot = filled(ledger, ONE)
    ledger.give_back([slot])
    ledger.give_back([slot, 0, 9])
    assert (ledger.num_free, ledger.num_wrong, len(reports)) == (3, 3, 3)
    assert sorted(ledger.take(3) or ()) == [1, 2, 3]


def test_after_clearing_nothing_is_held_or_expected(ledger):
    slot = filled(ledger, ONE)
    ledger.expect(slot, 7, ONE)
    ledger.clear()
    assert ledger.num_free == 3
    with pytest.raises(WrongSnapshotSlot):
        ledger.read(slot, 7)


@given(
    ids=st.lists(st.integers(0, 200_000), min_size=1, max_size=20),
    other=st.lists(st.integers(0, 200_000), max_size=20),
    spaces=st.sampled_from([(None, None), ("a", "a"), ("a", None), ("a", "b"), (("a", 1), ("a", 2))]),
)
def test_contents_are_equal_where_tokens_and_space_are(ids, other, spaces):
    same = Content.of(ids, spaces[0]) == Content.of(other, spaces[1])
    assert same == (ids == other and spaces[0] == spaces[1])
    assert Content.of(ids, spaces[0]) == Content.of(list(ids), spaces[0])
    assert Content.of(ids, spaces[0]).num_tokens == len(ids)
