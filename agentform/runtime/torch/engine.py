"""The embedded engine: any causal language model of transformers, attention-only or hybrid, on CPU or CUDA."""

from __future__ import annotations

import time
import weakref
from collections.abc import AsyncGenerator
from pathlib import Path
from types import TracebackType
from typing import cast

import anyio.to_thread
import torch

from agentform.errors import CacheBudgetExceeded, ContextOverflow, EngineError, InvalidRequest
from agentform.grammar.compile import CompiledGrammar, Compiler
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.store import GrammarStore
from agentform.grammar.vocabulary import Vocabulary
from agentform.runtime.cache.disk_index import DiskIndex
from agentform.runtime.cache.prefix_cache import PrefixCache
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.engine import Chunk, GenerateRequest, ModelInfo, ScoreRequest, ScoreResult, Tokenizer
from agentform.runtime.paths import cache_home
from agentform.runtime.scoring_file import read_scoring
from agentform.runtime.torch.budget import MemoryPlan, default_budget_bytes
from agentform.runtime.torch.disk_tier import DiskTier
from agentform.runtime.torch.generate_job import GenerateJob
from agentform.runtime.torch.job import Job
from agentform.runtime.torch.loaded_model import LoadedModel, load
from agentform.runtime.torch.mailbox import Mailbox
from agentform.runtime.torch.model_runner import ModelRunner
from agentform.runtime.torch.sampling import Sampler
from agentform.runtime.torch.scheduler import Scheduler
from agentform.runtime.torch.score_job import ScoreJob
from agentform.runtime.torch.snapshot_codec import SnapshotCodec
from agentform.runtime.torch.worker import Worker

__all__ = ["TorchEngine"]

_MOST_BRANCH_STATES = 32
"""Branch tokens of one score in one step, for models with recurrent layers: each has a state while a layer runs."""


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
        kv_budget_bytes: int | None = None,
        max_batch_tokens: int = 512,
        num_slots: int = 8,
        codec: SnapshotCodec | None = None,
        reuse_prefixes: bool = True,
        cache_dir: Path | str | None = None,
        disk_limit_bytes: int = 8 << 30,
        max_overtaken: int = 16,
        max_wait_s: float = 10.0,
        num_threads: int | None = None,
    ) -> None:
        """Load a model folder, or take a loaded model (then `name`, `dtype` and `device` are its own).

        `name` is what `info` shows, by default the folder's. `dtype` is by default bfloat16 where the device
        computes in it, else float32; `device` CUDA where there is one, else the CPU.
        `kv_budget_bytes` is by default 1 GiB, or a quarter of the free memory if that is less.
        It covers the KV, and for models with recurrent layers their `num_slots` live states, their snapshots (written
        by `codec`, exactly by default) and copies of states while a layer runs.
        With `cache_dir` ends of turns are kept there, up to `disk_limit_bytes`, and outlive the engine; several
        engines and processes may share a folder.
        Without `reuse_prefixes` every request starts from nothing: what the cache is measured against.
        `max_batch_tokens` bounds the prompt and branch tokens of one step.
        Of the requests that wait, those with the warmest prompts run first; none is overtaken by more than
        `max_overtaken` others, and none at all once it has waited for `max_wait_s`.
        Raises EngineError (CacheBudgetExceeded, WeightsCorrupt, ...) if the model cannot be served.
        """
        if not isinstance(model, LoadedModel):
            folder = Path(model)
            model = load(folder, name=name or folder.name, dtype=dtype, device=_device(device))
        if max_batch_tokens < 1:
            raise InvalidRequest("max_batch_tokens must be at least 1")
        budget = default_budget_bytes(model.model.device) if kv_budget_bytes is None else kv_budget_bytes
        branches = min(max_batch_tokens, _MOST_BRANCH_STATES)
        runner = ModelRunner(
            model.model, kv_budget_bytes=budget, num_slots=num_slots, num_branches=branches, codec=codec
        )
        config = model.model.config.get_text_config()
        self._tokenizer = model.tokenizer
        self._info = ModelInfo(
            name=model.name,
            digest=model.digest,
            context_tokens=config.max_position_embeddings,
            vocabulary_size=config.vocab_size,
            scoring=read_scoring(model.digest),
        )
        self._device = runner.device
        self._max_tree_tokens = branches if runner.is_recurrent else max_batch_tokens
        self._compiler: Compiler | None = None
        self._plan = runner.plan
        self._cache = PrefixCache(
            runner.plan.num_positions,
            budget_bytes=budget,
            position_bytes=runner.plan.position_bytes,
            snapshot_positions=runner.plan.snapshot_positions,
            num_slots=runner.plan.num_slots,
            reuse=reuse_prefixes,
        )
        scheduler = Scheduler(
            self._cache,
            runner.compute,
            max_batch_tokens=max_batch_tokens,
            save_state=runner.save_state,
            max_overtaken=max_overtaken,
            max_wait_s=max_wait_s,
            disk=self._disk_tier(runner, Path(cache_dir), disk_limit_bytes) if cache_dir is not None else None,
        )
        self._worker = Worker(scheduler, prepare_thread=lambda: _use_threads(num_threads))
        self._finalizer = weakref.finalize(self, self._worker.close)

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
        started = time.monotonic()
        self._check_generate(request)
        mailbox: Mailbox[Chunk] = Mailbox()
        grammar = await self._compiled(request.grammar) if request.grammar is not None else None
        job = self._generate_job(request, mailbox, grammar, started)
        self._submit(job)
        try:
            while True:
                chunk = await mailbox.get()
                yield chunk
                if chunk.finish is not None:
                    return
        finally:
            self._worker.cancel(job)

    async def score(self, request: ScoreRequest) -> ScoreResult:
        """See `Engine.score`."""
        started = time.monotonic()
        self._check_score(request)
        mailbox: Mailbox[ScoreResult] = Mailbox()
        job = ScoreJob(
            request,
            mailbox=mailbox,
            deadline=_deadline(started, request.deadline_s),
            max_tree_tokens=self._max_tree_tokens,
        )
        self._submit(job)
        try:
            return await mailbox.get()
        finally:
            self._worker.cancel(job)

    def statistics(self) -> CacheStatistics:
        """A snapshot of the prefix cache's counters."""
        return self._cache.statistics()

    @property
    def memory_plan(self) -> MemoryPlan:
        """How the budget was divided at the start."""
        return self._plan

    def integrity(self) -> None:
        """Assert that every KV position has exactly one owner; for tests and debugging."""
        self._worker.call(self._cache.integrity)

    def worker_is_busy(self) -> bool:
        """Whether any request is queued or running; for tests and debugging."""
        return self._worker.call(self._worker.has_requests)

    async def aclose(self) -> None:
        """Stop serving; requests in flight end with EngineClosed. Closing twice is harmless."""
        await anyio.to_thread.run_sync(self.close)

    def close(self) -> None:
        """The same as `aclose`, for code without an event loop."""
        self._finalizer()

    async def __aenter__(self) -> TorchEngine:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _disk_tier(self, runner: ModelRunner, folder: Path, limit_bytes: int) -> DiskTier:
        """Raises EngineError if the folder cannot be used."""
        guard = f"{self._info.digest}/{runner.codec_name}/{runner.dtype}/{runner.plan.position_bytes}"
        try:
            index = DiskIndex(folder, guard=guard, whole=runner.is_recurrent, limit_bytes=limit_bytes)
        except OSError as error:
            raise EngineError(f"the cache folder {folder} cannot be used: {error}") from error
        return DiskTier(index, self._cache, runner, guard=guard)

    def _generate_job(
        self,
        request: GenerateRequest,
        mailbox: Mailbox[Chunk],
        grammar: CompiledGrammar | None,
        started: float,
    ) -> GenerateJob:
        return GenerateJob(
            request,
            mailbox=mailbox,
            deadline=_deadline(started, request.deadline_s),
            sampler=Sampler(request.sampling, self._device),
            matcher=grammar.matcher() if grammar is not None else None,
            token_bytes=self._tokenizer.token_bytes,
            eos_ids=self._tokenizer.eos_ids,
            vocabulary_size=min(self._info.vocabulary_size, self._tokenizer.vocabulary_size),
            context_tokens=self._info.context_tokens,
        )

    def _submit(self, job: Job) -> None:
        if job.done:
            return
        need = len(job.ids) + job.extra_tokens
        if need > self._cache.capacity:
            raise CacheBudgetExceeded(
                f"the request may need {need:,} cached tokens; the budget of "
                f"{self._cache.statistics().budget_bytes:,} bytes holds {self._cache.capacity:,}"
            )
        self._worker.submit(job)

    async def _compiled(self, spec: GrammarSpec) -> CompiledGrammar:
        """Off the event loop, unless it is at hand: a big schema takes hundreds of milliseconds."""
        found = self._compiler.cached(spec) if self._compiler is not None else None
        return found or await anyio.to_thread.run_sync(self._compile, spec)

    def _compile(self, spec: GrammarSpec) -> CompiledGrammar:
        if self._compiler is None:
            size = min(self._info.vocabulary_size, self._tokenizer.vocabulary_size)
            vocabulary = Vocabulary(self._tokenizer.tokenizer_json, size=size, eos_ids=self._tokenizer.eos_ids)
            self._compiler = Compiler(vocabulary, store=GrammarStore(cache_home() / "grammars"))
        return self._compiler.compile(spec)

    def _check_generate(self, request: GenerateRequest) -> None:
        self._check_ids(request.prompt_ids, "prompt")
        if request.max_tokens < 0:
            raise InvalidRequest(f"max_tokens is {request.max_tokens}")
        if request.sampling.temperature < 0 or not 0 < request.sampling.top_p <= 1:
            raise InvalidRequest(f"temperature must be at least 0 and top_p in (0, 1]: {request.sampling}")
        if len(request.prompt_ids) >= self._info.context_tokens:
            raise ContextOverflow(prompt_tokens=len(request.prompt_ids), context_tokens=self._info.context_tokens)

    def _check_score(self, request: ScoreRequest) -> None:
        self._check_ids(request.prompt_ids, "prompt")
        longest = 0
        for branch in request.branches:
            longest = max(longest, len(branch.path))
            if branch.path:
                self._check_ids(branch.path, "branch")
            self._check_ids(branch.candidates, "candidates")
        if len(request.prompt_ids) + longest > self._info.context_tokens:
            raise ContextOverflow(
                prompt_tokens=len(request.prompt_ids),
                completion_tokens=longest,
                context_tokens=self._info.context_tokens,
            )

    def _check_ids(self, ids: tuple[int, ...], what: str) -> None:
        if not ids:
            raise InvalidRequest(f"empty {what}")
        if min(ids) < 0 or max(ids) >= self._info.vocabulary_size:
            raise InvalidRequest(f"{what} has token ids outside [0, {self._info.vocabulary_size})")


def _device(asked: torch.device | str | None) -> torch.device:
    return torch.device(asked or ("cuda" if torch.cuda.is_available() else "cpu"))


def _deadline(started: float, seconds: float | None) -> float | None:
    return None if seconds is None else started + seconds


def _use_threads(num: int | None) -> None:
    if num is not None:
        torch.set_num_threads(num)
