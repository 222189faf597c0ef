"""SGLang as an embedded engine: agentform starts it, speaks to it without a network, and ends it."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import anyio

from agentform._util.threads import ENGINES
from agentform.errors import CacheBudgetExceeded, ContextOverflow, DeadlineExceeded, EngineError, InvalidRequest
from agentform.grammar.compile import CompiledGrammar
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.engine import Chunk, GenerateRequest, ModelInfo, ScoreRequest, ScoreResult, Tokenizer
from agentform.runtime.grammar_cache import Grammars
from agentform.runtime.http.usage_totals import UsageTotals
from agentform.runtime.models.digest import digest_of
from agentform.runtime.models.tuned_scoring import read_scoring
from agentform.runtime.preparation import left_s, prepare_generation, prepare_score
from agentform.runtime.prior_store import PriorStore
from agentform.runtime.sglang.embedded.engine_snapshots import EngineSnapshots, Snapshots
from agentform.runtime.sglang.embedded.process import Pending, SGLangProcess
from agentform.runtime.sglang.wire.completion import Completion
from agentform.runtime.sglang.wire.grammars import llguidance_params, xgrammar_params
from agentform.runtime.sglang.wire.replies import ScoreReading
from agentform.runtime.sglang.wire.requests import (
    Body,
    generate_body,
    most_new_tokens,
    plan_score,
    score_body,
    warm_body,
)
from agentform.runtime.sglang.wire.versions import check_version
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer

__all__ = ["SGLangEngine"]

_OURS = ("model_path", "skip_tokenizer_init", "custom_sigquit_handler", "incremental_streaming_output")
"""Server arguments that are not the user's to set."""


class SGLangEngine:
    """Implements `agentform.runtime.engine.Engine`; also an async context manager.

    SGLang runs in processes of its own, which live as long as the engine. Any number of tasks, of any number of event
    loops, may use an engine at once. A grammar is compiled here too and followed beside SGLang, so that a completion
    ends exactly where the embedded engine would end it.
    """

    def __init__(
        self, model: Path | str, *, name: str | None = None, snapshots: Snapshots | None = None, **server_args: Any
    ) -> None:
        """Start SGLang on a model folder and wait until it serves, which takes from 20 seconds on.

        `name` is what `info` shows, by default the folder's. `snapshots` says how the states of a hybrid model are
        kept (a policy or its name, or `SnapshotSettings`), by default SGLang's own way: see docs/sglang_snapshots.md.
        `server_args` are those of SGLang's own `ServerArgs`. Its defaults hold but for `grammar_backend`, which is
        llguidance since it alone reads every grammar that agentform makes, and `sleep_on_idle`, so that its scheduler
        holds no core while nobody asks; without a GPU also for what SGLang needs to run on a CPU.

        Raises:
            MissingDependency: SGLang is not installed.
            InvalidRequest: for arguments that agentform sets.
            EngineError: SGLang did not start.
        """
        check_version()
        if refused := [key for key in _OURS if key in server_args]:
            raise InvalidRequest(f"agentform sets SGLang's {', '.join(refused)} itself")
        folder = Path(model)
        self._tokenizer = tokenizer = HFTokenizer(folder)
        self._snapshots = EngineSnapshots(snapshots)
        self._process = SGLangProcess({**server_args, "model_path": str(folder)}, self._snapshots.environment)
        self._finalizer = weakref.finalize(self, self._process.close)
        self._check_snapshots()
        facts = self._process.facts
        self._info = _info(name or folder.name, folder, facts)
        self._prompt_limit: int = facts["prompt_limit_tokens"]
        self._capacity: int = facts["capacity_tokens"]
        self._reads_lark = facts["grammar_backend"] == "llguidance"
        self._grammars = Grammars(
            (folder / "tokenizer.json").read_text,  # as SGLang has it, so that both follow a grammar alike
            vocabulary_size=min(self._info.vocabulary_size, tokenizer.vocabulary_size),
            eos_ids=lambda: tokenizer.eos_ids,
        )
        self._counts = UsageTotals(capacity_tokens=self._capacity)
        self.priors = PriorStore()
        """Label priors of this model; `load_engine` keeps them on disk too."""

    @property
    def info(self) -> ModelInfo:
        """The model being served."""
        return self._info

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return cast("Tokenizer", self._tokenizer)  # its cached properties are properties, to all but the type checker

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        """See `Engine.generate`. Tokens that the grammar forces are sampled and counted as any others."""
        prepared = await prepare_generation(request, self._info, self._grammars)
        grammar = prepared.grammar
        body = self._body(request, grammar)
        completion = Completion(
            request,
            token_bytes=self._tokenizer.token_bytes,
            eos_ids=self._tokenizer.eos_ids,
            matcher=grammar.matcher() if grammar is not None and self._reads_lark else None,
        )
        if (whole := completion.begin()) is not None:
            yield self._counted(whole, request)
            return
        pending = self._process.submit(body)
        try:
            while not completion.done:
                if (chunk := await _next_chunk(pending, completion, prepared.deadline)) is not None:
                    yield self._counted(chunk, request)
        finally:
            self._process.abort(pending)

    async def score(self, request: ScoreRequest) -> ScoreResult:
        """See `Engine.score`."""
        deadline = prepare_score(request, self._info)
        self._check_room(len(request.prompt_ids) + max((len(branch.path) for branch in request.branches), default=0))
        plan = plan_score(request)
        reading = ScoreReading(request)
        with anyio.move_on_after(left_s(deadline)) as scope:
            if plan.warm:
                reading.warmed(await self._ask(warm_body(request)))
            for batch in plan.batches:
                reading.answered(batch, await self._ask(score_body(request, batch)))
        if scope.cancelled_caught:
            raise DeadlineExceeded(f"the score of {len(request.branches)} branches was not done by its deadline")
        result = reading.result()
        self._counts.add(result.usage, request.conversation, request.prompt_ids)
        return result

    def expect_return(self, conversation: str, *, after: str) -> None:
        """Nothing: SGLang has no way to be told. Its cache forgets what was used longest ago."""

    def statistics(self) -> CacheStatistics:
        """What the replies said, added up; what SGLang keeps to itself is 0 or empty."""
        return self._snapshots.added_to(self._counts.statistics())

    @property
    def process_ids(self) -> tuple[int, ...]:
        """SGLang's processes; the first one is the parent of the others."""
        return tuple(self._process.facts["process_ids"])

    async def num_running(self) -> int:
        """Requests that SGLang has not let go of; for tests and debugging.

        Raises:
            EngineClosed: the engine is closed, or its worker died.
        """
        return await self._process.num_running()

    async def aclose(self) -> None:
        """End SGLang; requests in flight end with EngineClosed. Closing twice is harmless."""
        await ENGINES.run(self.close)

    def close(self) -> None:
        """`aclose` for code without an event loop."""
        self._finalizer()

    async def __aenter__(self) -> SGLangEngine:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _check_snapshots(self) -> None:
        try:
            self._snapshots.check_started()
        except EngineError:
            self.close()
            raise

    def _body(self, request: GenerateRequest, grammar: CompiledGrammar | None) -> Body:
        """What is sent for a completion.

        Raises:
            ContextOverflow: prompt and completion together do not fit the model's context.
            CacheBudgetExceeded: the request needs more than the budget, even with all else evicted.
            GrammarError: the grammar does not compile, or its matcher stops with an error.
        """
        params: dict[str, str] = {}
        if grammar is not None:
            params = llguidance_params(grammar) if self._reads_lark else xgrammar_params(grammar.spec)
        most = most_new_tokens(request, request.grammar, self._tokenizer.encode, self._info.context_tokens)
        self._check_room(len(request.prompt_ids), most)
        return generate_body(request, eos_ids=self._tokenizer.eos_ids, grammar=params, max_new_tokens=most)

    def _check_room(self, num_prompt: int, num_more: int = 0) -> None:
        if num_prompt >= self._prompt_limit and self._capacity >= self._info.context_tokens:
            raise ContextOverflow(prompt_tokens=num_prompt, context_tokens=self._prompt_limit)
        if num_prompt >= self._prompt_limit or num_prompt + num_more > self._capacity:
            raise CacheBudgetExceeded(
                f"the request may need {num_prompt + num_more:,} cached tokens; SGLang's pool holds "
                f"{self._capacity:,}, of which a prompt may take {self._prompt_limit - 1:,}"
            )

    async def _ask(self, body: Body) -> Any:
        pending = self._process.submit(body)
        try:
            return await pending.mailbox.get()
        finally:
            self._process.abort(pending)

    def _counted(self, chunk: Chunk, request: GenerateRequest) -> Chunk:
        if chunk.usage is not None:
            self._counts.add(chunk.usage, request.conversation, request.prompt_ids)
        return chunk


async def _next_chunk(pending: Pending, completion: Completion, deadline: float) -> Chunk | None:
    """What the next reply adds; the last chunk when the deadline comes first."""
    with anyio.move_on_after(left_s(deadline)):
        reply = await pending.mailbox.get()
        return completion.feed(reply if reply is not None else _CUT_SHORT)
    return completion.expire()


_CUT_SHORT: Mapping[str, Any] = {"meta_info": {"finish_reason": {"type": "abort", "message": "the stream ended"}}}


def _info(name: str, folder: Path, facts: Mapping[str, Any]) -> ModelInfo:
    digest = digest_of(folder, facts["dtype"])
    return ModelInfo(
        name=name,
        digest=digest,
        context_tokens=facts["context_tokens"],
        vocabulary_size=facts["vocabulary_size"],
        scoring=read_scoring(digest),
    )
