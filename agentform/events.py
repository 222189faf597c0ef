"""What a run tells while it happens: one small dataclass per event."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from agentform.messages import Evidence, ToolCall, ToolResult, Usage

__all__ = [
    "AnswerDelta",
    "ArgumentChosen",
    "ArgumentDelta",
    "CallReady",
    "CallRepeated",
    "ChoiceMade",
    "Emit",
    "Event",
    "HandedOff",
    "ReasoningDelta",
    "RunFinished",
    "ThoughtDelta",
    "ToolFinished",
    "ToolStarted",
    "TurnFinished",
]


@dataclass(frozen=True, kw_only=True)
class ReasoningDelta:
    """Free text as it is generated. Whether it turns out to be the answer is decided after it ends."""

    text: str


@dataclass(frozen=True, kw_only=True)
class ThoughtDelta:
    """What a model thinks between marks of its own, as it is generated; never a part of an answer."""

    text: str


@dataclass(frozen=True, kw_only=True)
class ChoiceMade:
    """What the turn does next: `value` of the decision is a tool's name, or `None` for an answer."""

    decision: Evidence


@dataclass(frozen=True, kw_only=True)
class ArgumentChosen:
    """An argument was chosen, not written; `evidence` holds its place, value and probability.

    A repair may choose it again: the last one counts, and in the end what `CallReady` holds.
    """

    call_id: str
    tool: str
    """Name of the tool; empty for a form that is the run's answer."""
    evidence: Evidence


@dataclass(frozen=True, kw_only=True)
class ArgumentDelta:
    """JSON text of a free argument as it is written."""

    call_id: str
    tool: str
    """Name of the tool; empty for a form that is the run's answer."""
    pointer: str
    """JSON Pointer of the argument."""
    text: str
    attempt: int = 0
    """Grows when the argument is written again; what an earlier attempt wrote is void then."""


@dataclass(frozen=True, kw_only=True)
class CallReady:
    """A call is complete and satisfies its tool's true schema."""

    call: ToolCall


@dataclass(frozen=True, kw_only=True)
class CallRepeated:
    """The model wanted a call that it has made as often as it may: it answers instead."""

    call: ToolCall


@dataclass(frozen=True, kw_only=True)
class ToolStarted:
    """A tool is about to run."""

    call: ToolCall


@dataclass(frozen=True, kw_only=True)
class ToolFinished:
    """A tool has run; errors that are fed back to the model are results too."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, kw_only=True)
class AnswerDelta:
    """Text of the final answer that was not already streamed as reasoning."""

    text: str


@dataclass(frozen=True, kw_only=True)
class HandedOff:
    """The conversation goes on under another agent."""

    call: ToolCall
    agent: str
    """Name of the agent that takes over."""


@dataclass(frozen=True, kw_only=True)
class TurnFinished:
    """The model has had its turn; the calls it made run next, if there are any."""

    step: int
    """Number of the turn in its run, from 0."""
    usage: Usage
    """Of this turn."""
    total: Usage
    """Of the run so far."""


@dataclass(frozen=True, kw_only=True)
class RunFinished:
    """The last event of a run that ended with an answer."""

    finish: str
    """See `RunResult.finish`."""
    usage: Usage
    """Of the whole run, agents inside its tools included."""


Event: TypeAlias = (
    ReasoningDelta
    | ThoughtDelta
    | ChoiceMade
    | ArgumentChosen
    | ArgumentDelta
    | CallReady
    | CallRepeated
    | ToolStarted
    | ToolFinished
    | HandedOff
    | AnswerDelta
    | TurnFinished
    | RunFinished
)


Emit = Callable[[Event], Awaitable[None]]
