"""Static horizons: against a simulated decay, and read from models and from files."""

from __future__ import annotations

import json
import math
from contextlib import closing

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from agentform.errors import HorizonsUnknown
from agentform.kernels import gated_delta
from agentform.runtime.snapshots.horizons import (
    EPSILON,
    GATE_INPUT,
    Horizons,
    LayerHorizons,
    bounded_decay,
    horizon_tokens,
    softplus_decay,
)
from agentform.runtime.torch.engine import TorchEngine
from agentform.runtime.torch.snapshots.model_horizons import horizons_of_folder, horizons_of_model
from tests.support.tiny_hybrids import FAMILIES, need_recurrent_layers, write_tiny_hybrid
from tests.support.tiny_model import write_tiny_model

KINDS = dict.fromkeys(("qwen3_next", "qwen3_5", "olmo_hybrid"), "gated delta")
KINDS |= {"kimi_linear": "KDA"}
KINDS |= dict.fromkeys(("falcon_h1", "granitemoehybrid", "mamba2"), "Mamba2")


def what_is_left(decay, num_tokens):
    """Share of a state after tokens that write nothing, by the reference recurrence."""
    key, beta = torch.zeros(1, num_tokens, 1, 1), torch.zeros(1, num_tokens, 1)
    decays = torch.full((1, num_tokens, 1, 1), decay)
    lengths = torch.tensor([num_tokens], dtype=torch.int32)
    _, states = gated_delta.step_branches(key, key, key, decays, beta, lengths, torch.ones(1, 1, 1))
    return float(states)


@given(st.floats(math.log(0.3), math.log(16)), st.floats(-6.9, 2.0))
def test_a_contribution_falls_to_epsilon_within_the_horizon(a_log, dt_bias):
    decay = softplus_decay(a_log, dt_bias)
    # The formula once more, in torch as models write it.
    step = torch.nn.functional.softplus(torch.tensor(GATE_INPUT + dt_bias, dtype=torch.float64))
    assert decay == pytest.approx(-math.exp(a_log) * float(step), rel=1e-6)
    (horizon,) = horizon_tokens([decay])
    if horizon < 300:
        assert what_is_left(decay, math.ceil(horizon)) <= EPSILON * 1.001
        assert what_is_left(decay, math.floor(horizon)) >= EPSILON * 0.999


@given(st.floats(-3, 3), st.floats(-6, 6), st.floats(-8, -0.5))
def test_the_bounded_gate_stays_within_its_bound(a_log, dt_bias, lower_bound):
    decay = bounded_decay(a_log, dt_bias, lower_bound=lower_bound)
    assert lower_bound <= decay <= 0
    gate = torch.sigmoid(math.exp(a_log) * torch.tensor(GATE_INPUT + dt_bias, dtype=torch.float64))
    assert decay == pytest.approx(lower_bound * float(gate), rel=1e-6, abs=1e-300)
    assert horizon_tokens([decay])[0] >= math.log(EPSILON) / lower_bound * 0.999


def test_time_steps_are_kept_within_their_limits():
    assert softplus_decay(0.0, -20.0, limits=(0.01, 0.1)) == pytest.approx(-0.01)
    assert softplus_decay(0.0, 20.0, limits=(0.01, 0.1)) == pytest.approx(-0.1)


def test_what_never_decays_has_no_end():
    assert horizon_tokens([0.0, -0.0]) == (math.inf, math.inf)


def test_quantiles_are_over_all_units():
    layers = {
        0: LayerHorizons(kind="KDA", num_heads=1, tokens=(4.0, 1.0)),
        2: LayerHorizons(kind="gated delta", num_heads=2, tokens=(3.0, 2.0)),
    }
    horizons = Horizons(layers=layers, digest="")
    assert [horizons.quantile(share) for share in (0, 0.25, 0.5, 0.75, 1)] == [1, 2, 3, 4, 4]
    assert [layer.units_per_head for layer in layers.values()] == [2, 1]


@pytest.mark.parametrize("family", KINDS)
def test_a_model_and_its_files_say_the_same(tmp_path, family):
    model = write_tiny_hybrid(tmp_path, family)
    horizons = horizons_of_folder(tmp_path)
    assert horizons == horizons_of_model(model)
    assert {layer.kind for layer in horizons.layers.values()} == {KINDS[family]}
    kinds = getattr(model.config, "layer_types", None) or ["mamba"] * model.config.num_hidden_layers
    assert list(horizons.layers) == [
        index for index, kind in enumerate(kinds) if "attention" != kind != "full_attention"
    ]
    assert horizons.quantile(0.25) * 3 < horizons.quantile(0.75)


def test_shards_are_read_through_their_index(tmp_path):
    write_tiny_hybrid(tmp_path, "qwen3_next")
    wanted = horizons_of_folder(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    shards = {f"part-{number}.safetensors": dict(list(tensors.items())[number::2]) for number in (0, 1)}
    for name, part in shards.items():
        save_file(part, tmp_path / name)
    where = {tensor: name for name, part in shards.items() for tensor in part}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    assert horizons_of_folder(tmp_path) == wanted


def test_other_weights_have_another_digest(tmp_path):
    digests = set()
    for seed in range(3):
        write_tiny_hybrid(tmp_path, "mamba2", seed=seed)
        digests.add(horizons_of_folder(tmp_path).digest)
    assert len(digests) == 3


def test_a_bounded_gate_is_known_from_the_configuration(tmp_path):
    """Bailing-hybrid has KDA's tensors; its configuration says that the gate is bounded, and may leave out defaults."""
    need_recurrent_layers()  # and with them transformers that knows the model
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bailing_hybrid"}))
    a_log, dt_bias = torch.zeros(2), torch.linspace(-4, 1, 6)
    save_file(
        {"model.layers.3.attention.A_log": a_log, "model.layers.3.attention.dt_bias": dt_bias},
        tmp_path / "m.safetensors",
    )
    layer = horizons_of_folder(tmp_path).layers[3]
    assert (layer.kind, layer.num_heads, layer.units_per_head) == ("KDA", 2, 3)
    decays = [bounded_decay(0.0, float(bias), lower_bound=-5.0) for bias in dt_bias]
    assert layer.tokens == pytest.approx(horizon_tokens(decays), rel=1e-6)


def config_of(folder, family):
    """A folder with the configuration of a family and no weights yet."""
    write_tiny_hybrid(folder, family)
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({"model.layers.0.mamba.A_log": torch.zeros(4, 8)}, r"A_log \[4, 8\] has no .*dt_bias beside it"),
        (
            {"model.layers.0.x.A_log": torch.zeros(4), "model.layers.0.x.dt_bias": torch.zeros(6)},
            "4 values and dt_bias 6",
        ),
        ({"model.layers.0.x.A_log": torch.full((2,), torch.nan), "model.layers.0.x.dt_bias": torch.zeros(2)}, "finite"),
        ({"model.layers.0.x.weight": torch.zeros(4)}, r"looked for tensors named \*.layers.N.\*.A_log"),
    ],
)
def test_an_unknown_layout_is_told_with_what_was_looked_for(tmp_path, tensors, said):
    config_of(tmp_path, "qwen3_next")
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(HorizonsUnknown, match=said):
        horizons_of_folder(tmp_path)


def test_a_folder_without_weights_or_with_broken_ones_is_told(tmp_path):
    with pytest.raises(HorizonsUnknown, match=r"no config\.json"):
        horizons_of_folder(tmp_path)
    config_of(tmp_path, "qwen3_next")
    with pytest.raises(HorizonsUnknown, match="holds no"):
        horizons_of_folder(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"not one")
    with pytest.raises(HorizonsUnknown, match="cannot be read"):
        horizons_of_folder(tmp_path)


def test_convolutions_and_attention_have_nothing_to_compress(tmp_path):
    model = write_tiny_hybrid(tmp_path, "lfm2")
    with pytest.raises(HorizonsUnknown, match="short convolutions"):
        horizons_of_model(model)
    with pytest.raises(HorizonsUnknown, match="short convolutions"):
        TorchEngine(tmp_path, snapshots="balanced", num_threads=1)
    write_tiny_model(tmp_path)
    with pytest.raises(HorizonsUnknown, match="no decay parameters of 'llama'"):
        horizons_of_folder(tmp_path)
    with closing(TorchEngine(tmp_path, snapshots="exact", num_threads=1)) as engine:
        assert engine.statistics().codec == ""


def test_every_tiny_family_is_covered_here():
    assert {*KINDS, "lfm2"} == set(FAMILIES)
