"""How probable each token of a text was to the model, asked after the text was written."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest

from agentform.decoding.session import Session
from agentform.runtime.engine import Branch, Tokenizer

__all__ = ["TokenLogprob", "ids_of_text", "token_logprobs"]

_AT_ONCE = 64
"""Tokens that are scored in one request."""
_NUMBERS_AT_ONCE = 1_000_000
"""Of log probabilities in one request, where whole vocabularies are asked for."""


@dataclass(frozen=True, kw_only=True)
class TokenLogprob:
    """A token as it was written, under the model's full softmax: neither temperature nor grammar are in it."""

    token_id: int
    text: str
    """Incomplete UTF-8 is U+FFFD."""
    logprob: float | None
    """Natural logarithm; `None` of a token that nothing stands before."""
    top: tuple[TokenLogprob, ...] = ()
    """The most probable tokens at its place, if they were asked for."""


async def token_logprobs(
    session: Session, prompt_ids: Sequence[int], ids: Sequence[int], *, num_top: int = 0
) -> tuple[TokenLogprob, ...]:
    """The log probabilities of `ids` after `prompt_ids`, of which there must be one at least.

    Raises:
        EngineError: the engine cannot score.
    """
    vocabulary = session.engine.info.vocabulary_size
    step = max(1, min(_AT_ONCE, _NUMBERS_AT_ONCE // vocabulary)) if num_top else _AT_ONCE
    prompt, found = tuple(prompt_ids), list[TokenLogprob]()
    for start in range(0, len(ids), step):
        window = tuple(ids[start : start + step])
        every = tuple(range(vocabulary)) if num_top else ()
        branches = [Branch(path=window[:at], candidates=every or (window[at],)) for at in range(len(window))]
        rows = await session.score(prompt + tuple(ids[:start]), branches, aside=True)
        found += (_entry(session.tokenizer, id, row, num_top) for id, row in zip(window, rows, strict=True))
    return tuple(found)


def _entry(tokenizer: Tokenizer, id: int, row: Sequence[float], num_top: int) -> TokenLogprob:
    text = tokenizer.decode((id,))
    if not num_top:
        return TokenLogprob(token_id=id, text=text, logprob=row[0])
    best = nlargest(num_top, range(len(row)), key=row.__getitem__)
    top = tuple(TokenLogprob(token_id=other, text=tokenizer.decode((other,)), logprob=row[other]) for other in best)
    return TokenLogprob(token_id=id, text=text, logprob=row[id], top=top)


def ids_of_text(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> tuple[int, int]:
    """Which of `ids` hold the text that they end with, but for white space around it: begin and end.

    Examples:
        >>> from agentform.testing import ByteTokenizer
        >>> ids_of_text(ByteTokenizer(), tuple(b"  so it is  "), "so it is")
        (2, 10)
    """
    at = max(0, tokenizer.decode(ids).rfind(text))

    def length(num: int) -> int:
        return len(tokenizer.decode(ids[:num]))

    counts = range(len(ids) + 1)
    begin = bisect_right(counts, at, key=length) - 1
    return begin, min(len(ids), bisect_left(counts, at + len(text), key=length))
