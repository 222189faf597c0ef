"""Memory is given back after large bodies, once for all that end meanwhile."""

from __future__ import annotations

import threading

import anyio
import anyio.from_thread
import pytest

from agentform.serve.admission import Admission
from agentform.serve.exchange import send_json
from agentform.serve.freed_memory import FreedMemory
from agentform.serve.guards import Recorder
from agentform.serve.metrics import ServerMetrics
from agentform.testing import ScriptedEngine

pytestmark = pytest.mark.anyio
LARGE = 4 << 20


async def test_a_small_body_leaves_nothing_to_give_back():
    given: list[int] = []
    await FreedMemory(lambda: given.append(1)).after(1000)
    assert not given


async def test_many_small_bodies_together_are_given_back_for():
    given: list[int] = []
    freed = FreedMemory(lambda: given.append(1))
    for _ in range(200):
        await freed.after(1000)
    assert 0 < len(given) < 20


async def test_bodies_that_end_while_memory_is_given_back_share_the_next_time():
    given, may_end, begun = [], threading.Event(), anyio.Event()

    def give_back() -> None:
        given.append(1)
        anyio.from_thread.run_sync(begun.set)
        assert may_end.wait(30)

    freed = FreedMemory(give_back)
    async with anyio.create_task_group() as group:
        group.start_soon(freed.after, LARGE)
        await begun.wait()
        for _ in range(5):
            await freed.after(LARGE)  # at once: the one that is at it does this too
        may_end.set()
    assert len(given) == 2


async def test_a_client_that_went_is_given_back_for_too():
    given: list[int] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        await FreedMemory(lambda: given.append(1)).after(LARGE)
    assert given


async def test_a_request_is_counted_once_where_its_answer_ends_whatever_is_done_after_it():
    metrics = ServerMetrics(ScriptedEngine([]), Admission(max_running=1, max_queued=0, deadline_s=1))
    line, counted = b'agentform_http_requests_total{path="/x",status="200"} 1.0', []

    async def app(scope, receive, send):
        await send_json(send, 200, {})
        counted.append(line in metrics.text())

    async def ignored(*message):
        return None

    await Recorder(app, metrics=metrics, paths=["/x"])(
        {"type": "http", "path": "/x", "method": "GET"}, ignored, ignored
    )
    assert counted == [True]
    assert line in metrics.text()
