"""One small model with its parts in hand: a context is read once, then restored by many codecs.

The parts are the engine's own (`StatePool`, `KVPool`, `ForwardStep`, codecs); only the scheduler is left out. Reading a
context of 16k tokens takes seconds, restoring and asking some milliseconds.

::

    positions   context | what a session adds, at most `_OWN` | the snapshot being restored
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from agentform.runtime.scheduling.segment import Segment
from agentform.runtime.torch.forward.kv_pool import KVPool, bytes_per_position
from agentform.runtime.torch.forward.state_pool import REFRESH_REACH, StatePool
from agentform.runtime.torch.forward.step import ForwardStep
from agentform.runtime.torch.forward.transformers_adapter import forward, load_model, probe_layers
from agentform.runtime.torch.snapshots.codec import ExactCodec, LayerState, SnapshotCodec, StateShape
from agentform.runtime.torch.snapshots.decay_codec import geometry_of
from agentform.runtime.torch.snapshots.model_horizons import horizons_of_model
from studies.recall.tasks import ASK

__all__ = ["Lab", "Session"]

_OWN = 2048
_AT_ONCE = 2048
_INPUTS = 80
"""Last inputs kept of every layer: more than any replay window and its convolution."""
_CPU = torch.device("cpu")


class _Recorder(ExactCodec):
    """Hands over what it is asked to encode."""

    def __init__(self) -> None:
        self.states: dict[int, LayerState] = {}

    def num_inputs(self, layer: int, shape: StateShape) -> int:
        return _INPUTS

    def encode(self, layer: int, state: LayerState) -> Sequence[Tensor]:
        self.states[layer] = LayerState(
            conv=_there(state.conv).clone(),
            recurrent=_there(state.recurrent).clone(),
            inputs=_there(state.inputs).clone(),
        )
        return ()


class Lab:
    """A model in float32 on the CPU, and the state behind one context."""

    def __init__(self, folder: Path, *, most_tokens: int) -> None:
        """`most_tokens`: of a context."""
        self.model = load_model(folder, dtype=torch.float32, device=_CPU)
        self.layers = probe_layers(self.model)
        self.horizons = horizons_of_model(self.model)
        self.geometry = geometry_of(self.horizons, self.layers.recurrent)
        self.most_tokens = most_tokens
        each = bytes_per_position(self.layers.attention, torch.float32)
        exact = sum(shape.num_bytes for shape in self.layers.recurrent.values())
        self._most_snapshot = math.ceil(exact / each) + math.ceil(4 * _INPUTS * 1024 / each)
        self.kv = KVPool(
            self.layers.attention, most_tokens + _OWN + self._most_snapshot, dtype=torch.float32, device=_CPU
        )
        self._recorder = _Recorder()
        self._live = self.pool(self._recorder)
        self._pools: dict[tuple[str, int, float], StatePool] = {}
        self.context: tuple[int, ...] = ()

    @property
    def exact_bytes(self) -> int:
        """Bytes of an exact snapshot."""
        return sum(shape.num_bytes for shape in self.layers.recurrent.values())

    @property
    def states(self) -> list[Tensor]:
        """Recurrent states behind the context, by layer `[heads, key_dim, value_dim]`."""
        return [_there(each.recurrent) for each in self._recorder.states.values()]

    @property
    def conv_bytes(self) -> int:
        """Of these, the convolutions': no codec touches them."""
        return sum(shape.conv_bytes for shape in self.layers.recurrent.values())

    def pool(self, codec: SnapshotCodec, *, refresh_tokens: int = 0, reach: float = REFRESH_REACH) -> StatePool:
        """States of one sequence under a codec."""
        with torch.inference_mode():
            return StatePool(
                self.layers.recurrent,
                1,
                codec=codec,
                compute=self.layers.compute,
                kv=self.kv,
                device=_CPU,
                refresh_tokens=refresh_tokens,
                refresh_reach=reach,
            )

    def read(self, context: Sequence[int]) -> None:
        """Run a context through the model; sessions start behind it."""
        assert len(context) <= self.most_tokens, "a context that is too long"
        self.context = tuple(int(token) for token in context)
        with torch.inference_mode():
            self._live.clear(0)
            for start in range(0, len(self.context), _AT_ONCE):
                stop = min(start + _AT_ONCE, len(self.context))
                segment = Segment(
                    token_ids=self.context[start:stop],
                    num_before=start,
                    runs=((0, stop),),
                    rows=(stop - start - 1,),
                    slot=0,
                )
                self.compute(segment, self._live)
            self._live.save(0, ())

    def session(
        self, codec: SnapshotCodec | None = None, *, refresh_tokens: int = 0, reach: float = REFRESH_REACH
    ) -> Session:
        """The conversation goes on: from the live state, or from a snapshot written and restored by `codec`."""
        chosen = codec or ExactCodec()
        key = chosen.name, refresh_tokens, reach
        if key not in self._pools:
            self._pools[key] = self.pool(chosen, refresh_tokens=refresh_tokens, reach=reach)
        states = self._pools[key]
        with torch.inference_mode():
            states.clear(0)
            for layer, live in self._recorder.states.items():
                conv, recurrent = states.rows(layer)
                _there(conv)[0], _there(recurrent)[0] = _there(live.conv), _there(live.recurrent)
                states.note_inputs(layer, [0], _there(live.inputs).unsqueeze(0))
        session = Session(self, states)
        if codec is not None:
            session.restore(refresh_tokens=refresh_tokens)
        return session

    def compute(self, segment: Segment, states: StatePool) -> Tensor:
        """Logits `[rows, vocabulary]` of a segment over the given states."""
        with torch.inference_mode():
            step = ForwardStep([segment], self.kv, states, dtype=torch.float32, device=_CPU)
            return forward(self.model, step, step.input_ids, step.position_ids)

    @property
    def snapshot_place(self) -> tuple[tuple[int, int], ...]:
        """Positions of the snapshot that is being restored."""
        start = self.most_tokens + _OWN
        return ((start, start + self._most_snapshot),)


class Session:
    """A conversation behind the lab's context; one at a time."""

    def __init__(self, lab: Lab, states: StatePool) -> None:
        self._lab = lab
        self._states = states
        self.ids = list(lab.context)

    def restore(self, *, refresh_tokens: int = 0) -> None:
        """Write a snapshot of the live state and start from it, as the engine does after a miss in its slots."""
        place, num = self._lab.snapshot_place, len(self.ids)
        warm = min(refresh_tokens, num)
        with torch.inference_mode():
            self._states.save(0, place)
            if not warm or not self._states.can_refresh:
                self._states.load(0, place, num_tokens=num)
                return
            self._states.load_cold(0, place, num_tokens=num)
        segment = Segment(
            token_ids=tuple(self.ids[-warm:]),
            num_before=num - warm,
            runs=self._runs(num),
            rows=(warm - 1,),
            num_stored=warm,
            slot=0,
            num_warm=warm,
            settle=(warm, place),
        )
        self._lab.compute(segment, self._states)

    def extend(self, ids: Sequence[int], *, rows: Sequence[int] = (-1,)) -> Tensor:
        """Logits `[rows, vocabulary]` behind the chosen of `ids`, which now belong to the conversation."""
        new = tuple(int(token) for token in ids)
        before = len(self.ids)
        self.ids += new
        segment = Segment(
            token_ids=new,
            num_before=before,
            runs=self._runs(len(self.ids)),
            rows=tuple(row % len(new) for row in rows),
            slot=0,
        )
        return self._lab.compute(segment, self._states)

    def ask(self, keys: Sequence[int]) -> Tensor:
        """Logits `[keys, vocabulary]` of the answers, all asked at once: branches that leave the state as it is."""
        segment = Segment(
            token_ids=(ASK, *(int(key) for key in keys)),
            num_before=len(self.ids),
            runs=self._runs(len(self.ids) + 1 + len(keys)),
            rows=tuple(range(1, len(keys) + 1)),
            parents=(-1, *(0 for _ in keys)),
            slot=0,
        )
        return self._lab.compute(segment, self._states)

    def ask_in_turn(self, keys: Sequence[int]) -> Tensor:
        """The same, each question behind the answer that was given to the one before."""
        logits: list[Tensor] = []
        said: tuple[int, ...] = ()
        for key in keys:
            logits.append(self.extend((*said, ASK, int(key))))
            said = (int(logits[-1].argmax()),)
        return torch.cat(logits)

    def _runs(self, num: int) -> tuple[tuple[int, int], ...]:
        known = len(self._lab.context)
        if num <= known:
            return ((0, num),)
        assert num - known <= _OWN, "a session that is too long"
        most = self._lab.most_tokens
        return ((0, num),) if known == most else ((0, known), (most, most + num - known))


def _there(tensor: Tensor | None) -> Tensor:
    assert tensor is not None, "a recurrent layer without convolution or state"
    return tensor
