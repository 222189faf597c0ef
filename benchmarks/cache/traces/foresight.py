"""What a cache could find that knew all requests beforehand: what is used again last goes first.

Where all items are of one size this is the optimum (Belady, A study of replacement algorithms for a virtual-storage
computer, 1966). Otherwise it is what giving up by tokens lost per position and second of waiting reaches, and a real
policy may be better.
"""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from agentform.runtime.cache.eviction import Cut
from agentform.runtime.cache.radix_tree import RadixNode, RadixTree
from agentform.runtime.cache.ranges import count
from agentform.runtime.scheduling.replay import TracedRequest, engine_places
from benchmarks.cache.traces.policies import Policy, by_value

__all__ = ["foresight"]

_Uses = Sequence[float]


def foresight(asks: Sequence[TracedRequest]) -> Policy:
    """The policy for these requests, with agentform's places for snapshots."""
    return Policy(name="foresight", places=engine_places, give_up=_Foresight(asks))


class _Foresight:
    """See `GiveUp`."""

    def __init__(self, asks: Sequence[TracedRequest]) -> None:
        self._uses: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
        for ask in asks:
            for place, block in enumerate(ask.prompt):
                self._uses[block, place].append(ask.start_s)

    def __call__(self, tree: RadixTree, num: int, /, *, recurrent: bool) -> list[Cut]:
        now = tree.clock()
        return by_value(tree, num, lambda node: self._value(node, now), recurrent=recurrent)

    def _value(self, node: RadixNode, now: float) -> float:
        deeper = [self._of(each) for each in _next_snapshots(node)] if node.snapshot is not None else []
        wait = next((use - now for use in self._after(node, now) if not any(_has(uses, use) for uses in deeper)), None)
        if wait is None:
            return 0.0
        if node.snapshot is None:
            return 1 / (wait + 1)
        freed = count(node.snapshot.runs) + (0 if node.children else len(node.tokens))
        return node.end / freed / (wait + 1)

    def _of(self, node: RadixNode) -> _Uses:
        return self._uses.get((node.tokens[-1], node.end - 1), ())

    def _after(self, node: RadixNode, now: float) -> Iterator[float]:
        uses = self._of(node)
        yield from (uses[at] for at in range(bisect.bisect_right(uses, now), len(uses)))


def _next_snapshots(node: RadixNode) -> Iterator[RadixNode]:
    """Where a request that goes past the node would resume instead."""
    stack = list(node.children.values())
    while stack:
        each = stack.pop()
        if each.snapshot is not None:
            yield each
        else:
            stack.extend(each.children.values())


def _has(uses: _Uses, use: float) -> bool:
    at = bisect.bisect_left(uses, use)
    return at < len(uses) and math.isclose(uses[at], use)
