"""The embedded engine: any causal language model of transformers, attention-only or hybrid, on CPU or CUDA."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import torch

from agentform._util.threads import ENGINES
from agentform.grammar.compile import CompiledGrammar
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.engine import Chunk, GenerateRequest, ModelInfo, ScoreRequest, ScoreResult, Tokenizer
from agentform.runtime.grammar_cache import Grammars
from agentform.runtime.models.tuned_scoring import read_scoring
from agentform.runtime.preparation import Preparation, prepare_generation, prepare_score
from agentform.runtime.scheduling.generation import GenerateJob
from agentform.runtime.scheduling.prompt_lookup import PromptLookup
from agentform.runtime.scheduling.scoring import ScoreJob
from agentform.runtime.thread_channel import Mailbox
from agentform.runtime.torch.core import Serving
from agentform.runtime.torch.cpu.process_tuning import bound_kernel_caches, in_short_thread
from agentform.runtime.torch.cpu.select import Weights
from agentform.runtime.torch.forward.memory_plan import MemoryPlan
from agentform.runtime.torch.loaded_model import LoadedModel, load
from agentform.runtime.torch.options import EngineOptions
from agentform.runtime.torch.sampling import TorchSampler, logprobs

__all__ = ["TorchEngine"]


class TorchEngine:
    """Implements `agentform.runtime.engine.Engine`; also an async context manager.

    One worker thread owns the model. Any number of tasks, of any number of event loops, may use an engine at once.
    """

    def __init__(
        self,
        model: Path | str | LoadedModel,
        *,
        name: str | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        weights: Weights = "both",
        options: EngineOptions | None = None,
        **keywords: Any,
    ) -> None:
        """Load a model folder, or take a loaded model (then `name`, `dtype`, `device` and `weights` are its own).

        Args:
            model: The folder or the loaded model.
            name: What `info` shows, by default the folder's.
            dtype: By default bfloat16 where the device computes in it, else float32.
            device: By default CUDA where there is one, else the CPU.
            weights: Of weights that the folder has in 4 bits too, "both" keeps them for few tokens at a time beside
                wide ones for many; "four_bit" keeps nothing else, for a third of the memory and half the speed of
                prompts; "wide" leaves them out. All is "wide" where the folder has none, on CUDA, and in float32.
            options: All other settings.
            keywords: Fields of `EngineOptions`, which go before those of `options`.

        Raises:
            InvalidRequest: a setting is out of its range.
            EngineError: the model cannot be served; CacheBudgetExceeded and WeightsCorrupt among them.
            TypeError: there is no such setting.
        """
        options = replace(options or EngineOptions(), **keywords)
        bound_kernel_caches()
        if not isinstance(model, LoadedModel):
            folder, on = Path(model), _device(device)
            called = name or folder.name
            model = in_short_thread(lambda: load(folder, name=called, dtype=dtype, device=on, weights=weights))
        self._guesses = options.guess_tokens
        self._tokenizer = tokenizer = model.tokenizer
        self._info = _info(model)
        self._size = min(self._info.vocabulary_size, self._tokenizer.vocabulary_size)
        self._grammars = Grammars(tokenizer.for_grammars, vocabulary_size=self._size, eos_ids=lambda: tokenizer.eos_ids)
        self._serving = in_short_thread(lambda: Serving(model, options))
        self._finalizer = weakref.finalize(self, self._serving.close)

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
        self._serving.submit(job)
        try:
            while True:
                chunk = await mailbox.get()
                yield chunk
                if chunk.finish is not None:
                    return
        finally:
            self._serving.cancel(job)

    async def score(self, request: ScoreRequest) -> ScoreResult:
        """See `Engine.score`."""
        deadline = prepare_score(request, self._info)
        mailbox: Mailbox[ScoreResult] = Mailbox()
        job = ScoreJob(
            request,
            mailbox=mailbox,
            deadline=deadline,
            max_tree_tokens=self._serving.max_tree_tokens,
            logprobs=logprobs,
        )
        self._serving.submit(job)
        try:
            return await mailbox.get()
        finally:
            self._serving.cancel(job)

    def expect_return(self, conversation: str, *, after: str) -> None:
        """See `Engine.expect_return`."""
        self._serving.expect_return(conversation, after)

    def statistics(self) -> CacheStatistics:
        """A snapshot of the prefix cache's counters."""
        return self._serving.statistics()

    @property
    def memory_plan(self) -> MemoryPlan:
        """How the budget was divided at the start."""
        return self._serving.plan

    def integrity(self) -> None:
        """Assert that every KV position has exactly one owner; for tests and debugging."""
        self._serving.integrity()

    def worker_is_busy(self) -> bool:
        """Whether any request is queued or running; for tests and debugging."""
        return self._serving.is_busy()

    async def aclose(self) -> None:
        """Stop serving; requests in flight end with EngineClosed. Closing twice is harmless."""
        await ENGINES.run(self.close)

    def close(self) -> None:
        """The same as `aclose`, for code without an event loop."""
        self._finalizer()

    async def __aenter__(self) -> TorchEngine:
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
            sampler=TorchSampler(request.sampling, self._serving.device),
            matcher=grammar.matcher() if grammar is not None else None,
            lookup=self._lookup(grammar),
            token_bytes=self._tokenizer.token_bytes,
            eos_ids=self._tokenizer.eos_ids,
            vocabulary_size=self._size,
            context_tokens=self._info.context_tokens,
        )

    def _lookup(self, grammar: CompiledGrammar | None) -> PromptLookup | None:
        """Not for models with recurrent layers: their state cannot go back behind a wrong guess."""
        if not self._guesses or self._serving.is_recurrent:
            return None
        return PromptLookup(shortest_match=2 if grammar is None else 1)  # a grammar keeps most wrong guesses out


def _info(model: LoadedModel) -> ModelInfo:
    config = model.model.config.get_text_config()
    return ModelInfo(
        name=model.name,
        digest=model.digest,
        context_tokens=config.max_position_embeddings,
        vocabulary_size=config.vocab_size,
        scoring=read_scoring(model.digest),
    )


def _device(asked: torch.device | str | None) -> torch.device:
    return torch.device(asked or ("cuda" if torch.cuda.is_available() else "cpu"))
