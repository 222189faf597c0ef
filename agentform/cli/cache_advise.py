"""`agentform cache advise`: whether a larger cache, or smaller states and KV, would find more of what comes back.

Requests are played through the cache that the engine has: a trace as it was (see `cache_trace`), what an engine or a
running server counted as a stream of the same distances.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from agentform.cli.cache_stats import fetch_statistics
from agentform.cli.cache_trace import Trace, read_trace, stream_like
from agentform.cli.tables import Table
from agentform.errors import InvalidInput
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.cache.working_set import WorkingSet
from agentform.runtime.scheduling.replay import CacheShape, replay
from agentform.runtime.snapshots.plan import plan_bytes
from agentform.runtime.snapshots.policy import NAMED_POLICIES

__all__ = [
    "Workload",
    "advise",
    "advise_from",
    "snapshot_sizes",
    "workload_of_statistics",
    "workload_of_statistics_file",
]

_EIGHT_BITS = 34 / 64
"""Of KV in 16 bits: 32 numbers in a byte each, and a scale of two."""
_SLOTS = 8
_ROOMS = 64
"""The least room that is tried is so many times smaller than what all need."""
_SAME = 0.01
"""Rates that are closer are not told apart."""
_ROOM_FOR_ALL = 1 << 62


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What conversations ask of a cache, and the cache that there is."""

    trace: Trace
    budget_bytes: int | None = None
    """`None` if it is not known, as are the sizes that follow."""
    token_bytes: int = 0
    snapshot_bytes: int | None = None
    codec: str = "exact"
    found: float | None = None
    """Share of prompt tokens that the engine itself found, where it was one that counted."""
    evicted_tokens: int = 0
    """That it had no room for any more."""

    def rate(self, *, budget_bytes: int, token_bytes: int, snapshot_bytes: int, keep_live: bool = False) -> float:
        """Share of the prompts' tokens that such a cache finds."""
        shape = CacheShape(
            token_bytes=token_bytes,
            snapshot_bytes=snapshot_bytes,
            block_tokens=self.trace.block_tokens,
            num_slots=_SLOTS,
            keep_live=keep_live,
        )
        return replay(self.trace.requests, shape, budget_bytes=budget_bytes).hit_rate


@dataclass(frozen=True, kw_only=True)
class _Keeping:
    """One way to keep conversations, and what it finds."""

    name: str
    conversation_bytes: float
    rate: float


def advise(console: Console, load: Workload, sizes: Mapping[str, int]) -> None:
    """What is found by room, and by the ways to keep conversations in the budget; `sizes` of snapshots by policy."""
    seen = load.trace.working_set
    if not seen.uses and load.found is not None:
        console.print(_untold(load))
        return
    if not seen.distances:
        console.print(
            f"{seen.uses:,} uses of conversations, none came back: there is nothing that a cache could serve."
        )
        return
    console.print(_facts(load))
    with console.status("the requests are played with more and more room …"):
        rooms = _room_table(load)
    console.print(rooms)
    if load.budget_bytes is None or (load.snapshot_bytes is None and not load.token_bytes):
        console.print("Without a budget and a model (or statistics of an engine) this is all that can be said.")
        return
    with console.status("the requests are played in the budget …"):
        ways, most = _ways(load, sizes), _most(load)
    console.print(_way_table(ways, load.budget_bytes))
    console.print(_verdict(ways, most=most))


def advise_from(
    console: Console,
    source: str | None = None,
    *,
    trace: Path | None = None,
    statistics: Path | None = None,
    model: str | None = None,
    budget_bytes: int | None = None,
) -> None:
    """`advise` for a running server, a trace or saved statistics.

    Raises:
        InvalidInput: not exactly one of them is given, or it cannot be read.
    """
    if sum(each is not None for each in (source, trace, statistics)) != 1:
        raise InvalidInput("give one of a server's URL, --trace and --statistics")
    sizes, token_bytes = _of_model(model)
    if source is not None:
        load = workload_of_statistics(fetch_statistics(source))
    elif statistics is not None:
        load = workload_of_statistics_file(statistics)
    else:
        assert trace is not None, "one of three is given"
        load = Workload(
            trace=read_trace(trace),
            budget_bytes=budget_bytes,
            token_bytes=token_bytes,
            snapshot_bytes=sizes.get("exact"),
        )
    advise(console, load, sizes)


def workload_of_statistics(statistics: CacheStatistics) -> Workload:
    """What an engine saw, and the budget that it has."""
    tokens = statistics.lookup_tokens / max(1, statistics.requests)
    return Workload(
        trace=stream_like(statistics.working_set, tokens),
        budget_bytes=statistics.capacity_tokens * statistics.position_bytes,
        token_bytes=statistics.position_bytes,
        snapshot_bytes=statistics.snapshot_positions * statistics.position_bytes,
        codec=statistics.codec or "exact",
        found=statistics.hit_rate,
        evicted_tokens=statistics.evicted_tokens,
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


def _of_model(model: str | None) -> tuple[dict[str, int], int]:
    """Sizes of snapshots by policy, and bytes of a token."""
    if model is None:
        return {}, 0
    from agentform.runtime.models.resolve import resolve_files
    from agentform.runtime.torch.snapshots.state_geometry import kv_token_bytes

    folder = resolve_files(model)
    return snapshot_sizes(folder), kv_token_bytes(folder)


def _facts(load: Workload) -> str:
    seen = load.trace.working_set
    measured = "" if load.found is None else f" The engine itself found {load.found:.1%}."
    return (
        f"{seen.uses:,} uses of {seen.first_uses:,} conversations of {load.trace.mean_tokens:,.0f} tokens; "
        f"{seen.slots_needed:,} of them come round. A use is counted when another conversation was active in "
        f"between.{measured}"
    )


def _untold(load: Workload) -> str:
    """Where nobody counted which conversations came back."""
    known = f"{load.found:.1%} of the prompts' tokens were found. Which conversations came back was not counted: "
    if not load.evicted_tokens:
        return known + "but nothing was evicted, so a larger cache would find no more."
    return (
        known + f"{load.evicted_tokens:,} tokens were evicted, some of which a larger cache would have found. How many "
        "is told where requests name their `conversation` to an engine of agentform, also one in front of this server."
    )


def _room_table(load: Workload) -> Table:
    """What is found with room for so many conversations, at powers of two, and where it ends."""
    most = load.trace.working_set.slots_needed
    table = Table("room for", "found", "", title="Prompt tokens found, by how many conversations there is room for")
    powers = (2**power for power in range(most.bit_length()))
    for slots in sorted({most, *(each for each in powers if each * _ROOMS >= most)}):
        room = max(1, round(slots * load.trace.mean_tokens))
        rate = load.rate(budget_bytes=room, token_bytes=1, snapshot_bytes=0)
        table.add_row(f"{slots:,}", f"{rate:.1%}", "█" * round(rate * 40))
    return table


def _ways(load: Workload, sizes: Mapping[str, int]) -> Sequence[_Keeping]:
    """The present one first, then from the most exact on."""
    assert load.budget_bytes is not None, "no budget"
    present = load.snapshot_bytes or 0
    named = dict(sizes) if present else {}
    now = next((name for name, size in named.items() if size == present), f"now ({load.codec})" if present else "now")
    every = {now: present, **named}
    kept = [(name, load.token_bytes, size) for name, size in every.items()]
    if load.token_bytes:
        kept += [(f"{name}, kv_bits=8", round(load.token_bytes * _EIGHT_BITS), size) for name, size in every.items()]
    return [
        _Keeping(
            name=name,
            conversation_bytes=load.trace.mean_tokens * each + size,
            rate=load.rate(
                budget_bytes=load.budget_bytes,
                token_bytes=max(1, each),
                snapshot_bytes=size,
                keep_live=size != sizes.get("exact", present),
            ),
        )
        for name, each, size in kept
    ]


def _most(load: Workload) -> float:
    """What a cache finds that has room for all."""
    snapshot = load.snapshot_bytes or 0
    return load.rate(budget_bytes=_ROOM_FOR_ALL, token_bytes=max(1, load.token_bytes), snapshot_bytes=snapshot)


def _way_table(ways: Sequence[_Keeping], budget_bytes: int) -> Table:
    table = Table("kept", "bytes a conversation", "room for", "found", title=f"In {budget_bytes:,} bytes")
    for way in ways:
        room = int(budget_bytes / max(1.0, way.conversation_bytes))
        table.add_row(way.name, f"{way.conversation_bytes:,.0f}", f"{room:,}", f"{way.rate:.1%}")
    return table


def _verdict(ways: Sequence[_Keeping], *, most: float) -> str:
    """What to change, the least lossy of what finds as much."""
    now = ways[0].rate
    if now >= most - _SAME:
        return f"The budget finds {now:.1%}, and with room for all it would be {most:.1%}: it fits. Nothing to change."
    best = max(way.rate for way in ways)
    if best <= now + _SAME:
        return (
            f"The budget finds {now:.1%} of the {most:.1%} that room for all would find. No way to keep conversations "
            "finds more in it; more memory or shorter conversations would."
        )
    way = next(each for each in ways if each.rate >= best - _SAME)
    return (
        f"The budget finds {now:.1%} of the {most:.1%} that room for all would find; {way.name} would find "
        f"{way.rate:.1%}. What is lost by it is told in docs/snapshots.md and docs/cache.md."
    )
