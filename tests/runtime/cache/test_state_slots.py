from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentform.runtime.cache.state_slots import FreeSlots


def test_the_longest_state_that_fits_is_taken():
    slots = FreeSlots(3)
    taken = [slots.take((1, 2, 3, 4), after=0, upto=4) for _ in range(3)]
    assert [slot.num_tokens for slot in taken if slot] == [0, 0, 0]
    assert not slots
    assert slots.take((1,), after=0, upto=1) is None
    for index, live in enumerate([(1, 2), (1, 2, 3), (9,)]):
        slots.give_back(index, live)
    found = slots.take((1, 2, 3, 4), after=1, upto=4)
    assert found is not None
    assert (found.index, found.num_tokens) == (1, 3)


def test_a_state_no_deeper_than_the_snapshot_or_beyond_the_match_is_not_used():
    for after, upto in ((3, 5), (0, 2)):
        slots = FreeSlots(1)
        slots.take((), after=0, upto=0)
        slots.give_back(0, (1, 2, 3))
        found = slots.take((1, 2, 3, 4, 5), after=after, upto=upto)
        assert found is not None
        assert found.num_tokens == 0


def test_slots_without_a_state_go_first_then_the_oldest():
    slots = FreeSlots(3)
    for _ in range(3):
        slots.take((), after=0, upto=0)
    slots.give_back(2, (7,))
    slots.give_back(0, (8,))
    slots.give_back(1, ())
    order = [slots.take((5,), after=0, upto=1) for _ in range(3)]
    assert [slot.index for slot in order if slot] == [1, 2, 0]


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 1), max_size=5), st.lists(st.integers(0, 1), max_size=5)), max_size=20)
)
def test_a_slot_is_given_out_once_and_only_with_a_beginning_of_what_is_asked(rounds):
    slots, held = FreeSlots(2), {}
    for ids, live in rounds:
        slot = slots.take(ids, after=0, upto=len(ids))
        assert slot is not None
        assert list(held.get(slot.index, ()))[: slot.num_tokens] == ids[: slot.num_tokens]
        assert slot.num_tokens in (0, len(held.get(slot.index, ())))
        slots.give_back(slot.index, live)
        held[slot.index] = tuple(live)
