"""The fields of `POST /v1/decisions`, as OpenAI's Decisions API names them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from agentform.serve.chat_fields import ShortText
from agentform.serve.parsing import Fields, Ignored, at_most

__all__ = [
    "CallFields",
    "ChoiceFields",
    "DecisionFields",
    "InputFields",
    "InputParts",
    "OutputFields",
    "PredicateFields",
    "QuestionFields",
    "ScoreFields",
    "SpokenFields",
]

_MOST_ITEMS = 10_000
_MOST_PARTS = 2_048
_MOST_QUESTIONS = 400
_MOST_CHOICES = 255


class InputTextPart(Fields):
    """Text."""

    type: Literal["input_text", "output_text"]
    text: str
    prompt_cache_breakpoint: Ignored = None


class JsonPart(Fields):
    """A JSON value, which the model reads as its text."""

    type: Literal["input_json"]
    json_: Any = Field(alias="json")
    prompt_cache_breakpoint: Ignored = None


InputPart: TypeAlias = Annotated[InputTextPart | JsonPart, Field(discriminator="type")]
InputParts: TypeAlias = str | Annotated[list[InputPart], at_most(_MOST_PARTS)]


class SpokenFields(Fields):
    """A message."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: InputParts
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
    output: InputParts
    id: Ignored = None
    status: Ignored = None


def _kind(item: Any) -> Any:
    """A message need not say that it is one."""
    return str(item.get("type", "message")) if isinstance(item, dict) else "message"


InputFields: TypeAlias = Annotated[
    Annotated[SpokenFields, Tag("message")]
    | Annotated[CallFields, Tag("function_call")]
    | Annotated[OutputFields, Tag("function_call_output")],
    Discriminator(
        _kind,
        custom_error_type="unknown_item",
        custom_error_message="type must be 'message', 'function_call' or 'function_call_output'",
    ),
]


class PredicateFields(Fields):
    """How likely is it that this is true of the input?"""

    type: Literal["predicate"]
    instructions: InputParts
    name: ShortText | None = None


class OptionFields(Fields):
    """An option; a string and a boolean with the same text are two."""

    value: str | bool
    description: str | None = None


class ChoiceFields(Fields):
    """Which of these?"""

    type: Literal["choice"]
    instructions: InputParts
    choices: Annotated[list[OptionFields], at_most(_MOST_CHOICES, at_least=2)]
    name: ShortText | None = None


class LevelFields(Fields):
    """A level of a scale, the lowest first."""

    label: str
    description: str | None = None


class ScoreFields(Fields):
    """Where on this scale?"""

    type: Literal["score"]
    instructions: InputParts
    levels: Annotated[list[LevelFields], at_most(_MOST_CHOICES, at_least=2)]
    name: ShortText | None = None


QuestionFields: TypeAlias = Annotated[PredicateFields | ChoiceFields | ScoreFields, Field(discriminator="type")]


class DecisionFields(Fields):
    """Questions about one input."""

    model: str
    input: str | Annotated[list[InputFields], at_most(_MOST_ITEMS)]
    questions: Annotated[list[QuestionFields], at_most(_MOST_QUESTIONS, at_least=1)]
    prompt_cache_key: Ignored = None
    prompt_cache_options: Ignored = None
    safety_identifier: Ignored = None
