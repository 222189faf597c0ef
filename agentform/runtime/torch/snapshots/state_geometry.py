"""Sizes of a model's recurrent states from its files, so that policies can be compared without loading the model."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open

from agentform.errors import HorizonsUnknown
from agentform.runtime.snapshots.horizons import Horizons, LayerHorizons
from agentform.runtime.snapshots.plan import BARE_POSITION_BYTES, LayerGeometry
from agentform.runtime.torch.snapshots.model_horizons import LAYER, read_config, tensor_files

__all__ = ["geometry_of_folder", "kv_token_bytes"]

_ITEM_BYTES = 2
"""Bytes of a value of conv state, layer input and KV: models that are worth compressing run in bfloat16."""
_HEAD_DIMS = ("mamba_d_head", "mamba_head_dim", "mamba_headdim", "head_dim")
_STATE_DIMS = ("mamba_d_state", "ssm_state_size", "state_size")
_ATTENTION = ("full_attention", "attention", "hybrid")


def geometry_of_folder(folder: Path, horizons: Horizons) -> dict[int, LayerGeometry]:
    """Sizes of the layers that `horizons` names, the recurrent state in float32 and the rest in bfloat16.

    Raises:
        HorizonsUnknown: the configuration does not say them.
    """
    config = read_config(folder)
    convolutions = _convolutions(folder)
    made: dict[int, LayerGeometry] = {}
    for layer, each in horizons.layers.items():
        key, value = _dims(each, config, folder)
        channels, kernel = convolutions.get(layer, (0, 1))
        made[layer] = LayerGeometry(
            num_heads=each.num_heads,
            key_dim=key,
            value_dim=value,
            units_per_head=each.units_per_head,
            conv_bytes=channels * kernel * _ITEM_BYTES,
            input_bytes=int(config["hidden_size"]) * _ITEM_BYTES,
            conv_tokens=kernel - 1,
        )
    return made


def kv_token_bytes(folder: Path) -> int:
    """Bytes that a token takes in the cache: keys and values of all attention layers.

    Raises:
        HorizonsUnknown: decay parameters are not found, or are of a layout that is not known.
    """
    config = read_config(folder)
    kinds = config.get("layer_types") or ["full_attention"] * int(config["num_hidden_layers"])
    layers = sum(kind in _ATTENTION for kind in kinds)
    if not layers or not config.get("num_attention_heads"):
        return BARE_POSITION_BYTES
    heads = _first(config, ("num_key_value_heads", "num_attention_heads"), folder)
    if config.get("kv_lora_rank"):  # stored expanded, keys with their rotated part
        each = sum(int(config[name]) for name in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    else:
        head_dim = config.get("attention_head_dim") or config.get("head_dim")
        each = 2 * int(head_dim or config["hidden_size"] // config["num_attention_heads"])
    return layers * heads * each * _ITEM_BYTES


def _dims(layer: LayerHorizons, config: Mapping[str, Any], folder: Path) -> tuple[int, int]:
    """Key and value dimension of a head."""
    if layer.kind == "KDA":
        return layer.units_per_head, layer.units_per_head
    if layer.kind == "Mamba2":
        return _first(config, _STATE_DIMS, folder), _first(config, _HEAD_DIMS, folder)
    return _first(config, ("linear_key_head_dim",), folder), _first(config, ("linear_value_head_dim",), folder)


def _first(config: Mapping[str, Any], names: tuple[str, ...], folder: Path) -> int:
    for name in names:
        if isinstance(config.get(name), int):
            return config[name]
    raise HorizonsUnknown(f"{folder}: config.json says nothing of the state's size: looked for {', '.join(names)}")


def _convolutions(folder: Path) -> dict[int, tuple[int, int]]:
    """Channels and kernel size by layer; a layer may have one convolution for each of query, key and value."""
    found: dict[int, tuple[int, int]] = {}
    for path, names in tensor_files(folder):
        wanted = [name for name in names if re.search(r"conv1d\.weight$", name) and LAYER.search(name)]
        if not wanted:
            continue
        with safe_open(path, framework="pt") as file:
            for name in wanted:
                shape = file.get_slice(name).get_shape()
                match = LAYER.search(name)
                assert match is not None, "a name that was matched before"
                channels, _ = found.get(int(match[1]), (0, 0))
                found[int(match[1])] = channels + math.prod(shape[:-1]), shape[-1]
    return found
