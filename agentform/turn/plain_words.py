"""Answers under a grammar: one that was asked for, or words alone, of a model that wrote a call it may not make."""

from __future__ import annotations

from contextlib import aclosing

from agentform.decoding.session import Session
from agentform.events import AnswerDelta, Emit
from agentform.grammar.spec import GrammarSpec
from agentform.runtime.engine import FinishReason

__all__ = ["plain_words", "text_within"]

_PLAIN_WORDS = r"[^{}\[\]<>`\s][^{}<>`]*"
"""A text without what calls are written with."""


async def plain_words(
    session: Session, start: tuple[int, ...], emit: Emit
) -> tuple[str, tuple[int, ...], FinishReason]:
    """Text that begins no call, after the tokens of `start`; with its token ids, and how it ended.

    Raises:
        EngineError: the engine cannot serve the request.
    """
    return await text_within(session, start, GrammarSpec(kind="regex", text=_PLAIN_WORDS), emit)


async def text_within(
    session: Session, start: tuple[int, ...], grammar: GrammarSpec, emit: Emit
) -> tuple[str, tuple[int, ...], FinishReason]:
    """An answer that matches a grammar, after the tokens of `start`; with its token ids, and how it ended.

    Raises:
        GrammarError: the grammar cannot be compiled.
        EngineError: the engine cannot serve the request.
    """
    content, ids = "", ()
    finish: FinishReason = "length"
    most = session.limits.answer_tokens
    async with aclosing(session.generate(start, max_tokens=most, grammar=grammar)) as chunks:
        async for chunk in chunks:
            content, ids, finish = content + chunk.text, ids + chunk.token_ids, chunk.finish or finish
            if chunk.text:
                await emit(AnswerDelta(text=chunk.text))
    return content, ids, finish
