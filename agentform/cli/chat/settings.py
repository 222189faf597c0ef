"""What a chat is started with."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentform.cli.engine_settings import EngineSettings
from agentform.decoding.limits import Limits
from agentform.runtime.engine import Sampling
from agentform.turn.effort import TEXT_TOKENS, THOUGHT_TOKENS
from agentform.turn.reasoning import Reasoning

__all__ = ["ChatSettings"]


@dataclass(frozen=True, kw_only=True)
class ChatSettings:
    """The model, what it may use, and how it writes."""

    model: str
    tools: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
    instructions: str = ""
    conversation: str | None = None
    engine: EngineSettings = field(default_factory=EngineSettings)
    """How the model is loaded."""
    decider: str | None = None
    """The address of a decision model."""
    sampling: Sampling = field(default_factory=Sampling)
    reasoning_effort: str | None = None
    reasoning_tokens: int | None = None
    """Of what is thought, and of what is said before a call, at most; `None`: by the effort."""
    max_tokens: int | None = None
    """Of an answer; `None`: as `Limits` has it."""
    shows_reasoning: bool = True

    @property
    def limits(self) -> Limits:
        """What a run may spend."""
        usual = Limits()
        text = usual.reasoning_tokens if self.reasoning_effort is None else TEXT_TOKENS[self.reasoning_effort]
        return Limits(
            reasoning_tokens=self._at_most(text), answer_tokens=self.max_tokens or max(text, usual.answer_tokens)
        )

    @property
    def reasoning(self) -> Reasoning:
        """How a model thinks that was trained to."""
        thought = THOUGHT_TOKENS[self.reasoning_effort or "medium"]
        return Reasoning(effort=self.reasoning_effort, max_tokens=self._at_most(thought))

    def _at_most(self, usual: int) -> int:
        """Of two words about it the smaller one holds."""
        if self.reasoning_tokens is None:
            return usual
        return self.reasoning_tokens if self.reasoning_effort is None else min(usual, self.reasoning_tokens)
