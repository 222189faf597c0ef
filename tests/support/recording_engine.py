"""An engine with one answer for everything, which keeps what it was asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from agentform.messages import Usage
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.engine import Branch, Chunk, GenerateRequest, ModelInfo, ScoreRequest, ScoreResult, Tokenizer
from agentform.runtime.scripted.byte_tokenizer import ByteTokenizer

__all__ = ["RecordingEngine"]


def _alike(prompt: str, branch: Branch) -> tuple[float, ...]:
    return (-1.0,) * len(branch.candidates)


class RecordingEngine:
    """Writes `value` wherever a grammar asks for one and scores branches with `score_branch(prompt, branch)`."""

    def __init__(
        self,
        tokenizer: Tokenizer | None = None,
        *,
        value: str = "0",
        score_branch: Callable[[str, Branch], tuple[float, ...]] = _alike,
    ) -> None:
        self.tokenizer: Tokenizer = tokenizer or ByteTokenizer()
        self.info = ModelInfo(name="recording", digest="recording", context_tokens=10_000, vocabulary_size=100_000)
        self.generated: list[GenerateRequest] = []
        self.scored: list[ScoreRequest] = []
        self._value = value
        self._score_branch = score_branch

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        self.generated.append(request)
        assert request.grammar is not None
        yield Chunk(text=request.grammar.lead + self._value + request.grammar.follow)
        yield Chunk(finish="grammar", usage=Usage(completion_tokens=1))

    async def score(self, request: ScoreRequest) -> ScoreResult:
        self.scored.append(request)
        prompt = self.tokenizer.decode(request.prompt_ids)
        return ScoreResult(
            logprobs=tuple(self._score_branch(prompt, branch) for branch in request.branches),
            usage=Usage(prompt_tokens=len(request.prompt_ids)),
        )

    def expect_return(self, conversation: str, *, after: str) -> None:
        pass

    def statistics(self) -> CacheStatistics:
        return CacheStatistics()

    async def aclose(self) -> None:
        pass
