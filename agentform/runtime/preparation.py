"""What every engine does with a request before it computes: its time begins, it is checked, its grammar is compiled."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentform.runtime.engine import GenerateRequest, ModelInfo, ScoreRequest
from agentform.runtime.validation import check_generate, check_score

if TYPE_CHECKING:  # a grammar's library is loaded where a grammar is
    from agentform.grammar.compile import CompiledGrammar
    from agentform.runtime.grammar_cache import Grammars

__all__ = ["Preparation", "deadline_after", "left_s", "prepare_generation", "prepare_score"]


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """What an engine knows of a completion before it begins."""

    deadline: float
    """When it has to be over, on the monotonic clock, in seconds; infinity for never."""
    grammar: CompiledGrammar | None


async def prepare_generation(request: GenerateRequest, info: ModelInfo, grammars: Grammars | None) -> Preparation:
    """Check a request for a completion and compile its grammar, which counts towards its deadline.

    `grammars` is `None` for an engine that follows none.

    Raises:
        InvalidRequest: the request is none that can be served.
        ContextOverflow: the prompt leaves no room for a token.
        GrammarError: the grammar does not compile.
    """
    deadline = deadline_after(request.deadline_s)
    check_generate(request, info)
    grammar = await grammars.compiled(request.grammar) if grammars is not None and request.grammar is not None else None
    return Preparation(deadline=deadline, grammar=grammar)


def prepare_score(request: ScoreRequest, info: ModelInfo) -> float:
    """Check a request for scores; returns its deadline, as in `Preparation`.

    Raises:
        InvalidRequest: the request is none that can be served.
        ContextOverflow: the prompt and its longest branch do not fit.
    """
    deadline = deadline_after(request.deadline_s)
    check_score(request, info)
    return deadline


def deadline_after(seconds: float | None) -> float:
    """The moment `seconds` from now on the monotonic clock; infinity for `None`."""
    return math.inf if seconds is None else time.monotonic() + seconds


def left_s(deadline: float) -> float:
    """Seconds until `deadline`, negative once it is over."""
    return deadline - time.monotonic()
