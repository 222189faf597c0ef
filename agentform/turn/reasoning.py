"""The free text before a call: generated without constraints, ended by the call marker, a stop or its limit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass

from agentform.decoding.session import Session
from agentform.decoding.thinking import Thinking
from agentform.decoding.token_context import TokenContext, continue_from
from agentform.events import Emit, ReasoningDelta
from agentform.runtime.engine import FinishReason
from agentform.turn.effort import THOUGHT_TOKENS

__all__ = ["Reasoning", "Thought", "think", "thinking_of"]


@dataclass(frozen=True, kw_only=True)
class Reasoning(Thinking):
    """How the model thinks before it acts.

    A model that was trained to think does so between its own marks, apart from its answers (see `Thinking`). The
    free text of any other is both: reasoning if a call follows, the answer if none does. With a `prefix` the text is a
    note that begins with it, which helps models too small to start well, and an answer is generated apart from it.
    """

    prefix: str = ""
    stop: tuple[str, ...] = ()
    """Texts that end a note, beside the call marker."""


@dataclass(frozen=True, kw_only=True)
class Thought:
    """Free text with the context after it."""

    content: str
    text: str
    """`content` with the white space around it, which a continuation needs."""
    context: TokenContext
    finish: FinishReason
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    """What was generated."""
    num_tokens: int
    """Tokens sampled for it."""
    ended_by: str | None
    """The text at which it was ended, if at one."""
    called: bool
    """Whether the model itself began a call."""
    stopped: bool
    """Whether a text ended it that the turn was asked to stop at."""


def thinking_of(effort: str) -> Thinking:
    """How a model thinks of which so much effort is asked, before a form."""
    return Thinking(effort=effort, max_tokens=THOUGHT_TOKENS[effort])


async def think(
    session: Session,
    prompt_ids: tuple[int, ...],
    *,
    reasoning: Reasoning,
    markers: Sequence[str],
    max_tokens: int,
    stop: Sequence[str] = (),
    ends: Sequence[str] = (),
    emit: Emit,
) -> Thought:
    """Generate free text after `prompt_ids`; `markers` are the texts with which a call begins, if there are tools.

    `stop` are texts that end the turn itself, not only its free text; `ends` are what the model has no business to
    write, such as a tool's result: the text is over before it.

    Raises:
        AgentformError: what `Engine.generate` raises.
    """
    start = session.tokenizer.encode(reasoning.prefix) if reasoning.prefix else ()
    stops = (*markers, *(reasoning.stop if reasoning.prefix else ()), *stop, *ends)
    text, ended_by, num_tokens = reasoning.prefix, None, 0
    ids: tuple[int, ...] = start
    finish: FinishReason = "length"
    if text:
        await emit(ReasoningDelta(text=text))
    if max_tokens:  # else the prompt is read by whatever is asked next
        async with aclosing(session.generate(prompt_ids + start, max_tokens=max_tokens, stop=stops)) as chunks:
            async for chunk in chunks:
                text, ids = text + chunk.text, ids + chunk.token_ids
                finish, ended_by = chunk.finish or finish, chunk.stop or ended_by
                num_tokens += chunk.usage.completion_tokens if chunk.usage else 0
                if chunk.text:
                    await emit(ReasoningDelta(text=chunk.text))
    content = text.strip()
    return Thought(
        content=content,
        text=text,
        context=continue_from(session.tokenizer, prompt_ids, ids, content),
        finish=finish,
        prompt_ids=prompt_ids,
        token_ids=ids,
        num_tokens=num_tokens,
        ended_by=ended_by,
        called=ended_by is not None and ended_by in markers,
        stopped=ended_by is not None and ended_by in stop,
    )
