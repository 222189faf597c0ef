"""An engine that passes everything on to another one and keeps what was asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.engine import Chunk, Engine, GenerateRequest, ModelInfo, ScoreRequest, ScoreResult, Tokenizer

__all__ = ["WatchedEngine"]


class WatchedEngine:
    """Closing it leaves the other engine open."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.generated: list[GenerateRequest] = []
        self.scored: list[ScoreRequest] = []

    @property
    def info(self) -> ModelInfo:
        return self._engine.info

    @property
    def tokenizer(self) -> Tokenizer:
        return self._engine.tokenizer

    def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        self.generated.append(request)
        return self._engine.generate(request)

    async def score(self, request: ScoreRequest) -> ScoreResult:
        self.scored.append(request)
        return await self._engine.score(request)

    def expect_return(self, conversation: str, *, after: str) -> None:
        self._engine.expect_return(conversation, after=after)

    def statistics(self) -> CacheStatistics:
        return self._engine.statistics()

    async def aclose(self) -> None:
        pass
