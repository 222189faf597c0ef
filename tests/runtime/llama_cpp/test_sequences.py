"""Sequences hold what the cache thinks they hold, whatever is computed, shared and given up in between."""

from __future__ import annotations

import random

import pytest

from agentform.runtime.cache.prefix_cache import PrefixCache
from agentform.runtime.cache.ranges import count
from agentform.runtime.llama_cpp.sequences import SequenceTable

ACTIVE, KEPT, CAPACITY = range(3), range(3, 8), 70


class Cells:
    """llama.cpp's cells: which sequences each is in, and for which place."""

    def __init__(self):
        self.cells = {}
        self.fresh = iter(range(10**9))

    def share(self, source, target, start, stop):
        for place, sequences in self.cells.values():
            if source in sequences and start <= place < stop:
                sequences.add(target)

    def drop(self, sequence, start=-1, stop=-1):
        for cell, (place, sequences) in list(self.cells.items()):
            if sequence in sequences and (start < 0 or start <= place < stop):
                sequences.remove(sequence)
            if not sequences:
                del self.cells[cell]

    def compute(self, sequence, place):
        self.cells[next(self.fresh)] = (place, {sequence})

    def places(self, sequence):
        return sorted(place for place, sequences in self.cells.values() if sequence in sequences)


class Walk:
    """Requests on a real cache, computed by nothing; two may run at a time."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.cells = Cells()
        self.cache = PrefixCache(CAPACITY)
        self.table = SequenceTable(self.cells, ACTIVE, KEPT, make_room=lambda: self.cache.shed(1))
        self.cache.freed_to(self.table.freed)
        self.running = []

    def begin(self):
        """Few different tokens, so that prompts share beginnings and part at many places."""
        ids = self.random.choices(range(2), k=self.random.randint(2, 16))
        lease = self.cache.open(ids, usable=len(ids) - 1, extra=0)
        if lease is not None:
            self.running.append((lease, ids))

    def step(self):
        """Each running request computes some of its tokens, or all."""
        self.table.begin()
        for lease, ids in self.running:
            known = count(lease.runs)
            num = self.random.randint(0, len(ids) - known)
            sequence = self.table.occupy(lease.runs)
            for place in range(known, known + num):
                self.cells.compute(sequence, place)
            self.table.extend(sequence, self.cache.grow(lease, num))
            if self.random.random() < 0.3:
                self.cache.commit(lease, ids[: known + num])

    def end(self):
        lease, ids = self.running.pop(self.random.randrange(len(self.running)))
        if self.random.random() < 0.8:
            self.cache.commit(lease, ids[: count(lease.runs)])
        self.cache.close(lease)

    def check(self):
        for sequence in (*ACTIVE, *KEPT):
            held = [place + n for place, _, num in self.table._content[sequence] for n in range(num)]
            assert self.cells.places(sequence) == sorted(held)
        own = {p for lease, _ in self.running for start, stop in lease.own for p in range(start, stop)}
        self.table.integrity(self.cache.owned() | own)
        assert len(self.cells.cells) == len(self.cache.owned() | own)


@pytest.mark.parametrize("seed", range(25))
def test_cells_are_those_that_the_cache_owns(seed):
    walk = Walk(seed)
    for _ in range(120):
        moves = [walk.step]
        moves += [walk.begin] if len(walk.running) < 2 else []
        moves += [walk.end] if walk.running else []
        walk.random.choice(moves)()
        walk.check()
    walk.cache.integrity()
