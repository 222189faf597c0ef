"""The free text before a call: generated without constraints, ended by the call marker, a stop or its limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from agentform.calls.session import Session
from agentform.calls.transcript import Context, continue_from
from agentform.messages import Event, ReasoningDelta
from agentform.runtime.engine import FinishReason

__all__ = ["Emit", "Reasoning", "Thought", "think"]

Emit = Callable[[Event], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Reasoning:
    """How the model thinks before it acts.

    By default its free text is both: reasoning if a call follows, the answer if none does. With a `prefix` the
    text is a note that begins with it, which helps models too small to start well, and an answer is generated
    apart from it.
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
    context: Context
    finish: FinishReason
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    """What was generated."""
    num_tokens: int
    """Tokens sampled for it."""
    called: bool
    """Whether the model itself began a call."""


async def think(
    session: Session,
    prompt_ids: tuple[int, ...],
    *,
    reasoning: Reasoning,
    marker: str,
    max_tokens: int,
    emit: Emit,
) -> Thought:
    """Generate free text after `prompt_ids`; `marker` is the text with which a call begins, if there are tools.

    Raises what `Engine.generate` raises.
    """
    start = session.tokenizer.encode(reasoning.prefix) if reasoning.prefix else ()
    stops = ((marker,) if marker else ()) + (reasoning.stop if reasoning.prefix else ())
    text, stop, num_tokens = reasoning.prefix, None, 0
    ids: tuple[int, ...] = start
    finish: FinishReason = "length"
    if text:
        await emit(ReasoningDelta(text=text))
    async with aclosing(session.generate(prompt_ids + start, max_tokens=max_tokens, stop=stops)) as chunks:
        async for chunk in chunks:
            text, ids = text + chunk.text, ids + chunk.token_ids
            finish, stop = chunk.finish or finish, chunk.stop or stop
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
        called=stop == marker and bool(marker),
    )
