"""What agents and their tools do, for Prometheus: runs, turns, tokens, tool calls and how long each took."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from agentform.agent.observer import Done, Operation, Report, RunObserved, ToolObserved, TurnObserved
from agentform.telemetry.extras import needs, registering

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

__all__ = ["PrometheusObserver"]

_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)


class PrometheusObserver:
    """Counts what agents do: ``Agent(engine, observers=[PrometheusObserver()])``.

    One observer serves any number of agents; a second one on the same registry is refused.
    Labels are names of agents, models and tools, never what was said. An outcome is how a run ended
    (`RunResult.finish`), `ok` or `error`, or the class of the exception that ended the operation.
    """

    content = False

    def __init__(self, *, registry: CollectorRegistry | None = None) -> None:
        """Without `registry` the process-wide one of prometheus-client is used.

        Raises:
            InvalidInput: the registry has an observer already.
            MissingDependency: prometheus-client is not installed.
        """
        with needs("metrics", "prometheus-client"):
            from prometheus_client import REGISTRY, Counter, Histogram
        into: Any = {"registry": registry if registry is not None else REGISTRY}
        run, tool = ["agent", "model"], ["agent", "tool"]
        with registering("agents"):
            self._runs = Counter("agentform_agent_runs", "Runs by how they ended.", [*run, "outcome"], **into)
            self._run_s = Histogram("agentform_agent_run_seconds", "Time of a run.", run, buckets=_SECONDS, **into)
            self._turns = Counter("agentform_agent_turns", "Turns by how they ended.", [*run, "outcome"], **into)
            self._turn_s = Histogram("agentform_agent_turn_seconds", "Time of a turn.", run, buckets=_SECONDS, **into)
            self._tokens = Counter("agentform_agent_tokens", "Tokens by kind, see Usage.", [*run, "kind"], **into)
            self._calls = Counter("agentform_tool_calls", "Tool calls by how they ended.", [*tool, "outcome"], **into)
            self._tool_s = Histogram("agentform_tool_seconds", "Time of a tool call.", tool, buckets=_SECONDS, **into)

    @contextmanager
    def observe(self, operation: Operation) -> Generator[Report]:
        """See `Observer.observe`."""
        started = time.perf_counter()
        told: list[Done] = []
        outcome = "error"
        try:
            yield told.append
            outcome = (told[-1].finish if told else None) or "ok"
        except BaseException as error:
            outcome = type(error).__name__
            raise
        finally:
            self._count(operation, outcome, time.perf_counter() - started)
            if told and isinstance(operation, TurnObserved):
                self._count_tokens(operation, told[-1])

    def _count(self, operation: Operation, outcome: str, seconds: float) -> None:
        match operation:
            case RunObserved():
                self._runs.labels(operation.agent, operation.model, outcome).inc()
                self._run_s.labels(operation.agent, operation.model).observe(seconds)
            case TurnObserved():
                self._turns.labels(operation.agent, operation.model, outcome).inc()
                self._turn_s.labels(operation.agent, operation.model).observe(seconds)
            case ToolObserved():
                self._calls.labels(operation.agent, operation.tool, outcome).inc()
                self._tool_s.labels(operation.agent, operation.tool).observe(seconds)

    def _count_tokens(self, operation: TurnObserved, done: Done) -> None:
        for kind in ("prompt", "cached", "computed", "completion", "reasoning"):
            num = cast("int | None", getattr(done.usage, f"{kind}_tokens", None))
            if num is not None:
                self._tokens.labels(operation.agent, operation.model, kind).inc(num)
