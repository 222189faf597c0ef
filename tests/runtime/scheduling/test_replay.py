"""What the cache finds of conversations that come round, also where there is room for a handful of them."""

from __future__ import annotations

import pytest

from agentform.runtime.scheduling.replay import CacheShape, TracedRequest, replay

TOKENS, ROUNDS = 96, 40


def come_round(num, *, pause_s=1.0):
    """Conversations of one length, one after the other, again and again."""
    return [
        TracedRequest(
            conversation=str(at % num),
            start_s=at * pause_s,
            end_s=at * pause_s,
            num_prompt=TOKENS,
            prompt=tuple(range(at % num * TOKENS, (at % num + 1) * TOKENS)),
            written=(),
        )
        for at in range(num * ROUNDS)
    ]


@pytest.mark.parametrize("pause_s", [1.0, 0.002])
@pytest.mark.parametrize("snapshot_bytes", [0, 512])
@pytest.mark.parametrize("room", [4, 6, 9])
def test_most_of_what_could_be_found_is_found_of_ten(room, snapshot_bytes, pause_s):
    """With room for C of N that come round C - 1 of N - 1 can be found (Belady)."""
    shape = CacheShape(token_bytes=16, snapshot_bytes=snapshot_bytes)
    budget = room * (TOKENS * shape.token_bytes + snapshot_bytes)
    found = replay(come_round(10, pause_s=pause_s), shape, budget_bytes=budget).hit_rate
    assert found > 0.88 * (room - 1) / 9 * (ROUNDS - 1) / ROUNDS


def test_a_request_that_waited_is_expected_no_more_once_it_runs():
    """Else what it went past would push out what others come back to."""
    from agentform.runtime.cache.prefix_cache import PrefixCache

    cache = PrefixCache(100, snapshot_positions=4, num_slots=2, clock=lambda: 5.0)
    ids = tuple(range(20))
    lease = cache.open(ids, usable=20, extra=0)
    assert lease is not None
    cache.grow(lease, 20)
    cache.commit(lease, ids)
    assert cache.snapshot_room(lease, 20) is not None
    cache.attach(lease, ids)
    cache.close(lease)
    assert cache.expect((*ids, 77), usable=20) == 20
    [node] = [each for each in cache._tree.nodes() if each.end == 20]
    assert node.is_awaited(5.0)
    assert cache.open((*ids, 77), usable=20, extra=0) is not None
    assert not node.is_awaited(5.0)
