"""`agentform cache advise`: whether a larger cache, or smaller snapshots, would serve more of the returns.

A trace is a text file of JSON objects, one a line, in the order in which requests came::

    {"conversation": "a17", "tokens": 4120, "time": 12.5}

`tokens` is the length of the conversation at the end of that request. `time` and other keys are not read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from agentform.cli.tables import Table
from agentform.errors import InvalidInput
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.cache.working_set import ReuseDistances, WorkingSet
from agentform.runtime.snapshots.plan import plan_bytes
from agentform.runtime.snapshots.policy import NAMED_POLICIES

__all__ = [
    "Workload",
    "advise",
    "advise_from_files",
    "snapshot_sizes",
    "workload_of_statistics",
    "workload_of_statistics_file",
    "workload_of_trace",
]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What conversations ask of a cache."""

    working_set: WorkingSet
    mean_tokens: float
    """Tokens of a conversation when it is used."""
    budget_bytes: int | None = None
    """`None` if it is not known, as are the sizes that follow."""
    token_bytes: int = 0
    snapshot_bytes: int | None = None
    codec: str = "exact"

    def conversation_bytes(self, snapshot_bytes: int) -> float:
        """What a conversation takes in the cache: its tokens, of which none is shared, and one snapshot."""
        return self.mean_tokens * self.token_bytes + snapshot_bytes

    def slots(self, snapshot_bytes: int) -> int:
        """Conversations that the budget holds; 0 without one."""
        return int((self.budget_bytes or 0) // max(1.0, self.conversation_bytes(snapshot_bytes)))


def advise(console: Console, load: Workload, sizes: Mapping[str, int]) -> None:
    """The working-set curve, where the budget stands on it, and what each policy's snapshot size would change."""
    seen = load.working_set
    if not seen.distances:
        console.print(
            f"{seen.uses:,} uses of conversations, none came back: there is nothing that a cache could serve."
        )
        return
    console.print(
        f"{seen.uses:,} uses of {seen.first_uses:,} conversations of {load.mean_tokens:,.0f} tokens; all returns are "
        f"hits with {seen.slots_needed:,} conversations in the cache. A use is counted when another conversation was "
        "active in between."
    )
    console.print(_curve_table(seen))
    if load.snapshot_bytes is None or load.budget_bytes is None:
        console.print("Without a budget and a model (or statistics of an engine) this is all that can be said.")
        return
    now = sizes if load.snapshot_bytes in sizes.values() else {f"now ({load.codec})": load.snapshot_bytes, **sizes}
    console.print(_size_table(load, now))
    console.print(_verdict(load, load.slots(load.snapshot_bytes), sizes))


def advise_from_files(
    console: Console, *, trace: Path | None, statistics: Path | None, model: str | None, budget_bytes: int | None
) -> None:
    """`advise` from a trace or from saved statistics.

    Raises:
        InvalidInput: not exactly one of them is given.
    """
    if (trace is None) == (statistics is None):
        raise InvalidInput("give either --trace or --statistics")
    sizes: dict[str, int] = {}
    token_bytes = 0
    if model is not None:
        from agentform.runtime.models.resolve import resolve_files
        from agentform.runtime.torch.snapshots.state_geometry import kv_token_bytes

        folder = resolve_files(model)
        sizes, token_bytes = snapshot_sizes(folder), kv_token_bytes(folder)
    if statistics is not None:
        advise(console, workload_of_statistics_file(statistics), sizes)
    elif trace is not None:
        load = workload_of_trace(trace, budget_bytes=budget_bytes, token_bytes=token_bytes)
        advise(console, replace(load, snapshot_bytes=sizes.get("exact")), sizes)


def workload_of_trace(path: Path, *, budget_bytes: int | None = None, token_bytes: int = 0) -> Workload:
    """Read a trace, see the module docstring.

    Raises:
        InvalidInput: a line is wrong; it says which.
    """
    reuse, tokens, lines = ReuseDistances(), 0, 0
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    conversation, length = _record(line, f"{path}:{number}")
                    reuse.use(conversation)
                    tokens, lines = tokens + length, lines + 1
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error
    return Workload(
        working_set=reuse.working_set(),
        mean_tokens=tokens / max(1, lines),
        budget_bytes=budget_bytes,
        token_bytes=token_bytes,
    )


def workload_of_statistics(statistics: CacheStatistics) -> Workload:
    """What an engine saw, and the budget that it has."""
    return Workload(
        working_set=statistics.working_set,
        mean_tokens=statistics.lookup_tokens / max(1, statistics.requests),
        budget_bytes=statistics.capacity_tokens * statistics.position_bytes,
        token_bytes=statistics.position_bytes,
        snapshot_bytes=statistics.snapshot_positions * statistics.position_bytes,
        codec=statistics.codec,
    )


def workload_of_statistics_file(path: Path) -> Workload:
    """The workload from `json.dumps(dataclasses.asdict(engine.statistics()))`.

    Raises:
        InvalidInput: the file does not hold statistics.
    """
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        seen = data.pop("working_set")
        distances = {int(distance): int(num) for distance, num in seen["distances"].items()}
        working_set = WorkingSet(distances=distances, first_uses=int(seen["first_uses"]))
        return workload_of_statistics(CacheStatistics(**data | {"working_set": working_set, "conversations": {}}))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{path} holds no statistics of an engine: {error!r}") from error


def snapshot_sizes(folder: Path) -> dict[str, int]:
    """Bytes of a model's snapshot under each named policy.

    Raises:
        HorizonsUnknown: decay parameters are not found, or are of a layout that is not known.
    """
    from agentform.runtime.torch.snapshots.model_horizons import horizons_of_folder
    from agentform.runtime.torch.snapshots.state_geometry import geometry_of_folder

    horizons = horizons_of_folder(folder)
    geometry = geometry_of_folder(folder, horizons)
    return {name: plan_bytes(policy.plan(horizons, geometry), geometry) for name, policy in NAMED_POLICIES.items()}


def _record(line: str, where: str) -> tuple[str, int]:
    try:
        record = json.loads(line)
        conversation, tokens = record["conversation"], record["tokens"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{where}: not an object with 'conversation' and 'tokens': {error!r}") from error
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 0:
        raise InvalidInput(f"{where}: 'tokens' is {tokens!r}, not a number of tokens")
    return str(conversation), tokens


def _curve_table(seen: WorkingSet) -> Table:
    """The curve at powers of two, and where it ends."""
    most = seen.slots_needed
    points = sorted({most, *(2**power for power in range(most.bit_length()))})
    table = Table("conversations held", "hits", "", title="Hit rate of a cache of the conversations used last")
    for slots in points:
        rate = seen.hit_rate(slots) or 0.0
        table.add_row(f"{slots:,}", f"{rate:.1%}", "█" * round(rate * 40))
    return table


def _size_table(load: Workload, sizes: Mapping[str, int]) -> Table:
    table = Table("snapshots", "bytes a conversation", "conversations held", "hits", title="In the same budget")
    for name, size in sizes.items():
        slots = load.slots(size)
        rate = load.working_set.hit_rate(slots) or 0.0
        table.add_row(name, f"{load.conversation_bytes(size):,.0f}", f"{slots:,}", f"{rate:.1%}")
    return table


def _verdict(load: Workload, present: int, sizes: Mapping[str, int]) -> str:
    seen = load.working_set
    if present >= seen.slots_needed:
        return (
            f"The budget holds {present:,} conversations and the working set is {seen.slots_needed:,}: it fits. "
            "Compressing snapshots buys nothing here."
        )
    now = seen.hit_rate(present) or 0.0
    rates = {name: seen.hit_rate(load.slots(size)) or 0.0 for name, size in sizes.items()}
    best = max(rates, key=lambda name: (rates[name], sizes[name]), default=None)
    if best is None or rates[best] <= now:
        return (
            f"The budget holds {present:,} of the {seen.slots_needed:,} conversations that come back. "
            "No snapshot policy changes the hit rate; more memory or shorter conversations would."
        )
    return (
        f"The budget holds {present:,} of the {seen.slots_needed:,} conversations that come back. snapshots={best!r} "
        f"would raise hits from {now:.1%} to {rates[best]:.1%}. What each policy loses is told in docs/snapshots.md."
    )
