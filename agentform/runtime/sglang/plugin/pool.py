"""A pool of snapshots with the interface of SGLang's `MambaCheckpointPool`, which it takes the place of.

SGLang asks for it by duck typing: `num_slots`, `alloc`, `free`, `available_size`, `clear`, `store_from_active` and
`load_to_active` are its names.

Three kinds of slot numbers meet here and are kept apart: numbers of snapshots, 1 to `num_slots` (row number minus one
of the buffer); numbers of live states as the scheduler knows them, which may be virtual; and rows of the state pool,
which `translate` makes of those. Numbers come as tensors; reading them waits for the stream that they are on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from agentform.runtime.sglang.plugin.layout import LiveStates, SlotLayout
from agentform.runtime.sglang.plugin.slot_owners import Content, SlotLedger
from agentform.runtime.sglang.plugin.statistics import SnapshotPoolStatistics

__all__ = ["LivePool", "SnapshotPool"]


class LivePool(Protocol):
    """What is used of SGLang's `MambaPool`."""

    @property
    def mamba_cache(self) -> LiveStates: ...


@dataclass(kw_only=True)
class _PoolCounts:
    stored: int = 0
    restored: int = 0
    restored_tokens: int = 0
    evicted: int = 0
    declined: int = 0


class SnapshotPool:
    """Holds `num_slots` snapshots of `layout.slot_bytes` each; not to be used from several threads."""

    def __init__(
        self,
        layout: SlotLayout,
        *,
        num_slots: int,
        device: str | torch.device,
        policy: str = "",
        report: Callable[[], None] = lambda: None,
    ) -> None:
        """`policy` is told in the statistics; `report` is called when a slot is wrong, before the error."""
        self.num_slots = num_slots
        self.device = device
        self.layout = layout
        self.ledger = SlotLedger(num_slots, report=report)
        self._policy = policy
        self._counts = _PoolCounts()
        self._rows = torch.empty(num_slots, layout.slot_bytes, dtype=torch.uint8, device=device)
        self._translate: Callable[[Tensor], Tensor] = lambda slots: slots

    def bind(self, translate: Callable[[Tensor], Tensor]) -> None:
        """How a number of a live state becomes a row of the state pool; until then they are the same."""
        self._translate = translate

    def alloc(self, n: int = 1) -> Tensor | None:
        """Numbers of `n` snapshots, int64 `[n]`; `None` if fewer are free."""
        taken = self.ledger.take(n)
        return None if taken is None else torch.tensor(taken, dtype=torch.int64, device=self.device)

    def free(self, slots: Tensor) -> None:
        """Give snapshots back."""
        self.ledger.give_back(slots.tolist())

    def available_size(self) -> int:
        """Snapshots that can be taken."""
        return self.ledger.num_free

    def clear(self) -> None:
        """Give all snapshots back."""
        self.ledger.clear()

    def mem_usage_bytes(self) -> int:
        """Bytes of the buffer."""
        return self._rows.numel()

    def store_from_active(self, active_mamba_pool: LivePool, active_slots: Tensor, ckpt_slots: Tensor) -> None:
        """Pack live states into snapshots that were allocated.

        Raises:
            WrongSnapshotSlot: the slot does not hold what was looked for.
        """
        live = active_mamba_pool.mamba_cache
        for row, slot in self._pairs(live, active_slots, ckpt_slots):
            self.ledger.wrote(slot)
            self.layout.pack(live, row, self._rows[slot - 1])
            self._counts.stored += 1

    def load_to_active(self, active_mamba_pool: LivePool, ckpt_slots: Tensor, active_slots: Tensor) -> None:
        """Unpack snapshots into the live states that `expect` announced.

        Raises:
            WrongSnapshotSlot: the slot does not hold what was looked for.
        """
        live = active_mamba_pool.mamba_cache
        pairs = self._pairs(live, active_slots, ckpt_slots)
        for (row, slot), number in zip(pairs, active_slots.tolist(), strict=True):
            content = self.ledger.read(slot, number)
            self.layout.unpack(self._rows[slot - 1], live, row)
            self._counts.restored += 1
            self._counts.restored_tokens += content.num_tokens

    def belongs(self, slots: Tensor, content: Content) -> None:
        """Say which tokens the snapshot that was just stored is of."""
        (slot,) = slots.tolist()
        self.ledger.belongs(slot, content)

    def expect(self, slots: Tensor, active: int, content: Content) -> None:
        """Announce that a live state will be filled from a snapshot of these tokens.

        Raises:
            WrongSnapshotSlot: the slot does not hold what was looked for.
        """
        (slot,) = slots.tolist()
        self.ledger.expect(slot, active, content)

    def note_room(self, *, evicted: int, declined: bool) -> None:
        """Count what it took to find room for a snapshot."""
        self._counts.evicted += evicted
        self._counts.declined += declined

    def statistics(self) -> SnapshotPoolStatistics:
        """Counters so far."""
        return SnapshotPoolStatistics(
            codec=self.layout.codec.name,
            policy=self._policy,
            num_slots=self.num_slots,
            slot_bytes=self.layout.slot_bytes,
            live_slot_bytes=self.layout.live_slot_bytes,
            int8_slot_bytes=self.layout.int8_slot_bytes,
            resident=self.num_slots - self.ledger.num_free,
            wrong_slots=self.ledger.num_wrong,
            **vars(self._counts),
        )

    def _pairs(self, live: LiveStates, active_slots: Tensor, ckpt_slots: Tensor) -> Sequence[tuple[int, int]]:
        """Rows of the state pool and numbers of snapshots.

        Raises:
            WrongSnapshotSlot: for a row that is none.
        """
        rows, slots = self._translate(active_slots).tolist(), ckpt_slots.tolist()
        if len(rows) != len(slots):
            raise self.ledger.wrong(f"{len(rows)} live states and {len(slots)} snapshots do not pair up")
        num_rows = live.temporal.shape[1]
        for row in rows:
            if not 1 <= row < num_rows:
                raise self.ledger.wrong(f"row {row} is none of the state pool's, which are 1 to {num_rows - 1}")
        return list(zip(rows, slots, strict=True))
