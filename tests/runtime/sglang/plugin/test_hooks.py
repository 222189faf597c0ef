"""What hangs the snapshot pool into SGLang, on stand-ins for SGLang's objects; with SGLang itself in tests/sglang."""

from __future__ import annotations

import sys
from array import array
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import nn

from agentform.errors import CacheBudgetExceeded, HorizonsUnknown, InvalidRequest, WrongSnapshotSlot
from agentform.runtime.sglang.plugin import hooks as snapshot_hooks
from agentform.runtime.sglang.plugin import plugin
from agentform.runtime.sglang.plugin.hooks import SnapshotHooks
from agentform.runtime.sglang.plugin.pool import SnapshotPool
from agentform.runtime.sglang.plugin.settings import POLICY, POOL, SnapshotSettings
from agentform.runtime.sglang.plugin.statistics import read_snapshot_statistics
from tests.support.live_states import HEADS, LAYERS, LivePool, sizes

INT8_SLOT = 3 * (3 * 7 * (5 + 4) + 66)
EXACT_SLOT = 3 * (3 * 7 * 5 * 4 + 66)


class Model(nn.Module):
    """Decay parameters under the names that models have them by."""

    def __init__(self, layers=LAYERS):
        super().__init__()
        self.layers = nn.ModuleDict()
        for layer in layers:
            mixer = nn.Module()
            mixer.A_log = nn.Parameter(torch.zeros(HEADS))
            mixer.dt_bias = nn.Parameter(torch.linspace(-6, -2, HEADS))
            self.layers[str(layer)] = nn.ModuleDict({"linear_attn": mixer})
        text = SimpleNamespace(to_dict=dict)
        self.config = SimpleNamespace(model_type="m", get_text_config=lambda: text)


def runner(model=None, *, startup_weight_load=None, **server):
    args = SimpleNamespace(int8_mamba_ckpt_size=None, **server)
    return SimpleNamespace(server_args=args, startup_weight_load=startup_weight_load, model=model or Model())


def hooks(**settings) -> SnapshotHooks:
    made = SnapshotHooks(SnapshotSettings(snapshots="exact") if not settings else SnapshotSettings(**settings))
    made.after_load_model(None, runner())
    return made


def make_pool(made: SnapshotHooks, mamba_size: int = 4) -> SnapshotPool:
    return made.make_pool(mamba_size=mamba_size, cache_params=sizes(), mamba_layer_ids=list(LAYERS), device="cpu")


class Component:
    """SGLang's radix component: takes a snapshot per request, and evicts what is not locked."""

    def __init__(self, pool, *, extra_buffer=False):
        self.int8_ckpt_pool = pool
        self.cache = self
        self.enable_mamba_extra_buffer = extra_buffer
        self.evictable: list[torch.Tensor] = []
        self.live = LivePool()
        self.live.fill(1, seed=0)

    def evict(self, params):
        assert (params.num_tokens, params.mamba_num) == (0, 1)
        if self.evictable:
            self.int8_ckpt_pool.free(self.evictable.pop(0))

    def prepare(self, *, req, insert_params, token_ids_len, is_finished):
        slot = self.int8_ckpt_pool.alloc(1)
        assert slot is not None, "the scheduler dies here"
        self.int8_ckpt_pool.store_from_active(self.live, torch.tensor([1]), slot)
        insert_params.mamba_value = slot
        return token_ids_len

    def match(self, params, result):
        params.req.kv.mamba_cow_src_index = result.slot
        return result


def request(ids, *, extra_key=None, tracked=None):
    kv = SimpleNamespace(mamba_pool_idx=torch.tensor(2), mamba_cow_src_index=None, mamba_last_track_seqlen=tracked)
    return SimpleNamespace(
        origin_input_ids=array("q", ids[:2]), output_ids=array("q", ids[2:]), extra_key=extra_key, cache_salt="", kv=kv
    )


@pytest.fixture
def evict_params(monkeypatch):
    """`sglang.srt.mem_cache.base_prefix_cache.EvictParams`, whether or not SGLang is installed."""
    parts = ["sglang", "srt", "mem_cache", "base_prefix_cache"]
    for end in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(".".join(parts[:end])))
    sys.modules[".".join(parts)].EvictParams = SimpleNamespace


def cache(made, component, req, *, is_finished=True, num_tokens=None):
    insert_params = SimpleNamespace(mamba_value=None)
    found = made.around_caching(
        Component.prepare,
        component,
        req=req,
        insert_params=insert_params,
        token_ids_len=len(req.origin_input_ids + req.output_ids) if num_tokens is None else num_tokens,
        is_finished=is_finished,
    )
    return found, insert_params.mamba_value


def match(made, component, req, slot, num_tokens, ids, *, extra_key=None):
    key = SimpleNamespace(raw_token_ids=lambda: array("q", ids), extra_key=extra_key, cache_salt=None)
    params = SimpleNamespace(key=key, cow_mamba=True, req=req)
    result = SimpleNamespace(device_indices=torch.zeros(num_tokens), slot=slot)
    return made.around_match(Component.match, component, params, result)


def test_without_the_switch_the_plugin_does_nothing(monkeypatch):
    monkeypatch.delenv(POLICY, raising=False)
    monkeypatch.setattr(SnapshotHooks, "register", lambda self: pytest.fail("registered"))
    plugin.register()


def test_settings_that_cannot_be_read_are_an_error(monkeypatch):
    monkeypatch.setenv(POLICY, "balnced")
    with pytest.raises(InvalidRequest, match=f"{POLICY}=balnced"):
        plugin.register()


def test_a_version_that_was_not_run_is_refused_by_name(monkeypatch):
    monkeypatch.setenv(POLICY, "int8")
    monkeypatch.setattr("agentform.runtime.sglang.wire.versions.version", lambda name: "0.5.99")
    monkeypatch.setattr(SnapshotHooks, "register", lambda self: pytest.fail("registered"))
    with pytest.raises(Exception, match=r"0\.5\.99.*0\.5\.21"):
        plugin.register()


@pytest.mark.parametrize(("name", "value"), [("tp_size", 2), ("speculative_algorithm", "EAGLE"), ("dp_size", 4)])
def test_a_server_that_the_pool_was_not_run_in_is_refused(name, value):
    made = SnapshotHooks(SnapshotSettings(snapshots="exact"))
    with pytest.raises(InvalidRequest, match=f"{name}={value!r}"):
        made.after_load_model(None, runner(**{name: value}))


def test_weights_that_are_not_there_yet_are_not_read():
    made = SnapshotHooks(SnapshotSettings(snapshots="exact"))
    with pytest.raises(InvalidRequest, match="before they are loaded"):
        made.after_load_model(None, runner(startup_weight_load=object()))


def test_a_model_without_recurrent_layers_starts_with_a_warning(caplog):
    made = SnapshotHooks(SnapshotSettings(snapshots="exact"))
    made.after_load_model(None, runner(Model(layers=())))
    assert "no effect unless the model has recurrent layers" in caplog.text
    with pytest.raises(HorizonsUnknown):
        make_pool(made)


@pytest.mark.parametrize(
    ("settings", "slots"),
    [
        ({"snapshots": "exact"}, 2 * 4 * INT8_SLOT // EXACT_SLOT),
        ({"snapshots": "exact", "num_slots": 5}, 5),
        ({"snapshots": "exact", "pool_bytes": 3 * EXACT_SLOT + 7}, 3),
    ],
)
def test_the_pool_has_the_slots_that_fit(settings, slots):
    assert make_pool(hooks(**settings)).num_slots == slots


def test_sglangs_own_size_counts_in_its_own_bytes():
    made = SnapshotHooks(SnapshotSettings(snapshots="exact"))
    each = runner()
    each.server_args.int8_mamba_ckpt_size = 100
    made.after_load_model(None, each)
    assert make_pool(made).num_slots == 100 * INT8_SLOT // EXACT_SLOT


def test_a_pool_without_room_for_one_snapshot_is_refused():
    with pytest.raises(CacheBudgetExceeded, match=rf"1,457 bytes is too small for one snapshot of 1,458.*{POOL}"):
        make_pool(hooks(snapshots="exact", pool_bytes=EXACT_SLOT - 1))


def test_more_memory_than_is_free_is_refused_with_the_numbers(monkeypatch):
    monkeypatch.setattr(snapshot_hooks, "free_bytes", lambda device: 2 * EXACT_SLOT)
    assert make_pool(hooks(snapshots="exact", num_slots=2)).num_slots == 2
    with pytest.raises(CacheBudgetExceeded, match="3 snapshots of 1,458 bytes need 4,374; 2,916 bytes are free on cpu"):
        make_pool(hooks(snapshots="exact", num_slots=3))


def test_the_pools_bytes_are_taken_off_what_is_left_for_kv(monkeypatch):
    monkeypatch.setattr(snapshot_hooks, "_live_slots", lambda: 4)
    configurator = SimpleNamespace(mambaish_config=SimpleNamespace(mamba2_cache_params=sizes()))
    made = hooks(snapshots="exact", num_slots=1000)
    left = made.after_live_states(1.0, configurator, 2.0)
    assert (1 - left) * (1 << 30) == pytest.approx(1000 * EXACT_SLOT)
    with pytest.raises(CacheBudgetExceeded, match=r"1000 snapshots of 1,458 bytes need 1,458,000; of 2,147,484 bytes"):
        made.after_live_states(1e-3, configurator, 2e-3)


def test_statistics_go_to_the_file_and_a_wrong_slot_at_once(tmp_path):
    path = tmp_path / "pool.json"
    pool = make_pool(hooks(snapshots="exact", num_slots=2, statistics_path=path))
    told = read_snapshot_statistics(path)
    assert told is not None
    assert (told.num_slots, told.slot_bytes, told.wrong_slots, told.policy) == (2, EXACT_SLOT, 0, "exact")
    with pytest.raises(WrongSnapshotSlot):
        pool.store_from_active(LivePool(), torch.tensor([1]), torch.tensor([1]))
    told = read_snapshot_statistics(path)
    assert told is not None
    assert told.wrong_slots == 1


def test_live_states_of_other_sizes_are_noticed_and_their_numbers_translated():
    made = hooks(snapshots="exact", num_slots=2)
    pool, live = make_pool(made), LivePool()
    physical = torch.tensor([0, 2, 1, 3, 4])
    made.after_pools(
        None, SimpleNamespace(mamba_ckpt_pool=pool, mamba_pool=live, translate_mamba_indices=lambda x: physical[x])
    )
    live.fill(2, seed=0)
    pool.store_from_active(live, torch.tensor([1]), pool.alloc(1))
    assert torch.equal(pool._rows[0, :66].view(torch.bfloat16), live.read(2)[1][0].flatten())
    live.mamba_cache.temporal = live.mamba_cache.temporal[:2]
    with pytest.raises(InvalidRequest, match="laid out for"):
        made.after_pools(None, SimpleNamespace(mamba_ckpt_pool=pool, mamba_pool=live, translate_mamba_indices=None))


def test_pools_that_are_not_ours_are_left_alone():
    made = hooks()
    made.after_pools(None, SimpleNamespace(mamba_ckpt_pool=None))
    component = SimpleNamespace(int8_ckpt_pool=None)
    called = []
    made.around_caching(lambda *_, **__: called.append(1), component, req=None, insert_params=None, is_finished=True)
    made.around_match(lambda *_: called.append(2), component, None, None)
    assert called == [1, 2]


def test_a_request_comes_back_to_its_own_snapshot():
    made = hooks(snapshots="exact", num_slots=2)
    component = Component(make_pool(made))
    found, slot = cache(made, component, request([1, 2, 3, 4], extra_key="lora"), num_tokens=3)
    assert found == 3
    match(made, component, request([1]), slot, 3, [1, 2, 3, 9, 9], extra_key="lora")
    component.int8_ckpt_pool.load_to_active(component.live, slot, torch.tensor([2]))
    assert all(torch.equal(a, b) for a, b in zip(component.live.read(1), component.live.read(2), strict=True))


@pytest.mark.parametrize(
    ("ids", "num_tokens", "extra_key"), [([1, 2, 9], 3, None), ([1, 2, 3], 2, None), ([1, 2, 3], 3, "lora")]
)
def test_a_snapshot_of_other_tokens_is_noticed_at_the_match(ids, num_tokens, extra_key):
    made = hooks(snapshots="exact", num_slots=2)
    component = Component(make_pool(made))
    _, slot = cache(made, component, request([1, 2, 3]))
    with pytest.raises(WrongSnapshotSlot, match="which is a snapshot of 3 other tokens"):
        match(made, component, request([1]), slot, num_tokens, ids, extra_key=extra_key)


def test_a_full_pool_evicts_what_nobody_uses(evict_params):
    made = hooks(snapshots="exact", num_slots=1)
    component = Component(make_pool(made))
    _, first = cache(made, component, request([1, 2, 3]))
    component.evictable.append(first)
    found, second = cache(made, component, request([4, 5, 6]))
    assert (found, second.tolist()) == (3, [1])
    told = component.int8_ckpt_pool.statistics()
    assert (told.evicted, told.declined) == (1, 0)


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_pool_that_others_hold_takes_no_snapshot_and_goes_on(evict_params, is_finished):
    made = hooks(snapshots="exact", num_slots=1)
    component = Component(make_pool(made))
    cache(made, component, request([1, 2, 3]))
    assert cache(made, component, request([4, 5, 6]), is_finished=is_finished) == (0, None)
    told = component.int8_ckpt_pool.statistics()
    assert (told.evicted, told.declined, told.stored, told.wrong_slots) == (0, 1, 1, 0)


def test_nothing_is_evicted_for_a_request_that_has_no_state_to_keep(evict_params):
    made = hooks(snapshots="exact", num_slots=1)
    component = Component(make_pool(made), extra_buffer=True)
    _, first = cache(made, component, request([1, 2, 3]))
    component.evictable.append(first)
    called = []
    made.around_caching(
        lambda *_, **__: called.append(1),
        component,
        req=request([4]),
        insert_params=SimpleNamespace(mamba_value=None),
        is_finished=False,
    )
    assert called
    assert component.evictable
