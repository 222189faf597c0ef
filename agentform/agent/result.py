"""What a run comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal

from typing_extensions import TypeVar

from agentform.agent.conversation import Conversation
from agentform.agent.protocols import AgentLike
from agentform.evidence_html import call_html, evidence_html, shown, text_html, usage_html
from agentform.messages import Evidence, Message, ToolCall, Usage

__all__ = ["OutputT", "RunFinish", "RunResult"]

OutputT = TypeVar("OutputT", default=str)
RunFinish = Literal["answer", "length", "steps", "repetition", "tokens", "stopped"]


@dataclass(frozen=True, kw_only=True)
class RunResult(Generic[OutputT]):
    """What a run came to."""

    output: OutputT
    """The answer: text, or what the agent's `output_type` made of it."""
    finish: RunFinish
    """`answer`; `length` when the answer was cut off at its limit; otherwise why the model had to answer: `steps` and
    `tokens` when these limits were reached, `repetition` when it asked for the same call again, `stopped` when
    `Limits.stop_when` said so."""
    calls: tuple[ToolCall, ...]
    """The calls of this run as they were run, in the order in which they were made."""
    messages: tuple[Message, ...]
    """The whole conversation, this run's messages included."""
    usage: Usage
    """Of this run, agents inside its tools included."""
    conversation: Conversation
    agent: AgentLike
    """The agent that answered; another than the one that was asked if it handed over."""
    evidence: tuple[Evidence, ...] = ()
    """How each leaf of an `output_type` got its value."""

    def _repr_html_(self) -> str:
        """For notebooks: the calls with how each argument was decided, and the answer."""
        output = evidence_html(self.evidence) if self.evidence else text_html(str(self.output))
        return shown(text_html(self.reasoning), *map(call_html, self.calls), output, usage_html(self.usage))

    @property
    def reasoning(self) -> str:
        """What the model thought between its own marks before the answer; no part of `output`."""
        return self.messages[-1].reasoning if self.messages else ""
