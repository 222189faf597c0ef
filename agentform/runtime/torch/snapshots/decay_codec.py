"""A snapshot codec that keeps of each unit what its horizon is worth; see `agentform.runtime.snapshots.policy`.

Bytes of one layer, the same number for every snapshot::

    conv | exact rows | int8: scales, rows | int4: ranges, rows | last inputs [tokens, dim]

A row is a key channel of a head, whichever way round the model holds its state; how rows are quantised is told in
`agentform.kernels.state_pack`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from agentform.errors import InvalidRequest
from agentform.kernels.state_pack import pack, pack_int4, unpack
from agentform.runtime.snapshots.horizons import Horizons, LayerHorizons
from agentform.runtime.snapshots.plan import LayerGeometry, Precision, PrecisionPlan
from agentform.runtime.snapshots.policy import SnapshotPolicy, named_policy
from agentform.runtime.torch.snapshots.codec import (
    ExactCodec,
    LayerState,
    Rebuild,
    SnapshotCodec,
    StateShape,
    as_bytes,
    read_bytes_into,
)
from agentform.runtime.torch.snapshots.model_horizons import horizons_of_model

__all__ = ["DecayCodec", "geometry_of", "make_codec"]


def make_codec(
    snapshots: str | SnapshotPolicy | PrecisionPlan, model: nn.Module, shapes: Mapping[int, StateShape]
) -> SnapshotCodec:
    """The codec for a loaded model.

    Raises:
        InvalidRequest: the request is malformed, such as a token id outside the vocabulary.
        HorizonsUnknown: decay parameters are not found, or nothing can be compressed.
    """
    if snapshots == "exact":
        return ExactCodec()
    horizons = horizons_of_model(model)
    policy = named_policy(snapshots) if isinstance(snapshots, str) else snapshots
    if isinstance(policy, SnapshotPolicy):
        policy = policy.plan(horizons, geometry_of(horizons, shapes))
    return DecayCodec(policy, horizons)


def geometry_of(horizons: Horizons, shapes: Mapping[int, StateShape]) -> dict[int, LayerGeometry]:
    """Sizes of the layers as the model holds their states."""
    return {layer: _geometry(each, shapes[layer]) for layer, each in horizons.layers.items()}


def _geometry(layer: LayerHorizons, shape: StateShape) -> LayerGeometry:
    assert shape.recurrent is not None, "a decaying layer without a state"
    heads, key, value = shape.recurrent
    if layer.kind == "Mamba2":
        key, value = value, key
    assert heads == layer.num_heads, "decay parameters of another layer"
    return LayerGeometry(
        num_heads=heads,
        key_dim=key,
        value_dim=value,
        units_per_head=layer.units_per_head,
        state_itemsize=shape.recurrent_dtype.itemsize,
        conv_bytes=shape.conv_bytes,
        input_bytes=shape.input_bytes,
        conv_tokens=shape.conv[-1] - 1 if shape.conv is not None else 0,
    )


@dataclass(frozen=True, kw_only=True)
class _UnitRows:
    """Rows of one layer by precision, indices `[n]`, and where the quantised ones lie."""

    exact: Tensor
    int8: Tensor
    int4: Tensor
    replayed: Tensor
    places: Tensor
    """int32 `[heads * key_dim]`, see `state_pack.unpack`."""

    @classmethod
    def of(cls, precisions: Sequence[Precision], rows_per_unit: int, device: torch.device) -> _UnitRows:
        by_row = torch.tensor([int(precision) for precision in precisions], device=device).repeat_interleave(
            rows_per_unit
        )

        def where(precision: Precision) -> Tensor:
            return (by_row == precision).nonzero().flatten()

        int8, int4 = where(Precision.INT8), where(Precision.INT4)
        packed = torch.cat([int8, int4])
        places = torch.full_like(by_row, -1, dtype=torch.int32)
        places[packed] = torch.arange(len(packed), dtype=torch.int32, device=device)
        return cls(
            exact=where(Precision.EXACT),
            int8=int8,
            int4=int4,
            replayed=where(Precision.REPLAY),
            places=places,
        )


class DecayCodec:
    """Implements `SnapshotCodec` for a plan of precisions; layers that the plan does not name are kept exactly."""

    def __init__(self, plan: PrecisionPlan, horizons: Horizons) -> None:
        """Sort the rows of each layer by their precision.

        Raises:
            InvalidRequest: the plan has not the units of the model.
        """
        for layer, precisions in plan.precisions.items():
            known = horizons.layers.get(layer)
            if known is None or len(known.tokens) != len(precisions):
                units = 0 if known is None else len(known.tokens)
                raise InvalidRequest(f"layer {layer} has {units} units; the plan of precisions has {len(precisions)}")
        self.plan = plan
        self.horizons = horizons
        self._exact = ExactCodec()
        self._rows: dict[tuple[int, torch.device], _UnitRows] = {}

    @property
    def name(self) -> str:
        """See `SnapshotCodec`; holds the digests of decay parameters and plan."""
        return f"decay-2/{self.horizons.digest}/{self.plan.digest}"

    @property
    def is_exact(self) -> bool:
        """See `SnapshotCodec`."""
        return set(self.plan.count()) <= {Precision.EXACT}

    def num_bytes(self, layer: int, shape: StateShape) -> int:
        """See `SnapshotCodec`."""
        if layer not in self.plan.precisions:
            return self._exact.num_bytes(layer, shape)
        sizes = _geometry(self.horizons.layers[layer], shape)
        units = sum(sizes.unit_bytes(precision) for precision in self.plan.precisions[layer])
        return sizes.conv_bytes + units + self.num_inputs(layer, shape) * sizes.input_bytes

    def num_inputs(self, layer: int, shape: StateShape) -> int:
        """See `SnapshotCodec`."""
        if layer not in self.plan.precisions or not self.plan.replays(layer):
            return 0
        return self.plan.replay_tokens + _geometry(self.horizons.layers[layer], shape).conv_tokens

    def dropped(self, layer: int, state: LayerState, *, within_tokens: float = math.inf) -> Tensor | None:
        """See `SnapshotCodec`; tokens are the static horizon."""
        if layer not in self.plan.precisions:
            return None
        view = self._view(layer, state)
        horizons = self.horizons.layers[layer].tokens
        units = [
            precision is Precision.DROP and horizon <= within_tokens
            for precision, horizon in zip(self.plan.precisions[layer], horizons, strict=True)
        ]
        if not any(units):
            return None
        mask = torch.tensor(units, device=view.device).view(view.shape[0], -1, 1)
        mask = mask.repeat_interleave(view.shape[1] // mask.shape[1], dim=1)
        return mask.transpose(-1, -2) if self._is_value_first(layer) else mask

    def encode(self, layer: int, state: LayerState) -> Sequence[Tensor]:
        """See `SnapshotCodec`."""
        if layer not in self.plan.precisions:
            return self._exact.encode(layer, state)
        view = self._view(layer, state)
        rows = self._rows_of(layer, view)
        values, scales = pack(view, rows.int8)
        nibbles, ranges = pack_int4(view, rows.int4)
        exact = view.reshape(-1, view.shape[-1])[rows.exact]
        parts = [state.conv, exact, scales, values, ranges, nibbles, state.inputs]
        return [as_bytes(part) for part in parts if part is not None and part.numel()]

    def decode(self, layer: int, data: Tensor, state: LayerState, rebuild: Rebuild) -> None:
        """See `SnapshotCodec`."""
        if layer not in self.plan.precisions:
            self._exact.decode(layer, data, state, rebuild)
            return
        view = self._view(layer, state)
        rows = self._rows_of(layer, view)
        dim = view.shape[-1]

        def empty(*shape: int, dtype: torch.dtype) -> Tensor:
            return torch.empty(*shape, dtype=dtype, device=view.device)

        exact = empty(len(rows.exact), dim, dtype=view.dtype)
        scales, values = empty(len(rows.int8), dtype=torch.float32), empty(len(rows.int8), dim, dtype=torch.int8)
        ranges = empty(len(rows.int4), 2, dtype=torch.bfloat16)
        nibbles = empty(len(rows.int4), (dim + 1) // 2, dtype=torch.uint8)
        parts = [state.conv, exact, scales, values, ranges, nibbles, state.inputs]
        read_bytes_into(data, [part for part in parts if part is not None])
        unpack(values, scales, rows.places, view, nibbles=nibbles, ranges=ranges)
        self._put(view, rows.exact, exact)
        if len(rows.replayed) and state.inputs is not None:
            rebuilt = self._turned(layer, rebuild(state.inputs))
            self._put(view, rows.replayed, rebuilt.reshape(-1, view.shape[-1])[rows.replayed].to(view.dtype))

    def _put(self, view: Tensor, rows: Tensor, values: Tensor) -> None:
        if len(rows):
            view[rows // view.shape[1], rows % view.shape[1]] = values

    def _view(self, layer: int, state: LayerState) -> Tensor:
        """The state as `[heads, key_dim, value_dim]`."""
        assert state.recurrent is not None, "a decaying layer without a state"
        return self._turned(layer, state.recurrent)

    def _turned(self, layer: int, recurrent: Tensor) -> Tensor:
        return recurrent.transpose(-1, -2) if self._is_value_first(layer) else recurrent

    def _is_value_first(self, layer: int) -> bool:
        return self.horizons.layers[layer].kind == "Mamba2"

    def _rows_of(self, layer: int, view: Tensor) -> _UnitRows:
        key = (layer, view.device)
        if key not in self._rows:
            units = self.horizons.layers[layer].units_per_head
            self._rows[key] = _UnitRows.of(self.plan.precisions[layer], view.shape[1] // units, view.device)
        return self._rows[key]
