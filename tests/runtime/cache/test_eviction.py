from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.runtime.cache.prefix_cache import PrefixCache
from agentform.runtime.cache.ranges import count
from agentform.runtime.cache.return_times import ReturnTimes


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def recurrent(clock, capacity, *, snapshot=4):
    return PrefixCache(capacity, snapshot_positions=snapshot, num_slots=8, clock=clock)


def run(cache, ids, *snapshots, conversation=None):
    """A request that computes all of `ids` and takes snapshots there; returns the tokens it need not compute."""
    lease = cache.open(ids, usable=len(ids) - 1, extra=0, conversation=conversation)
    assert lease is not None
    cache.loaded(lease)
    cache.grow(lease, len(ids) - count(lease.runs))
    cache.commit(lease, ids)
    for at in snapshots:
        if cache.snapshot_room(lease, at) is not None:
            cache.attach(lease, ids[:at])
    cache.close(lease, ends_turn=True)
    return lease.start


def a(num):
    return tuple(range(num))


def b(num):
    return tuple(range(100, 100 + num))


def test_what_a_conversation_went_past_goes_before_the_end_of_another(clock):
    cache = recurrent(clock, 34)
    run(cache, b(8), 8)
    clock.now = 10
    run(cache, a(8), 8)
    run(cache, a(12), 12)  # its snapshot at 8 is younger than b's at 8, but superseded
    clock.now = 20
    run(cache, tuple(range(200, 206)))
    assert cache.statistics().evicted_snapshots == 1
    assert run(cache, b(9)) == 8
    assert run(cache, a(13)) == 12


def test_where_conversations_parted_is_worth_as_much_as_their_ends(clock):
    cache = recurrent(clock, 45)
    run(cache, a(10), 10)
    run(cache, (*a(10), 50, 51), 12)
    run(cache, (*a(10), 60, 61), 12)
    clock.now = 100
    run(cache, tuple(range(200, 216)))
    assert run(cache, (*a(10), 70)) == 10


def test_tokens_behind_the_last_snapshot_go_first(clock):
    cache = recurrent(clock, 30)
    run(cache, b(6), 6)
    clock.now = 100
    run(cache, a(12))  # no snapshot: nothing can be resumed here, however young
    run(cache, tuple(range(200, 212)))
    assert run(cache, b(7)) == 6


def test_a_pinned_end_goes_last_and_only_until_its_time_is_up(clock):
    cache = PrefixCache(30, clock=clock)
    run(cache, a(10), conversation="a")
    clock.now = 5  # the pin holds for 10 seconds
    run(cache, b(12))
    clock.now = 6
    run(cache, tuple(range(200, 212)))
    assert run(cache, a(11)) == 10
    clock.now = 50
    run(cache, b(12))
    clock.now = 60
    run(cache, tuple(range(300, 318)))
    assert run(cache, a(11)) < 10


def test_pins_do_not_stop_the_cache(clock):
    cache = PrefixCache(20, clock=clock)
    run(cache, a(10), conversation="a")
    run(cache, b(10), conversation="b")
    run(cache, tuple(range(200, 215)), conversation="c")
    cache.integrity()
    assert cache.statistics().resident_tokens == 20


def test_pins_last_as_long_as_conversations_stay_away():
    returns = ReturnTimes()
    assert returns.left("a", 0.0) == 10.0
    returns.came_back("a", 3.0)
    assert returns.left("a", 5.0) == 3.0
    for start in range(100):
        returns.left("a", 1000.0 * start)
        returns.came_back("a", 1000.0 * start + 500)
    assert returns.limit_s() == 120.0
    returns.came_back("nobody", 1e6)


def test_a_pin_lasts_as_long_as_what_is_waited_for_usually_takes():
    returns = ReturnTimes()
    assert returns.left("a", 0.0, "search") == 10.0  # nobody knows
    returns.came_back("a", 1.0)
    assert returns.left("a", 2.0, "build") == 1.0  # what is known of others
    returns.came_back("a", 62.0)
    assert returns.limit_s("build") == 60.0
    for start in range(20):
        returns.left("a", 100.0 * start, "search")
        returns.came_back("a", 100.0 * start + 0.5 + start % 2)
    assert returns.limit_s("search") == 1.5
    assert returns.limit_s("build") == 60.0
    assert returns.limit_s("never seen") == 1.5
    assert returns.limit_s() == 10.0  # the end of a turn is no tool


def test_a_conversation_may_wait_for_several_things_and_leaves_the_end_of_its_turn_for_them():
    returns = ReturnTimes()
    returns.left("a", 0.0)
    returns.left("a", 1.0, "search")
    returns.left("a", 2.0, "build")
    returns.came_back("a", 5.0)
    assert (returns.limit_s("search"), returns.limit_s("build"), returns.limit_s()) == (4.0, 4.0, 10.0)


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.floats(0, 1e6)), max_size=200))
def test_a_pin_is_never_longer_than_two_minutes_nor_than_what_was_seen(pauses):
    returns = ReturnTimes()
    for label, pause in pauses:
        returns.left("a", 0.0, label)
        returns.came_back("a", pause)
    for label in "xyz":
        assert 0.0 <= returns.limit_s(label) <= 120.0
        assert not pauses or returns.limit_s(label) <= max(pause for _, pause in pauses)


@pytest.mark.parametrize("returned", [False, True])
@pytest.mark.parametrize("snapshot", [0, 4])
def test_the_end_of_a_conversation_is_pinned_from_the_call_to_the_return(clock, snapshot, returned):
    slots = {"num_slots": 8} if snapshot else {}
    cache = PrefixCache(50, snapshot_positions=snapshot, clock=clock, **slots)

    def ask(ids, conversation=None):
        """No completion, but a score, say: its end is no end of a turn."""
        lease = cache.open(ids, usable=len(ids) - 1, extra=0, conversation=conversation)
        cache.grow(lease, lease.reserved)
        cache.commit(lease, ids)
        if snapshot and cache.snapshot_room(lease, 19):
            cache.attach(lease, ids[:19])
        cache.close(lease)

    ask(a(20), "a")
    cache.expect_return("a", "tool")  # for ten seconds, as nobody knows
    clock.now = 1
    if returned:
        ask(a(20), "a")
    clock.now = 5
    ask(b(20))
    clock.now = 6
    ask(tuple(range(200, 220)))
    assert (cache.peek(a(20))[1] >= 19) != returned
    assert (cache.peek(b(20))[1] >= 19) == returned
    cache.expect_return("nobody", "tool")
    cache.integrity()


def test_history_that_was_rewritten_is_named(clock):
    cache = PrefixCache(100, clock=clock)
    assert run(cache, a(10), conversation="a") == 0
    run(cache, (*a(6), 90, 91, 92, 93, 94, 95), conversation="a")
    run(cache, (*a(6), 80), conversation="b")
    statistics = cache.statistics()
    assert statistics.misses == {"cold": 1, "rewritten": 1}
    assert statistics.conversations["a"].misses == {"cold": 1, "rewritten": 1}
    assert statistics.conversations["b"].hit_tokens == 6


@given(num=st.integers(2, 12), passes=st.integers(2, 4), data=st.data())
def test_conversations_that_fit_are_all_found_whatever_they_add(num, passes, data):
    clock = Clock()
    cache = recurrent(clock, num * (8 + 2 * passes + 4))
    talks = [tuple(range(1000 * each, 1000 * each + 8)) for each in range(num)]
    for each in talks:
        clock.now += 1
        run(cache, each, len(each))
    for _ in range(passes - 1):
        for each in data.draw(st.permutations(range(num))):
            clock.now += 1
            known, talks[each] = talks[each], (*talks[each], *range(len(talks[each]), len(talks[each]) + 2))
            assert run(cache, talks[each], len(talks[each])) == len(known)
            cache.integrity()


def test_a_snapshot_is_not_superseded_where_another_path_parts_behind_it(clock):
    cache = recurrent(clock, 40)
    run(cache, a(8), 8)
    run(cache, a(10))
    clock.now = 1
    run(cache, (*a(9), 77, 78), 11)  # parts from the first a token after its snapshot
    clock.now = 2
    run(cache, a(12), 12)
    clock.now = 3
    run(cache, b(8), 8)
    assert run(cache, (*a(9), 88)) == 8


def test_a_conversation_without_room_gives_up_its_own_earlier_snapshot(clock):
    cache = recurrent(clock, 24 + 4)
    run(cache, b(8), 8)
    clock.now = 100
    run(cache, a(8), 8)
    clock.now = 200
    assert run(cache, a(12), 12) == 8
    assert run(cache, b(9)) == 8


def rounds(cache, clock, num, *, passes):
    """Tokens found in each pass over `num` conversations, one after the other, each a little longer every time."""
    found = []
    for turn in range(passes):
        found.append(0)
        for number in range(num):
            clock.now += 1
            ids = tuple(range(1000 * number, 1000 * number + 10 + turn))
            ends = [len(ids)] if cache.is_recurrent else []
            found[-1] += run(cache, ids, *ends, conversation=str(number))
    return found


@pytest.mark.parametrize("is_recurrent", [True, False])
def test_of_conversations_that_come_round_those_that_fit_are_found(clock, is_recurrent):
    """What was used last alone would keep none: each goes just before it comes back."""
    each = 12 + 4 * is_recurrent
    cache = PrefixCache(40 * each, snapshot_positions=4 * is_recurrent, num_slots=8 * is_recurrent, clock=clock)
    first, *later = rounds(cache, clock, 80, passes=3)
    assert first == 0
    assert min(later) > 0.7 * 40 * 10
    cache.integrity()


@pytest.mark.parametrize("goes_back", [True, False])
def test_where_conversations_go_back_what_one_went_past_is_worth_something(clock, goes_back):
    """The end of one that was left long ago goes first; else it is superseded, which goes before all."""
    cache = recurrent(clock, 58)
    run(cache, a(8), 8)
    run(cache, a(12), 12)
    assert run(cache, (*a(8 if goes_back else 12), 77), 9 if goes_back else 13) == (8 if goes_back else 12)
    run(cache, b(8), 8)
    clock.now = 60
    run(cache, c(8), 8)
    run(cache, c(12), 12)
    clock.now = 61
    run(cache, tuple(range(300, 320)))
    assert run(cache, (*c(8), 78)) == (8 if goes_back else 0)


def c(num):
    return tuple(range(200, 200 + num))
