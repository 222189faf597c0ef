"""Decides the closed leaves of a form: independent ones in one batch, dependent ones in later waves.

Leaves that depend on one another are searched with a beam: the parents' most probable values stay alive, their
children are scored under each of them in the same batch, and the best sum of log p(parent) + log p(child | parent)
wins. A greedy parent that leaves its children improbable therefore loses to a better pair.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeAlias

from agentform.decoding.insertion_point import Place
from agentform.decoding.session import Session
from agentform.forms.cardinality import within_bounds
from agentform.forms.generate import generate_leaf
from agentform.forms.joint import best_first
from agentform.forms.json_pieces import Kind
from agentform.forms.progress import Watch
from agentform.forms.questions import Question, early_free_leaves, open_questions
from agentform.forms.scoring import Answer, Priors, Scoring, choose, require_confidence
from agentform.schema.form import Node, Path, Record, Subset, Union, leaves

__all__ = ["Answers", "Decided", "decide", "indices"]

Answers: TypeAlias = Mapping[tuple[Path, Kind], Answer]
_Group: TypeAlias = tuple[Path, str]
"""Fields of one record that are linked by dependencies: the record's path and the name of one of them."""
_FEW_OPTIONS = 16
"""Values of so many options, at most, are asked for before it is known that their property is there."""


@dataclass(frozen=True, kw_only=True)
class Decided:
    """Answers to every closed question, and the free leaves that had to be written ahead of the whole."""

    answers: Answers
    texts: Mapping[Path, str]
    cut_short: frozenset[Path]
    """Those of them that were generated again with less room."""


@dataclass(frozen=True, kw_only=True)
class _Hypothesis:
    answers: Answers = field(default_factory=dict[tuple[Path, Kind], Answer])
    log_p: float = 0.0


def indices(answers: Answers) -> dict[tuple[Path, Kind], int]:
    """The answers as plain decisions."""
    return {key: answer.index for key, answer in answers.items()}


async def decide(
    session: Session,
    place: Place,
    root: Node,
    *,
    scoring: Scoring,
    priors: Priors | None,
    answers: Answers | None = None,
    texts: Mapping[Path, str] | None = None,
    watch: Watch | None = None,
) -> Decided:
    """Answer every closed question of the form that `answers` does not; free leaves in `texts` are given.

    Raises:
        Abstained: a choice stayed below the limits on legal mass or probability.
        ArgumentsTruncated: a free leaf that others depend on was not complete within its token limit.
    """
    search = _Search(root, dict(answers or {}), dict(texts or {}))
    cut_short: set[Path] = set()
    while True:
        while wave := search.wave(ahead=not scoring.running):
            questions = {question.place: question for _, _, question in wave}
            found = await choose(session, place, list(questions.values()), scoring=scoring, priors=priors)
            search.take(wave, dict(zip(questions, found, strict=True)), width=scoring.beam)
        search.settle()
        search.drop_absent()
        places = early_free_leaves(root, indices(search.answers), search.texts)
        if not places:
            break
        for early in places:
            context = place.json().with_text(f"{early.lead} ")
            made = await generate_leaf(session, context, early.leaf, follow="}", watch=watch)
            search.texts[early.leaf.path] = made.text
            cut_short |= {early.leaf.path} if made.cut_short else set()
    require_confidence(list(search.answers.values()), session.limits)
    return Decided(answers=search.answers, texts=search.texts, cut_short=frozenset(cut_short))


class _Search:
    def __init__(self, root: Node, answers: dict[tuple[Path, Kind], Answer], texts: dict[Path, str]) -> None:
        self._root = root
        self._linked = dict(_linked_fields(root))
        self._subsets = [leaf for leaf in leaves(root) if isinstance(leaf, Subset)]
        self._beams: dict[_Group, list[_Hypothesis]] = {}
        self.answers = answers
        self.texts = texts

    def wave(self, *, ahead: bool = False) -> list[tuple[_Group | None, int, Question]]:
        """Open questions, each with its group and the hypothesis under which it is asked.

        With `ahead` the values of optional properties are asked for beside their presence; see `drop_absent`.
        """
        alone = [question for question in self._open(_Hypothesis()) if self._group(question) is None]
        found = [(None, 0, question) for question in (*alone, *(self._ahead(alone) if ahead else ()))]
        linked: list[tuple[_Group | None, int, Question]] = []
        for group in dict.fromkeys(self._linked.values()):
            for number, hypothesis in enumerate(self._beams.get(group, [_Hypothesis()])):
                linked += [(group, number, q) for q in self._open(hypothesis) if self._group(q) == group]
        return [*found, *linked]

    def take(
        self,
        wave: Sequence[tuple[_Group | None, int, Question]],
        found: Mapping[tuple[str, ...], Answer],
        *,
        width: int,
    ) -> None:
        """Keep the answers of independent questions, and for linked ones the `width` best hypotheses."""
        asked: dict[_Group, dict[int, list[Answer]]] = {}
        for group, number, question in wave:
            if group is None:
                self.answers[question.key] = found[question.place]
            else:
                asked.setdefault(group, {}).setdefault(number, []).append(found[question.place])
        self.answers = within_bounds(self._subsets, self.answers)
        for group, answers in asked.items():
            beam = self._beams.get(group, [_Hypothesis()])
            grown = [new for n, old in enumerate(beam) for new in self._grow(old, answers.get(n, []), width)]
            self._beams[group] = sorted(grown, key=lambda hypothesis: -hypothesis.log_p)[:width]

    def _grow(self, hypothesis: _Hypothesis, answers: Sequence[Answer], width: int) -> list[_Hypothesis]:
        """The `width` most probable continuations of a hypothesis; itself when nothing was asked under it."""
        if not answers:
            return [hypothesis]
        rows = [[math.log(max(p, 1e-300)) for p in answer.probabilities] for answer in answers]
        grown: list[_Hypothesis] = []
        for picks, log_p in islice(best_first(rows), width):
            taken = {a.question.key: replace(a, index=i) for a, i in zip(answers, picks, strict=True)}
            fitted = within_bounds(self._subsets, dict(hypothesis.answers) | taken)
            grown.append(_Hypothesis(answers=fitted, log_p=hypothesis.log_p + log_p))
        return grown

    def settle(self) -> None:
        """Take the best hypothesis of each group for good."""
        for beam in self._beams.values():
            self.answers |= beam[0].answers
        self._beams.clear()

    def drop_absent(self) -> None:
        """Forget the values of properties that turned out to be absent."""
        absent = {path for (path, kind), answer in self.answers.items() if kind == "presence" and not answer.index}
        self.answers = {
            key: answer for key, answer in self.answers.items() if key[1] != "value" or key[0] not in absent
        }

    def _ahead(self, asked: Sequence[Question]) -> list[Question]:
        """The values of the properties whose presence is `asked` for.

        They stand behind the same key, so that they cost a token or two each and save a request where it is there.
        """
        present = {question.key: 1 for question in asked if question.kind == "presence"}
        opened = open_questions(self._root, indices(self.answers) | present, self.texts) if present else ()
        return [
            question
            for question in opened
            if question.kind == "value"
            and (question.path, "presence") in present
            and len(question.answers) <= _FEW_OPTIONS
        ]

    def _open(self, hypothesis: _Hypothesis) -> list[Question]:
        return open_questions(self._root, indices(self.answers | dict(hypothesis.answers)), self.texts)

    def _group(self, question: Question) -> _Group | None:
        prefixes = (question.path[:length] for length in range(1, len(question.path) + 1))
        return next((self._linked[prefix] for prefix in prefixes if prefix in self._linked), None)


def _linked_fields(node: Node) -> list[tuple[Path, _Group]]:
    """Paths of the fields that depend on others or are depended on, each with its group."""
    if isinstance(node, Union):
        return [pair for arm in node.arms for pair in _linked_fields(arm)]
    if not isinstance(node, Record):
        return []
    found = [((*node.path, name), (node.path, group)) for name, group in _groups(node).items()]
    return found + [pair for item in node.fields for pair in _linked_fields(item.node)]


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
