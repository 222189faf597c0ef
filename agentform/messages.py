"""Messages, calls, results and usage: the plain data that every layer shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

__all__ = ["Alternative", "Evidence", "How", "JsonValue", "Message", "Role", "ToolCall", "ToolResult", "Usage"]

JsonValue: TypeAlias = (
    "bool | int | float | str | list[JsonValue] | tuple[JsonValue, ...] | Mapping[str, JsonValue] | None"
)
Role = Literal["system", "user", "assistant", "tool"]
How = Literal["fixed", "scored", "generated", "joint", "repaired", "written", "shortened"]


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
    """`repaired` is decided again: what was there first was refused, or repeated itself until its tokens ran out.
    `written` is a choice that the model wrote, on an engine that cannot score: nothing is known of its probability.
    `shortened` is a text that its greatest length would have ended in mid-word, and that ends at the word before."""
    probability: float | None = None
    """Probability among the legal options, calibrated; `None` for values that were not scored."""
    raw_probability: float | None = None
    """`probability` before the label prior was taken out."""
    legal_mass: float | None = None
    """Probability that the full softmax gives to the legal options together."""
    gap: float | None = None
    """Log probability given up against the independent best, where leaves were solved jointly."""
    alternatives: tuple[Alternative, ...] = ()
    """The most probable other options, at most three."""
    by: str = ""
    """The decision model that decided it; empty where it was the engine's own model, or nothing had to be decided."""
    ways: int = 1
    """In how many ways the question was put, of which the answer is the mean: see `Scoring.symmetry`."""


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
    reasoning: str = ""
    """What the model thought before it; whether later prompts hold it is the chat template's business."""
