"""A long conversation with an agent: what a turn computes, and how long its first token takes, turn by turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import anyio

from agentform import Agent, Conversation, Limits, Scoring
from agentform.cli.tables import Table
from agentform.errors import CallError, MissingDependency
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.engine import Chunk, Engine, GenerateRequest, ModelInfo, ScoreRequest, ScoreResult, Tokenizer
from benchmarks.common.harness import RESULTS, Context
from benchmarks.common.models import MODELS, engine_of

__all__ = ["run"]

_TURNS = 40
_EDGE_TURNS = 10
_LIMITS = Limits(steps=2, reasoning_tokens=12, answer_tokens=12)
_ROOMS = ("kitchen", "hall", "bathroom", "office")


def light(room: Literal["kitchen", "hall", "bathroom", "office"], state: Literal["on", "off"]) -> str:
    """Switch a light on or off."""
    return f"The light in the {room} is {state} now."


def run(context: Context) -> None:
    """Hold the conversation on each model."""
    turns = 5 if context.quick else _TURNS
    figures: dict[str, Any] = {"turns": turns, "models": {}}
    table = Table(
        "model", "turns", "prompt tokens at the end", "new", "computed", "first token, s", "first, last over first"
    )
    for name in MODELS:
        with engine_of(name) as engine:
            rows = anyio.run(_hold, engine, turns)
        summary = _summary(rows)
        figures["models"][name] = {"about": MODELS[name], **summary, "rows": rows}
        table.add_row(
            name,
            str(len(rows)),
            str(rows[-1]["prompt_tokens"]),
            f"{summary['new_tokens']:.0f}",
            f"{summary['computed_tokens']:.0f}",
            f"{summary['first_token_s']:.3f}",
            f"{summary['first_token_last_over_first']:.2f}",
        )
    context.console.print(table)
    context.write(figures)
    if not context.quick:
        _draw(figures["models"], RESULTS / "conversation.png")


async def _hold(engine: Engine, turns: int) -> list[dict[str, Any]]:
    """One row per turn; a turn is a message, reasoning, perhaps a call and its result, and an answer."""
    watch = _Watch(engine)
    agent = Agent(watch, tools=[light], limits=_LIMITS, scoring=Scoring(calibration=0.0))
    conversation = Conversation()
    rows: list[dict[str, Any]] = []
    for number in range(turns):
        before = len(conversation.token_ids)
        watch.begin()
        message = (
            f"Message {number}: please switch {'off' if number % 2 else 'on'} the light in the {_ROOMS[number % 4]}."
        )
        try:
            await agent.run(message, conversation=conversation)
        except CallError:  # the message is taken back, and so says nothing of the conversation
            continue
        rows.append(
            {
                "prompt_tokens": watch.longest_prompt,
                "new_tokens": len(conversation.token_ids) - before,
                "computed_tokens": watch.computed_tokens,
                "requests": watch.requests,
                "first_token_s": watch.first_token_s,
            }
        )
    return rows


class _Watch:
    """Passes everything on and adds up what a turn's requests computed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.begin()

    def begin(self) -> None:
        """A turn begins."""
        self._began = time.perf_counter()
        self.first_token_s: float | None = None
        self.computed_tokens = self.longest_prompt = self.requests = 0

    @property
    def info(self) -> ModelInfo:
        return self._engine.info

    @property
    def tokenizer(self) -> Tokenizer:
        return self._engine.tokenizer

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        async for chunk in self._engine.generate(request):
            if self.first_token_s is None and chunk.token_ids:
                self.first_token_s = time.perf_counter() - self._began
            if chunk.usage is not None:
                self._count(len(request.prompt_ids), chunk.usage.computed_tokens)
            yield chunk

    async def score(self, request: ScoreRequest) -> ScoreResult:
        result = await self._engine.score(request)
        self._count(len(request.prompt_ids), result.usage.computed_tokens)
        return result

    def expect_return(self, conversation: str, *, after: str) -> None:
        self._engine.expect_return(conversation, after=after)

    def statistics(self) -> CacheStatistics:
        return self._engine.statistics()

    async def aclose(self) -> None:
        await self._engine.aclose()

    def _count(self, prompt_tokens: int, computed_tokens: int | None) -> None:
        self.requests += 1
        self.longest_prompt = max(self.longest_prompt, prompt_tokens)
        self.computed_tokens += computed_tokens or 0


def _summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Medians of the turns after the first, which reads the instructions; and the last turns against the first."""
    later = rows[1:]
    edge = min(_EDGE_TURNS, len(later) // 2)

    def drift(key: str) -> float:
        return _median(later[-edge:], key) / _median(later[:edge], key)

    return {
        "new_tokens": _median(later, "new_tokens"),
        "computed_tokens": _median(later, "computed_tokens"),
        "computed_last_over_first": drift("computed_tokens"),
        "first_token_s": _median(later, "first_token_s"),
        "first_token_last_over_first": drift("first_token_s"),
    }


def _median(rows: Sequence[Mapping[str, Any]], key: str) -> float:
    return statistics.median(row[key] for row in rows)


def _draw(models: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Raises MissingDependency without matplotlib."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingDependency("the plot needs matplotlib: pip install matplotlib") from error
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, len(models), figsize=(5 * len(models), 6), sharex=True, squeeze=False)
    for (name, model), (tokens, times) in zip(models.items(), panels.T, strict=True):
        turns = range(1, len(model["rows"]) + 1)
        for key, label in (("prompt_tokens", "prompt"), ("computed_tokens", "computed"), ("new_tokens", "new")):
            tokens.plot(turns, [row[key] for row in model["rows"]], label=label)
        tokens.set_title(name)
        tokens.set_yscale("log")
        times.plot(turns, [row["first_token_s"] for row in model["rows"]])
        times.set_ylim(bottom=0)
        times.set_xlabel("turn")
    panels[0, 0].set_ylabel("tokens")
    panels[0, 0].legend()
    panels[1, 0].set_ylabel("seconds to the first token")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
