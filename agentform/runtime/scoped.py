"""An engine as one of several clients sees it who must learn nothing of each other."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar

from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.engine import Chunk, Engine, GenerateRequest, ModelInfo, ScoreRequest, ScoreResult, Tokenizer

__all__ = ["ScopedEngine"]

R = TypeVar("R", GenerateRequest, ScoreRequest)


class ScopedEngine:
    """Implements `Engine` for one client: names of conversations are its own, and so are, unless it shares them, the
    prefix cache, compiled grammars and what is kept by the model's digest, such as priors.

    Closing it closes nothing: the engine belongs to all.
    """

    def __init__(self, engine: Engine, client: str, *, share_cache: bool = False) -> None:
        self._engine = engine
        self.priors: object = getattr(engine, "priors", None)
        """The engine's; keys hold the digest, so this client's are its own."""
        self._client = client
        self._salt = "" if share_cache else client
        self._info = engine.info if share_cache else replace(engine.info, digest=f"{engine.info.digest}/{client}")

    @property
    def info(self) -> ModelInfo:
        """The model; its digest is this client's, unless the cache is shared."""
        return self._info

    @property
    def tokenizer(self) -> Tokenizer:
        """See `Engine.tokenizer`."""
        return self._engine.tokenizer

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        """See `Engine.generate`."""
        async with aclosing(self._engine.generate(self._mine(request))) as chunks:
            async for chunk in chunks:
                yield chunk

    async def score(self, request: ScoreRequest) -> ScoreResult:
        """See `Engine.score`."""
        return await self._engine.score(self._mine(request))

    def expect_return(self, conversation: str, *, after: str) -> None:
        """See `Engine.expect_return`."""
        self._engine.expect_return(self._named(conversation), after=after)

    def statistics(self) -> CacheStatistics:
        """Those of the whole engine."""
        return self._engine.statistics()

    async def aclose(self) -> None:
        """Does nothing."""

    def _mine(self, request: R) -> R:
        conversation = None if request.conversation is None else self._named(request.conversation)
        mine = replace(request, cache_salt=self._salt, conversation=conversation)
        if isinstance(mine, GenerateRequest) and mine.grammar is not None and self._salt:
            mine = replace(mine, grammar=replace(mine.grammar, owner=self._salt))
        return mine

    def _named(self, conversation: str) -> str:
        return f"{self._client}/{conversation}"
