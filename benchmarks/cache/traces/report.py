"""The traces benchmark: budgets and policies, the bars, a table, a plot and a result file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from agentform.cli.tables import Table
from agentform.runtime.scheduling.replay import CacheShape, ReplayOutcome, TracedRequest, replay
from benchmarks.cache.traces.foresight import foresight
from benchmarks.cache.traces.policies import POLICIES, Policy
from benchmarks.cache.traces.rounds import rounds
from benchmarks.cache.traces.sessions import AGENT_BLOCK, MOONCAKE_BLOCK, agent_sessions, mooncake
from benchmarks.common.harness import RESULTS, Context

__all__ = ["run"]

SEEDS = (0, 1, 2)
_WINDOW_S = 7200.0
_GB = 10**9
_UNLIMITED = 10**15
_TARGET = 0.95
_COLUMNS = 3
_ROUND_CONVERSATIONS = 500
_ROUND_BLOCKS = 64
_ROUND_ROOM = (64, 128, 256, 320, 400, 480)
"""Conversations that there is room for."""
_OURS, _GRID, _END = POLICIES
_HYBRID = CacheShape(token_bytes=24_600, snapshot_bytes=75_000_000)
_ATTENTION = CacheShape(token_bytes=98_304, snapshot_bytes=0)


@dataclass(frozen=True, kw_only=True)
class _Case:
    name: str
    asks: Sequence[TracedRequest]
    model: CacheShape
    block: int
    budgets_gb: Sequence[float]
    has_bars: bool = True
    has_foresight: bool = True

    def outcome(self, policy: Policy, budget_bytes: float) -> ReplayOutcome:
        shape = replace(self.model, block_tokens=self.block)
        return replay(self.asks, shape, budget_bytes=int(budget_bytes), places=policy.places, give_up=policy.give_up)

    @cached_property
    def policies(self) -> Sequence[Policy]:
        """Without snapshots the policies differ in what they evict only, and two of them not even in that."""
        real = POLICIES if self.model.snapshot_bytes else (_OURS, _END)
        return (*real, foresight(self.asks)) if self.has_foresight else real


def run(context: Context) -> None:
    """See the package."""
    figures: dict[str, Any] = {}
    for case in _cases(context):
        figures[case.name] = _measure(case, quick=context.quick)
        context.console.print(_table(case, figures[case.name]))
        if "bars" in figures[case.name]:
            context.console.print(_words(figures[case.name]["bars"]))
        # A replay takes long: what is done is kept when a later one is stopped.
        context.write(figures, seeds=list(SEEDS))
        if not context.quick:
            _plot(figures)


def _cases(context: Context) -> list[_Case]:
    limit = 30 if context.quick else None
    window = _WINDOW_S / 4 if context.quick else _WINDOW_S
    sessions = context.need("traces", "agent_sessions.dev.jsonl.gz")
    agents = agent_sessions(sessions, window_s=window, seed=SEEDS[0], limit=limit)
    users = mooncake(context.need("traces", "mooncake_conversation.jsonl.gz"), limit=1000 if context.quick else None)
    budgets = (8, 32) if context.quick else (8, 16, 32, 64, 128)
    many = budgets if context.quick else (16, 32, 64, 128, 256, 512)
    others = [
        _Case(
            name=f"agents, hybrid, starts {seed}",
            asks=agent_sessions(sessions, window_s=window, seed=seed, limit=limit),
            model=_HYBRID,
            block=AGENT_BLOCK,
            budgets_gb=budgets,
            has_bars=False,
            has_foresight=False,
        )
        for seed in SEEDS[1:]
    ]
    return [
        *_rounds(quick=context.quick),
        _Case(name="agents, hybrid", asks=agents, model=_HYBRID, block=AGENT_BLOCK, budgets_gb=budgets),
        _Case(name="agents, attention", asks=agents, model=_ATTENTION, block=AGENT_BLOCK, budgets_gb=budgets),
        _Case(name="mooncake, hybrid", asks=users, model=_HYBRID, block=MOONCAKE_BLOCK, budgets_gb=many),
        _Case(name="mooncake, attention", asks=users, model=_ATTENTION, block=MOONCAKE_BLOCK, budgets_gb=many),
        *others,
    ]


def _rounds(*, quick: bool) -> list[_Case]:
    """500 conversations of 4,096 tokens that all come back, with room for some of them."""
    conversation = _ROUND_BLOCKS * AGENT_BLOCK * _HYBRID.token_bytes + _HYBRID.snapshot_bytes
    return [
        _Case(
            name=f"{_ROUND_CONVERSATIONS} conversations, {order}",
            asks=rounds(_ROUND_CONVERSATIONS, order, passes=2 if quick else 4, blocks=_ROUND_BLOCKS),
            model=_HYBRID,
            block=AGENT_BLOCK,
            budgets_gb=[round(room * conversation / _GB, 1) for room in ((256,) if quick else _ROUND_ROOM)],
            has_bars=False,
        )
        for order in ("in sequence", "random", "Zipf")
    ]


def _measure(case: _Case, *, quick: bool) -> dict[str, Any]:
    unlimited = max(case.outcome(policy, _UNLIMITED).hit_rate for policy in case.policies[:2])
    rows = []
    for budget in case.budgets_gb:
        outcomes = {policy.name: case.outcome(policy, budget * _GB) for policy in case.policies}
        rows.append({"budget_gb": budget, **{name: _figures(outcome) for name, outcome in outcomes.items()}})
    figures: dict[str, Any] = {"model": asdict(case.model), "unlimited": unlimited, "rows": rows}
    if case.model.snapshot_bytes and case.has_bars and not quick:
        figures["bars"] = _bars(case, unlimited)
    return figures


def _figures(outcome: ReplayOutcome) -> dict[str, Any]:
    statistics = outcome.statistics
    return {
        "hit_rate": outcome.hit_rate,
        "refused": outcome.num_refused,
        "evicted_snapshots": statistics.evicted_snapshots,
        "replayed_share": statistics.replayed_tokens / max(1, statistics.lookup_tokens),
        "misses": dict(statistics.misses),
    }


def _bars(case: _Case, unlimited: float) -> dict[str, Any]:
    """How many bytes reach the target, and whether others reach it with the multiple that the bar allows them."""
    target = _TARGET * unlimited
    ours = _bytes_for(case, _OURS, target)
    end = _bytes_for(case, _END, target)
    grid = case.outcome(_GRID, 2 * ours).hit_rate
    return {
        "target_hit_rate": target,
        "ours_bytes": ours,
        "end_bytes": end if math.isfinite(end) else None,
        "share_of_end_bytes": ours / end,
        "grid_hit_rate_with_twice_our_bytes": grid,
        "at_most_half_of_grid": grid < target,
        "at_most_nine_tenths_of_end": ours <= 0.9 * end,
    }


def _bytes_for(case: _Case, policy: Policy, target: float, *, steps: int = 8) -> float:
    """The least budget that reaches `target`, within 4%, by bisection; `inf` if eight terabytes do not."""
    low, high = math.log(1 * _GB), math.log(8000 * _GB)
    if case.outcome(policy, math.exp(high)).hit_rate < target:
        return math.inf
    for _ in range(steps):
        middle = (low + high) / 2
        if case.outcome(policy, math.exp(middle)).hit_rate >= target:
            high = middle
        else:
            low = middle
    return math.exp(high)


def _table(case: _Case, figures: dict[str, Any]) -> Table:
    names = [policy.name for policy in case.policies]
    table = Table("budget (GB)", *names, title=f"{case.name}: token hit rate; unlimited {figures['unlimited']:.4f}")
    for row in figures["rows"]:
        best = max(row[name]["hit_rate"] for name in names)
        rates = [row[name]["hit_rate"] for name in names]
        table.add_row(f"{row['budget_gb']:g}", *(f"{'*' if rate == best else ' '}{rate:.4f}" for rate in rates))
    return table


def _words(bars: dict[str, Any]) -> str:
    end = bars["end_bytes"]
    ends = f"{end / _GB:.1f} GB" if end is not None else "more than was tried"
    return (
        f"{_TARGET:.0%} of unlimited takes ours {bars['ours_bytes'] / _GB:.1f} GB, end-only "
        f"{ends} (ratio {bars['share_of_end_bytes']:.2f}, bar 0.90); the grid reaches "
        f"{bars['grid_hit_rate_with_twice_our_bytes']:.4f} of {bars['target_hit_rate']:.4f} with twice our bytes"
    )


def _plot(figures: dict[str, Any]) -> None:
    """One panel per case; without matplotlib there is no plot."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    num_rows = -(-len(figures) // _COLUMNS)
    figure = Figure(figsize=(5 * min(_COLUMNS, len(figures)), 4 * num_rows), layout="constrained")
    for index, (name, case) in enumerate(figures.items()):
        axes = figure.add_subplot(num_rows, min(_COLUMNS, len(figures)), index + 1)
        budgets = [row["budget_gb"] for row in case["rows"]]
        for policy in case["rows"][0]:
            if policy != "budget_gb":
                rates = [row[policy]["hit_rate"] for row in case["rows"]]
                axes.plot(budgets, rates, marker="o", label=policy)
        axes.axhline(case["unlimited"], linestyle=":", color="gray", label="unlimited")
        axes.set(xscale="log", xlabel="budget (GB)", ylabel="token hit rate", title=name)
        axes.legend()
    figure.savefig(RESULTS / "traces.png", dpi=120)
