"""The fields of `POST /v1/systemone`: a state, and typed questions about it by name."""

from __future__ import annotations

from collections.abc import Sized
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from agentform.serve.parsing import Fields, Unsupported, at_most

__all__ = [
    "ChoiceQuestion",
    "NoulCriteria",
    "NoulQuestion",
    "ScoreQuestion",
    "SystemOneFields",
    "SystemOneQuestion",
    "Told",
]

T = TypeVar("T")

_MOST_QUESTIONS = 400
_MOST_OPTIONS = 255
_LEVELS = (2, 10)
_MOST_ITEMS = 16_000


def _entries(most: int) -> BeforeValidator:
    """A bound on an object's entries that holds before any of them is looked at."""

    def check(value: T) -> T:
        if isinstance(value, dict | list) and not 1 <= (num := len(cast("Sized", value))) <= most:
            message = "there must be 1 to {most} of these, got {num}"
            raise PydanticCustomError("wrong_number", message, {"most": most, "num": num})
        return value

    return BeforeValidator(check)


Told: TypeAlias = str | dict[str, Any] | Annotated[list[Any], at_most(_MOST_ITEMS)]
"""Text, or JSON that the model reads as its text."""
Criteria: TypeAlias = dict[str, Told | None] | Annotated[list[str], at_most(_MOST_OPTIONS)]


class NoulCriteria(Fields):
    """What counts as yes and as no."""

    true: Told | None = None
    false: Told | None = None


class NoulQuestion(Fields):
    """Is this so?"""

    type: Literal["noul"]
    instructions: Told | None = None
    criteria: NoulCriteria | None = None


class ChoiceQuestion(Fields):
    """Which of these?"""

    type: Literal["choice"]
    instructions: Told | None = None
    criteria: Annotated[Criteria, _entries(_MOST_OPTIONS)]
    """Options with what is said of each, if anything, or a list of options alone."""


class ScoreQuestion(Fields):
    """Where on this scale?"""

    type: Literal["score"]
    instructions: Told | None = None
    criteria: Annotated[list[Told], at_most(_LEVELS[1], at_least=_LEVELS[0])]
    """The levels, the lowest first, which is 0."""


SystemOneQuestion: TypeAlias = Annotated[NoulQuestion | ChoiceQuestion | ScoreQuestion, Field(discriminator="type")]


class SystemOneFields(Fields):
    """Questions about one state."""

    model: str
    state: Told
    questions: Annotated[dict[str, SystemOneQuestion], _entries(_MOST_QUESTIONS)]
    assets: Unsupported = None
