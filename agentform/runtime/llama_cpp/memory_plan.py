"""One budget in bytes, divided once at the start, and llama.cpp's sequences by what they are for.

::

    budget = states + cells (+ snapshots, at most as many bytes as cells)

llama.cpp takes states and cells when it starts, whatever they hold. Weights and its scratch are not in the budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from agentform._util.free_memory import host_free_bytes
from agentform.errors import CacheBudgetExceeded, EngineError
from agentform.runtime.llama_cpp.context import MOST_SEQUENCES, BatchToken, LlamaContext
from agentform.runtime.llama_cpp.kv_blocks import BLOCK_TOKENS
from agentform.runtime.llama_cpp.model import LlamaModel

__all__ = ["LlamaMemoryPlan", "ModelBytes", "measure", "plan_memory"]

_DEFAULT_BYTES = 512 << 20
_SHARE_OF_FREE = 4
_LEAST_TOKENS = 2
_LEAST_POSITION_BYTES = 64
_PROBE_CELLS = 256
_ACTIVE, _BRANCHES = 30, 32
_WINDOW_ACTIVE, _WINDOW_BRANCHES = 12, 16
"""Where each is a pair of llama.cpp's."""
_STATEFUL_BRANCHES, _STATEFUL_KEPT = 8, 12
_DECODING_ROWS = 32
"""Rows of logits in a batch beside those of branches: what running completions read."""


@dataclass(frozen=True, kw_only=True)
class ModelBytes:
    """What a model needs per token and per sequence."""

    position_bytes: int
    state_bytes: int
    """Of one sequence; 0 without recurrent layers."""


@dataclass(frozen=True, kw_only=True)
class LlamaMemoryPlan:
    """How a budget and the sequences are divided."""

    budget_bytes: int
    position_bytes: int
    num_positions: int
    state_bytes: int
    num_states: int
    """Sequences that have room for a state; 0 without recurrent layers."""
    snapshot_positions: int
    """Positions that one snapshot takes."""
    max_batch_tokens: int
    active: range
    """Sequences of running requests; with recurrent layers they are the slots."""
    kept: range
    """Sequences of ends of conversations."""
    branches: range
    scratch_sequence: int
    empty_sequence: int

    @property
    def is_stateful(self) -> bool:
        """Whether sequences have a recurrent state."""
        return self.num_states > 0

    @property
    def num_slots(self) -> int:
        """Sequences that may run at a time; 0 without recurrent layers, which need no slots."""
        return len(self.active) if self.is_stateful else 0

    @property
    def num_cells(self) -> int:
        """Cells of llama.cpp: one a position, and some for tokens that have theirs already: of a block that is restored

        for its end, and where tokens run again for their state.
        """
        return self.num_positions + max(BLOCK_TOKENS, self.max_batch_tokens if self.is_stateful else 0)

    @property
    def max_rows(self) -> int:
        """Rows of logits in one batch."""
        return max(len(self.branches) + _DECODING_ROWS, self.num_in_batches)

    @property
    def num_in_batches(self) -> int:
        """Sequences that llama.cpp has to take in batches; more may be kept, unless they have room for a state."""
        return self.num_states or self.scratch_sequence + 1

    def __str__(self) -> str:
        parts = [f"{self.budget_bytes:,} bytes: {self.num_positions:,} positions of {self.position_bytes:,} bytes"]
        if self.num_states:
            parts.append(f"{self.num_states} states of {self.state_bytes:,} bytes")
            parts.append(f"a snapshot takes {self.snapshot_positions:,} positions")
        return ", ".join(parts)


def measure(model: LlamaModel, *, num_threads: int, kv_bits: int | None = None) -> ModelBytes:
    """Read from a small context what a token and a state take.

    Raises:
        EngineError: llama.cpp cannot run this model.
    """
    context = _probe_context(model, num_threads, kv_bits)
    try:
        sizes: list[int] = []
        for place in range(_LEAST_TOKENS):
            context.decode([BatchToken(0, place, (0,))])
            sizes.append(len(context.state_bytes(0)))
        state = len(context.state_bytes(0, state_only=True)) if model.is_recurrent else 0
    finally:
        context.close()
    return ModelBytes(position_bytes=max(sizes[1] - sizes[0], _LEAST_POSITION_BYTES), state_bytes=state)


def _probe_context(model: LlamaModel, num_threads: int, kv_bits: int | None) -> LlamaContext:
    try:
        return LlamaContext(
            model,
            num_cells=_PROBE_CELLS,
            max_batch=_LEAST_TOKENS,
            max_rows=1,
            num_in_batches=1,
            num_threads=num_threads,
            kv_bits=kv_bits,
        )
    except CacheBudgetExceeded as error:
        if kv_bits is None:
            raise
        # So few cells have room: it is how they are kept.
        raise EngineError(
            f"llama.cpp does not keep this model's KV in {kv_bits} bits; leave it out: {error}"
        ) from error


def plan_memory(
    asked: int | None, each: ModelBytes, *, context_tokens: int, has_window: bool, max_batch_tokens: int, num_slots: int
) -> LlamaMemoryPlan:
    """Divide a budget; by default 512 MiB, a quarter of the free memory, or a full context, whichever is least.

    Raises:
        CacheBudgetExceeded: two tokens (and with recurrent layers one snapshot) do not fit; names the numbers.
    """
    stateful = each.state_bytes > 0
    ranges = _stateful_ranges(num_slots) if stateful else _plain_ranges(has_window)
    num_states = ranges["kept"].stop if stateful else 0
    budget = _default_bytes(each, num_states, context_tokens) if asked is None else asked
    left = budget - num_states * each.state_bytes
    snapshot = math.ceil(each.state_bytes / each.position_bytes)
    least = (_LEAST_TOKENS + snapshot) * each.position_bytes * (1 + stateful)
    if left < least:
        raise CacheBudgetExceeded(_too_small(budget, num_states, each, least))
    return LlamaMemoryPlan(
        budget_bytes=budget,
        position_bytes=each.position_bytes,
        num_positions=left // (each.position_bytes * (1 + stateful)),
        state_bytes=each.state_bytes,
        num_states=num_states,
        snapshot_positions=snapshot,
        max_batch_tokens=max_batch_tokens,
        active=ranges["active"],
        kept=ranges["kept"],
        branches=ranges["branches"],
        scratch_sequence=ranges["scratch"].start,
        empty_sequence=ranges["empty"].start,
    )


def _plain_ranges(has_window: bool) -> dict[str, range]:
    active, branches = (_WINDOW_ACTIVE, _WINDOW_BRANCHES) if has_window else (_ACTIVE, _BRANCHES)
    return _ranges(active, branches, MOST_SEQUENCES // (1 + has_window) - active - branches - 2)


def _stateful_ranges(num_slots: int) -> dict[str, range]:
    return _ranges(num_slots, _STATEFUL_BRANCHES, _STATEFUL_KEPT)


def _ranges(active: int, branches: int, kept: int) -> dict[str, range]:
    """Sequences by use, those that stand in batches or are written and read first."""
    sizes = {"active": active, "branches": branches, "scratch": 1, "empty": 1, "kept": kept}
    ranges: dict[str, range] = {}
    start = 0
    for name, size in sizes.items():
        ranges[name] = range(start, start + size)
        start += size
    return ranges


def _default_bytes(each: ModelBytes, num_states: int, context_tokens: int) -> int:
    states = num_states * each.state_bytes
    wanted = min(_DEFAULT_BYTES, context_tokens * each.position_bytes)
    free = host_free_bytes()
    return states + (wanted if free is None else min(wanted, free // _SHARE_OF_FREE))


def _too_small(budget: int, num_states: int, each: ModelBytes, least: int) -> str:
    if not num_states:
        return f"a KV budget of {budget:,} bytes holds fewer than two tokens of {each.position_bytes:,} bytes each"
    states = num_states * each.state_bytes
    return (
        f"a cache budget of {budget:,} bytes is too small: {num_states} states of {each.state_bytes:,} bytes take "
        f"{states:,}, and two tokens with a snapshot {least:,}; {states + least:,} bytes would do, or fewer slots"
    )
