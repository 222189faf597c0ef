"""Closed questions as they are asked from outside a form: yes/no, one of several and scores; and their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, TypeAlias

from agentform.errors import InvalidInput, UnsupportedSchema
from agentform.evidence_html import evidence_html, shown, usage_html
from agentform.messages import Alternative, Evidence, JsonValue, Usage
from agentform.schema.json_text import dumps, text_or_json

__all__ = ["Asked", "Decision", "Decisions", "OneOf", "Score", "YesNo", "require_options"]


@dataclass(frozen=True)
class YesNo:
    """A question that is answered with yes or no."""

    question: str
    yes: str = ""
    """What counts as a yes."""
    no: str = ""

    @property
    def told(self) -> Sequence[tuple[JsonValue, str]]:
        """The options with what is said of each."""
        return [(True, self.yes), (False, self.no)]

    def schema(self) -> dict[str, Any]:
        """The leaf that asks it."""
        return {"type": "boolean", "description": _described(self)}


@dataclass(frozen=True)
class OneOf:
    """A question that is answered with one of at least two options."""

    question: str
    options: Sequence[JsonValue]
    descriptions: Sequence[str] = ()
    """When each option applies, in their order; empty texts and those left out say nothing."""

    @property
    def told(self) -> Sequence[tuple[JsonValue, str]]:
        """The options with what is said of each."""
        return list(zip_longest(self.options, self.descriptions[: len(self.options)], fillvalue=""))

    def schema(self) -> dict[str, Any]:
        """The leaf that asks it."""
        return {"enum": list(self.options), "description": _described(self)}


@dataclass(frozen=True)
class Score:
    """A question that is answered with a whole number between `least` and `most`, both included."""

    question: str
    least: int = 1
    most: int = 5
    levels: Sequence[str] = ()
    """What each number means, from `least` on; where given, there are as many numbers as levels, whatever `most` is."""

    @property
    def told(self) -> Sequence[tuple[JsonValue, str]]:
        """The numbers with what is said of each."""
        if self.levels:
            return list(enumerate(self.levels, self.least))
        return [(number, "") for number in range(self.least, self.most + 1)]

    def schema(self) -> dict[str, Any]:
        """The leaf that asks it."""
        return {"enum": [number for number, _ in self.told], "description": _described(self)}


Asked: TypeAlias = YesNo | OneOf | Score


def _described(asked: Asked) -> str:
    """The question in one line, with what is said of its options."""
    notes = "; ".join(f"{text_or_json(option)}: {said}" for option, said in asked.told if said)
    return f"{asked.question} ({notes})" if notes else asked.question


def require_options(questions: Mapping[str, Asked]) -> None:
    """Check that there are questions, and something to choose in each.

    Raises:
        InvalidInput: no question is asked.
        UnsupportedSchema: a question has fewer than two different options.
    """
    if not questions:
        raise InvalidInput("decide needs at least one question; got none")
    for name, question in questions.items():
        num = len({dumps(option) for option, _ in question.told})
        if num < 2:
            raise UnsupportedSchema(f"question {name!r} needs at least two options to choose from; got {num}")


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The answer to one question."""

    value: JsonValue
    probability: float
    probabilities: tuple[tuple[JsonValue, float], ...]
    """Every option with its calibrated probability, in the order asked; they sum to one."""
    legal_mass: float | None = None
    """Probability that the full softmax gives to the options together; `None` where a decision model does not say."""
    by: str = ""
    """The decision model that decided; empty where it was the engine's own model."""
    ways: int = 1
    """In how many ways the question was put: see `Scoring.symmetry`."""

    def as_evidence(self, name: str) -> Evidence:
        """The decision as evidence of a leaf of this name, with all options that it did not take."""
        others = sorted(self.probabilities, key=lambda option: -option[1])
        taken = next((at for at, (option, _) in enumerate(others) if option == self.value), None)
        rest = [Alternative(value=v, probability=p) for at, (v, p) in enumerate(others) if at != taken]
        return Evidence(
            pointer=name,
            value=self.value,
            how="scored",
            probability=self.probability,
            legal_mass=self.legal_mass,
            alternatives=tuple(rest),
            by=self.by,
            ways=self.ways,
        )

    @property
    def noul(self) -> float:
        """The probability of yes, for questions of yes and no.

        Raises:
            InvalidInput: the options are not yes and no.
        """
        found = [p for option, p in self.probabilities if option is True]
        if not found:
            raise InvalidInput("only a decision between yes and no has a probability of yes")
        return found[0]

    @property
    def confidence(self) -> float:
        """The probability of the most probable option."""
        return max(p for _, p in self.probabilities)

    @property
    def expected(self) -> float:
        """The mean of the options by probability, for scores.

        Raises:
            InvalidInput: the options are not numbers.
        """
        numbers = [(option, p) for option, p in self.probabilities if isinstance(option, (int, float))]
        if len(numbers) < len(self.probabilities):
            raise InvalidInput("only a decision between numbers has an expected value")
        return sum(option * p for option, p in numbers)


@dataclass(frozen=True, kw_only=True)
class Decisions(Mapping[str, Decision]):
    """The decisions by the names of their questions, and what they cost."""

    decided: Mapping[str, Decision]
    usage: Usage
    prompt_usage: Usage = field(default_factory=Usage)
    """Of the request that answered; `usage` also counts the measuring of priors that were not known."""

    def _repr_html_(self) -> str:
        """For notebooks: each question with its options."""
        evidence = [decision.as_evidence(name) for name, decision in self.decided.items()]
        return shown(evidence_html(evidence), usage_html(self.usage, self.prompt_usage))

    def __getitem__(self, name: str) -> Decision:
        return self.decided[name]

    def __iter__(self) -> Any:
        return iter(self.decided)

    def __len__(self) -> int:
        return len(self.decided)
