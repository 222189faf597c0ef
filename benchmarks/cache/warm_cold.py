"""The same request with a warm and with a cold cache, in bfloat16: how many calls and answers differ."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from rich.progress import track

from agentform import Agent, PriorStore, load_engine
from agentform.cli.demo.desk import INSTRUCTIONS, SupportDesk
from agentform.cli.demo.run import LIMITS, REASONING
from agentform.cli.demo.script import default_script, read_script
from agentform.errors import CallError
from agentform.runtime.engine import Engine
from benchmarks.common.harness import Context

__all__ = ["run"]

_BUDGET_BYTES = 200_000_000


def run(context: Context) -> None:
    """Every demo message, twice on one engine and once each on a fresh engine."""
    messages = [message for customer in read_script(default_script()) for message in customer]
    messages = messages[:4] if context.quick else messages
    warm_engine, priors = _engine(), PriorStore()
    first = [_ask(warm_engine, message, priors) for message in messages]
    warm = [_ask(warm_engine, message, priors) for message in messages]
    cold = [_cold(message, priors) for message in track(messages, "cold engines", console=context.console)]
    figures: dict[str, Any] = {
        "requests": len(messages),
        "calls_differ": sum(a[0] != b[0] for a, b in zip(warm, cold, strict=True)),
        "answers_differ": sum(a[1] != b[1] for a, b in zip(warm, cold, strict=True)),
        "calls_differ_when_first_asked": sum(a[0] != b[0] for a, b in zip(first, cold, strict=True)),
    }
    context.console.print(figures)
    context.write(figures)


def _engine() -> Any:
    return load_engine("smollm2-135m", engine="torch", kv_budget_bytes=_BUDGET_BYTES)


def _cold(message: str, priors: PriorStore) -> tuple[Any, str]:
    engine = _engine()
    try:
        return _ask(engine, message, priors)
    finally:
        engine.close()


def _ask(engine: Engine, message: str, priors: PriorStore) -> tuple[Any, str]:
    """The calls and the answer, from a desk of its own so that no tool's result depends on what came before."""
    with tempfile.TemporaryDirectory() as folder:
        desk = SupportDesk(Path(folder) / "desk.sqlite")
        agent = Agent(
            engine, tools=desk.tools(), instructions=INSTRUCTIONS, limits=LIMITS, reasoning=REASONING, priors=priors
        )
        try:
            result = agent.run_sync(message)
        except CallError as error:
            return type(error).__name__, ""
    return [(call.name, dict(call.arguments)) for call in result.calls], result.output
