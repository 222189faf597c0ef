"""Whose snapshot each slot of a pool holds, and that it is read by whom it is for.

SGLang names a snapshot by a bare number that travels through its radix tree, a request and a batch before it is read.
The ledger knows by other means what the number should mean: which tokens a slot's state is of, and which slot each live
state is to be filled from.

::

    take ──▶ wrote(slot) ──▶ belongs(slot, content) ──▶ expect(slot, live, content) ──▶ read(slot, live)
                                                            at the match                  at the copy

A step that does not follow is a `WrongSnapshotSlot`.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agentform.errors import WrongSnapshotSlot

__all__ = ["Content", "SlotLedger"]


@dataclass(frozen=True, kw_only=True)
class Content:
    """The tokens that a snapshot is of."""

    num_tokens: int
    digest: int

    @classmethod
    def of(cls, ids: Sequence[int], space: object = None) -> Content:
        """`space` is what else must agree, such as an adapter's name; it must be hashable."""
        return cls(num_tokens=len(ids), digest=hash((array("q", ids).tobytes(), space)))


class SlotLedger:
    """Slots 1 to `num_slots`; number 0 is reserved, as in SGLang's own pools."""

    def __init__(self, num_slots: int, *, report: Callable[[], None] = lambda: None) -> None:
        """`report` is called before an error is raised."""
        self.num_slots = num_slots
        self.num_wrong = 0
        """Slots that were not what they were taken for."""
        self._report = report
        self.clear()

    @property
    def num_free(self) -> int:
        """Slots that can be taken."""
        return len(self._free)

    def clear(self) -> None:
        """Give back all slots and forget what was expected."""
        self._free = deque(range(1, self.num_slots + 1))
        self._held: dict[int, Content | None] = {}
        self._written: set[int] = set()
        self._expected: dict[int, tuple[int, Content]] = {}

    def take(self, num: int) -> list[int] | None:
        """The slots that have been free the longest; `None` if there are fewer."""
        if num > len(self._free):
            return None
        taken = [self._free.popleft() for _ in range(num)]
        self._held.update(dict.fromkeys(taken))
        return taken

    def give_back(self, slots: Iterable[int]) -> None:
        """A slot that nobody holds is counted as wrong and stays as it is."""
        for slot in slots:
            if slot in self._held:
                del self._held[slot]
                self._written.discard(slot)
                self._free.append(slot)
            else:
                self.num_wrong += 1
                self._report()

    def wrote(self, slot: int) -> None:
        """A state goes into the slot.

        Raises:
            WrongSnapshotSlot: nobody took it.
        """
        if slot not in self._held:
            raise self.wrong(f"a snapshot was to be stored in slot {slot}, which is {self._what(slot)}")
        self._held[slot] = None
        self._written.add(slot)

    def belongs(self, slot: int, content: Content) -> None:
        """The state in the slot is that of these tokens.

        Raises:
            WrongSnapshotSlot: there is none.
        """
        if slot not in self._written:
            raise self.wrong(f"{content.num_tokens} tokens were to own slot {slot}, which is {self._what(slot)}")
        self._held[slot] = content

    def expect(self, slot: int, live: int, content: Content) -> None:
        """The live state is to be filled from the slot, which must hold these tokens.

        Raises:
            WrongSnapshotSlot: the slot does not hold what was looked for.
        """
        held = self._held.get(slot)
        if held != content:
            raise self.wrong(
                f"a snapshot of {content.num_tokens} tokens was looked for in slot {slot}, which is {self._what(slot)}"
            )
        self._expected[live] = (slot, content)

    def read(self, slot: int, live: int) -> Content:
        """The live state is filled now; what from.

        Raises:
            WrongSnapshotSlot: that is not what was expected.
        """
        expected = self._expected.pop(live, None)
        if expected is None or expected[0] != slot:
            wanted = "nothing" if expected is None else f"slot {expected[0]}"
            raise self.wrong(f"live state {live} was to be filled from slot {slot}; expected was {wanted}")
        if self._held.get(slot) != expected[1]:
            raise self.wrong(f"slot {slot} was matched, and then became {self._what(slot)}")
        return expected[1]

    def wrong(self, message: str) -> WrongSnapshotSlot:
        """Count one, report it, and return the error to raise."""
        self.num_wrong += 1
        self._report()
        return WrongSnapshotSlot(message)

    def _what(self, slot: int) -> str:
        if not 1 <= slot <= self.num_slots:
            return f"none of the {self.num_slots}"
        if slot not in self._held:
            return "free"
        if slot not in self._written:
            return "empty"
        content = self._held[slot]
        return "nobody's" if content is None else f"a snapshot of {content.num_tokens} other tokens"
