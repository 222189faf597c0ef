"""The 4-bit weights of a GGUF file as they are in it, in a file of their own beside the bfloat16 ones.

Q4_1 holds 32 weights of a row in a group: a code of 4 bits each, a scale and a minimum in float16. Codes are kept, not
quantised again. The file, `four_bit.safetensors`, holds for each layer, by the name of its module::

    NAME.codes      uint8 [out, in / 2]      16 bytes a group, in byte j the low half for weight j, the high for 16 + j
    NAME.scale      float16 [out, in / 32]   weight = scale * code + minimum
    NAME.minimum    float16 [out, in / 32]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentform._util.files import replacing

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

__all__ = ["FOUR_BIT_FILE", "GROUP", "FourBitFile", "FourBitWeight", "split_q4_1", "write_four_bit"]

FOUR_BIT_FILE = "four_bit.safetensors"
GROUP = 32
"""Weights that share a scale and a minimum."""
_VERSION = "1"
_PARTS = ("codes", "scale", "minimum")


@dataclass(frozen=True, kw_only=True)
class FourBitWeight:
    """The weight of one linear layer; see the module."""

    codes: Tensor
    scale: Tensor
    minimum: Tensor

    @staticmethod
    def joined(weights: Sequence[FourBitWeight]) -> FourBitWeight:
        """The weight of the layer whose outputs are those of `weights` one after the other."""
        import torch

        return FourBitWeight(**{part: torch.cat([getattr(each, part) for each in weights]) for part in _PARTS})


class FourBitFile:
    """Reads `four_bit.safetensors` of a model folder."""

    def __init__(self, path: Path) -> None:
        """Read the header.

        Raises:
            OSError: the file cannot be read; safetensors' own error for one that is damaged.
            ValueError: the file is of another version.
        """
        from safetensors import safe_open

        self._file: Any = safe_open(path, framework="pt")
        if (found := (self._file.metadata() or {}).get("version")) != _VERSION:
            raise ValueError(f"{path} is of version {found}, not {_VERSION}")
        self._names = frozenset(self._file.keys())

    def __contains__(self, name: str) -> bool:
        return all(f"{name}.{part}" in self._names for part in _PARTS)

    def read(self, name: str) -> FourBitWeight:
        """The weight of the module `name`."""
        return FourBitWeight(**{part: self._file.get_tensor(f"{name}.{part}") for part in _PARTS})


def split_q4_1(blocks: np.ndarray) -> dict[str, np.ndarray]:
    """The parts of a weight from GGUF's blocks, uint8 `[out, in / 32 * 20]`."""
    grouped = blocks.reshape(blocks.shape[0], -1, 4 + GROUP // 2)
    halves = grouped[..., :4].copy().view("<f2")
    return {
        "codes": grouped[..., 4:].reshape(blocks.shape[0], -1).copy(),
        "scale": halves[..., 0].copy(),
        "minimum": halves[..., 1].copy(),
    }


def write_four_bit(weights: Mapping[str, Mapping[str, np.ndarray]], folder: Path) -> None:
    """Write the parts of weights by module name; whole or not at all. Without weights no file is written."""
    from safetensors.numpy import save_file

    if not weights:
        return
    tensors = {f"{name}.{part}": values for name, parts in weights.items() for part, values in parts.items()}
    with replacing(folder / FOUR_BIT_FILE) as path:
        save_file(tensors, path, metadata={"format": "q4_1", "version": _VERSION})
