"""Answers questions by scoring their options: one batch per wave, no token written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agentform.calls.limits import Limits
from agentform.calls.options import OptionTrie, build_trie, option_lines
from agentform.calls.prior import PriorStore, calibrated
from agentform.calls.questions import Question
from agentform.calls.session import Session
from agentform.calls.transcript import Context
from agentform.errors import Abstained
from agentform.messages import Alternative, Evidence, How, JsonValue
from agentform.schema.form import pointer

__all__ = ["Answer", "Priors", "Scoring", "choose", "require_confidence"]

_NUM_ALTERNATIVES = 3


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How options are scored."""

    beam: int = 4
    """Hypotheses kept alive where leaves depend on one another."""
    max_gap: float = 6.0
    """Log probability that a joint solution may give up before the leaves are decided in sequence instead."""
    calibration: float = 0.9
    """Share of the label prior that is taken out of the log scores; 0 leaves them raw. See docs/measurements.md."""
    calibration_with_nothing: float = 0.7
    """The same, at most, for questions that may be answered with nothing: null or absence."""

    def strength(self, question: Question) -> float:
        """The share of the label prior to take out for a question."""
        return self.calibration if question.nothing is None else min(self.calibration, self.calibration_with_nothing)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answered question. Probabilities are over the question's answers and sum to one."""

    question: Question
    index: int
    probabilities: tuple[float, ...]
    raw_probabilities: tuple[float, ...]
    legal_mass: float

    @property
    def value(self) -> JsonValue:
        """The answer taken."""
        return self.question.answers[self.index]

    def evidence(self, *, how: How | None = None, gap: float | None = None) -> Evidence:
        """The answer as evidence for its place.

        Without `how`: scored, or joint where a less probable option was taken for the sake of what depends on it.
        """
        ranked = sorted(range(len(self.probabilities)), key=lambda i: -self.probabilities[i])
        others = [i for i in ranked if i != self.index][:_NUM_ALTERNATIVES]
        lost = math.log(self.probabilities[ranked[0]] / max(self.probabilities[self.index], 1e-300))
        return Evidence(
            pointer=pointer(self.question.path),
            value=self.value,
            how=how or ("joint" if lost > 0 else "scored"),
            probability=self.probabilities[self.index],
            raw_probability=self.raw_probabilities[self.index],
            legal_mass=self.legal_mass,
            gap=gap if gap is not None else lost if lost > 0 else None,
            alternatives=tuple(
                Alternative(value=self.question.answers[i], probability=self.probabilities[i]) for i in others
            ),
        )


class Priors:
    """The label priors of the questions of one form, measured in content-free contexts when first needed."""

    def __init__(self, store: PriorStore, contexts: Sequence[Context], *identity: object) -> None:
        self._store = store
        self._contexts = tuple(contexts)
        self._identity = (*identity, [(list(c.ids), c.tail) for c in contexts])

    async def of(self, session: Session, questions: Sequence[Question]) -> list[tuple[float, ...]]:
        """Mean log score of every answer of every question over the content-free contexts."""
        questions = [question.for_prior for question in questions]
        keys = [self._store.key(self._identity, q.lead, q.texts, q.groups) for q in questions]
        known = [self._store.get(key, size=len(q.answers)) for key, q in zip(keys, questions, strict=True)]
        missing = {keys[i]: questions[i] for i, prior in enumerate(known) if prior is None}
        if missing:
            measured = await self._measure(session, list(missing.values()))
            found = dict(zip(missing, measured, strict=True))
            for key, prior in found.items():
                self._store.put(key, prior)
            known = [found[key] if prior is None else prior for key, prior in zip(keys, known, strict=True)]
        return [prior for prior in known if prior is not None]

    async def _measure(self, session: Session, questions: Sequence[Question]) -> list[tuple[float, ...]]:
        runs = [await _log_scores(session, context, questions) for context in self._contexts]
        return [
            tuple(sum(column) / len(runs) for column in zip(*(run[i] for run in runs), strict=True))
            for i in range(len(questions))
        ]


async def choose(
    session: Session,
    context: Context,
    questions: Sequence[Question],
    *,
    scoring: Scoring,
    priors: Priors | None,
) -> list[Answer]:
    """Answer all questions in one batch at `context`, in the order asked.

    Raises what `Engine.score` raises, and TokenizationChanged.
    """
    scores = await _log_scores(session, context, questions)
    use_prior = priors is not None and scoring.calibration != 0
    leans = await priors.of(session, questions) if priors and use_prior else [(0.0,) * len(s) for s in scores]
    return [
        _answer(question, log_scores, calibrated(log_scores, lean, scoring.strength(question), question.nothing))
        for question, log_scores, lean in zip(questions, scores, leans, strict=True)
    ]


def _answer(question: Question, raw: Sequence[float], scores: Sequence[float]) -> Answer:
    probabilities = _normalised(scores)
    return Answer(
        question=question,
        index=max(range(len(probabilities)), key=probabilities.__getitem__),
        probabilities=probabilities,
        raw_probabilities=_normalised(raw),
        legal_mass=min(1.0, sum(map(math.exp, raw))),
    )


async def _log_scores(session: Session, context: Context, questions: Sequence[Question]) -> list[tuple[float, ...]]:
    tries = [_trie(session, context, question) for question in questions]
    branches = [branch for trie in tries for branch in trie.branches]
    logprobs = await session.score(context.ids, branches)
    scores: list[tuple[float, ...]] = []
    start = 0
    for question, trie in zip(questions, tries, strict=True):
        own = logprobs[start : start + len(trie.branches)]
        start += len(trie.branches)
        scores.append(_by_answer(question, trie.log_scores(own)))
    return scores


def _trie(session: Session, context: Context, question: Question) -> OptionTrie:
    return build_trie(option_lines(session.tokenizer, context.line(question.lead), question.texts))


def _by_answer(question: Question, log_scores: Sequence[float]) -> tuple[float, ...]:
    members: list[list[float]] = [[] for _ in question.answers]
    for group, score in zip(question.groups, log_scores, strict=True):
        members[group].append(score)
    return tuple(map(_log_sum_exp, members))


def _log_sum_exp(values: Sequence[float]) -> float:
    top = max(values)
    return top + math.log(sum(math.exp(value - top) for value in values))


def _normalised(log_scores: Sequence[float]) -> tuple[float, ...]:
    total = _log_sum_exp(log_scores)
    return tuple(math.exp(score - total) for score in log_scores)


def require_confidence(answers: Sequence[Answer], limits: Limits) -> None:
    """Check answers against the limits on legal mass and probability.

    Raises:
        Abstained: naming the first answer that stays below, with the evidence of all.
    """
    for answer in answers:
        probability = answer.probabilities[answer.index]
        for name, found, least in (
            ("legal mass", answer.legal_mass, limits.min_legal_mass),
            ("probability", probability, limits.min_probability),
        ):
            if least is not None and found < least:
                where = pointer(answer.question.path) or "(whole)"
                reason = f"'{where}': {name} {found:.3g} is below the limit of {least:.3g}"
                raise Abstained(reason, [a.evidence() for a in answers])
