"""An engine whose requests are spans: for `fill`, `decide`, and to see which requests a turn is made of."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any

from agentform.messages import Usage
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.engine import Chunk, Engine, GenerateRequest, ModelInfo, ScoreRequest, ScoreResult, Tokenizer
from agentform.telemetry import names
from agentform.telemetry.extras import needs
from agentform.telemetry.genai import SCOPE, mark_failed

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

__all__ = ["traced"]


def traced(
    engine: Engine, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> Engine:
    """`engine`, with a span for each request that it serves: `text_completion` for generate, `score` for score.

    `gen_ai.server.request.duration` and `gen_ai.server.time_to_first_token` are recorded. Prompts, completions and the
    text of errors never are. Without providers the global ones are used.

    Raises:
        MissingDependency: OpenTelemetry is not installed.
    """
    return _TracedEngine(engine, tracer_provider, meter_provider)


class _TracedEngine:
    """Implements `agentform.runtime.engine.Engine`."""

    def __init__(
        self, engine: Engine, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None
    ) -> None:
        with needs("otel", "opentelemetry-api"):
            from opentelemetry.metrics import get_meter
            from opentelemetry.trace import get_tracer
        self._engine = engine
        self.priors: object = getattr(engine, "priors", None)
        self._tracer = get_tracer(SCOPE, tracer_provider=tracer_provider)
        meter = get_meter(SCOPE, meter_provider=meter_provider)
        self._duration, self._first = (
            meter.create_histogram(
                name, unit="s", description=text, explicit_bucket_boundaries_advisory=names.DURATION_BOUNDARIES
            )
            for name, text in (
                (names.SERVER_DURATION, "Time of a request to the engine."),
                (names.TIME_TO_FIRST_TOKEN, "Time until the first token of a completion."),
            )
        )

    @property
    def info(self) -> ModelInfo:
        return self._engine.info

    @property
    def tokenizer(self) -> Tokenizer:
        return self._engine.tokenizer

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        started = time.perf_counter()
        waiting = True
        with self._span("text_completion", request) as (span, labels):
            span.set_attribute(names.MAX_TOKENS, request.max_tokens)
            async with aclosing(self._engine.generate(request)) as chunks:
                async for chunk in chunks:
                    if waiting and chunk.token_ids:
                        self._first.record(time.perf_counter() - started, labels)
                        waiting = False
                    _note(span, chunk.usage, chunk.finish)
                    yield chunk

    async def score(self, request: ScoreRequest) -> ScoreResult:
        with self._span("score", request) as (span, _):
            result = await self._engine.score(request)
            _note(span, result.usage, None)
            return result

    def expect_return(self, conversation: str, *, after: str) -> None:
        self._engine.expect_return(conversation, after=after)

    def statistics(self) -> CacheStatistics:
        return self._engine.statistics()

    async def aclose(self) -> None:
        await self._engine.aclose()

    @contextmanager
    def _span(self, operation: str, request: GenerateRequest | ScoreRequest) -> Generator[tuple[Span, dict[str, str]]]:
        """A span that is not made the current one: a stream's reader runs between its chunks."""
        model = self._engine.info.name
        labels = {names.OPERATION: operation, names.PROVIDER: SCOPE, names.REQUEST_MODEL: model}
        details: dict[str, Any] = dict(labels)
        if request.conversation is not None:
            details[names.CONVERSATION] = request.conversation
        started = time.perf_counter()
        span = self._tracer.start_span(f"{operation} {model}", attributes=details)
        failed: dict[str, str] = {}
        try:
            yield span, labels
        except GeneratorExit:  # the reader had enough
            raise
        except BaseException as error:
            failed = {names.ERROR_TYPE: type(error).__name__}
            mark_failed(span, type(error).__name__)
            raise
        finally:
            self._duration.record(time.perf_counter() - started, labels | failed)
            span.end()


def _note(span: Span, usage: Usage | None, finish: str | None) -> None:
    if usage is not None:
        span.set_attributes(names.usage_attributes(usage))
    if finish is not None:
        span.set_attribute(names.FINISH_REASONS, [names.finish_reason(finish, calls=False)])
        span.set_attribute(names.FINISH, finish)
