"""What was just given up, as whole sequences that a slower tier can keep; read before the positions are reused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentform.runtime.cache.eviction import Cut
from agentform.runtime.cache.radix_tree import Node, upwards
from agentform.runtime.cache.ranges import Runs, count, join

__all__ = ["Spilled", "spilled"]


@dataclass(frozen=True, kw_only=True)
class Spilled:
    """A sequence whose end is gone from the tree; the positions still hold it."""

    ids: tuple[int, ...]
    runs: Runs
    """Positions of all of `ids`, those of nodes that stay among them."""
    snapshot: Runs
    """Positions of the state behind `ids`; `()` without recurrent layers."""
    num_own: int
    """Tokens at the end of `ids` that no other sequence shared."""
    is_shared: bool
    """Whether other sequences went on from here."""


def spilled(given: Sequence[Cut], *, recurrent: bool) -> list[Spilled]:
    """Those of `given` (all of one eviction) that a prompt could resume from, in the same order.

    Not among them are snapshots that a conversation went past: no prompt is likely to end there again. The last cut
    is undone first, so that each sequence is seen as it was when it lost its end.
    """
    before: dict[Node, Runs] = {}
    found: list[Spilled] = []
    for each in reversed(given):
        if each.num_tokens:
            before[each.node] = join(_runs(each.node, before), each.runs)
        if recurrent == bool(each.num_tokens) or (recurrent and _is_superseded(each.node)):
            continue
        found.append(
            Spilled(
                ids=each.path,
                runs=join(*(_runs(node, before) for node in reversed(list(upwards(each.node))))),
                snapshot=each.runs if recurrent else (),
                num_own=count(_runs(each.node, before)),
                is_shared=each.node.forks > 0,
            )
        )
    return found[::-1]


def _runs(node: Node, before: dict[Node, Runs]) -> Runs:
    """Positions of a node's tokens when the cuts that `before` knows had not been made."""
    return before[node] if node in before else node.runs if _is_in_tree(node) else ()


def _is_in_tree(node: Node) -> bool:
    """One that lost all its tokens keeps them by name only."""
    return node.parent is not None and node.parent.children.get(node.tokens[0]) is node


def _is_superseded(node: Node) -> bool:
    return bool(node.children) and not node.forks
