"""Which layers compute the matrix products of a model that was just loaded on a CPU."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from agentform._util.freed_memory import give_back_freed_memory
from agentform.errors import AgentformError
from agentform.runtime.models.gguf import add_four_bit
from agentform.runtime.models.int4_file import FOUR_BIT_FILE, FourBitFile, FourBitWeight
from agentform.runtime.models.manifest import read_manifest
from agentform.runtime.torch.cpu.fused_layer import fuse_blocks, merged
from agentform.runtime.torch.cpu.int4 import FourBitLinear, can_multiply_four_bit
from agentform.runtime.torch.cpu.packed import PackedLinear, can_pack, pack_linears
from agentform.runtime.torch.forward.llama import DenseModel

__all__ = ["Weights", "make_products"]

Weights = Literal["both", "four_bit", "wide"]
"""Of weights that a folder has in 4 bits too: those for few rows and wide ones for many, or one kind for all."""

_PRODUCTS_AT_ONCE = 40
"""Made between two times that freed memory is given back: each time, what is needed next has to be asked for again."""
_LOGGER = logging.getLogger(__name__)


def make_products(model: nn.Module, folder: Path, weights: Weights) -> Weights:
    """Replace layers of `model`, read from `folder`, by faster ones; returns what is kept of 4-bit weights.

    Nothing is changed on other devices. On the CPU decoder layers of a known kind are fused, and bfloat16 products
    packed, each only where this build of torch can.
    """
    num_fused, num_four_bit = _fuse(model, folder, weights)
    kept = weights if num_four_bit else "wide"
    pack_linears(model)
    if num_fused and kept != "four_bit" and not isinstance(model, DenseModel):
        _copy_what_is_left(model)
    return kept


def _fuse(model: nn.Module, folder: Path, weights: Weights) -> tuple[int, int]:
    """How many blocks were fused, and how many of their products have 4-bit weights."""
    file = _four_bit_file(folder) if weights != "wide" and _takes_four_bit(model) else None
    product = _Products(file, keep_wide=weights == "both")
    return fuse_blocks(model, product.make), product.num_four_bit


class _Products:
    """Makes the products of fused blocks, one after the other, so that no weight is held twice for long."""

    def __init__(self, file: FourBitFile | None, *, keep_wide: bool) -> None:
        self._file = file
        self._keep_wide = keep_wide
        self._can_pack = can_pack()
        self.num_four_bit = 0

    def make(self, names: Sequence[str], linears: Sequence[nn.Linear]) -> nn.Module:
        """See `MakeProduct`."""
        weight = self._four_bit(names)
        if weight is None:
            return self._wide(linears)
        self.num_four_bit += 1
        bias = merged(linears).bias if linears[0].bias is not None else None
        wide = self._wide(linears) if self._keep_wide else None
        layer = FourBitLinear(weight, bias=bias, wide=wide, dtype=linears[0].weight.dtype)
        if self.num_four_bit % _PRODUCTS_AT_ONCE == 0:
            give_back_freed_memory()  # codes are eight times their size on the way
        return layer

    def _four_bit(self, names: Sequence[str]) -> FourBitWeight | None:
        if self._file is None or not all(name in self._file for name in names):
            return None
        weight = FourBitWeight.joined([self._file.read(name) for name in names])
        return weight if FourBitLinear.fits(weight) else None

    def _wide(self, linears: Sequence[nn.Linear]) -> nn.Module:
        whole = merged(linears)
        return PackedLinear(whole) if self._can_pack and PackedLinear.fits(whole) else whole


def _takes_four_bit(model: nn.Module) -> bool:
    kinds = {(weight.dtype, weight.device.type) for weight in model.parameters()}
    return kinds in ({(torch.bfloat16, "cpu")}, {(torch.float32, "cpu")}) and can_multiply_four_bit()


def _four_bit_file(folder: Path) -> FourBitFile | None:
    """The 4-bit weights of a folder, made now if it was converted before they were kept; `None` if it has none."""
    from safetensors import SafetensorError

    path = folder / FOUR_BIT_FILE
    try:
        if not path.is_file() and (gguf := _source(folder)) is not None:
            add_four_bit(gguf, folder)
        return FourBitFile(path) if path.is_file() else None
    except (OSError, ValueError, SafetensorError, AgentformError) as error:
        _LOGGER.warning("%s cannot be used, weights stay wide: %s", path, error)
        return None


def _source(folder: Path) -> Path | None:
    """The GGUF file that a folder was converted from, if it is still there."""
    manifest = read_manifest(folder)
    names = [name for name in manifest.files if name.endswith(".gguf")] if manifest is not None else []
    return folder / names[0] if len(names) == 1 and (folder / names[0]).is_file() else None


def _copy_what_is_left(model: nn.Module) -> None:
    """A tensor that was read from a file keeps all of it mapped; after this nothing holds what was packed."""
    for name, parameter in list(model.named_parameters()):
        owner, _, own = name.rpartition(".")
        setattr(model.get_submodule(owner), own, nn.Parameter(parameter.detach().clone(), requires_grad=False))
