"""Conversations of agents over a router before two servers: what is cached, and who serves, by the router's policy.

Both servers run on the CPU of this machine, so that only tokens and requests are told, and no times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, Literal

import anyio
import httpx

from agentform import Agent, Conversation, Limits, Scoring, load_engine
from agentform.cli.tables import Table
from agentform.errors import CallError, MissingDependency
from agentform.runtime.engine import Engine
from agentform.runtime.models.resolve import resolve_model
from benchmarks.common.harness import PLOTS, RESULTS, Context
from benchmarks.sglang.servers import router, servers

__all__ = ["run"]

_MODEL = "smollm2-135m"
_LIMITS = Limits(steps=2, reasoning_tokens=4, answer_tokens=4)
_ROUNDS = 3
_POLICIES: Mapping[str, Mapping[str, Any]] = {
    "random": {"policy": "random"},
    "round_robin": {"policy": "round_robin"},
    "cache_aware": {"policy": "cache_aware"},
    "cache_aware, balanced": {"policy": "cache_aware", "balance_abs_threshold": 2, "balance_rel_threshold": 1.1},
    "manual": {"policy": "manual", "assignment_mode": "min_group"},
}
_COUNT = re.compile(r"^sglang:num_requests_total\{.*\} ([\d.e+]+)$", re.MULTILINE)


def light(room: Literal["kitchen", "hall", "bathroom", "office"], state: Literal["on", "off"]) -> str:
    """Switch a light on or off."""
    return f"The light in the {room} is {state} now."


def run(context: Context) -> None:
    """The same conversations, at once, through a router of each policy by turns; caches are emptied in between."""
    conversations, turns, rounds = (2, 2, 1) if context.quick else (6, 4, _ROUNDS)
    policies: dict[str, list[dict[str, Any]]] = {name: [] for name in _POLICIES}
    figures: dict[str, Any] = {"conversations": conversations, "turns": turns, "policies": policies}
    options = {"max_total_tokens": 24_576, "served_model_name": _MODEL, "enable_metrics": True}
    with servers(resolve_model(_MODEL), 2, **options) as started:
        workers = [each.url for each in started]
        for _, (name, policy) in product(range(rounds), _POLICIES.items()):
            with router(workers, **policy) as before:
                policies[name].append(_measured(before.url, workers, conversations, turns))
            context.console.print(name, policies[name][-1])
    context.console.print(_table(policies))
    context.write(figures)
    if not context.quick:
        for folder in (RESULTS, PLOTS):
            _draw(policies, folder / "scale_out.png")


def _measured(url: str, workers: Sequence[str], conversations: int, turns: int) -> dict[str, Any]:
    for worker in workers:
        httpx.post(f"{worker}/flush_cache").raise_for_status()
    before = [_num_requests(worker) for worker in workers]
    engine = load_engine(url, tokenizer=_MODEL)
    failed = anyio.run(_hold_all, engine, conversations, turns)
    seen = engine.statistics()
    return {
        "prompt_tokens": seen.lookup_tokens,
        "cached_tokens": seen.hit_tokens,
        "cached_share": seen.hit_tokens / seen.lookup_tokens,
        "computed_tokens": seen.computed_tokens,
        "requests": seen.requests,
        "turns_not_completed": failed,
        "requests_by_server": [_num_requests(each) - old for each, old in zip(workers, before, strict=True)],
    }


async def _hold_all(engine: Engine, conversations: int, turns: int) -> int:
    """Returns how many turns ended without a valid call; they are taken back."""
    failed = [0] * conversations

    async def hold(number: int) -> None:
        conversation = Conversation(id=f"conversation-{number}")
        for turn in range(turns):
            room = ("kitchen", "hall", "bathroom", "office")[(number + turn) % 4]
            message = f"This is home {number}, message {turn}: please switch {'off' if turn % 2 else 'on'} the {room}."
            try:
                await agent.run(message, conversation=conversation)
            except CallError:
                failed[number] += 1

    agent = Agent(engine, tools=[light], limits=_LIMITS, scoring=Scoring(calibration=0.0))
    async with anyio.create_task_group() as group:
        for number in range(conversations):
            group.start_soon(hold, number)
    await engine.aclose()
    return sum(failed)


def _num_requests(worker: str) -> int:
    return sum(int(float(count)) for count in _COUNT.findall(httpx.get(f"{worker}/metrics").text))


def _table(policies: Mapping[str, Sequence[Mapping[str, Any]]]) -> Table:
    """Medians over rounds, and the least and the greatest."""
    table = Table("policy", "prompt tokens", "cached", "computed", "requests by server, each round")
    for name, rounds in policies.items():
        shares = [f"{share:.1%}" for share in _spread(rounds, "cached_share")]
        computed = [f"{tokens:,.0f}" for tokens in _spread(rounds, "computed_tokens")]
        split = ", ".join("/".join(map(str, found["requests_by_server"])) for found in rounds)
        table.add_row(name, f"{rounds[0]['prompt_tokens']:,}", _told(shares), _told(computed), split)
    return table


def _spread(rounds: Sequence[Mapping[str, Any]], of: str) -> tuple[float, float, float]:
    """Median, least and greatest."""
    values = [found[of] for found in rounds]
    return median(values), min(values), max(values)


def _told(spread: Sequence[str]) -> str:
    return f"{spread[0]} [{spread[1]}, {spread[2]}]"


def _draw(policies: Mapping[str, Sequence[Mapping[str, Any]]], path: Path) -> None:
    """Raises MissingDependency without matplotlib."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingDependency("the plot needs matplotlib: pip install matplotlib") from error
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (cached, split) = pyplot.subplots(1, 2, figsize=(10, 3), sharey=True)
    names = list(policies)
    middle, least, most = zip(*(_spread(rounds, "cached_share") for rounds in policies.values()), strict=True)
    ends = [[100 * (m - low) for m, low in zip(middle, least, strict=True)]]
    ends += [[100 * (high - m) for m, high in zip(middle, most, strict=True)]]
    cached.barh(names, [100 * share for share in middle], xerr=ends)
    cached.set_xlim(0, 100)
    cached.set_xlabel("prompt tokens that were cached, %")
    left = [0.0] * len(names)
    for worker in range(2):
        total = [sum(sum(found["requests_by_server"]) for found in rounds) for rounds in policies.values()]
        counts = [sum(found["requests_by_server"][worker] for found in rounds) for rounds in policies.values()]
        shares = [100 * count / all_ for count, all_ in zip(counts, total, strict=True)]
        split.barh(names, shares, left=left, label=f"server {worker + 1}")
        left = [a + b for a, b in zip(left, shares, strict=True)]
    split.set_xlabel("requests, %")
    split.legend(loc="lower left")
    cached.invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
