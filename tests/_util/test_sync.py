"""The detector that watches all tests of agents sees what blocks the loop, and nothing else."""

from __future__ import annotations

import sqlite3
import time

import anyio
import anyio.lowlevel
import pytest

from tests.agent.conftest import blocking_calls

pytestmark = pytest.mark.anyio


def connect() -> None:
    sqlite3.connect(":memory:").close()


@pytest.mark.parametrize("block", [lambda: time.sleep(0), connect, lambda: open(__file__).close()])
async def test_a_call_that_blocks_the_loop_is_seen(block):
    with blocking_calls() as seen:
        block()
    assert len(seen) == 1


async def test_the_same_in_a_thread_blocks_nothing():
    with blocking_calls() as seen:
        await anyio.to_thread.run_sync(connect)
        await anyio.lowlevel.checkpoint()
    assert seen == []
