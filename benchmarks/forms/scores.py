"""Raw log scores of every option, kept so that calibrations can be compared without asking the model again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agentform.calls.choose import Scoring, choose
from agentform.calls.limits import Limits
from agentform.calls.place import at
from agentform.calls.prior import CONTENT_FREE
from agentform.calls.questions import Question
from agentform.calls.session import Session
from agentform.calls.transcript import Context
from agentform.messages import Message
from agentform.runtime.engine import Engine
from benchmarks.forms.items import Item
from benchmarks.forms.prompts import context_of, questions_of

__all__ = ["LeafScores", "ask", "prior_scores", "score_item"]

_RAW = Scoring(calibration=0)


@dataclass(frozen=True, kw_only=True)
class LeafScores:
    """Log score of each option of one leaf: raw, in nats, up to rounding what the full softmax gave."""

    log_scores: tuple[float, ...]

    @property
    def legal_mass(self) -> float:
        """Probability of all options together."""
        return min(1.0, sum(map(math.exp, self.log_scores)))


async def ask(engine: Engine, context: Context, questions: Sequence[Question]) -> list[LeafScores]:
    """Scores of independent questions; one batch, no token written."""
    session = Session(engine, limits=Limits())
    answers = await choose(session, at(context), questions, scoring=_RAW, priors=None)
    assert session.usage.completion_tokens == 0
    return [
        LeafScores(log_scores=tuple(math.log(max(p, 1e-300) * a.legal_mass) for p in a.raw_probabilities))
        for a in answers
    ]


async def score_item(engine: Engine, item: Item, prompt: str, leads: Sequence[str]) -> dict[str, list[LeafScores]]:
    """Per lead-in the scores of the item's leaves; one batch for all."""
    return await _by_lead(engine, item, context_of(engine.tokenizer, item, prompt), leads)


async def prior_scores(
    engine: Engine, item: Item, prompt: str, leads: Sequence[str], texts: Sequence[str] = CONTENT_FREE
) -> dict[str, list[list[LeafScores]]]:
    """Per lead-in and content-free input the scores of the form's leaves."""
    found: dict[str, list[list[LeafScores]]] = {lead: [] for lead in leads}
    for text in texts:
        messages = [Message(role="user", content=text)]
        scores = await _by_lead(engine, item, context_of(engine.tokenizer, item, prompt, messages), leads)
        for lead in leads:
            found[lead].append(scores[lead])
    return found


async def _by_lead(engine: Engine, item: Item, context: Context, leads: Sequence[str]) -> dict[str, list[LeafScores]]:
    asked = [question for lead in leads for question in questions_of(item, lead)]
    leaves = await ask(engine, context, asked)
    size = len(item.fields)
    return {lead: leaves[n * size : (n + 1) * size] for n, lead in enumerate(leads)}
