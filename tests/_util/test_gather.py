from __future__ import annotations

from functools import partial

import anyio
import pytest

from agentform._util.gather import at_once

pytestmark = pytest.mark.anyio


async def test_results_come_in_the_order_asked_whatever_ends_first():
    second_is_done = anyio.Event()

    async def first():
        await second_is_done.wait()
        return 1

    async def second():
        second_is_done.set()
        return 2

    assert await at_once([first, second]) == [1, 2]
    assert await at_once([]) == []


async def test_the_first_failure_is_raised_alone_and_ends_the_others():
    ended = []

    async def waits(name):
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(name)

    async def fails():
        await anyio.lowlevel.checkpoint()
        raise KeyError("x")

    with pytest.raises(KeyError):
        await at_once([partial(waits, "a"), fails, partial(waits, "b")])
    assert set(ended) <= {"a", "b"}


async def test_cancellation_from_outside_passes():
    with anyio.move_on_after(0) as scope:
        await at_once([anyio.sleep_forever])
    assert scope.cancelled_caught
