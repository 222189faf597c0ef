"""Engines whose snapshots lose something: every family with every named policy, replay, refresh and live states."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from statistics import median

import anyio
import pytest
import torch

from agentform.errors import InvalidRequest
from agentform.runtime.engine import Branch, ScoreRequest
from agentform.runtime.snapshots.plan import Precision, PrecisionPlan, forgetful_units
from agentform.runtime.snapshots.policy import NAMED_POLICIES, SnapshotPolicy
from agentform.runtime.torch.engine import TorchEngine
from agentform.runtime.torch.snapshots.model_horizons import horizons_of_folder
from tests.support.engines import complete, settled
from tests.support.random_talk import play, talks
from tests.support.tiny_hybrids import FAMILIES, write_tiny_hybrid

DECAYING = [family for family in FAMILIES if family != "lfm2"]
PROMPT = tuple(20 + 7 * i % 37 for i in range(90))
OTHERS = [tuple(60 + (5 * i + first) % 41 for i in range(40)) for first in range(3)]
BRANCHES = tuple(Branch(path=(5,) * depth, candidates=tuple(range(20, 40))) for depth in range(3))
REFRESH = 24

MOST = {"exact": 1e-4, "int8": 0.3, "balanced": 2, "int4": 2}
"""Greatest change of a log probability right after a restore; what drops heads is not bounded so (see docs)."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {}

    def get(family):
        if family not in made:
            folder = tmp_path_factory.mktemp(family)
            write_tiny_hybrid(folder, family)
            made[family] = folder
        return made[family]

    return get


@pytest.fixture
def make_engine(folders):
    made = []

    def make(family="qwen3_next", **options):
        options = {"num_slots": 2, "num_threads": 1, "kv_budget_bytes": 1 << 24} | options
        made.append(TorchEngine(folders(family), dtype=torch.float32, **options))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


async def score(engine, prompt):
    return await engine.score(ScoreRequest(prompt_ids=prompt, branches=BRANCHES))


def cold_and_restored(engine):
    """The same question cold and from a snapshot, with no state left in a slot."""

    async def ask():
        cold = await score(engine, PROMPT)
        for other in OTHERS:
            await score(engine, other)
        restored = await score(engine, PROMPT)
        await settled(engine)
        return cold, restored

    cold, restored = anyio.run(ask)
    assert restored.usage.restored_tokens == len(PROMPT) - 1
    return cold, restored


def difference(one, other):
    pairs = zip(one.logprobs, other.logprobs, strict=True)
    return max(abs(a - b) for rows in pairs for a, b in zip(*rows, strict=True))


@pytest.mark.parametrize("family", DECAYING)
@pytest.mark.parametrize("policy", NAMED_POLICIES)
def test_every_family_restores_under_every_named_policy(make_engine, family, policy, record_property):
    engine = make_engine(family, snapshots=policy)
    cold, restored = cold_and_restored(engine)
    error = difference(cold, restored)
    record_property("difference", error)
    assert error <= MOST.get(policy, 20)
    statistics = engine.statistics()
    assert statistics.codec.startswith("exact-1" if policy == "exact" else "decay-2/")
    exact = engine.memory_plan.slot_bytes
    assert statistics.snapshot_bytes == exact if policy == "exact" else 0 < statistics.snapshot_bytes < exact


@pytest.mark.parametrize("family", DECAYING)
def test_heads_that_forget_within_the_window_are_rebuilt(make_engine, folders, family):
    """What dropping them changes, replaying their last inputs leaves as it was, without running the model again."""
    window = 64
    horizons = horizons_of_folder(folders(family))

    def plan(precision):
        chosen = {layer: set(forgetful_units(each, window)) for layer, each in horizons.layers.items()}
        assert any(chosen.values())
        return PrecisionPlan(
            precisions={
                layer: tuple(
                    precision if unit in chosen[layer] else Precision.EXACT for unit in range(len(each.tokens))
                )
                for layer, each in horizons.layers.items()
            },
            replay_tokens=window,
        )

    replayed = cold_and_restored(make_engine(family, snapshots=plan(Precision.REPLAY)))
    dropped = cold_and_restored(make_engine(family, snapshots=plan(Precision.DROP)))
    assert difference(*replayed) < 1e-3
    assert difference(*replayed) < difference(*dropped) / 10
    assert replayed[1].usage.replayed_tokens == dropped[1].usage.replayed_tokens == 0


@pytest.mark.parametrize("family", DECAYING)
def test_a_refresh_warms_up_what_was_dropped(make_engine, family):
    plain = cold_and_restored(make_engine(family, snapshots="drop"))
    engine = make_engine(family, snapshots="drop", refresh_tokens=REFRESH)
    refreshed = cold_and_restored(engine)
    assert difference(*refreshed) < difference(*plain)
    assert refreshed[1].usage.replayed_tokens == REFRESH
    assert engine.statistics().refreshed_tokens == REFRESH
    assert engine.statistics().replayed_tokens == REFRESH


@pytest.mark.parametrize("family", ["qwen3_next", "kimi_linear", "falcon_h1"])
def test_heads_that_a_refresh_could_not_fill_stay_silent(make_engine, folders, family):
    """A refresh of 6 tokens brings back what forgets within 24, and is left out where that is nothing."""
    horizons = horizons_of_folder(folders(family)).layers

    def dropping(reaches):
        return PrecisionPlan(
            precisions={
                layer: tuple(Precision.DROP if tokens in reaches else Precision.EXACT for tokens in each.tokens)
                for layer, each in horizons.items()
            }
        )

    every = [tokens for each in horizons.values() for tokens in each.tokens]
    short, long = ({t for t in every if t <= 24}, {t for t in every if t > 24})
    assert short
    assert long
    engine = make_engine(family, snapshots=dropping(long), refresh_tokens=6)
    plain = make_engine(family, snapshots=dropping(long))
    assert cold_and_restored(engine)[1].logprobs == cold_and_restored(plain)[1].logprobs
    assert engine.statistics().refreshed_tokens == 0
    engine = make_engine(family, snapshots=dropping(short | long), refresh_tokens=6)
    cold_and_restored(engine)
    assert engine.statistics().refreshed_tokens == 6


@pytest.mark.parametrize("family", ["qwen3_next", "kimi_linear", "falcon_h1"])
def test_a_refresh_as_long_as_the_prompt_is_exact(make_engine, family):
    engine = make_engine(family, snapshots="small", refresh_tokens=len(PROMPT))
    assert difference(*cold_and_restored(engine)) < 1e-4


def test_a_refresh_may_span_steps_and_changes_nothing_of_what_is_kept(make_engine):
    whole = cold_and_restored(make_engine(snapshots="drop", refresh_tokens=REFRESH))
    pieces = cold_and_restored(make_engine(snapshots="drop", refresh_tokens=REFRESH, max_batch_tokens=7))
    assert difference(whole[1], pieces[1]) < 1e-4
    # Nothing is dropped, so there is nothing to warm up.
    engine = make_engine(snapshots="int8", refresh_tokens=REFRESH)
    cold_and_restored(engine)
    assert engine.statistics().refreshed_tokens == 0


@pytest.mark.anyio
@pytest.mark.parametrize("policy", ["drop", "small"])
async def test_what_follows_in_a_conversation_starts_from_the_exact_live_state(make_engine, policy):
    exact, lossy = make_engine(), make_engine(snapshots=policy)
    said = PROMPT
    for turn in range(4):
        said = (*said, 7, 8 + turn)
        got, wanted = [await complete(engine, said, 5) for engine in (lossy, exact)]
        assert got.token_ids == wanted.token_ids
        said = (*said, *wanted.token_ids)
        assert difference(await score(lossy, said), await score(exact, said)) < 1e-4
        if turn:
            assert got.usage.restored_tokens == 0
            assert got.usage.cached_tokens is not None
            assert got.usage.cached_tokens >= len(said) - 5 - 4
    statistics = lossy.statistics()
    assert statistics.restored_tokens == 0
    assert statistics.resumed_tokens == statistics.hit_tokens > 0
    assert exact.statistics().resumed_tokens == 0
    await settled(lossy)


@pytest.mark.anyio
async def test_a_request_that_failed_leaves_no_live_state(make_engine, gate):
    engine = make_engine(snapshots="int8")
    gate.fail_on = lambda num_tokens: num_tokens > 60
    with pytest.raises(Exception, match="broken step"):
        await score(engine, PROMPT)
    gate.fail_on = lambda num_tokens: False
    result = await score(engine, PROMPT)
    assert result.usage.cached_tokens == 0
    assert difference(result, await score(make_engine(), PROMPT)) < 1e-4


@pytest.mark.anyio
async def test_cancelling_inside_a_refresh_leaves_no_live_state_and_no_snapshot(make_engine, gate):
    engine = make_engine(snapshots="drop", refresh_tokens=REFRESH, max_batch_tokens=7)
    for prompt in (PROMPT, *OTHERS):
        await score(engine, prompt)
    before = engine.statistics().resident_snapshots
    steps = len(gate.steps)
    gate.shut()
    async with anyio.create_task_group() as group:
        group.start_soon(score, engine, PROMPT)
        await gate.reached(steps + 1)
        group.cancel_scope.cancel()
        gate.open()
    await settled(engine)
    assert engine.statistics().resident_snapshots == before
    result = await score(engine, PROMPT)
    assert result.usage.restored_tokens == len(PROMPT) - 1


def tight(folder, **options):
    """An engine whose budget holds three conversations and a few snapshots."""
    with closing(TorchEngine(folder, dtype=torch.float32, num_slots=4, kv_budget_bytes=1 << 24, **options)) as roomy:
        plan = roomy.memory_plan
    positions = 3 * 160 + 4 * plan.snapshot_positions
    budget = plan.num_slots * plan.slot_bytes + plan.scratch_bytes + positions * plan.position_bytes
    return TorchEngine(folder, dtype=torch.float32, num_slots=4, kv_budget_bytes=budget, **options)


def talk(engine, seeds):
    async def several():
        played = [await play(engine, talks(seed, 3, alphabet=range(20, 32), length=160)) for seed in seeds]
        await settled(engine)
        return played

    return anyio.run(several)


@pytest.mark.parametrize("family", ["qwen3_next", "kimi_linear", "falcon_h1"])
def test_live_states_change_no_answer(folders, family):
    """Random conversations with branches and edits: all exact, through the codec, and slots that are taken again."""
    horizons = horizons_of_folder(folders(family))
    exact = PrecisionPlan(
        precisions={layer: (Precision.EXACT,) * len(each.tokens) for layer, each in horizons.layers.items()}
    )
    options = {"max_batch_tokens": 48, "num_threads": 1}
    with closing(tight(folders(family), snapshots=exact, keep_live_states=True, **options)) as warm:
        got = talk(warm, range(3))
        statistics = warm.statistics()
    with closing(tight(folders(family), reuse_prefixes=False, **options)) as cold:
        wanted = talk(cold, range(3))
    for ours, theirs in zip(got, wanted, strict=True):
        assert ours.tokens == theirs.tokens
        for key, values in ours.logprobs.items():
            assert values == pytest.approx(theirs.logprobs[key], abs=1e-4), key
    assert statistics.resumed_tokens > 0
    assert statistics.restored_tokens > 0
    assert statistics.resumed_tokens + statistics.restored_tokens == statistics.hit_tokens


@pytest.mark.parametrize("family", ["qwen3_5", "kimi_linear", "mamba2"])
def test_refreshes_hold_under_load(folders, family):
    policy = SnapshotPolicy(drop_below_tokens=200)
    with closing(
        tight(folders(family), snapshots=policy, refresh_tokens=9, max_batch_tokens=48, num_threads=1)
    ) as engine:
        talk(engine, range(3))
        statistics = engine.statistics()
    assert statistics.refreshed_tokens > 0
    assert statistics.evicted_snapshots + statistics.evicted_tokens > 0


@pytest.mark.parametrize("family", ["qwen3_5", "mamba2"])
def test_errors_of_a_chain_of_restores_stay_bounded(make_engine, family):
    """Restored, gone on, written again, 20 times. (Experts would flip on any difference, so no model of experts.)"""

    async def chain():
        exact, packed = make_engine(family), make_engine(family, snapshots="int8", keep_live_states=False)
        said, errors = PROMPT, []
        for link in range(20):
            said = (*said, *(20 + (11 * link + 3 * i) % 50 for i in range(17)))
            errors.append(difference(await score(packed, said), await score(exact, said)))
        assert packed.statistics().restored_tokens > 0
        return errors

    errors = anyio.run(chain)
    assert 0 < median(errors[10:]) <= 2 * median(errors[:10])


def test_a_policy_for_bytes_is_kept_to_and_guards_what_is_stored(make_engine):
    engine = make_engine(snapshots=SnapshotPolicy(budget_bytes=4000))
    assert 3500 < engine.statistics().snapshot_bytes <= 4000
    names = {
        make_engine(snapshots=policy).statistics().codec
        for policy in ("exact", "int8", "small", SnapshotPolicy(drop_below_tokens=400), SnapshotPolicy())
    }
    assert len(names) == 4  # the last is what "int8" means


def test_options_that_make_no_sense_are_refused(folders):
    with pytest.raises(InvalidRequest, match="no snapshot policy 'best'"):
        TorchEngine(folders("mamba2"), snapshots="best", num_threads=1)
    with pytest.raises(InvalidRequest, match="refresh_tokens is -1"):
        TorchEngine(folders("mamba2"), refresh_tokens=-1, num_threads=1)


@pytest.mark.anyio
@pytest.mark.parametrize("same", [True, False])
async def test_snapshots_on_disk_are_read_by_the_same_codec_only(folders, tmp_path, same):
    def engine(policy):
        return TorchEngine(
            folders("qwen3_next"),
            dtype=torch.float32,
            snapshots=policy,
            cache_dir=tmp_path,
            kv_budget_bytes=1 << 24,
            num_threads=1,
        )

    with closing(engine(NAMED_POLICIES["small"])) as first:
        said = (*PROMPT, *(await complete(first, PROMPT, 8)).token_ids, 5)
    policy = NAMED_POLICIES["small"] if same else replace(NAMED_POLICIES["small"], drop_below_tokens=400)
    with closing(engine(policy)) as second:
        usage = (await score(second, said)).usage
        assert (usage.restored_tokens or 0) > 0 if same else usage.cached_tokens == 0
