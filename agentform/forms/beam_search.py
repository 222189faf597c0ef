"""Decides the closed leaves of a form: independent ones in one batch, dependent ones in later waves.

Leaves that depend on one another are searched with a beam: the parents' most probable values stay alive, their
children are scored under each of them in the same batch, and the best sum of log p(parent) + log p(child | parent)
wins. A greedy parent that leaves its children improbable therefore loses to a better pair.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TypeAlias

from agentform.decoding.insertion_point import InsertionPoint
from agentform.decoding.session import Session
from agentform.forms.answer import MEMBER, Answer, Answers, Question, QuestionKey, assumed, member_key
from agentform.forms.elsewhere import Elsewhere
from agentform.forms.questions import open_questions
from agentform.forms.scoring import Priors, Scoring, choose
from agentform.forms.state import FormState
from agentform.schema.form import Node, Path, Record, Subset, Union, leaves

__all__ = ["answer_waves", "best_first", "best_subset"]

_Group: TypeAlias = tuple[Path, str]
"""Fields of one record that are linked by dependencies: the record's path and the name of one of them."""
_FEW_OPTIONS = 16
"""Values of so many options, at most, are asked for before it is known that their property is there."""


async def answer_waves(
    session: Session,
    point: InsertionPoint,
    state: FormState,
    *,
    scoring: Scoring,
    priors: Priors | None,
    elsewhere: Elsewhere | None = None,
) -> FormState:
    """Answer every question that can be asked, and those that the answers open, until none is open.

    Where there is somebody `elsewhere` who decides, what stays open there is answered here.

    Raises:
        EngineError: the engine cannot serve a request; DeadlineExceeded among them.
        TokenizationChanged: options cannot be told apart by their tokens, or do not survive tokenisation.
    """
    search, here = _Search(state), partial(choose, session, point, scoring=scoring, priors=priors)
    while wave := search.wave(ahead=not scoring.running):
        questions = {asked.question.identity: asked.question for asked in wave}
        asked = list(questions.values())
        answers = await (elsewhere.answers(session, asked, here) if elsewhere else here(asked))
        search.take(wave, dict(zip(questions, answers, strict=True)), width=scoring.beam)
    return search.settled()


@dataclass(frozen=True, kw_only=True)
class _Hypothesis:
    answers: Answers = field(default_factory=dict[QuestionKey, Answer])
    log_p: float = 0.0


@dataclass(frozen=True, kw_only=True)
class _WaveQuestion:
    """A question of a wave; a linked one belongs to a group, and is asked under one of the group's hypotheses."""

    question: Question
    group: _Group | None = None
    hypothesis: int = 0


class _Search:
    def __init__(self, state: FormState) -> None:
        self._state = state
        self._linked = dict(_linked_fields(state.root))
        self._subsets = [leaf for leaf in leaves(state.root) if isinstance(leaf, Subset)]
        self._beams: dict[_Group, list[_Hypothesis]] = {}

    def wave(self, *, ahead: bool = False) -> list[_WaveQuestion]:
        """All open questions.

        With `ahead` the values of optional properties are asked for beside their presence; see `_without_absent`.
        """
        alone = [question for question in self._open(_Hypothesis()) if self._group(question) is None]
        wave = [_WaveQuestion(question=question) for question in (*alone, *(self._ahead(alone) if ahead else ()))]
        for group in dict.fromkeys(self._linked.values()):
            for number, hypothesis in enumerate(self._beams.get(group, [_Hypothesis()])):
                own = [question for question in self._open(hypothesis) if self._group(question) == group]
                wave += [_WaveQuestion(question=question, group=group, hypothesis=number) for question in own]
        return wave

    def take(self, wave: Sequence[_WaveQuestion], answers: Mapping[tuple[str, ...], Answer], *, width: int) -> None:
        """Keep the answers of independent questions, and for linked ones the `width` best hypotheses."""
        alone: dict[QuestionKey, Answer] = {}
        linked: dict[_Group, dict[int, list[Answer]]] = {}
        for asked in wave:
            answer = answers[asked.question.identity]
            if asked.group is None:
                alone[asked.question.key] = answer
            else:
                linked.setdefault(asked.group, {}).setdefault(asked.hypothesis, []).append(answer)
        self._state = replace(self._state, answers=self._within_bounds({**self._state.answers, **alone}))
        for group, under in linked.items():
            beam = self._beams.get(group, [_Hypothesis()])
            grown = [new for number, old in enumerate(beam) for new in self._grow(old, under.get(number, []), width)]
            self._beams[group] = sorted(grown, key=lambda hypothesis: -hypothesis.log_p)[:width]

    def settled(self) -> FormState:
        """The state with the best hypothesis of each group taken for good."""
        for beam in self._beams.values():
            self._state = self._state.with_answers(beam[0].answers)
        return _without_absent(self._state)

    def _grow(self, hypothesis: _Hypothesis, answers: Sequence[Answer], width: int) -> list[_Hypothesis]:
        """The `width` most probable continuations of a hypothesis; itself when nothing was asked under it."""
        if not answers:
            return [hypothesis]
        rows = [answer.log_probabilities for answer in answers]
        grown: list[_Hypothesis] = []
        for picks, log_p in islice(best_first(rows), width):
            taken = {a.question.key: replace(a, index=i) for a, i in zip(answers, picks, strict=True)}
            fitted = self._within_bounds({**hypothesis.answers, **taken})
            grown.append(_Hypothesis(answers=fitted, log_p=hypothesis.log_p + log_p))
        return grown

    def _within_bounds(self, answers: Answers) -> Answers:
        """The answers, with the members of every fully answered list changed to the best set within its bounds."""
        fitted = dict(answers)
        for subset in self._subsets:
            keys = [member_key(subset, at) for at in range(len(subset.options))]
            if all(key in answers for key in keys):
                odds = [answers[key].probabilities[MEMBER] for key in keys]
                taken = best_subset(odds, least=subset.min_items, most=subset.max_items)
                for key, member in zip(keys, taken, strict=True):
                    fitted[key] = replace(answers[key], index=MEMBER if member else 1 - MEMBER)
        return fitted

    def _ahead(self, alone: Sequence[Question]) -> list[Question]:
        """The values of the properties whose presence is asked for in `alone`.

        They stand after the same key, so that they cost a token or two each and save a request where it is there.
        """
        present = {question.key: assumed(question, 1) for question in alone if question.kind == "presence"}
        opened = open_questions(self._state.with_answers(present)) if present else ()
        return [
            question
            for question in opened
            if question.kind == "value"
            and (question.path, "presence") in present
            and len(question.answers) <= _FEW_OPTIONS
        ]

    def _open(self, hypothesis: _Hypothesis) -> list[Question]:
        return open_questions(self._state.with_answers(hypothesis.answers))

    def _group(self, question: Question) -> _Group | None:
        prefixes = (question.path[:length] for length in range(1, len(question.path) + 1))
        return next((self._linked[prefix] for prefix in prefixes if prefix in self._linked), None)


def _without_absent(state: FormState) -> FormState:
    """Without the values of properties that turned out to be absent."""
    absent = {path for (path, kind), answer in state.answers.items() if kind == "presence" and not answer.index}
    kept = {key: answer for key, answer in state.answers.items() if key[1] != "value" or key[0] not in absent}
    return replace(state, answers=kept)


def _linked_fields(node: Node) -> list[tuple[Path, _Group]]:
    """Paths of the fields that depend on others or are depended on, each with its group."""
    if isinstance(node, Union):
        return [pair for arm in node.arms for pair in _linked_fields(arm)]
    if not isinstance(node, Record):
        return []
    linked = [((*node.path, name), (node.path, group)) for name, group in _groups(node).items()]
    return linked + [pair for item in node.fields for pair in _linked_fields(item.node)]


def _groups(record: Record) -> dict[str, str]:
    """Each linked field's group, named by the first field in it."""
    groups: dict[str, set[str]] = {}
    for item in record.fields:
        members = {item.name, *item.depends_on}
        merged = members.union(*(groups[name] for name in members if name in groups))
        for name in merged if item.depends_on else ():
            groups[name] = merged
    order = [item.name for item in record.fields]
    return {name: min(group, key=order.index) for name, group in groups.items()}


def best_subset(probabilities: Sequence[float], *, least: int, most: int) -> tuple[bool, ...]:
    """The most probable set of independent members, given each one's probability, with `least` to `most` members.

    Exact: the probability of a set is the product over its members' odds, so the best set of any size holds the
    members of greatest odds.
    """
    ranked = sorted(range(len(probabilities)), key=lambda at: -probabilities[at])
    wanted = sum(p > 0.5 for p in probabilities)
    taken = set(ranked[: min(max(wanted, least), most)])
    return tuple(at in taken for at in range(len(probabilities)))


def best_first(log_probabilities: Sequence[Sequence[float]]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every combination of one option per choice, with its summed log probability, in falling order of that sum.

    Lazy: the first n combinations of k choices cost O(n k log n) time and O(n k) memory.
    """
    if not log_probabilities:
        return
    ranked = [sorted(range(len(row)), key=lambda i, row=row: -row[i]) for row in log_probabilities]
    start: tuple[int, ...] = (0,) * len(ranked)

    def total(ranks: tuple[int, ...]) -> float:
        return sum(row[order[rank]] for row, order, rank in zip(log_probabilities, ranked, ranks, strict=True))

    heap: list[tuple[float, tuple[int, ...]]] = [(-total(start), start)]
    seen: set[tuple[int, ...]] = {start}
    while heap:
        cost, ranks = heapq.heappop(heap)
        yield tuple(order[rank] for order, rank in zip(ranked, ranks, strict=True)), -cost
        for choice, rank in enumerate(ranks):
            worse = (*ranks[:choice], rank + 1, *ranks[choice + 1 :])
            if rank + 1 < len(ranked[choice]) and worse not in seen:
                seen.add(worse)
                heapq.heappush(heap, (-total(worse), worse))
