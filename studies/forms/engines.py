"""The engine under test, with two things more than it ships: every token sampled, and a record of what was scored."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from agentform.grammar.compile import CompiledGrammar
from agentform.grammar.matcher import Forced, Matcher
from agentform.runtime.engine import Chunk, GenerateRequest, ScoreRequest, ScoreResult
from agentform.runtime.models.resolve import resolve_model
from agentform.runtime.preparation import Preparation
from agentform.runtime.scheduling.generation import GenerateJob
from agentform.runtime.thread_channel import Mailbox
from agentform.runtime.torch.engine import TorchEngine

__all__ = ["MODEL", "BenchEngine"]

MODEL = "smollm2-135m"


class BenchEngine(TorchEngine):
    """`TorchEngine` that can also decode as plain masking does, and that keeps what it was asked to score."""

    skip_forced = True
    """False: every token is sampled, forced or not."""

    @classmethod
    def load(cls, **options: Any) -> BenchEngine:
        """The demo model, loaded as `load_engine` does."""
        return cls(resolve_model(MODEL), name=MODEL, **options)

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.scored: list[ScoreRequest] = []
        """Score requests since the list was last cleared."""

    async def score(self, request: ScoreRequest) -> ScoreResult:
        """See `Engine.score`."""
        self.scored.append(request)
        return await super().score(request)

    def _generate_job(self, request: GenerateRequest, mailbox: Mailbox[Chunk], prepared: Preparation) -> GenerateJob:
        grammar = prepared.grammar
        if grammar is not None and not self.skip_forced:
            every = _EveryToken(**{item.name: getattr(grammar, item.name) for item in fields(grammar)})
            prepared = replace(prepared, grammar=every)
        return super()._generate_job(request, mailbox, prepared)


@dataclass(frozen=True, kw_only=True)
class _EveryToken(CompiledGrammar):
    def matcher(self) -> Matcher:
        return _NothingForced(self.prototype.deep_copy(), self.vocabulary)


class _NothingForced(Matcher):
    def forced(self) -> Forced:
        return Forced(ends=self._native.is_stopped())
