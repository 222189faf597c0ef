"""Messages, calls, results and usage: the plain data that every layer shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

__all__ = [
    "Alternative",
    "AnswerDelta",
    "ArgumentChosen",
    "ArgumentDelta",
    "CallReady",
    "ChoiceMade",
    "Event",
    "Evidence",
    "HandedOff",
    "How",
    "JsonValue",
    "Message",
    "ReasoningDelta",
    "Role",
    "RunFinished",
    "ToolCall",
    "ToolFinished",
    "ToolResult",
    "ToolStarted",
    "TurnFinished",
    "Usage",
]

JsonValue: TypeAlias = (
    "bool | int | float | str | list[JsonValue] | tuple[JsonValue, ...] | Mapping[str, JsonValue] | None"
)
Role = Literal["system", "user", "assistant", "tool"]
How = Literal["fixed", "scored", "generated", "joint", "repaired"]


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens that one or more requests cost; `None` is unknown, never zero. Usages add up with `+`.

    Examples:
        >>> both = Usage(prompt_tokens=10, cached_tokens=8) + Usage(prompt_tokens=5, cached_tokens=None)
        >>> both.prompt_tokens, both.cached_tokens
        (15, None)
    """

    prompt_tokens: int = 0
    """Tokens of the prompts as given."""
    cached_tokens: int | None = 0
    """Prompt tokens taken from the prefix cache instead of being computed."""
    restored_tokens: int | None = 0
    """Part of `cached_tokens` that came through a recurrent-state snapshot."""
    replayed_tokens: int | None = 0
    """Tokens run again only to rebuild a recurrent state."""
    computed_tokens: int | None = 0
    """Tokens that went through the model: prompt, branches and completion."""
    completion_tokens: int = 0
    """Tokens that were sampled."""
    reasoning_tokens: int = 0
    """Part of `completion_tokens` that is free text before a call."""
    miss: str | None = None
    """Why the prompt was not fully cached; of the last request that missed."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            cached_tokens=_add(self.cached_tokens, other.cached_tokens),
            restored_tokens=_add(self.restored_tokens, other.restored_tokens),
            replayed_tokens=_add(self.replayed_tokens, other.replayed_tokens),
            computed_tokens=_add(self.computed_tokens, other.computed_tokens),
            completion_tokens=self.completion_tokens + other.completion_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            miss=other.miss or self.miss,
        )


def _add(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """An option that a choice did not take."""

    value: JsonValue
    probability: float


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """How one leaf of a form got its value."""

    pointer: str
    """JSON Pointer of the leaf."""
    value: JsonValue
    how: How
    """`repaired` is decided again: what was there first was refused, or repeated itself until its tokens ran out."""
    probability: float | None = None
    """Probability among the legal options, calibrated; `None` for values that were not scored."""
    raw_probability: float | None = None
    """The same before the label prior was taken out."""
    legal_mass: float | None = None
    """Probability that the full softmax gives to the legal options together."""
    gap: float | None = None
    """Log probability given up against the independent best, where leaves were solved jointly."""
    alternatives: tuple[Alternative, ...] = ()
    """The most probable other options, at most three."""


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A call whose arguments satisfy the tool's true schema."""

    id: str
    name: str
    arguments: Mapping[str, JsonValue]
    evidence: tuple[Evidence, ...] = ()
    decision: Evidence | None = None
    """How it was decided to call, and to call this tool."""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """What a tool returned, as the model will read it."""

    call_id: str
    name: str
    content: str
    is_error: bool = False


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message of a conversation.

    An assistant message holds its free text in `content` and then its `calls`; a tool message answers one call.
    """

    role: Role
    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    result: ToolResult | None = None


@dataclass(frozen=True, kw_only=True)
class ReasoningDelta:
    """Free text as it is generated. Whether it turns out to be the answer is decided after it ends."""

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
    | ChoiceMade
    | ArgumentChosen
    | ArgumentDelta
    | CallReady
    | ToolStarted
    | ToolFinished
    | HandedOff
    | AnswerDelta
    | TurnFinished
    | RunFinished
)
