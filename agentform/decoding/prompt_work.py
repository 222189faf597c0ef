"""Rendering and tokenising a prompt: off the event loop where it takes long, and never more of it than can be used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from typing_extensions import ParamSpec

from agentform._util.threads import PROMPTS
from agentform.errors import ContextOverflow
from agentform.messages import Message
from agentform.runtime.engine import Engine
from agentform.schema.json_text import dumps

__all__ = ["OPTION_CHARACTERS", "TOOL_CHARACTERS", "check_fits", "num_characters", "prompt_work"]

P = ParamSpec("P")
T = TypeVar("T")

TOOL_CHARACTERS = 500
"""What a tool takes in a prompt, about."""
OPTION_CHARACTERS = 50
"""What an option of a question takes to be prepared, about."""
_AT_ONCE = 4_000
"""Characters that are rendered and tokenised in a few milliseconds."""
_PIECE = 8_000
"""Characters that are tokenised without letting others go on."""
_SEAM_TOKENS = 8
"""By so many tokens a text may be shorter in one piece than in two: those next to the cut merge."""


async def prompt_work(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` returns, in a thread if it is about more than a few thousand characters (`size`)."""
    return work(*args, **kwargs) if size <= _AT_ONCE else await PROMPTS.run(work, *args, **kwargs)


def num_characters(messages: Sequence[Message], *texts: str) -> int:
    """How long the texts are that a prompt is made of."""
    return sum(map(len, _texts(messages))) + sum(map(len, texts))


def check_fits(engine: Engine, messages: Sequence[Message], *texts: str) -> None:
    """Tokenise the texts piece by piece, until it is plain that they do not fit.

    A prompt of fewer characters than the context has tokens is left to the engine's own check.

    Raises:
        ContextOverflow: the texts alone are longer than the context.
    """
    most = engine.info.context_tokens
    if num_characters(messages, *texts) <= most:
        return
    num_tokens = 0
    for piece in _pieces([*_texts(messages), *texts]):
        num_tokens += max(0, len(engine.tokenizer.encode(piece)) - (_SEAM_TOKENS if len(piece) == _PIECE else 1))
        if num_tokens > most:
            raise ContextOverflow(prompt_tokens=num_tokens, context_tokens=most)


def _texts(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        yield message.content
        yield from (dumps(call.arguments) for call in message.calls)


def _pieces(texts: Iterable[str]) -> Iterator[str]:
    return (text[start : start + _PIECE] for text in texts for start in range(0, len(text), _PIECE))
