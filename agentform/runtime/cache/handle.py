"""What one running request holds of the cache."""

from __future__ import annotations

from dataclasses import dataclass

from agentform.runtime.cache.radix_tree import RadixNode
from agentform.runtime.cache.ranges import PositionRanges, join

__all__ = ["Lease"]


@dataclass(kw_only=True)
class Lease:
    """`PrefixCache.close` gives everything back.

    ::

        tokens     [0 ...... start ...... count(shared) ...... count(runs))
                     done    run again     computed by this request
                             where a recurrent state is missing

    `shared` belongs to the tree and is locked through `node`; `own` belongs to the lease; `reserved` positions are
    promised and not yet taken.
    """

    node: RadixNode
    shared: PositionRanges
    start: int
    """Prompt tokens that need not be computed, found when the lease was opened."""
    num_matched: int
    """Prompt tokens whose KV was found then; the same without recurrent layers."""
    reserved: int
    miss: str | None = None
    slot: int | None = None
    """Where the live recurrent state is; `None` without recurrent layers."""
    source: RadixNode | None = None
    """Node of the snapshot to load, locked until `PrefixCache.loaded`."""
    diverged: bool = False
    """Whether other sequences go on differently at `num_matched`: a place worth a snapshot."""
    conversation: str | None = None
    is_live: bool = False
    """Whether the slot still holds the state after `start`, so that nothing has to be loaded."""
    refresh: int = 0
    """So many tokens before `start` run again after the snapshot is loaded."""
    own: PositionRanges = ()
    pending: dict[int, PositionRanges] | None = None
    """Snapshots being taken: positions by the number of tokens before them."""
    is_open: bool = True

    @property
    def runs(self) -> PositionRanges:
        """Positions of all the sequence's tokens so far, in order."""
        return join(self.shared, self.own)
