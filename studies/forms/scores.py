"""Raw log scores of every option, kept so that calibrations can be compared without asking the model again."""

from __future__ import annotations

from collections.abc import Sequence

from agentform.decoding.token_context import TokenContext
from agentform.forms.answer import Question
from agentform.forms.label_prior import CONTENT_FREE
from agentform.forms.option_trie import build_trie, option_lines
from agentform.messages import Message
from agentform.runtime.engine import Engine, ScoreRequest
from benchmarks.common.items import Item
from studies.forms.prompts import context_of, questions_of

__all__ = ["LogScores", "ask", "prior_scores", "score_item"]

LogScores = tuple[float, ...]
"""Log score of each option of one leaf, in nats: the product over its decision nodes under the full softmax."""


async def ask(engine: Engine, context: TokenContext, questions: Sequence[Question]) -> list[LogScores]:
    """Scores of independent questions with one text per answer; one batch, no token written."""
    lines = [option_lines(engine.tokenizer, context.line(question.lead), question.texts) for question in questions]
    tries = [build_trie(own) for own in lines]
    branches = tuple(branch for trie in tries for branch in trie.branches)
    result = await engine.score(ScoreRequest(prompt_ids=context.ids, branches=branches))
    assert result.usage.completion_tokens == 0
    logprobs = iter(result.logprobs)
    return [trie.log_scores([next(logprobs) for _ in trie.branches]) for trie in tries]


async def score_item(engine: Engine, item: Item, prompt: str, leads: Sequence[str]) -> dict[str, list[LogScores]]:
    """Per lead-in the scores of the item's leaves; one batch for all."""
    return await _by_lead(engine, item, context_of(engine.tokenizer, item, prompt), leads)


async def prior_scores(
    engine: Engine, item: Item, prompt: str, leads: Sequence[str]
) -> dict[str, list[list[LogScores]]]:
    """Per lead-in and content-free input the scores of the form's leaves."""
    found: dict[str, list[list[LogScores]]] = {lead: [] for lead in leads}
    for text in CONTENT_FREE:
        messages = [Message(role="user", content=text)]
        scores = await _by_lead(engine, item, context_of(engine.tokenizer, item, prompt, messages), leads)
        for lead in leads:
            found[lead].append(scores[lead])
    return found


async def _by_lead(
    engine: Engine, item: Item, context: TokenContext, leads: Sequence[str]
) -> dict[str, list[LogScores]]:
    asked = [question for lead in leads for question in questions_of(item, lead)]
    leaves = await ask(engine, context, asked)
    size = len(item.fields)
    return {lead: leaves[n * size : (n + 1) * size] for n, lead in enumerate(leads)}
