"""The cache object that a recurrent layer of transformers sees: the states of the sequences in its batch, no more.

What layers of transformers 5.24 call: `get_conv_state`, `get_recurrent_state`, `update_conv_state`,
`update_recurrent_state` and `is_recording_past`, each with the layer's index; a single-token call may instead write
into the conv state that it got. A state is always there: that of an empty sequence is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from agentform.runtime.torch.snapshots.codec import StateShape

__all__ = ["Layer", "LinearState", "ShapeProbe"]


class LinearState:
    """States of a batch: conv `[batch, channels, kernel]`, recurrent `[batch, ...]`; `None` where there is none."""

    def __init__(self, *, conv: Tensor | None, recurrent: Tensor | None) -> None:
        """`conv` may be written into; some layers write into `recurrent`, see `StateShape.is_written_in_place`."""
        self.conv = conv
        self.recurrent = recurrent
        self.num_updates = 0

    def spread(self, num: int, *, copy: bool) -> LinearState:
        """One sequence's state for `num` branches; the recurrent state is not copied unless a layer writes into it."""
        recurrent = None if self.recurrent is None else self.recurrent.expand(num, *self.recurrent.shape[1:])
        return LinearState(
            conv=None if self.conv is None else self.conv.repeat(num, *[1] * (self.conv.dim() - 1)),
            recurrent=recurrent.clone() if copy and recurrent is not None else recurrent,
        )

    def at(self, index: Tensor) -> LinearState:
        """States by index `[n]` into this batch."""
        return LinearState(
            conv=None if self.conv is None else self.conv[index],
            recurrent=None if self.recurrent is None else self.recurrent[index],
        )

    def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:
        """See the module docstring."""
        return self.conv

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:
        """See the module docstring."""
        return self.recurrent

    def is_recording_past(self, layer_idx: int) -> bool:
        """See the module docstring."""
        return False

    def update_conv_state(self, conv_states: Tensor, layer_idx: int, state_idx: int = 0, **_: Any) -> Tensor:
        """New inputs `[batch, channels, tokens]`; returns them with what came before in front."""
        assert self.conv is not None
        whole = torch.cat([self.conv.to(conv_states.dtype), conv_states], dim=-1)
        self.conv = whole[..., -self.conv.shape[-1] :].to(self.conv.dtype)
        return whole

    def update_recurrent_state(self, recurrent_states: Tensor, layer_idx: int, state_idx: int = 0, **_: Any) -> Tensor:
        """The state after the new tokens."""
        self.num_updates += 1
        self.recurrent = recurrent_states
        return recurrent_states


Layer: TypeAlias = Callable[[Tensor, LinearState], Tensor]
"""The model's own layer: hidden states `[batch, tokens, dim]` and their states to output of the same shape."""


class ShapeProbe(LinearState):
    """Notes the shapes of the states that a layer hands over; there is no state before."""

    def __init__(self) -> None:
        super().__init__(conv=None, recurrent=None)
        self._kernel = 0

    def update_conv_state(
        self, conv_states: Tensor, layer_idx: int, state_idx: int = 0, *, conv_kernel_size: int = 0, **_: Any
    ) -> Tensor:
        """See the module docstring."""
        self._kernel = conv_kernel_size or conv_states.shape[-1]
        self.conv = conv_states
        return conv_states

    def follow_up(self) -> LinearState:
        """An empty sequence's state of the shapes seen."""
        conv, recurrent = self.conv, self.recurrent
        return LinearState(
            conv=None if conv is None else conv.new_zeros(*conv.shape[:2], self._kernel),
            recurrent=None if recurrent is None else torch.zeros_like(recurrent),
        )

    def shape(self, hidden: Tensor, *, is_written_in_place: bool) -> StateShape:
        """What the layer keeps per sequence; `hidden` is what it was given."""
        conv, recurrent = self.conv, self.recurrent
        return StateShape(
            conv=None if conv is None else (conv.shape[1], self._kernel),
            recurrent=None if recurrent is None else tuple(recurrent.shape[1:]),
            conv_dtype=torch.float32 if conv is None else conv.dtype,
            recurrent_dtype=torch.float32 if recurrent is None else recurrent.dtype,
            is_written_in_place=is_written_in_place,
            input_dim=hidden.shape[-1],
            input_dtype=hidden.dtype,
        )
