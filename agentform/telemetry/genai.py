"""Agents as OpenTelemetry spans and metrics by the GenAI names; needs the packages of the extra "otel"."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agentform.agent.observer import Done, Operation, Report, RunObserved, ToolObserved, TurnObserved
from agentform.schema.json_text import dumps
from agentform.telemetry import names
from agentform.telemetry.content import input_messages, output_messages, tool_definitions
from agentform.telemetry.extras import needs

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

__all__ = ["SCOPE", "OpenTelemetryObserver", "mark_failed"]

SCOPE = "agentform"
"""Name of the instrumentation scope, and of the provider of models that run in this process."""


class OpenTelemetryObserver:
    """Spans and metrics of agents: ``Agent(engine, observers=[OpenTelemetryObserver()])``.

    A run is a span `invoke_agent`, in it one `chat` for each turn of the model and one `execute_tool` for each tool;
    `gen_ai.client.operation.duration` and `gen_ai.client.token.usage` are recorded beside them.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        record_content: bool = False,
    ) -> None:
        """Without providers the global ones are used, which do nothing until an SDK is set up.

        With `record_content`, spans hold arguments, results, answers and the text of errors, which may hold secrets;
        without it they hold names, counts and the classes of errors.

        Raises:
            MissingDependency: OpenTelemetry is not installed.
        """
        with needs("otel", "opentelemetry-api"):
            from opentelemetry.metrics import get_meter
            from opentelemetry.trace import get_tracer
        self.content = record_content
        self._tracer = get_tracer(SCOPE, tracer_provider=tracer_provider)
        meter = get_meter(SCOPE, meter_provider=meter_provider)
        self._duration = meter.create_histogram(
            names.DURATION,
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=names.DURATION_BOUNDARIES,
        )
        self._tokens = meter.create_histogram(
            names.TOKEN_USAGE,
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=names.TOKEN_BOUNDARIES,
        )

    @contextmanager
    def observe(self, operation: Operation) -> Generator[Report]:
        """See `Observer.observe`."""
        labels = _labels(operation)
        started = time.perf_counter()
        told: list[Done] = []
        failed: str | None = None
        # The SDK's own way to note exceptions would put their text into the span.
        with self._tracer.start_as_current_span(
            _span_name(operation),
            attributes=labels | self._details(operation),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield told.append
                failed = told[-1].error if told else None
                if failed is not None:
                    mark_failed(span, failed)
            except BaseException as error:
                failed = type(error).__name__
                mark_failed(span, failed, error if self.content else None)
                raise
            finally:
                if told:
                    span.set_attributes(self._outcome(operation, told[-1]))
                self._measure(labels, failed, time.perf_counter() - started, told[-1] if told else None)

    def _details(self, operation: Operation) -> dict[str, Any]:
        """What goes into the span, but not into metrics: it takes too many values."""
        details: dict[str, Any] = {names.CONVERSATION: operation.conversation}
        match operation:
            case TurnObserved():
                details[names.STEP] = operation.step
                if self.content and operation.messages is not None:
                    details[names.INPUT_MESSAGES] = input_messages(operation.messages)
                if self.content and operation.tools:
                    details[names.TOOL_DEFINITIONS] = tool_definitions(operation.tools)
            case ToolObserved():
                details[names.TOOL_CALL_ID] = operation.call_id
                details[names.TOOL_DESCRIPTION] = operation.description
                details[names.TOOL_TYPE] = "function"
                if self.content and operation.arguments is not None:
                    details[names.TOOL_ARGUMENTS] = dumps(operation.arguments)
            case RunObserved():
                pass
        return details

    def _outcome(self, operation: Operation, done: Done) -> dict[str, Any]:
        found = usage_of(done)
        if done.finish is not None and not isinstance(operation, ToolObserved):
            found[names.FINISH_REASONS] = [names.finish_reason(done.finish, calls=bool(done.calls))]
            found[names.FINISH] = done.finish
        if self.content and done.content is not None:
            tool = isinstance(operation, ToolObserved)
            told = done.content if tool else output_messages(done)
            found[names.TOOL_RESULT if tool else names.OUTPUT_MESSAGES] = told
        return found

    def _measure(self, labels: dict[str, str], failed: str | None, seconds: float, done: Done | None) -> None:
        labelled = labels | ({names.ERROR_TYPE: failed} if failed is not None else {})
        self._duration.record(seconds, labelled)
        if labels[names.OPERATION] != "chat" or done is None or done.usage is None:
            return  # a run's tokens are those of its turns
        self._tokens.record(done.usage.prompt_tokens, labels | {names.TOKEN_TYPE: "input"})
        self._tokens.record(done.usage.completion_tokens, labels | {names.TOKEN_TYPE: "output"})


def mark_failed(span: Span, kind: str, error: BaseException | None = None) -> None:
    """Give a span the status of an error of class `kind`; its text and traceback only if `error` is given."""
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute(names.ERROR_TYPE, kind)
    span.set_status(Status(StatusCode.ERROR, None if error is None else str(error)))
    if error is not None:
        span.record_exception(error)


def usage_of(done: Done) -> dict[str, Any]:
    """The usage as span attributes, if there is one."""
    return names.usage_attributes(done.usage) if done.usage is not None else {}


def _labels(operation: Operation) -> dict[str, str]:
    common = {names.PROVIDER: SCOPE, names.AGENT: operation.agent}
    match operation:
        case RunObserved():
            return common | {names.OPERATION: "invoke_agent", names.REQUEST_MODEL: operation.model}
        case TurnObserved():
            return common | {names.OPERATION: "chat", names.REQUEST_MODEL: operation.model}
        case ToolObserved():
            return common | {names.OPERATION: "execute_tool", names.TOOL: operation.tool}


def _span_name(operation: Operation) -> str:
    match operation:
        case RunObserved():
            return f"invoke_agent {operation.agent}"
        case TurnObserved():
            return f"chat {operation.model}"
        case ToolObserved():
            return f"execute_tool {operation.tool}"
