"""The two verbs of an engine whose requests run on the scheduler; what computes is given to it."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Self, cast

from agentform._util.threads import ENGINES
from agentform.grammar.compile import CompiledGrammar
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.engine import Chunk, GenerateRequest, ModelInfo, Sampling, ScoreRequest, ScoreResult, Tokenizer
from agentform.runtime.grammar_cache import Grammars
from agentform.runtime.preparation import Preparation, prepare_generation, prepare_score
from agentform.runtime.prior_store import PriorStore
from agentform.runtime.scheduling.core import Core
from agentform.runtime.scheduling.generation import GenerateJob
from agentform.runtime.scheduling.logits import LogProbs, Sampler
from agentform.runtime.scheduling.prompt_lookup import PromptLookup
from agentform.runtime.scheduling.scoring import ScoreJob
from agentform.runtime.thread_channel import Mailbox
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer

__all__ = ["ScheduledEngine"]


class ScheduledEngine:
    """Implements `agentform.runtime.engine.Engine`; also an async context manager.

    One worker thread owns the model. Any number of tasks, of any number of event loops, may use an engine at once.
    """

    def __init__(
        self,
        *,
        info: ModelInfo,
        tokenizer: HFTokenizer,
        core: Core,
        sampler: Callable[[Sampling], Sampler],
        logprobs: LogProbs,
        guess_tokens: bool,
        close: Callable[[], None],
    ) -> None:
        """`close` is called once, at the latest when nobody holds the engine any more."""
        self._info = info
        self.priors = PriorStore()
        """Label priors of this model; `load_engine` keeps them on disk too."""
        self._tokenizer = tokenizer
        self._core = core
        self._sampler = sampler
        self._logprobs = logprobs
        self._guesses = guess_tokens
        self._size = min(info.vocabulary_size, tokenizer.vocabulary_size)
        self._grammars = Grammars(tokenizer.for_grammars, vocabulary_size=self._size, eos_ids=lambda: tokenizer.eos_ids)
        self._finalizer = weakref.finalize(self, close)

    @property
    def info(self) -> ModelInfo:
        """The model being served."""
        return self._info

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return cast("Tokenizer", self._tokenizer)  # its cached properties are properties, to all but the type checker

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        """See `Engine.generate`."""
        prepared = await prepare_generation(request, self._info, self._grammars)
        mailbox: Mailbox[Chunk] = Mailbox()
        job = self._generate_job(request, mailbox, prepared)
        self._core.submit(job)
        try:
            while True:
                chunk = await mailbox.get()
                yield chunk
                if chunk.finish is not None:
                    return
        finally:
            self._core.cancel(job)

    async def score(self, request: ScoreRequest) -> ScoreResult:
        """See `Engine.score`."""
        deadline = prepare_score(request, self._info)
        mailbox: Mailbox[ScoreResult] = Mailbox()
        job = ScoreJob(
            request,
            mailbox=mailbox,
            deadline=deadline,
            max_tree_tokens=self._core.max_tree_tokens,
            max_tree_ends=self._core.max_tree_ends,
            logprobs=self._logprobs,
        )
        self._core.submit(job)
        try:
            return await mailbox.get()
        finally:
            self._core.cancel(job)

    def expect_return(self, conversation: str, *, after: str) -> None:
        """See `Engine.expect_return`."""
        self._core.expect_return(conversation, after)

    def statistics(self) -> CacheStatistics:
        """A snapshot of the prefix cache's counters."""
        return self._core.statistics()

    def integrity(self) -> None:
        """Assert that every KV position has exactly one owner; for tests and debugging."""
        self._core.integrity()

    def worker_is_busy(self) -> bool:
        """Whether any request is queued or running; for tests and debugging."""
        return self._core.is_busy()

    async def aclose(self) -> None:
        """Stop serving; requests in flight end with EngineClosed. Closing twice is harmless."""
        await ENGINES.run(self.close)

    def close(self) -> None:
        """`aclose` for code without an event loop."""
        self._finalizer()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _generate_job(self, request: GenerateRequest, mailbox: Mailbox[Chunk], prepared: Preparation) -> GenerateJob:
        grammar = prepared.grammar
        return GenerateJob(
            request,
            mailbox=mailbox,
            deadline=prepared.deadline,
            sampler=self._sampler(request.sampling),
            matcher=grammar.matcher() if grammar is not None else None,
            lookup=self._lookup(grammar),
            token_bytes=self._tokenizer.token_bytes,
            eos_ids=self._tokenizer.eos_ids,
            vocabulary_size=self._size,
            context_tokens=self._info.context_tokens,
        )

    def _lookup(self, grammar: CompiledGrammar | None) -> PromptLookup | None:
        """Not for models with recurrent layers: their state cannot go back after a wrong guess."""
        if not self._guesses or self._core.is_recurrent:
            return None
        return PromptLookup(shortest_match=2 if grammar is None else 1)  # a grammar keeps most wrong guesses out
