"""One run's dealings with the engine: its deadline, its conversation id and what it has used."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar

import anyio

from agentform.decoding.limits import Deadline, Limits
from agentform.errors import DeadlineExceeded
from agentform.grammar.spec import GrammarSpec
from agentform.messages import Usage
from agentform.runtime.engine import Branch, Chunk, Engine, GenerateRequest, Sampling, ScoreRequest

__all__ = ["Session"]

T = TypeVar("T")


class Session:
    """Sends requests and adds up their usage. Made inside a running event loop, for one run."""

    def __init__(
        self,
        engine: Engine,
        *,
        limits: Limits,
        conversation: str | None = None,
        sampling: Sampling | None = None,
    ) -> None:
        self.engine = engine
        self.tokenizer = engine.tokenizer
        self.limits = limits
        self.turn_usage = Usage()
        """What the current turn has used."""
        self.prompt_usage: Usage | None = None
        """What the request used that read the current turn's prompt first; later ones read it again from the cache."""
        self.call_usage = Usage()
        """What the current call of the turn has used, the free text before the first one included."""
        self._usage_before = Usage()
        self._branch_off: int | None = None
        self._ends = engine.tokenizer.eos_ids
        self._deadline = Deadline(limits.deadline_s)
        self._conversation = conversation
        self._sampling = sampling or Sampling()
        self._num_generated = 0

    @property
    def usage(self) -> Usage:
        """What the run has used so far."""
        return self._usage_before + self.turn_usage

    def begin_turn(self) -> None:
        """Count `turn_usage` and `call_usage` from here."""
        self._usage_before, self.turn_usage, self.prompt_usage = self.usage, Usage(), None
        self._branch_off = None
        self.begin_call()

    def begin_call(self) -> None:
        """Count `call_usage` from here."""
        self.call_usage = Usage()

    def charge(self, usage: Usage) -> None:
        """Add what was used on behalf of the current turn."""
        self.turn_usage += usage
        self.call_usage += usage

    def branch_off(self, num_tokens: int) -> None:
        """Say that the prompts of later turns go another way after so many tokens of this turn's."""
        self._branch_off = num_tokens

    def move_to(self, engine: Engine) -> None:
        """Send further requests to another engine."""
        self.engine, self.tokenizer, self._ends = engine, engine.tokenizer, engine.tokenizer.eos_ids

    def expect_return(self, *, after: str) -> None:
        """Say that the conversation is back after the call of a tool with this name."""
        if self._conversation is not None:
            self.engine.expect_return(self._conversation, after=after)

    def count_reasoning(self, num_tokens: int) -> None:
        """Say that so many of the turn's completion tokens were reasoning."""
        self.charge(Usage(reasoning_tokens=num_tokens))

    async def score(
        self, prompt_ids: Sequence[int], branches: Sequence[Branch], *, aside: bool = False
    ) -> tuple[tuple[float, ...], ...]:
        """Natural-log probabilities, one tuple per branch, in the order of its candidates.

        `aside`: the prompt is not the conversation's, so that the cache does not take it for the next of its prompts.

        Raises:
            EngineError: the engine cannot serve the request; DeadlineExceeded among them.
        """
        request = ScoreRequest(
            prompt_ids=tuple(prompt_ids),
            branches=tuple(branches),
            boundaries=self._boundaries(prompt_ids),
            deadline_s=self._deadline.remaining_s(),
            conversation=None if aside else self._conversation,
            aside=aside,
        )
        try:
            result = await self.engine.score(request)
        except DeadlineExceeded as error:  # the engine knows what was left, not what the run was given
            raise self._deadline.exceeded() from error
        self._count(result.usage)
        return result.logprobs

    async def generate(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        stop: Sequence[str] = (),
        grammar: GrammarSpec | None = None,
    ) -> AsyncGenerator[Chunk, None]:
        """Stream a completion, within what the limits leave of the run's tokens. Whoever may leave it early has to
        close it.

        Raises:
            EngineError: the engine cannot serve the request; DeadlineExceeded at the deadline.
            GrammarError: the grammar cannot be compiled.
        """
        request = GenerateRequest(
            prompt_ids=tuple(prompt_ids),
            max_tokens=self._within_budget(max_tokens),
            sampling=self._next_sampling(),
            stop=tuple(stop),
            grammar=grammar,
            boundaries=self._boundaries(prompt_ids),
            deadline_s=self._deadline.remaining_s(),
            conversation=self._conversation,
        )
        async with aclosing(self.engine.generate(request)) as chunks:
            async for chunk in chunks:
                if chunk.usage is not None:
                    self._count(chunk.usage)
                yield chunk
                if chunk.finish == "deadline":
                    raise self._deadline.exceeded()

    def _next_sampling(self) -> Sampling:
        """With a seed of its own for each request: with the same draws two arguments would come out alike."""
        self._num_generated += 1
        return replace(self._sampling, seed=self._sampling.seed + self._num_generated - 1)

    def _count(self, usage: Usage) -> None:
        self.charge(usage)
        self.prompt_usage = self.prompt_usage or usage

    def _within_budget(self, max_tokens: int) -> int:
        most = self.limits.completion_tokens
        return max_tokens if most is None else max(0, min(max_tokens, most - self.usage.completion_tokens))

    def _boundaries(self, prompt_ids: Sequence[int]) -> tuple[int, ...]:
        """The ends of messages, and what `branch_off` said: where a later prompt goes on, or goes another way."""
        ends = {at + 1 for at, token in enumerate(prompt_ids) if token in self._ends}
        if self._branch_off is not None and self._branch_off < len(prompt_ids):
            ends.add(self._branch_off)
        return tuple(sorted(ends))

    def remaining_s(self) -> float | None:
        """Seconds left until the deadline, or `None` without one.

        Raises:
            DeadlineExceeded: none are left.
        """
        return self._deadline.remaining_s()

    async def within_deadline(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await work of others, cancelled at the deadline.

        Raises:
            DeadlineExceeded: the work was not done by then; a TimeoutError of its own passes as it is.
        """
        with anyio.move_on_after(self._deadline.remaining_s()):
            return await work()
        # Not by the clock: event loops may fire a timer slightly before its time.
        raise self._deadline.exceeded()
