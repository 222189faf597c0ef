"""The snapshot pool inside SGLang, on a small hybrid with the horizons of trained models."""

from __future__ import annotations

import os
import random
from pathlib import Path

import anyio
import pytest

from agentform.errors import EngineClosed, EngineError
from agentform.runtime.engine import Branch, ScoreRequest
from agentform.runtime.sglang.embedded.engine import SGLangEngine
from agentform.runtime.sglang.plugin import hooks as snapshot_hooks
from agentform.runtime.sglang.plugin import plugin
from agentform.runtime.sglang.plugin.hooks import SnapshotHooks
from agentform.runtime.sglang.plugin.settings import POLICY, SnapshotSettings
from agentform.runtime.sglang.plugin.statistics import read_snapshot_statistics
from tests.sglang.models import write_model
from tests.support.engines import complete
from tests.support.waiting import PATIENCE_S

CANDIDATES = tuple(range(5, 300, 10))
ROOM = {"max_total_tokens": 8192, "max_running_requests": 8, "max_mamba_cache_size": 32}
INT8_SLOT = 18_432
"""Bytes of a state of the small hybrid in SGLang's own int8 pool."""


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory):
    folder = tmp_path_factory.mktemp("qwen3_5")
    write_model(folder, "qwen3_5")
    return folder


@pytest.fixture(scope="module")
def start(hybrid, tmp_path_factory):
    """An engine of the hybrid and the file of its pool. One runs at a time, and stays while the same is asked for."""
    running: dict[str, tuple[SGLangEngine, Path]] = {}

    def stop():
        while running:
            running.popitem()[1][0].close()

    def start(snapshots, *, server=None, **size):
        wanted = repr((snapshots, server, size, os.environ.get("SGLANG_STAND_INS_WRONG_SLOT")))
        if wanted not in running:
            stop()
            path = tmp_path_factory.mktemp("pool") / "pool.json"
            settings = SnapshotSettings(snapshots=snapshots, statistics_path=path, **size)
            running[wanted] = SGLangEngine(hybrid, snapshots=settings, **ROOM | (server or {})), path
        return running[wanted]

    yield start
    stop()


def prompts(num, num_tokens, seed=0):
    draw = random.Random(seed)
    return [tuple(draw.randrange(5, 300) for _ in range(num_tokens)) for _ in range(num)]


async def score(engine, ids):
    """log p of the candidates after `ids`, and how many of them came from the cache."""
    result = await engine.score(ScoreRequest(prompt_ids=ids, branches=(Branch(path=(), candidates=CANDIDATES),)))
    return result.logprobs[0], result.usage.cached_tokens


async def told(path, until=lambda pool: True):
    """The pool's statistics, once they say so."""
    with anyio.fail_after(PATIENCE_S):
        while (pool := read_snapshot_statistics(path)) is None or not until(pool):  # noqa: ASYNC110 - a file
            await anyio.sleep(0.05)
    return pool


def furthest(one, other):
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


async def again(engine, num, *, seed):
    """Begin conversations, then go on with each: what came from the cache, and how far that is off a cold run."""
    begun, more = prompts(num, 70, seed=seed), prompts(num, 4, seed=seed + 1)
    # The state behind all 74 tokens is of no use to the same 74: the last of them has to be computed.
    cold = [await score(engine, begin + end) for begin, end in zip(begun, more, strict=True)]
    assert [cached for _, cached in cold] == [0] * num
    assert [(await score(engine, begin))[1] for begin in begun] == [0] * num
    warm = [await score(engine, begin + end) for begin, end in zip(begun, more, strict=True)]
    off = [furthest(one[0], other[0]) for one, other in zip(cold, warm, strict=True)]
    return [cached for _, cached in warm], off


async def again_and_again(engine):
    """A request may be answered before the scheduler ends over what follows it."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            await again(engine, 3, seed=7)


@pytest.mark.filterwarnings("ignore")  # of what SGLang imports
def test_the_hooks_find_what_they_are_for(monkeypatch):
    """Every place in SGLang exists, with the parameters that the hooks use, and every setting that is looked at."""
    import inspect
    import pkgutil

    from sglang.srt.arg_groups.field_order import POSITIONAL_FIELD_ORDER
    from sglang.srt.plugins.hook_registry import HookRegistry

    placed = {}
    monkeypatch.setattr(HookRegistry, "register", lambda target, hook, kind: placed.update({target: hook}))
    SnapshotHooks(SnapshotSettings(snapshots="exact")).register()
    assert len(placed) == 6
    parameters = {
        target.rpartition(".")[2]: list(inspect.signature(pkgutil.resolve_name(target)).parameters) for target in placed
    }
    assert parameters["prepare_for_caching_req"] == ["self", "req", "insert_params", "token_ids_len", "is_finished"]
    assert parameters["finalize_match_result_in_cache"] == ["self", "params", "result"]
    assert parameters["maybe_init_int8_mamba_checkpoint_pool"] == [
        "mamba_size",
        "cache_params",
        "mamba_layer_ids",
        "device",
    ]
    assert parameters["_handle_max_mamba_cache"] == ["self", "total_rest_memory"]
    assert parameters["load_model"] == ["self"]
    assert set(snapshot_hooks._WANTED) | {"int8_mamba_ckpt_size"} <= set(POSITIONAL_FIELD_ORDER)


def test_the_entry_point_is_found_and_inert_without_the_switch(monkeypatch):
    from importlib.metadata import entry_points

    from sglang.srt.plugins.hook_registry import HookRegistry

    (found,) = [each for each in entry_points(group="sglang.srt.plugins") if each.name == "agentform_snapshots"]
    assert found.load() is plugin.register
    monkeypatch.setattr(HookRegistry, "register", lambda *_: pytest.fail("registered"))
    monkeypatch.delenv(POLICY, raising=False)
    plugin.register()


def test_an_exact_snapshot_answers_as_if_nothing_had_been_cached(start):
    engine, path = start("exact", num_slots=8)

    async def main():
        cached, off = await again(engine, 4, seed=1)
        assert cached == [70] * 4
        # A chunk that ends elsewhere rounds elsewhere in bfloat16; the state itself is the same bit for bit.
        assert max(off) < 0.02
        pool = await told(path, lambda pool: pool.restored == 4)
        assert (pool.restored_tokens, pool.num_slots, pool.wrong_slots) == (4 * 70, 8, 0)
        assert pool.slot_bytes == pool.live_slot_bytes
        said = engine.statistics()
        assert (said.restored_tokens, said.resident_snapshots, said.codec) == (4 * 70, pool.resident, pool.codec)

    anyio.run(main)


def test_int8_snapshots_answer_within_a_tenth_of_log_p(start):
    engine, path = start("int8", num_slots=8)

    async def main():
        cached, off = await again(engine, 4, seed=9)
        assert cached == [70] * 4
        assert 0 < max(off) < 0.1, off
        pool = await told(path, lambda pool: pool.restored == 4)
        assert pool.slot_bytes == pool.int8_slot_bytes == INT8_SLOT

    anyio.run(main)


def test_a_full_pool_of_8_slots_serves_1000_requests_8_at_a_time(start):
    """Where SGLang's own int8 pool ends the server: every slot is held by a request in progress."""
    engine, path = start("exact", num_slots=8)
    draw = random.Random(0)
    begun = prompts(30, 20)

    async def one(limiter, ids):
        async with limiter:
            await complete(engine, ids, 3)

    async def main():
        limiter = anyio.CapacityLimiter(16)
        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group:
                for _ in range(1000):
                    tail = tuple(draw.randrange(5, 300) for _ in range(draw.randrange(6)))
                    group.start_soon(one, limiter, draw.choice(begun)[: draw.randrange(5, 20)] + tail)
        pool = await told(path, lambda pool: pool.stored > 1000)
        assert pool.declined > 0
        assert pool.resident <= 8
        assert pool.wrong_slots == 0
        assert (await score(engine, begun[0]))[0]

    anyio.run(main)


def test_smaller_snapshots_hold_more_conversations_in_the_same_bytes(start):
    """At half of what the int8 pool takes, twice as many come back to a snapshot."""
    engine, path = start(str(INT8_SLOT // 2), pool_bytes=16 * INT8_SLOT)

    async def main():
        cached, off = await again(engine, 15, seed=3)
        assert cached == [70] * 15
        assert min(off) > 0, "these snapshots are lossy"
        pool = await told(path, lambda pool: pool.restored == 15)
        assert pool.int8_slot_bytes == INT8_SLOT
        assert pool.num_slots == 32  # the int8 pool would have 16
        assert pool.pool_bytes <= 16 * INT8_SLOT
        assert pool.resident == 30  # of each conversation two: where it began, and where it went on to
        assert (pool.evicted, pool.declined, pool.wrong_slots) == (0, 0, 0)

    anyio.run(main)


def test_states_that_are_tracked_while_decoding_come_back(start, monkeypatch):
    """The strategy extra_buffer: a snapshot every 64 tokens, from a buffer beside the running state."""
    monkeypatch.setenv("SGLANG_STAND_INS_EXTRA_BUFFER", "1")
    engine, path = start(
        "exact", num_slots=6, server={"mamba_radix_cache_strategy": "extra_buffer", "mamba_track_interval": 64}
    )

    async def main():
        num_back = 0
        for begin in prompts(3, 70, seed=5):
            made = await complete(engine, begin, 80)
            whole = begin + made.token_ids
            _, cached = await score(engine, (*whole, 7, 8))
            assert cached == len(whole) // 64 * 64
            num_back += cached > len(begin)
        assert num_back, "all of them ended before a state was tracked"
        for begin in prompts(20, 70, seed=6):
            await complete(engine, begin, 10)
        pool = await told(path, lambda pool: pool.evicted > 0)
        assert pool.restored == 3
        assert pool.wrong_slots == 0

    anyio.run(main)


@pytest.mark.parametrize("mutation", ["load", "store"])
def test_the_slot_beside_the_right_one_is_noticed(start, monkeypatch, mutation):
    """An error that says so, and no answer from another conversation's state."""
    monkeypatch.setenv("SGLANG_STAND_INS_WRONG_SLOT", mutation)
    engine, path = start("int8", num_slots=8)

    with pytest.raises(EngineClosed, match="WrongSnapshotSlot"):
        anyio.run(again_and_again, engine)
    pool = read_snapshot_statistics(path)
    assert pool is not None
    assert pool.wrong_slots == 1
    assert pool.restored == 0


def test_memory_that_is_not_there_is_refused_at_the_start_with_the_numbers(hybrid):
    with pytest.raises(EngineError, match=r"1000000000 snapshots of 53,760 bytes need 53,760,000,000,000; of"):
        SGLangEngine(hybrid, snapshots=SnapshotSettings(snapshots="exact", num_slots=1_000_000_000), **ROOM)
