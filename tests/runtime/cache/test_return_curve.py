"""What a cache is told to expect of conversations that come soon, come round, or do both."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.runtime.cache.outlook import RECENCY, Outlook
from agentform.runtime.cache.return_curve import ReturnCurve, cliff
from agentform.runtime.cache.working_set import ReuseDistances

DISTANCES = st.dictionaries(st.integers(1, 40), st.integers(1, 9), min_size=1, max_size=12)


def share_served(distances, slots):
    return sum(num for each, num in distances.items() if each < slots) / sum(distances.values())


def followed(stream):
    """A curve that saw each of these conversations at the second of its place."""
    curve, reuse = ReturnCurve(), ReuseDistances()
    for now, key in enumerate(stream):
        curve.used(key, reuse.use(key), float(now))
    return curve


@given(DISTANCES, st.integers(0, 50))
def test_no_mix_of_two_sizes_serves_more_than_the_hull(distances, slots):
    found = cliff(distances, slots)
    if found is None:
        assert slots > max(distances)
        return
    reached = share_served(distances, slots) + found.gain
    assert found.near <= slots < found.far
    assert found.near_share == pytest.approx(share_served(distances, found.near))
    for less in range(slots + 1):
        for more in range(slots + 1, 52):
            part = (slots - less) / (more - less)
            mixed = (1 - part) * share_served(distances, less) + part * share_served(distances, more)
            assert mixed <= reached + 1e-9


def test_conversations_that_come_round_are_kept_in_the_order_in_which_they_come_next():
    outlook = followed([*range(100), *range(40)]).outlook(lambda: 50)
    assert outlook == Outlook(soon=0.0, round_since=40.0)  # of the hundred, 40 was used longest ago
    chances = [outlook.chance(each, 140.0) for each in range(40, 140)]
    assert chances == sorted(chances, reverse=True)
    assert outlook.chance(39.0, 140.0) == 0.0


def test_conversations_that_go_on_while_they_are_at_it_are_kept_by_their_last_use():
    draw, stream, active = random.Random(0), [], list(range(6))
    for number in range(6, 600):
        active[draw.randrange(6)] = number
        stream += draw.choices(active, k=8)
    assert followed(stream).outlook(lambda: 50) == RECENCY


@pytest.mark.parametrize("pause_s", [0.001, 0.1])
def test_how_fast_requests_come_does_not_change_how_they_are_told_apart(pause_s):
    curve, reuse = ReturnCurve(), ReuseDistances()
    for place, key in enumerate([*range(100), *range(100)]):
        curve.used(key, reuse.use(key), place * pause_s)
    outlook = curve.outlook(lambda: 50)
    last, first = outlook.chance(199 * pause_s, 200 * pause_s), outlook.chance(100 * pause_s, 200 * pause_s)
    assert first == pytest.approx(100 * last)


def test_some_that_come_soon_beside_many_that_come_round_both_count():
    stream = [each for number in range(300) for each in ("a", "b", number % 100)]
    outlook = followed(stream).outlook(lambda: 50)
    assert 0.5 < outlook.soon < 0.8
    assert outlook.chance(899.0, 900.0) > outlook.chance(700.0, 900.0) > outlook.chance(890.0, 900.0)


@pytest.mark.parametrize("slots", [3, 200])
def test_neither_a_handful_nor_room_for_all_is_a_cliff(slots):
    assert followed([*range(100), *range(100)]).outlook(lambda: slots) == RECENCY


def test_a_few_returns_prove_nothing():
    assert followed([*range(100), 3, 50]).outlook(lambda: 80) == RECENCY


def test_what_is_no_longer_so_is_forgotten():
    curve = followed(list(range(100)) * 3)
    for now in range(300, 20_000):
        curve.used(now % 4, 3, float(now))
    assert curve.outlook(lambda: 50) == RECENCY


def test_that_conversations_go_back_is_believed_until_many_in_a_row_did_not():
    curve = ReturnCurve()
    assert not curve.goes_back
    curve.resumed(before_end=True)
    assert curve.outlook(lambda: 50).goes_back
    for _ in range(256):
        assert curve.goes_back
        curve.resumed(before_end=False)
    assert not curve.outlook(lambda: 50).goes_back
