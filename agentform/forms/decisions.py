"""Typed decisions: yes/no, one of several, and scores, asked of a text and answered with calibrated probabilities.

The convention of decision endpoints as a thin layer over forms: each question is one closed leaf, all are scored in
one batch, and no token is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, TypeAlias

from agentform.decoding.limits import Limits
from agentform.decoding.prompt_work import OPTION_CHARACTERS, prompt_work
from agentform.decoding.session import Session
from agentform.errors import InvalidInput, UnsupportedSchema
from agentform.forms.answer import Answer
from agentform.forms.fill import Prompts, as_messages
from agentform.forms.label_prior import PriorStore, priors_of
from agentform.forms.questions import open_questions
from agentform.forms.scoring import Scoring, choose, require_confidence
from agentform.forms.state import FormState
from agentform.messages import JsonValue, Message, Usage
from agentform.runtime.engine import Engine
from agentform.schema.json_text import text_or_json
from agentform.schema.target import load

__all__ = [
    "Asked",
    "Decision",
    "Decisions",
    "OneOf",
    "Score",
    "YesNo",
    "decide",
    "decision_of",
    "require_options",
]


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
        UnsupportedSchema: a question has fewer than two options.
    """
    if not questions:
        raise InvalidInput("decide needs at least one question; got none")
    for name, question in questions.items():
        if len(question.told) < 2:
            num = len(question.told)
            raise UnsupportedSchema(f"question {name!r} needs at least two options to choose from; got {num}")


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The answer to one question."""

    value: JsonValue
    probability: float
    probabilities: tuple[tuple[JsonValue, float], ...]
    """Every option with its calibrated probability, in the order asked; they sum to one."""
    legal_mass: float

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

    def __getitem__(self, name: str) -> Decision:
        return self.decided[name]

    def __iter__(self) -> Any:
        return iter(self.decided)

    def __len__(self) -> int:
        return len(self.decided)


async def decide(
    engine: Engine,
    state: str | Sequence[Message],
    questions: Mapping[str, Asked],
    *,
    instructions: str = "",
    limits: Limits | None = None,
    scoring: Scoring | None = None,
    priors: PriorStore | None = None,
) -> Decisions:
    """Answer every question about `state`, a text or a conversation, in one batch.

    Raises:
        InvalidInput: no question is asked.
        UnsupportedSchema: a question has fewer than two options.
        Abstained: a decision stayed below the limits on legal mass or probability.
        EngineError: the engine cannot serve the request.
    """
    require_options(questions)
    properties = {name: question.schema() for name, question in questions.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    size = sum(len(leaf["description"]) + OPTION_CHARACTERS * len(leaf.get("enum", ())) for leaf in properties.values())
    target = await prompt_work(size, load, schema, name="decisions")
    prompts = Prompts(engine, target, instructions)
    session = Session(engine, limits=limits or Limits())
    point, label_priors = await prompts.prepared(as_messages(state), priors or priors_of(engine))
    answers = await choose(
        session,
        point,
        open_questions(FormState(root=target.form.root)),
        scoring=scoring or Scoring.of(engine),
        priors=label_priors,
    )
    require_confidence(answers, session.limits)
    return Decisions(
        decided={str(a.question.path[0]): decision_of(a) for a in answers},
        usage=session.usage,
        prompt_usage=session.prompt_usage or Usage(),
    )


def decision_of(answer: Answer) -> Decision:
    """What an answer says to whoever asked."""
    return Decision(
        value=answer.value,
        probability=answer.probabilities[answer.index],
        probabilities=tuple(zip(answer.question.answers, answer.probabilities, strict=True)),
        legal_mass=answer.legal_mass,
    )
