"""The snapshot pool for SGLang on a fake pool of live states: odd sizes, poisoned buffers, every wrong number."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentform.errors import HorizonsUnknown, InvalidRequest, WrongSnapshotSlot
from agentform.runtime.sglang.plugin.layout import SlotLayout
from agentform.runtime.sglang.plugin.pool import SnapshotPool
from agentform.runtime.sglang.plugin.slot_owners import Content
from agentform.runtime.snapshots.plan import Precision
from agentform.runtime.snapshots.policy import SnapshotPolicy, named_policy
from tests.support.live_states import HEADS, HORIZONS, KEY, LAYERS, NUM_LIVE, VALUE, LivePool, sizes

POLICIES = (
    SnapshotPolicy(keep="exact"),
    SnapshotPolicy(),
    SnapshotPolicy(drop_below_tokens=15, exact_above_tokens=1000),
    SnapshotPolicy(budget_bytes=1300),
    SnapshotPolicy(keep="int4", drop_below_tokens=5),
)
IDS = [3, 1, 4]


def make_pool(policy=POLICIES[0], *, num_slots=3, temporal=torch.float32):
    layout = SlotLayout(policy, HORIZONS, sizes(temporal=temporal), LAYERS)
    return SnapshotPool(layout, num_slots=num_slots, device="cpu", policy="p")


def at(*numbers):
    return torch.tensor(numbers)


def store(pool, live, row, content):
    slots = pool.alloc(1)
    pool.store_from_active(live, at(row), slots)
    pool.belongs(slots, content)
    return slots


def check_restored(pool, before, after):
    """Each head came back as its tier says; the convolution is identical."""
    assert torch.equal(after[1], before[1])
    for index, layer in enumerate(LAYERS):
        for head, tier in enumerate(pool.layout.codec.plan.precisions[layer]):
            was, now = before[0][index, head].float(), after[0][index, head].float()
            if tier is Precision.DROP:
                assert not now.any()
            elif tier is Precision.EXACT:
                assert torch.equal(now, was)
            else:
                # Steps of a key channel, over its values; the ends of a 4-bit range are bfloat16.
                spread = (
                    was.abs().amax(dim=0) / 127 if tier is Precision.INT8 else (was.amax(dim=0) - was.amin(dim=0)) / 15
                )
                coarse = 1e-6 if tier is Precision.INT8 else 2**-7 * was.abs().amax(dim=0)
                assert ((now - was).abs() <= spread / 2 + coarse).all()


@pytest.mark.parametrize("policy", POLICIES, ids=["exact", "int8", "three tiers", "bytes", "int4"])
def test_a_snapshot_comes_back_into_another_row(policy):
    pool, live = make_pool(policy), LivePool()
    live.fill(1, seed=0)
    before = live.read(1)
    slots = store(pool, live, 1, Content.of(IDS))
    live.fill(1, seed=1)
    pool.expect(slots, 3, Content.of(IDS))
    pool.load_to_active(live, slots, at(3))
    check_restored(pool, before, live.read(3))
    statistics = pool.statistics()
    assert (statistics.stored, statistics.restored, statistics.restored_tokens) == (1, 1, 3)


@pytest.mark.parametrize("temporal", [torch.float32, torch.bfloat16])
def test_exact_keeps_every_bit_whatever_the_state_is_held_in(temporal):
    pool, live = make_pool(temporal=temporal), LivePool(temporal=temporal)
    live.fill(2, seed=0)
    before = live.read(2)
    slots = store(pool, live, 2, Content.of(IDS))
    live.poison(2)
    pool.expect(slots, 2, Content.of(IDS))
    pool.load_to_active(live, slots, at(2))
    assert all(torch.equal(one, other) for one, other in zip(before, live.read(2), strict=True))


def test_a_snapshot_has_the_bytes_that_its_tiers_take():
    exact, int8, three, least = (make_pool(policy).layout for policy in POLICIES[:4])
    conv, rows = 11 * 3 * 2, HEADS * KEY
    assert exact.live_slot_bytes == len(LAYERS) * (rows * VALUE * 4 + conv)
    assert int8.int8_slot_bytes == len(LAYERS) * (rows * (VALUE + 4) + conv)

    assert exact.slot_bytes == exact.live_slot_bytes
    assert int8.slot_bytes == int8.int8_slot_bytes
    sized = {Precision.DROP: 0, Precision.INT8: KEY * (VALUE + 4), Precision.EXACT: KEY * VALUE * 4}
    tiers = [tier for layer in LAYERS for tier in three.codec.plan.precisions[layer]]
    assert set(tiers) == set(sized)
    assert three.slot_bytes == len(LAYERS) * conv + sum(sized[tier] for tier in tiers)
    assert least.slot_bytes <= 1300
    assert make_pool(num_slots=5).mem_usage_bytes() == 5 * exact.slot_bytes


def test_several_states_are_stored_and_loaded_in_one_call():
    pool, live = make_pool(), LivePool()
    for row in (1, 2):
        live.fill(row, seed=row)
    before = [live.read(row) for row in (1, 2)]
    slots = pool.alloc(2)
    pool.store_from_active(live, at(1, 2), slots)
    for slot, ids in zip(slots, ([1], [2, 2]), strict=True):
        pool.belongs(slot.view(1), Content.of(ids))
        pool.expect(slot.view(1), 3 if ids == [1] else 4, Content.of(ids))
    pool.load_to_active(live, slots, at(3, 4))
    for row, was in zip((3, 4), before, strict=True):
        check_restored(pool, was, live.read(row))


def test_a_full_pool_gives_nothing_and_keeps_what_it_has():
    pool, live = make_pool(num_slots=2), LivePool()
    live.fill(1, seed=0)
    held = [store(pool, live, 1, Content.of(IDS)) for _ in range(2)]
    assert pool.alloc(1) is None
    assert pool.available_size() == 0
    pool.free(held[0])
    assert pool.available_size() == 1
    assert pool.alloc(2) is None
    pool.clear()
    assert pool.available_size() == 2


def test_live_states_may_be_numbered_by_others():
    """A row is what `translate` says at the store and at the load; expectations are in the scheduler's numbers."""
    pool, live = make_pool(), LivePool()
    physical = at(0, 4, 3, 2, 1)
    pool.bind(lambda numbers: physical[numbers])
    live.fill(4, seed=0)
    before = live.read(4)
    slots = store(pool, live, 1, Content.of(IDS))
    live.poison(4)
    pool.expect(slots, 2, Content.of(IDS))
    pool.load_to_active(live, slots, at(2))
    check_restored(pool, before, live.read(3))


@pytest.mark.parametrize("row", [0, -1, NUM_LIVE + 1])
def test_a_row_that_is_none_is_noticed(row):
    pool, live = make_pool(), LivePool()
    with pytest.raises(WrongSnapshotSlot, match=f"row {row} is none"):
        pool.store_from_active(live, at(row), pool.alloc(1))
    assert pool.statistics().wrong_slots == 1


def test_numbers_that_do_not_pair_up_are_noticed():
    pool, live = make_pool(), LivePool()
    with pytest.raises(WrongSnapshotSlot, match="2 live states and 1 snapshots"):
        pool.store_from_active(live, at(1, 2), pool.alloc(1))


def test_a_load_from_a_neighbouring_slot_is_noticed_and_writes_nothing():
    pool, live = make_pool(), LivePool()
    live.fill(1, seed=0)
    wanted = store(pool, live, 1, Content.of(IDS))
    store(pool, live, 1, Content.of([9]))
    pool.expect(wanted, 2, Content.of(IDS))
    with pytest.raises(WrongSnapshotSlot, match="expected was slot 1"):
        pool.load_to_active(live, wanted + 1, at(2))
    assert live.read(2)[0].isnan().all()
    assert pool.statistics().wrong_slots == 1


def test_layers_that_are_not_known_are_refused():
    with pytest.raises(HorizonsUnknown, match="horizons are known of layers"):
        SlotLayout(POLICIES[0], HORIZONS, sizes(), (0, 2))
    with pytest.raises(HorizonsUnknown, match="gated delta with 2"):
        SlotLayout(POLICIES[0], HORIZONS, sizes(num_convs=2), LAYERS)
    kda = {layer: replace(each, kind="KDA") for layer, each in HORIZONS.layers.items()}
    with pytest.raises(HorizonsUnknown, match="these are KDA"):
        SlotLayout(POLICIES[0], replace(HORIZONS, layers=kda), sizes(), LAYERS)


def test_a_live_pool_of_other_sizes_is_refused():
    live = LivePool().mamba_cache
    live.temporal = live.temporal.mT
    with pytest.raises(InvalidRequest, match="laid out for"):
        make_pool().layout.check(live)


def test_nothing_is_replayed_where_inputs_are_not_seen():
    """A policy that would replay keeps those heads instead."""
    plan = SlotLayout(named_policy("balanced"), HORIZONS, sizes(), LAYERS).codec.plan
    assert Precision.REPLAY not in plan.count()
    for budget in range(200, 2000, 100):
        plan = SlotLayout(SnapshotPolicy(budget_bytes=budget), HORIZONS, sizes(), LAYERS).codec.plan
        assert Precision.REPLAY not in plan.count()


class Conversations(RuleBasedStateMachine):
    """The pool against a dictionary of what each slot should hold, in any order of steps."""

    @initialize(policy=st.sampled_from(POLICIES))
    def open(self, policy):
        self.pool, self.live = make_pool(policy), LivePool()
        self.held: dict[int, tuple] = {}  # slot -> content, states at the store
        self.empty: list[int] = []
        self.counts = Counter()

    @rule()
    def alloc(self):
        taken = self.pool.alloc(1)
        assert (taken is None) == (len(self.held) + len(self.empty) == self.pool.num_slots)
        if taken is not None:
            assert int(taken) not in self.held
            assert int(taken) not in self.empty
            self.empty.append(int(taken))

    @precondition(lambda self: self.empty)
    @rule(row=st.integers(1, NUM_LIVE), seed=st.integers(0, 99))
    def store(self, row, seed):
        slot = self.empty.pop()
        self.live.fill(row, seed)
        self.pool.store_from_active(self.live, at(row), at(slot))
        content = Content.of([slot, seed])
        self.pool.belongs(at(slot), content)
        self.held[slot] = (content, self.live.read(row))
        self.live.poison(row)
        self.counts["stored"] += 1

    @precondition(lambda self: self.held)
    @rule(data=st.data(), row=st.integers(1, NUM_LIVE))
    def load(self, data, row):
        slot = data.draw(st.sampled_from(sorted(self.held)))
        content, before = self.held[slot]
        self.pool.expect(at(slot), row, content)
        self.pool.load_to_active(self.live, at(slot), at(row))
        check_restored(self.pool, before, self.live.read(row))
        self.counts["restored"] += 1

    @precondition(lambda self: self.held)
    @rule(data=st.data(), row=st.integers(1, NUM_LIVE), off=st.sampled_from([-9, -1, 1, 2]))
    def load_wrongly(self, data, row, off):
        slot = data.draw(st.sampled_from(sorted(self.held)))
        self.live.poison(row)
        self.pool.expect(at(slot), row, self.held[slot][0])
        with pytest.raises(WrongSnapshotSlot):
            self.pool.load_to_active(self.live, at(slot + off), at(row))
        assert self.live.read(row)[0].isnan().all()
        self.counts["wrong"] += 1

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def free(self, data):
        slot = data.draw(st.sampled_from(sorted(self.held)))
        content, _ = self.held.pop(slot)
        self.pool.expect(at(slot), 1, content)
        self.pool.free(at(slot))
        with pytest.raises(WrongSnapshotSlot):
            self.pool.load_to_active(self.live, at(slot), at(1))
        self.counts["wrong"] += 1

    @rule()
    def clear(self):
        self.pool.clear()
        self.held, self.empty = {}, []

    @invariant()
    def counts_agree(self):
        if not hasattr(self, "pool"):
            return
        told = self.pool.statistics()
        assert told.resident == len(self.held) + len(self.empty)
        assert (told.stored, told.restored) == (self.counts["stored"], self.counts["restored"])
        assert told.wrong_slots == self.counts["wrong"]


TestConversations = Conversations.TestCase
TestConversations.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
