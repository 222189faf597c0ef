"""Which sequence of llama.cpp holds which tokens' cells.

The cache speaks of positions: numbers from a pool, each of them one token's keys and values (see `ranges`). llama.cpp
speaks of sequences: which cells a token sees is which sequence it is in. Here each sequence's content is known as
positions by place::

    sequence 3     places [0, 40) hold positions [0, 40), places [40, 55) hold [900, 915)
    sequence 7     places [0, 40) hold positions [0, 40), places [40, 48) hold [120, 128)

Both share forty cells; no cell was copied. A position that the cache gives up leaves every sequence, and its cell is
free then. A sequence is needed for each end at which the cache knows a conversation, and for each running request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count as count_up
from typing import Protocol, TypeAlias

from agentform.errors import EngineError
from agentform.runtime.cache.ranges import PositionRanges, count

__all__ = ["Cells", "SequenceTable"]

CellRun: TypeAlias = tuple[int, int, int]
"""(first place, first position, how many)"""


class Cells(Protocol):
    """What llama.cpp does with cells; see `LlamaContext`."""

    def share(self, source: int, target: int, start: int, stop: int) -> None: ...

    def drop(self, sequence: int, start: int = -1, stop: int = -1) -> None: ...


class SequenceTable:
    """Knows the content of some sequences; used by one thread."""

    def __init__(self, cells: Cells, active: range, kept: range, *, make_room: Callable[[], bool]) -> None:
        """`active` are sequences that may be in a batch, `kept` others.

        `make_room` makes the cache give something up; false if it has nothing more.
        """
        self._cells = cells
        self._active = active
        self._kept = kept
        self._content: dict[int, list[CellRun]] = {sequence: [] for sequence in (*active, *kept)}
        self._make_room = make_room
        self._busy: set[int] = set()
        self._clock = count_up()
        self._used: dict[int, int] = {}

    def content(self, sequence: int) -> PositionRanges:
        """The positions of a sequence's tokens, in order."""
        return tuple((position, position + num) for _, position, num in self._content[sequence])

    def begin(self) -> None:
        """A new step: no sequence is busy."""
        self._busy.clear()

    def occupy(self, runs: PositionRanges) -> int:
        """An active sequence that holds the tokens at `runs` and no more; it is busy until the next step."""
        wanted = _pieces(runs)
        idle = [sequence for sequence in self._active if sequence not in self._busy]
        assert idle, "more sequences in a step than are active"
        found = next((s for s in idle if self._content[s] == wanted), None)
        sequence = found if found is not None else min(idle, key=lambda s: self._used.get(s, 0))
        if found is None:
            self.put(sequence, runs)
        self._busy.add(sequence)
        self._used[sequence] = next(self._clock)
        return sequence

    def put(self, sequence: int, runs: PositionRanges) -> None:
        """Make an active sequence hold the tokens at `runs` and no more; what only it held goes to a kept one."""
        self._move_away(sequence)
        self._gather(sequence, _pieces(runs))

    def copy_to(self, target: int, runs: PositionRanges, start: int, stop: int) -> None:
        """Tokens `start` to `stop` of those at `runs` belong to `target` too, a sequence that is not kept track of."""
        for place, position, num in _pieces(runs):
            first, last = max(place, start), min(place + num, stop)
            if first < last:
                self._gather_piece(target, first, position + first - place, last - first)

    def reserve(self, runs: PositionRanges, *, place: int) -> int:
        """A sequence that will hold just the tokens at `runs`, from a place on; its cells are the caller's to fill."""
        sequence = self._empty()
        for start, stop in runs:
            _append(self._content[sequence], (place, start, stop - start))
            place += stop - start
        return sequence

    def extend(self, sequence: int, runs: PositionRanges) -> None:
        """Tokens were computed at the end of a sequence, at these positions."""
        held, place = self._content[sequence], self._end(sequence)
        for start, stop in runs:
            _append(held, (place, start, stop - start))
            place += stop - start

    def undo(self, sequence: int, num: int) -> None:
        """Up to `num` tokens may have been computed at the end of a sequence and are not to be there."""
        end = self._end(sequence)
        self._cells.drop(sequence, end, end + num)

    def freed(self, runs: PositionRanges) -> None:
        """The cache has given these positions up."""
        for sequence, held in self._content.items():
            gone = [(start, stop) for start, stop in runs if any(p < stop and start < p + n for _, p, n in held)]
            if gone:
                self._take(sequence, gone)

    def integrity(self, owned: set[int]) -> None:
        """Assert that every position that the cache owns is in a sequence, at one place, and no other is."""
        places: dict[int, int] = {}
        for held in self._content.values():
            for place, position, num in held:
                for offset in range(num):
                    at = places.setdefault(position + offset, place + offset)
                    assert at == place + offset, f"position {position + offset} is at places {at}, {place + offset}"
        assert set(places) == owned, f"{len(owned - set(places))} owned and not held, {len(set(places) - owned)} beyond"

    def _end(self, sequence: int) -> int:
        """The place after a sequence's last token."""
        held = self._content[sequence]
        return held[-1][0] + held[-1][2] if held else 0

    def _gather(self, sequence: int, pieces: list[CellRun]) -> None:
        """Make an empty sequence hold pieces, from whichever sequences have them."""
        assert not self._content[sequence], "a sequence that holds something"
        for place, position, num in pieces:
            self._gather_piece(sequence, place, position, num)
        self._content[sequence] = list(pieces)

    def _move_away(self, sequence: int) -> None:
        """Empty a sequence; what only it holds goes to a kept one first."""
        if self._is_needed(sequence):
            target = self._empty()
            for place, _, num in self._content[sequence]:
                self._cells.share(sequence, target, place, place + num)
            self._content[target] = list(self._content[sequence])
        self._clear(sequence)

    def _empty(self) -> int:
        """A kept sequence that holds nothing, or nothing that others do not."""
        while True:
            free = next((s for s in self._kept if not self._content[s]), None)
            if free is not None:
                return free
            spare = next((s for s in self._kept if not self._is_needed(s)), None)
            if spare is not None:
                self._clear(spare)
                return spare
            if not self._make_room():
                raise EngineError(f"all {len(self._kept)} sequences of llama.cpp are in use")

    def _is_needed(self, sequence: int) -> bool:
        return any(self._only_here(sequence, piece) for piece in self._content[sequence])

    def _only_here(self, sequence: int, piece: CellRun) -> bool:
        """Whether some of a piece is in no other sequence."""
        _, position, num = piece
        others = [p for s, held in self._content.items() if s != sequence for p in held]
        return bool(_uncovered((position, position + num), others))

    def _gather_piece(self, sequence: int, place: int, position: int, num: int) -> None:
        stop = position + num
        while position < stop:
            source, end = self._longest(sequence, position, stop)
            self._cells.share(source, sequence, place, place + end - position)
            place, position = place + end - position, end

    def _longest(self, target: int, position: int, stop: int) -> tuple[int, int]:
        """The sequence that holds most tokens from `position` on, and where it ends."""
        best: tuple[int, int] | None = None
        for sequence, held in self._content.items():
            for _, start, num in held if sequence != target else ():
                if start <= position < start + num and (best is None or start + num > best[1]):
                    best = sequence, start + num
        assert best is not None, f"position {position} is in no sequence"
        return best[0], min(best[1], stop)

    def _take(self, sequence: int, gone: list[tuple[int, int]]) -> None:
        kept: list[CellRun] = []
        for place, position, num in self._content[sequence]:
            left = list(_without((position, position + num), gone))
            kept += [(place + start - position, start, stop - start) for start, stop in left]
            for start, stop in _uncovered((position, position + num), [(0, s, e - s) for s, e in left]):
                self._cells.drop(sequence, place + start - position, place + stop - position)
        self._content[sequence] = kept

    def _clear(self, sequence: int) -> None:
        self._cells.drop(sequence)
        self._content[sequence] = []


def _pieces(runs: PositionRanges) -> list[CellRun]:
    pieces: list[CellRun] = []
    place = 0
    for start, stop in runs:
        _append(pieces, (place, start, stop - start))
        place += stop - start
    assert place == count(runs)
    return pieces


def _append(pieces: list[CellRun], piece: CellRun) -> None:
    """Add a piece at the end; pieces that touch, in place and position, become one."""
    if not piece[2]:
        return
    if pieces:
        place, position, num = pieces[-1]
        if (place + num, position + num) == piece[:2]:
            pieces[-1] = place, position, num + piece[2]
            return
    pieces.append(piece)


def _without(run: tuple[int, int], gone: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What is left of a range without some others."""
    at, stop = run
    for start, end in sorted(gone):
        if end <= at or start >= stop:
            continue
        if start > at:
            yield at, start
        at = max(at, end)
    if at < stop:
        yield at, stop


def _uncovered(run: tuple[int, int], pieces: list[CellRun]) -> list[tuple[int, int]]:
    """What of a range no piece holds."""
    return list(_without(run, [(position, position + num) for _, position, num in pieces]))
