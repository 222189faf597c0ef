"""Answers questions by scoring their options: one batch per wave, no token written."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from agentform._util.gather import at_once
from agentform._util.prefixes import shared_prefix
from agentform.decoding.insertion_point import InsertionPoint
from agentform.decoding.limits import Limits
from agentform.decoding.prompt_work import OPTION_CHARACTERS, prompt_work
from agentform.decoding.session import Session
from agentform.decoding.token_context import TokenContext
from agentform.errors import Abstained, InvalidInput
from agentform.forms.answer import Answer, Question
from agentform.forms.label_prior import PriorStore, calibrated, timeless
from agentform.forms.option_trie import OptionTrie, build_any_trie, build_trie, option_lines
from agentform.forms.prompt_style import LeadIn, Posed, pose
from agentform.forms.symmetry import Posing, Symmetry
from agentform.runtime.engine import Branch, Engine, Tokenizer
from agentform.schema.form import pointer

__all__ = ["Priors", "Scoring", "answer_from", "choose", "choose_among_ways", "posed_lines", "require_confidence"]

_LOG = logging.getLogger("agentform.priors")
_Put: TypeAlias = tuple[InsertionPoint, Question]
"""A question and the prompt it is put in."""


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How options are scored."""

    beam: int = 4
    """Hypotheses kept alive where leaves depend on one another."""
    max_gap: float = 6.0
    """Log probability that a joint solution may give up before the leaves are decided in sequence instead."""
    lead_in: LeadIn = "key"
    """How questions are put; see docs/measurements.md for what each is good for."""
    list_fields: bool = False
    """Whether `fill` and `decide` name every field with its description and options in the system message.

    Some models use that and others are led astray by it; `agentform tune` finds out.
    """
    rotations: int = 1
    """Orders in which letters are put to the options, each begun at another option; the log scores are averaged.

    A model that leans to a letter or a position then leans to every option alike. Other lead-ins list no options.
    """
    symmetry: Symmetry | None = None
    """Tokens that `decide` may spend on putting a question in further ways, which are averaged; ``"exact"`` for all.

    Options then stand in an order of their own, so that the answer is the same whatever order they were given in, and
    options that are the same share one probability. 0 spends nothing beyond that. Every question is asked by itself.
    `None`: as it was asked. Forms and calls are filled without. See docs/calibration.md.
    """
    temperature: float = 1.0
    """Divides the log scores before they become probabilities; above 1 they become less certain."""
    running: float = 0.0
    """Weight of the content-free prior, in requests, against the mean over the requests seen so far.

    0 uses the content-free prior alone, so that an answer does not depend on what was asked before it.
    """
    calibration: float = 0.9
    """Share of the label prior that is taken out of the log scores; 0 leaves them raw. See docs/measurements.md."""
    calibration_with_nothing: float = 0.7
    """The share, at most, for questions that may be answered with nothing: null or absence."""

    def __post_init__(self) -> None:
        """Check what would otherwise be noticed only at the first question.

        Raises:
            InvalidInput: `symmetry` is neither a number of tokens nor "exact".
        """
        given: object = self.symmetry
        if given is None or given == "exact" or (type(given) is int and given >= 0):
            return
        raise InvalidInput(f'symmetry must be a number of tokens from 0 on, "exact" or None, got {given!r}')

    @classmethod
    def of(cls, engine: Engine) -> Scoring:
        """The defaults, with what `agentform tune` found for the engine's model.

        Raises:
            InvalidInput: the tuned settings hold something else than settings.
        """
        try:
            return cls(**engine.info.scoring)
        except TypeError as error:
            raise InvalidInput(f"the tuned scoring of {engine.info.name} does not fit: {error}") from error

    def strength(self, question: Question) -> float:
        """The share of the label prior to take out for a question."""
        return self.calibration if question.nothing is None else min(self.calibration, self.calibration_with_nothing)


class Priors:
    """The label priors of the questions of one form, measured in content-free contexts when first needed."""

    def __init__(self, store: PriorStore, engine: Engine, points: Sequence[InsertionPoint], *identity: object) -> None:
        """`points`: one for each of `CONTENT_FREE`, in prompts that are otherwise alike."""
        self._store = store
        self._points = tuple(points)
        first = points[0].before
        prompt = timeless(engine.tokenizer.decode(first.ids) + first.tail)
        # One digest for all questions: prompts are long, and every question's key would hash them again.
        self._identity = store.key(engine.info.digest, *identity, prompt)

    async def of(self, session: Session, questions: Sequence[Question], scoring: Scoring) -> list[tuple[float, ...]]:
        """Mean log score of every answer of every question over the content-free contexts."""
        keys = [self._key(question, scoring) for question in questions]
        known = [self._store.get(key, size=len(q.answers)) for key, q in zip(keys, questions, strict=True)]
        missing = {keys[i]: questions[i].for_prior for i, prior in enumerate(known) if prior is None}
        measured = dict[str, tuple[float, ...]]()
        if missing:
            _LOG.info("measuring how the model leans in %d questions, once for this prompt …", len(missing))
            measured = dict(zip(missing, await self._measure(session, list(missing.values()), scoring), strict=True))
        for key, prior in measured.items():
            self._store.put(key, prior)
        priors = [measured[key] if prior is None else prior for key, prior in zip(keys, known, strict=True)]
        return [self._store.mixed(key, p, scoring.running) for key, p in zip(keys, priors, strict=True)]

    def observe(self, questions: Sequence[Question], scores: Sequence[Sequence[float]], scoring: Scoring) -> None:
        """Add what real requests scored to the running mean."""
        if scoring.running:
            for question, log_scores in zip(questions, scores, strict=True):
                self._store.observe(self._key(question, scoring), log_scores)

    def _key(self, question: Question, scoring: Scoring) -> str:
        q = question.for_prior
        return self._store.key(
            self._identity, scoring.lead_in, scoring.rotations, q.lead, q.texts, q.groups, q.description
        )

    async def _measure(
        self, session: Session, questions: Sequence[Question], scoring: Scoring
    ) -> list[tuple[float, ...]]:
        ask = partial(_log_scores, session, scoring=scoring, aside=True)
        runs = await at_once([partial(ask, [(point, q) for q in questions]) for point in self._points])
        return [
            tuple(sum(column) / len(runs) for column in zip(*(run[i] for run in runs), strict=True))
            for i in range(len(questions))
        ]


async def choose(
    session: Session,
    point: InsertionPoint,
    questions: Sequence[Question],
    *,
    scoring: Scoring,
    priors: Priors | None,
) -> list[Answer]:
    """Answer all questions in one batch at `point`, in the order asked.

    Raises:
        EngineError: the engine cannot serve the request; DeadlineExceeded among them.
        TokenizationChanged: options cannot be told apart by their tokens, or do not survive tokenisation.
    """
    scores = await _log_scores(session, [(point, question) for question in questions], scoring)
    leans = [(0.0,) * len(log_scores) for log_scores in scores]
    if priors is not None and scoring.calibration != 0:
        leans = await priors.of(session, questions, scoring)
        priors.observe(questions, scores, scoring)
    return [
        answer_from(question, raw, lean, scoring) for question, raw, lean in zip(questions, scores, leans, strict=True)
    ]


async def choose_among_ways(
    session: Session,
    question: Question,
    put: Sequence[tuple[Posing, InsertionPoint, Question, Priors]],
    *,
    scoring: Scoring,
) -> Answer:
    """Answer `question` from all the ways in which it is put, read in one request: branches of what they share.

    Raises:
        EngineError, TokenizationChanged: as `choose` raises them.
    """
    scores = await _log_scores(session, [(point, asked) for _, point, asked, _ in put], scoring)
    raw = [way.spread(row) for (way, *_), row in zip(put, scores, strict=True)]
    leans = [way.placed((0.0,) * len(way.told)) for way, *_ in put]
    if scoring.calibration != 0:
        found = await at_once([partial(priors.of, session, [asked], scoring) for _, _, asked, priors in put])
        leans = [way.placed(lean) for (way, *_), [lean] in zip(put, found, strict=True)]
        for (_, _, asked, priors), row in zip(put, scores, strict=True):
            priors.observe([asked], [row], scoring)
    answer = answer_from(question, _mean(raw), _mean(leans), scoring)
    return replace(answer, ways=len(put))


def _mean(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(sum(column) / len(rows) for column in zip(*rows, strict=True))


def answer_from(question: Question, raw: Sequence[float], lean: Sequence[float], scoring: Scoring) -> Answer:
    """The answer that raw log scores and a label prior give."""
    scores = calibrated(raw, lean, scoring.strength(question), question.nothing)
    probabilities = _normalised([score / scoring.temperature for score in scores])
    return Answer(
        question=question,
        index=max(range(len(probabilities)), key=probabilities.__getitem__),
        probabilities=probabilities,
        raw_probabilities=_normalised(raw),
        legal_mass=min(1.0, sum(map(math.exp, raw))),
    )


async def _log_scores(
    session: Session, put: Sequence[_Put], scoring: Scoring, *, aside: bool = False
) -> list[tuple[float, ...]]:
    """Log score of each answer of each question; one request for all."""
    size = OPTION_CHARACTERS * sum(len(question.texts) for _, question in put)
    batch = await prompt_work(size, _prepare, session.tokenizer, put, scoring)
    logprobs = iter(await session.score(batch.prompt_ids, batch.branches, aside=aside))
    scored = iter([trie.log_scores([next(logprobs) for _ in trie.branches]) for trie in batch.tries])
    return [_by_answer(items, [next(scored) for _ in items]) for items in batch.posed]


@dataclass(frozen=True, kw_only=True)
class _Batch:
    """Questions, ready to be scored."""

    posed: Sequence[Sequence[Posed]]
    prompt_ids: tuple[int, ...]
    tries: Sequence[OptionTrie]

    @property
    def branches(self) -> list[Branch]:
        return [branch for trie in self.tries for branch in trie.branches]


def _prepare(tokenizer: Tokenizer, put: Sequence[_Put], scoring: Scoring) -> _Batch:
    posed = [pose(question, point, scoring.lead_in, rotations=scoring.rotations) for point, question in put]
    every = [item for items in posed for item in items]
    prompt_ids, lines = posed_lines(tokenizer, every)
    begin, asks_action = put[0][0].json(), put[0][1].kind == "action"
    opening = () if asks_action else _opening(tokenizer, begin, every, lines)
    build = build_trie if begin.style is None else build_any_trie
    tries = [build([line[len(opening) :] for line in own]) for own in lines]
    return _Batch(posed=posed, prompt_ids=prompt_ids + opening, tries=tries)


def posed_lines(tokenizer: Tokenizer, posed: Sequence[Posed]) -> tuple[tuple[int, ...], list[list[tuple[int, ...]]]]:
    """Token ids of the prompt that questions share, and for each its texts' after that.

    Raises:
        TokenizationChanged: a text does not survive tokenisation.
    """
    # Prompts differ where a lead-in stands before a frame with control tokens.
    prompt_ids = shared_prefix([item.context.ids for item in posed])
    return prompt_ids, [_lines(tokenizer, item, len(prompt_ids)) for item in posed]


def _lines(tokenizer: Tokenizer, posed: Posed, num_shared: int) -> list[tuple[int, ...]]:
    own = posed.context.ids[num_shared:]
    if posed.context.style is not None:
        options = (posed.context.with_text(posed.lead + text) for text in posed.texts)
        return [option.token_ids(tokenizer)[num_shared:] for option in options]
    return [own + line for line in option_lines(tokenizer, posed.context.line(posed.lead), posed.texts)]


def _opening(
    tokenizer: Tokenizer, begin: TokenContext, posed: Sequence[Posed], lines: Sequence[Sequence[tuple[int, ...]]]
) -> tuple[int, ...]:
    """Tokens of the frame before the JSON with which every line begins.

    Whatever comes next begins with them too: read as a part of the prompt they stay in the cache.
    """
    if not begin.tail or any(item.context != begin for item in posed):
        return ()
    return shared_prefix([tokenizer.encode(begin.tail), *(line for own in lines for line in own)])


def _by_answer(posed: Sequence[Posed], scored: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The mean over the ways in which a question was put; texts that stand for one answer are summed."""
    rows: list[list[float]] = []
    for item, log_scores in zip(posed, scored, strict=True):
        members: dict[int, list[float]] = {}
        for group, score in zip(item.groups, log_scores, strict=True):
            members.setdefault(group, []).append(score)
        rows.append([_log_sum_exp(members[answer]) for answer in range(len(members))])
    return _mean(rows)


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
        for name, reached, least in (
            ("legal mass", answer.legal_mass, limits.min_legal_mass),
            ("probability", probability, limits.min_probability),
        ):
            if least is not None and reached is not None and reached < least:
                where = pointer(answer.question.path) or "(whole)"
                reason = f"'{where}': {name} {reached:.3g} is below the limit of {least:.3g}"
                raise Abstained(reason, [a.evidence() for a in answers])
