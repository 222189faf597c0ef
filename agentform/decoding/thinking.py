"""A model's thought, generated inside its own marks before anything is decided.

::

    prompt ──▶ [<think>] thought, ended by itself or at its limit ──▶ [</think>] ──▶ text, calls, a form
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from agentform.decoding.formats.types import ReasoningMarks, ToolCallFormat
from agentform.decoding.session import Session
from agentform.decoding.token_context import TokenContext, advance
from agentform.events import Emit, ThoughtDelta
from agentform.runtime.engine import Branch, Tokenizer

__all__ = ["SettledPrompt", "Thinking", "settle", "template_arguments", "think_first"]

_LOOKED_AT = 64
"""Tokens at the end of a prompt in which the marks of a thought are looked for."""
_ENOUGH = "\n\nThat is enough thought; now I act on it.\n"
"""Before the closing mark of a thought that reached its limit, lest it end in the middle of a sentence."""
_SWITCHES = ("enable_thinking", "thinking", "reasoning")


@dataclass(frozen=True, kw_only=True)
class Thinking:
    """Whether and how long a model thinks that was trained to think between marks of its own."""

    effort: str | None = None
    """ "none": it does not think. Any other word: it does, and the word is the template's `reasoning_effort` where it
    has one. `None`: as the template has it."""
    max_tokens: int = 2048
    """Tokens of one thought; then it is closed. 0 closes it at once."""
    template_arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arguments of the chat template, such as `enable_thinking`; they go before what `effort` stands for."""


@dataclass(frozen=True, kw_only=True)
class SettledPrompt:
    """A prompt after which the model writes text or calls, its thought closed."""

    ids: tuple[int, ...]
    after_thought: bool = False
    """Whether a closed thought, perhaps an empty one, stands at its end."""
    trailing: str = ""
    """White space after the closing mark that stands there already."""
    thought: str = ""
    num_tokens: int = 0
    """Tokens sampled for the thought."""

    def before_calls(self, format: ToolCallFormat, *, after_text: bool) -> str:
        """What comes before the first call."""
        layout, marks = format.layout, format.reasoning
        if after_text:
            return layout.before_after_text + layout.section_open
        if marks is not None and (self.after_thought or marks.is_open):
            return marks.before_calls.removeprefix(self.trailing) + layout.section_open
        return layout.before + layout.section_open

    def before_text(self, format: ToolCallFormat) -> str:
        """What comes before free text, where the model cannot be left to write it: the header of a channel."""
        marks = format.reasoning
        opening = marks.before_text if marks is not None and self.after_thought else format.text_open
        return opening if opening.strip() else ""


def template_arguments(format: ToolCallFormat, thinking: Thinking) -> dict[str, Any]:
    """The template's arguments for this way of thinking."""
    found: dict[str, Any] = {}
    switches = format.reasoning.switches if format.reasoning is not None else ()
    if thinking.effort is not None:
        found.update((name, thinking.effort != "none") for name in _SWITCHES if name in switches)
        if "reasoning_effort" in switches and thinking.effort != "none":
            found["reasoning_effort"] = thinking.effort
    return {**found, **thinking.template_arguments}


def settle(tokenizer: Tokenizer, format: ToolCallFormat, prompt_ids: tuple[int, ...]) -> SettledPrompt:
    """The prompt without a thought of the model's: one that the prompt opens is closed at once."""
    marks = format.reasoning
    if marks is None:
        return SettledPrompt(ids=prompt_ids)
    text = tokenizer.decode(prompt_ids[-_LOOKED_AT:])
    if _is_open(marks, text):
        return SettledPrompt(ids=_closed(tokenizer, marks, prompt_ids, ""), after_thought=True)
    if text.rstrip().endswith(marks.close.strip()):
        return SettledPrompt(ids=prompt_ids, after_thought=True, trailing=text[len(text.rstrip()) :])
    return SettledPrompt(ids=prompt_ids)


async def think_first(
    session: Session, format: ToolCallFormat, prompt_ids: tuple[int, ...], thinking: Thinking, *, emit: Emit
) -> SettledPrompt:
    """Let the model think, if it does, and close the thought.

    Raises:
        EngineError: the engine cannot serve the request; DeadlineExceeded among them.
    """
    tokenizer, marks = session.tokenizer, format.reasoning
    if marks is None or thinking.effort == "none" or not thinking.max_tokens:
        return settle(tokenizer, format, prompt_ids)
    text = tokenizer.decode(prompt_ids[-_LOOKED_AT:])
    if marks.kept != "always":
        session.branch_off(_before_thought(tokenizer, marks, prompt_ids))
    if not _is_open(marks, text):
        if text.rstrip().endswith(marks.close.strip()) or not await _begins(session, marks, prompt_ids, thinking):
            return settle(tokenizer, format, prompt_ids)
        opened = advance(tokenizer, TokenContext(ids=prompt_ids), marks.open)
        prompt_ids = opened.token_ids(tokenizer)
    return await _thought(session, marks, prompt_ids, thinking, emit)


def _before_thought(tokenizer: Tokenizer, marks: ReasoningMarks, prompt_ids: tuple[int, ...]) -> int:
    """How many tokens stand before the thought that a prompt opens: what stays when the thought is left out."""
    for num_last in range(1, min(_LOOKED_AT, len(prompt_ids)) + 1):
        last = tokenizer.decode(prompt_ids[-num_last:])
        if marks.open.strip() and last.startswith(marks.open.strip()):
            return len(prompt_ids) - num_last
    return len(prompt_ids)


async def _begins(session: Session, marks: ReasoningMarks, prompt_ids: tuple[int, ...], thinking: Thinking) -> bool:
    """Whether the model opens a thought itself: asked for, or more probable than not."""
    if thinking.effort is not None:
        return True
    line = advance(session.tokenizer, TokenContext(ids=prompt_ids), marks.open.rstrip()).token_ids(session.tokenizer)
    path = line[len(prompt_ids) :]
    branches = [Branch(path=path[:at], candidates=(token,)) for at, token in enumerate(path)]
    scores = await session.score(prompt_ids, branches)
    return math.exp(sum(row[0] for row in scores)) > 0.5


async def _thought(
    session: Session, marks: ReasoningMarks, prompt_ids: tuple[int, ...], thinking: Thinking, emit: Emit
) -> SettledPrompt:
    """The closed thought. Its deltas, put together, are the thought: without the white space around it."""
    text, told, num_tokens, ended = "", "", 0, False
    stop = (marks.close.strip(),)
    async with aclosing(session.generate(prompt_ids, max_tokens=thinking.max_tokens, stop=stop)) as chunks:
        async for chunk in chunks:
            text, ended = text + chunk.text, ended or chunk.stop is not None
            num_tokens += chunk.usage.completion_tokens if chunk.usage else 0
            if len(told) < len(text.strip()):
                await emit(ThoughtDelta(text=text.strip()[len(told) :]))
                told = text.strip()
    session.count_reasoning(num_tokens)
    thought = text.strip() + ("" if ended else _ENOUGH.rstrip())
    if len(told) < len(thought.strip()):
        await emit(ThoughtDelta(text=thought.strip()[len(told) :]))
    closed = _closed(session.tokenizer, marks, prompt_ids, thought)
    return SettledPrompt(ids=closed, after_thought=True, thought=thought.strip(), num_tokens=num_tokens)


def _is_open(marks: ReasoningMarks, text: str) -> bool:
    return bool(marks.open.strip()) and text.rstrip().endswith(marks.open.strip())


def _closed(tokenizer: Tokenizer, marks: ReasoningMarks, prompt_ids: tuple[int, ...], thought: str) -> tuple[int, ...]:
    context = advance(tokenizer, TokenContext(ids=prompt_ids).with_text(thought), marks.close)
    return context.token_ids(tokenizer)
