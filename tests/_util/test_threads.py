from __future__ import annotations

import threading

import anyio
import anyio.to_thread
import pytest

from agentform._util.threads import Threads
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


@pytest.fixture
def go_on():
    event = threading.Event()
    yield event
    event.set()


async def test_a_kind_whose_threads_all_wait_keeps_no_other_from_its_work(go_on):
    stuck, free = Threads("stuck", 50), Threads("free", 1)
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as group:
            for _ in range(60):
                group.start_soon(stuck.run, go_on.wait, PATIENCE_S)
            assert await free.run(lambda: "done") == "done"
            assert await anyio.to_thread.run_sync(lambda: "done") == "done"
            group.cancel_scope.cancel()


async def test_a_thread_that_is_left_counts_until_it_ends(go_on):
    one, begun = Threads("one", 1), threading.Event()

    def wait() -> None:
        begun.set()
        go_on.wait(PATIENCE_S)

    async with anyio.create_task_group() as group:
        group.start_soon(one.run, wait)
        assert await anyio.to_thread.run_sync(begun.wait, PATIENCE_S)
        group.cancel_scope.cancel()
    with anyio.move_on_after(0.02) as waited:
        await one.run(lambda: None)
    assert waited.cancelled_caught
    go_on.set()
    with anyio.fail_after(PATIENCE_S):
        assert await one.run(lambda: "done") == "done"


async def test_work_that_is_cancelled_before_it_began_never_begins(go_on):
    one, ran = Threads("one", 1), []
    async with anyio.create_task_group() as group:
        group.start_soon(one.run, go_on.wait, PATIENCE_S)
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0.02):
            await one.run(ran.append, 1)
        go_on.set()
    assert await one.run(lambda: "free") == "free"
    assert ran == []


async def test_what_work_raises_is_raised_and_its_place_is_free():
    one = Threads("one", 1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            await one.run(lambda: 1 / 0)


async def test_a_clock_may_start_once_there_is_a_thread(go_on):
    one = Threads("one", 1)
    async with anyio.create_task_group() as group:
        group.start_soon(one.run, go_on.wait, PATIENCE_S)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(_set_soon, go_on)
        async with one.place() as place:
            with anyio.fail_after(PATIENCE_S):
                assert await place.run(lambda: "done") == "done"


async def _set_soon(event: threading.Event) -> None:
    await anyio.sleep(0.05)
    event.set()
