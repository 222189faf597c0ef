"""Horizons of a model: from one that is loaded, or from its files without loading it.

Decay parameters are recognised by name and shape, so one reader serves every family::

    PREFIX.A_log    [heads] (KDA: [1, 1, heads, 1])    PREFIX.dt_bias   [heads], KDA [heads * key_dim]

`PREFIX` holds `layers.N.`; it ends in `linear_attn`, `self_attn`, `self_attn.forget_gate`, `mixer` or `mamba`. Of the
configuration are read the bounds of KDA's gate and of Mamba2's time step.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from agentform.errors import HorizonsUnknown
from agentform.runtime.snapshots.horizons import (
    Horizons,
    LayerHorizons,
    RecurrenceKind,
    bounded_decay,
    horizon_tokens,
    softplus_decay,
)

__all__ = ["LAYER", "horizons_of_folder", "horizons_of_model", "read_config", "tensor_files"]

LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
"""Where a tensor's name says which layer it is of."""
_NOT_THE_MODEL = ("mtp.", "draft.")
_WANTED = (".A_log", ".dt_bias")
_INDEX = "model.safetensors.index.json"


def horizons_of_model(model: nn.Module) -> Horizons:
    """Horizons of a loaded model of transformers.

    Raises:
        HorizonsUnknown: decay parameters are not found, or are of a layout that is not known.
    """
    config: Any = model.config
    tensors = {name: each.detach() for name, each in model.named_parameters() if name.endswith(_WANTED)}
    return _horizons(tensors, config.get_text_config().to_dict(), str(config.model_type))


def horizons_of_folder(folder: Path) -> Horizons:
    """Horizons of a model folder of safetensors files; reads the decay parameters and nothing else.

    Raises:
        HorizonsUnknown: decay parameters are not found; also for a folder without config.json or weights.
    """
    config = read_config(folder)
    tensors: dict[str, Tensor] = {}
    for path, names in tensor_files(folder):
        wanted = [name for name in names if name.endswith(_WANTED)]
        if wanted:
            with safe_open(path, framework="pt") as file:
                tensors |= {name: file.get_tensor(name) for name in wanted}
    return _horizons(tensors, config, str(folder))


def read_config(folder: Path) -> dict[str, Any]:
    """The text model's configuration, defaults filled in by transformers.

    Raises:
        HorizonsUnknown: decay parameters are not found, or are of a layout that is not known.
    """
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise HorizonsUnknown(f"{folder}: no config.json that transformers can read: {error}") from error
    return config.get_text_config().to_dict()


def tensor_files(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Weight files and the names of the tensors in each.

    Raises:
        HorizonsUnknown: decay parameters are not found, or are of a layout that is not known.
    """
    try:
        if (folder / _INDEX).is_file():
            where: Mapping[str, str] = json.loads((folder / _INDEX).read_text(encoding="utf-8"))["weight_map"]
            for file in sorted(set(where.values())):
                yield folder / file, [name for name, holder in where.items() if holder == file]
            return
        paths = sorted(folder.glob("*.safetensors"))
        for path in paths:
            with safe_open(path, framework="pt") as file:
                names = list(file.keys())
            yield path, names
    except (OSError, ValueError, KeyError, AttributeError, SafetensorError) as error:
        raise HorizonsUnknown(f"{folder}: weights that cannot be read: {error}") from error
    if not paths:
        raise HorizonsUnknown(f"{folder} holds no *.safetensors")


def _horizons(tensors: Mapping[str, Tensor], config: Mapping[str, Any], where: str) -> Horizons:
    layers: dict[int, LayerHorizons] = {}
    digest = hashlib.sha256()
    for name in sorted(tensors):
        found = LAYER.search(name)
        if not name.endswith(".A_log") or found is None or name.startswith(_NOT_THE_MODEL):
            continue
        beside = name.removesuffix(".A_log") + ".dt_bias"
        if beside not in tensors:
            raise HorizonsUnknown(
                f"{where}: {name} {list(tensors[name].shape)} has no {beside} beside it; known are gated delta, KDA "
                "and Mamba2, which have both (Mamba-1 has not)"
            )
        a_log, dt_bias = tensors[name].double().flatten(), tensors[beside].double().flatten()
        layers[int(found[1])] = _layer(name, a_log, dt_bias, config, where)
        for each in (a_log, dt_bias):
            digest.update(each.cpu().numpy().tobytes())
    if not layers:
        raise HorizonsUnknown(_nothing(config, where))
    digest.update(repr((_lower_bound(config), _time_step_limits(config))).encode())
    return Horizons(layers=dict(sorted(layers.items())), digest=digest.hexdigest()[:16])


def _layer(name: str, a_log: Tensor, dt_bias: Tensor, config: Mapping[str, Any], where: str) -> LayerHorizons:
    heads = a_log.numel()
    if not heads or dt_bias.numel() % heads:
        raise HorizonsUnknown(f"{where}: {name} has {heads} values and dt_bias {dt_bias.numel()}, not a multiple")
    kind = _kind(name, dt_bias.numel() // heads)
    lower, limits = _lower_bound(config), _time_step_limits(config)
    pairs = zip(a_log.repeat_interleave(dt_bias.numel() // heads).tolist(), dt_bias.tolist(), strict=True)
    if kind == "KDA" and lower is not None:
        decays = [bounded_decay(a, bias, lower_bound=lower) for a, bias in pairs]
    elif kind == "Mamba2":
        decays = [softplus_decay(a, bias, limits=limits) for a, bias in pairs]
    else:
        decays = [softplus_decay(a, bias) for a, bias in pairs]
    if not all(math.isfinite(each) for each in decays):
        raise HorizonsUnknown(f"{where}: {name} or its dt_bias holds values that are not finite")
    return LayerHorizons(kind=kind, num_heads=heads, tokens=horizon_tokens(decays))


def _kind(name: str, channels: int) -> RecurrenceKind:
    if channels > 1:
        return "KDA"
    return "Mamba2" if re.search(r"\.(mixer|mamba)\.", name) else "gated delta"


def _lower_bound(config: Mapping[str, Any]) -> float | None:
    """KDA's bound where the model has one: Bailing and GLM name it differently, and inside a sub-dict on disk."""
    nested = config.get("linear_attn_config") or {}
    if not config.get("kda_safe_gate", nested.get("safe_gate", True)):
        return None
    named = (config.get("kda_lower_bound"), nested.get("gate_lower_bound"), config.get("linear_lower_bound"))
    return next((float(each) for each in named if each is not None), None)


def _time_step_limits(config: Mapping[str, Any]) -> tuple[float, float]:
    limits = config.get("time_step_limit")
    if isinstance(limits, list | tuple) and len(limits) == 2:
        return float(limits[0]), float(limits[1])
    if config.get("model_type") in ("nemotron_h", "zamba2"):
        return float(config.get("time_step_min") or 0.0), math.inf
    return 0.0, math.inf


def _nothing(config: Mapping[str, Any], where: str) -> str:
    kinds = config.get("layer_types") or ()
    if "conv" in kinds:
        return (
            f"{where}: the recurrent layers of {config.get('model_type')!r} are short convolutions; they have no "
            "decaying state, and their snapshots are small and always exact"
        )
    return (
        f"{where}: no decay parameters of {config.get('model_type')!r}: looked for tensors named "
        "*.layers.N.*.A_log and, beside each, dt_bias (gated delta, KDA, Mamba2)"
    )
