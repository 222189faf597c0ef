"""Whether every peer reads the very same prompt: its tokens are compared before anything is measured."""

from __future__ import annotations

from benchmarks.peers.task import Task, shared_length

__all__ = ["difference"]


def difference(task: Task, found: list[int] | None, opening_ids: int = 0) -> str | None:
    """Where what a peer reads leaves the prompt; None when it is the same, or when the peer is given ids anyway.

    A peer that takes messages, not prompts, may lack the last `opening_ids` tokens: the answer's opening.
    """
    if found is None or found == task.ids or (opening_ids and found == task.ids[:-opening_ids]):
        return None
    at = shared_length(task.ids, found)
    return (
        f"the prompt differs at token {at} of {len(task.ids)}: {found[at : at + 5]} in place of {task.ids[at : at + 5]}"
    )
