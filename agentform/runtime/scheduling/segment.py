"""What one sequence adds to a model step."""

from __future__ import annotations

from dataclasses import dataclass

from agentform.runtime.cache.ranges import PositionRanges

__all__ = ["Segment"]


@dataclass(frozen=True, kw_only=True)
class Segment:
    """What one sequence adds to a step."""

    token_ids: tuple[int, ...]
    num_before: int
    """Tokens of the sequence whose KV exists."""
    runs: PositionRanges
    """KV positions of the tokens before and then of `token_ids`: `count(runs) == num_before + len(token_ids)`."""
    rows: tuple[int, ...] = ()
    """Which of `token_ids`, by index, need logits."""
    num_sequence: int = 0
    """With `parents`: so many of `token_ids`, from the first, continue the sequence; the rest are branches."""
    parents: tuple[int, ...] | None = None
    """For a tree: the index of each token's parent, smaller than its own; -1 for the last token before."""
    num_stored: int = 0
    """So many of `token_ids`, from the first, have KV already: they run again only to rebuild a recurrent state."""
    slot: int | None = None
    """Where the sequence's live recurrent state is; `None` for a model without recurrent layers."""
    load: PositionRanges | None = None
    """Snapshot to start from, `()` for the state before the first token; `None`: the slot holds the state."""
    num_warm: int = 0
    """With `load`: the snapshot stands so many tokens ahead. They run again, to warm up what it does not hold."""
    settle: tuple[int, PositionRanges] | None = None
    """Behind so many of `token_ids` the warm-up ends: what the snapshot holds is put back."""
    saves: tuple[tuple[int, PositionRanges], ...] = ()
    """Snapshots to take, ascending: after so many of `token_ids` (none of them a branch), and where to put them."""

    @property
    def num_chain(self) -> int:
        """Tokens, from the first, that continue the sequence one after the other; the rest are branches."""
        if self.parents is None:
            return len(self.token_ids)
        return self.num_sequence
