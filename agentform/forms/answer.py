"""One question about a form, and the answer that scoring its options gave."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from agentform.messages import Alternative, Evidence, How, JsonValue
from agentform.schema.form import Path, Subset, pointer

__all__ = ["MEMBER", "Answer", "Answers", "Question", "QuestionKey", "QuestionKind", "assumed", "member_key"]

QuestionKind = Literal["value", "arm", "presence", "member", "count", "action"]
QuestionKey: TypeAlias = tuple[Path, QuestionKind]
MEMBER = 0
"""The answer that says that an option is in the list."""
_NUM_ALTERNATIVES = 3
_LEAST = 1e-300


@dataclass(frozen=True, kw_only=True)
class Question:
    """One choice, as text in context."""

    path: Path
    kind: QuestionKind
    lead: str
    """What is written between the opening of the arguments and the options."""
    texts: tuple[str, ...]
    """Option texts, each with the text that follows it."""
    groups: tuple[int, ...]
    """The answer that each text stands for; several texts may stand for one answer."""
    answers: tuple[JsonValue, ...]
    """What each answer means: a value, an arm's label, or whether the property is present."""
    description: str = ""
    alone: str | None = None
    """`lead` without the values of other fields, where it holds some: the label prior is measured there."""

    nothing: int | None = None
    """The answer that stands for "nothing is said": null, a null arm, absence."""

    @property
    def key(self) -> QuestionKey:
        """Where in `FormState.answers` the answer goes."""
        return (self.path, self.kind)

    @property
    def identity(self) -> tuple[str, ...]:
        """What tells the questions of a form apart; the same question may be asked after several leads."""
        return (self.kind, self.lead, *self.path)

    @property
    def for_prior(self) -> Question:
        """The question as it is put where its label prior is measured."""
        return self if self.alone is None else replace(self, lead=self.alone, alone=None)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answered question. Probabilities are over the question's answers and sum to one."""

    question: Question
    index: int
    probabilities: tuple[float, ...]
    raw_probabilities: tuple[float, ...]
    legal_mass: float | None
    """`None` where a decision model answered, which does not say."""
    by: str = ""
    """The decision model that answered; empty for the engine's own model."""
    ways: int = 1
    """In how many ways the question was put."""

    @property
    def value(self) -> JsonValue:
        """The answer taken."""
        return self.question.answers[self.index]

    @property
    def log_probabilities(self) -> tuple[float, ...]:
        """Of each answer, finite also where rounding left none."""
        return tuple(math.log(max(p, _LEAST)) for p in self.probabilities)

    def evidence(self, *, how: How | None = None, gap: float | None = None) -> Evidence:
        """The answer as evidence for its leaf.

        Without `how`: scored, or joint where a less probable option was taken for the sake of what depends on it.
        """
        ranked = sorted(range(len(self.probabilities)), key=lambda i: -self.probabilities[i])
        others = [i for i in ranked if i != self.index][:_NUM_ALTERNATIVES]
        lost = math.log(self.probabilities[ranked[0]] / max(self.probabilities[self.index], _LEAST))
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
            by=self.by,
            ways=self.ways,
        )


Answers: TypeAlias = Mapping[QuestionKey, Answer]


def assumed(question: Question, index: int) -> Answer:
    """An answer that is taken for granted, to see what would be asked next."""
    certain = tuple(float(at == index) for at in range(len(question.answers)))
    return Answer(question=question, index=index, probabilities=certain, raw_probabilities=certain, legal_mass=1.0)


def member_key(node: Subset, at: int) -> QuestionKey:
    """Where in `FormState.answers` it stands whether option `at` is in the list."""
    return ((*node.path, str(at)), "member")
