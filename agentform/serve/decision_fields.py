"""The fields of `POST /v1/decisions`, as OpenAI's Decisions API names them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from agentform.serve.chat_fields import ShortText
from agentform.serve.parsing import Fields, Ignored

__all__ = [
    "CallFields",
    "ChoiceFields",
    "DecisionFields",
    "InputFields",
    "OutputFields",
    "Parts",
    "PredicateFields",
    "QuestionFields",
    "ScoreFields",
    "SpokenFields",
]

_MOST_QUESTIONS = 400
_MOST_CHOICES = 255


class TextPart(Fields):
    """Text."""

    type: Literal["input_text", "output_text"]
    text: str
    prompt_cache_breakpoint: Ignored = None


class JsonPart(Fields):
    """A JSON value, which the model reads as its text."""

    type: Literal["input_json"]
    json_: Any = Field(alias="json")
    prompt_cache_breakpoint: Ignored = None


Parts: TypeAlias = str | list[Annotated[TextPart | JsonPart, Field(discriminator="type")]]


class SpokenFields(Fields):
    """A message."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Parts
    phase: Ignored = None


class CallFields(Fields):
    """A call that was made."""

    type: Literal["function_call"]
    call_id: ShortText
    name: str
    arguments: str
    id: Ignored = None
    namespace: Ignored = None
    status: Ignored = None


class OutputFields(Fields):
    """What a call returned."""

    type: Literal["function_call_output"]
    call_id: ShortText
    output: Parts
    id: Ignored = None
    status: Ignored = None


InputFields: TypeAlias = SpokenFields | CallFields | OutputFields


class PredicateFields(Fields):
    """How likely is it that this is true of the input?"""

    type: Literal["predicate"]
    instructions: Parts
    name: ShortText | None = None


class OptionFields(Fields):
    """An option; a string and a boolean with the same text are two."""

    value: str | bool
    description: str | None = None


class ChoiceFields(Fields):
    """Which of these?"""

    type: Literal["choice"]
    instructions: Parts
    choices: list[OptionFields] = Field(min_length=2, max_length=_MOST_CHOICES)
    name: ShortText | None = None


class LevelFields(Fields):
    """A level of a scale, the lowest first."""

    label: str
    description: str | None = None


class ScoreFields(Fields):
    """Where on this scale?"""

    type: Literal["score"]
    instructions: Parts
    levels: list[LevelFields] = Field(min_length=2, max_length=_MOST_CHOICES)
    name: ShortText | None = None


QuestionFields: TypeAlias = Annotated[PredicateFields | ChoiceFields | ScoreFields, Field(discriminator="type")]


class DecisionFields(Fields):
    """Questions about one input."""

    model: str
    input: str | list[InputFields]
    questions: list[QuestionFields] = Field(min_length=1, max_length=_MOST_QUESTIONS)
    prompt_cache_key: Ignored = None
    prompt_cache_options: Ignored = None
    safety_identifier: Ignored = None
