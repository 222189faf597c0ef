"""A LoRA adapter laid over a model's weights once, when it is loaded: serving then costs what it costs without.

Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (2021): ``W + scale * B @ A``.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor, nn

from agentform.errors import WeightsCorrupt
from agentform.runtime.models.adapter_file import adapter_scale
from agentform.runtime.models.checked import readable

__all__ = ["merge_adapter"]

_WRAPPED = "base_model.model."
_DOWN, _UP = ".lora_A.weight", ".lora_B.weight"


def merge_adapter(model: nn.Module, folder: Path) -> None:
    """Add an adapter of peft's layout to the weights of `model`, computed in float32, in place.

    Raises:
        WeightsCorrupt: its files are damaged, or do not fit the model; the module is named.
    """
    with readable(folder):
        from safetensors.torch import load_file

        config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
        tensors = load_file(folder / "adapter_model.safetensors")
    scale = adapter_scale(config, where=folder)
    for name in [name for name in tensors if name.endswith(_DOWN)]:
        module = name.removesuffix(_DOWN)
        down, up = tensors.pop(name), tensors.pop(module + _UP, None)
        if up is None:
            raise WeightsCorrupt(f"{folder} has no {module + _UP}")
        _add(model, module.removeprefix(_WRAPPED), scale * (up.float() @ down.float()), folder)
    if tensors:
        raise WeightsCorrupt(f"{folder} holds {sorted(tensors)[0]}, which is no part of a LoRA")


def _add(model: nn.Module, name: str, change: Tensor, folder: Path) -> None:
    try:
        weight = model.get_submodule(name).weight
    except AttributeError as error:
        raise WeightsCorrupt(f"{folder} changes {name}, which the model does not have") from error
    assert isinstance(weight, Tensor)
    if weight.shape != change.shape:
        shapes = f"{list(change.shape)}, not {list(weight.shape)}"
        raise WeightsCorrupt(f"{folder} changes {name} by a matrix of another shape: {shapes}")
    with torch.no_grad():
        weight.copy_((weight.float() + change.to(weight.device)).to(weight.dtype))
