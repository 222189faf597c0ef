"""Linear layers that multiply 4-bit weights as they are, for few rows on a CPU.

Reading its weights is what a decode step costs, and 4-bit ones are a third of the bytes of bfloat16. torch's operator
takes groups of 32 with a scale and the value of code 8, both bfloat16, and adds up in float32. It unpacks every
weight once for four rows, so that from about ten rows on the wide product is faster (measured, two generations of
AVX-512; docs/measurements.md), and beside float32 ones, on processors without bfloat16 arithmetic, from five. There
its inputs are rounded to bfloat16, since torch multiplies 4-bit weights by nothing else faster than one at a time.
Like the operators of `PackedLinear` it is not public and used after a trial.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from agentform.runtime.models.int4_file import GROUP, FourBitWeight

__all__ = ["FourBitLinear", "can_multiply_four_bit", "dequantised"]

_FEW_ROWS = 8
_FEW_FLOAT_ROWS = 4
"""Where the wide product is one of float32."""
_MIDDLE = 8
"""The operator counts codes from here."""
_OUT_MULTIPLE = 16
"""Of output features, as the operator wants them."""


class FourBitLinear(nn.Module):
    """Holds 4-bit weights and, if given, a layer with wide ones for many rows."""

    def __init__(
        self,
        weight: FourBitWeight,
        *,
        bias: Tensor | None = None,
        wide: nn.Module | None = None,
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        """`dtype` of inputs and outputs, and of `bias` and `wide`."""
        super().__init__()
        codes = _unpacked(weight.codes)
        self.out_features, self.in_features = codes.shape
        self._packed = _convert(codes)
        self._scales = _scales(weight)
        self._bias = bias
        self._wide = wide
        self._dtype = dtype
        self._few = _FEW_ROWS if dtype == torch.bfloat16 else _FEW_FLOAT_ROWS

    @staticmethod
    def fits(weight: FourBitWeight) -> bool:
        """Whether the operator takes a weight of this shape."""
        return weight.codes.shape[0] % _OUT_MULTIPLE == 0

    @property
    def weight(self) -> Tensor:
        """For its dtype and device, which some models ask."""
        return self._scales if self._dtype == self._scales.dtype else self._scales.new_empty(0, dtype=self._dtype)

    def forward(self, inputs: Tensor) -> Tensor:
        """`[..., in_features]` to `[..., out_features]`, both of the layer's dtype."""
        rows = inputs if inputs.dim() == 2 else inputs.reshape(-1, self.in_features)
        if self._wide is not None and len(rows) > self._few:
            return self._wide(inputs)
        product = _multiply(rows.bfloat16(), self._packed, self._scales).to(self._dtype)
        if self._bias is not None:
            product += self._bias
        return product if rows is inputs else product.view(*inputs.shape[:-1], self.out_features)


def can_multiply_four_bit() -> bool:
    """Whether this build of torch has the operators, fast ones, and they compute what the format means.

    On other processors than those of the x86 family with AVX2 they go through weights one by one.
    """
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX"):
        return False
    torch_generator = torch.Generator().manual_seed(0)
    weight = FourBitWeight(
        codes=torch.randint(0, 256, (64, 32), dtype=torch.uint8, generator=torch_generator),
        scale=torch.rand(64, 2, generator=torch_generator).half(),
        minimum=-8 * torch.rand(64, 2, generator=torch_generator).half(),
    )
    inputs = torch.linspace(-1, 1, 3 * 64).reshape(3, 64).bfloat16()
    try:
        with torch.inference_mode():
            product = FourBitLinear(weight)(inputs)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return torch.allclose(product.float(), inputs.float() @ dequantised(weight).T, rtol=0.05, atol=0.5)


def dequantised(weight: FourBitWeight) -> Tensor:
    """The weight in float32, `[out, in]`."""
    codes = _unpacked(weight.codes).unflatten(1, (-1, GROUP))
    return (codes * weight.scale.float()[..., None] + weight.minimum.float()[..., None]).flatten(1)


def _unpacked(codes: Tensor) -> Tensor:
    """uint8 `[out, in / 2]` to int32 `[out, in]`, one code each."""
    bytes_ = codes.unflatten(1, (-1, GROUP // 2))
    return torch.cat((bytes_ & 15, bytes_ >> 4), dim=2).flatten(1).int()


def _scales(weight: FourBitWeight) -> Tensor:
    """`[groups, out, 2]`: the scale, and what code 8 stands for."""
    scale = weight.scale.float()
    middle = weight.minimum.float() + _MIDDLE * scale
    return torch.stack((scale, middle), dim=2).transpose(0, 1).bfloat16().contiguous()


def _convert(codes: Tensor) -> Tensor:
    operators: Any = torch
    return operators._convert_weight_to_int4pack_for_cpu(codes, 1)


def _multiply(rows: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    operators: Any = torch  # half the overhead of `torch.ops.aten`
    return operators._weight_int4pack_mm_for_cpu(rows, packed, GROUP, scales)
