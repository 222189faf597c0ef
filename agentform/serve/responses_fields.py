"""The fields of `POST /v1/responses`, as OpenAI names them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from agentform.serve.chat_fields import ShortText
from agentform.serve.evidence_fields import ExtensionFields
from agentform.serve.parsing import Ignored, OpenFields, Unsupported, at_most, only
from agentform.serve.sampling_fields import SamplingFields
from agentform.serve.tool_choice import AskedChoice

__all__ = [
    "CallItem",
    "InputItem",
    "MessageItem",
    "ReasoningItem",
    "ResponsesFields",
    "ResultItem",
    "TextParts",
]

_MOST_ITEMS = 10_000
_MOST_PARTS = 2_048
_MOST_TOOLS = 512
_MOST_INCLUDED = 16
_MOST_METADATA = 64


class InputText(OpenFields):
    """A piece of text; pictures, sound and files are not taken."""

    type: Literal["input_text", "output_text", "text", "summary_text", "reasoning_text"]
    text: str


class RefusalText(OpenFields):
    """What a model said instead of an answer."""

    type: Literal["refusal"]
    refusal: str

    @property
    def text(self) -> str:
        """The refusal is text like any other."""
        return self.refusal


TextParts: TypeAlias = str | Annotated[list[InputText | RefusalText], at_most(_MOST_PARTS)]


class MessageItem(OpenFields):
    """What somebody said."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: TextParts
    id: Ignored = None
    status: Ignored = None
    phase: Ignored = None


class CallItem(OpenFields):
    """A call that the model made."""

    type: Literal["function_call"]
    call_id: ShortText
    name: str
    arguments: Any = None
    id: Ignored = None
    status: Ignored = None


class ResultItem(OpenFields):
    """What a call returned."""

    type: Literal["function_call_output"]
    call_id: ShortText
    output: TextParts
    id: Ignored = None
    status: Ignored = None


class ReasoningItem(OpenFields):
    """What the model thought."""

    type: Literal["reasoning"]
    summary: Annotated[list[InputText], at_most(_MOST_PARTS)] | None = None
    content: Annotated[list[InputText], at_most(_MOST_PARTS)] | None = None
    id: Ignored = None
    status: Ignored = None
    encrypted_content: Ignored = None


def _kind(item: Any) -> str:
    return str(item.get("type") or "message") if isinstance(item, dict) else getattr(item, "type", "message")


InputItem: TypeAlias = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[CallItem, Tag("function_call")]
    | Annotated[ResultItem, Tag("function_call_output")]
    | Annotated[ReasoningItem, Tag("reasoning")],
    Discriminator(_kind),
]


class FunctionTool(OpenFields):
    """A tool."""

    type: Literal["function"]
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class PlainFormat(OpenFields):
    """An answer in free text, or some JSON object."""

    type: Literal["text", "json_object"]


class NamedSchema(OpenFields):
    """An answer that satisfies a JSON Schema."""

    type: Literal["json_schema"]
    name: ShortText = "answer"
    schema_: dict[str, Any] = Field(alias="schema")
    description: str | None = None
    strict: bool | None = None


class TextSettings(OpenFields):
    """What the answer has to be."""

    format: Annotated[PlainFormat | NamedSchema, Field(discriminator="type")] | None = None
    verbosity: Ignored = None


class ReasoningSettings(OpenFields):
    """How the model thinks."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    summary: Ignored = None
    generate_summary: Ignored = None


class ResponsesFields(SamplingFields):
    """A request for one turn."""

    model: str
    input: str | Annotated[list[InputItem], at_most(_MOST_ITEMS, at_least=1)]
    instructions: str | None = None
    previous_response_id: ShortText | None = None
    store: bool | None = None
    tools: Annotated[list[FunctionTool], at_most(_MOST_TOOLS)] | None = None
    tool_choice: AskedChoice | None = None
    parallel_tool_calls: bool | None = None
    text: TextSettings | None = None
    reasoning: ReasoningSettings | None = None
    max_output_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    include: Annotated[list[ShortText], at_most(_MOST_INCLUDED)] | None = None
    stream: bool | None = None
    stream_options: Ignored = None
    metadata: Annotated[dict[ShortText, ShortText], Field(max_length=_MOST_METADATA)] | None = None
    prompt_cache_key: ShortText | None = None
    user: ShortText | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    agentform: ExtensionFields | None = None
    background: Annotated[bool | None, only(False)] = None
    truncation: Ignored = None
    service_tier: Ignored = None
    safety_identifier: Ignored = None
    prompt_cache_retention: Ignored = None
    max_tool_calls: Ignored = None
    conversation: Unsupported = None
    prompt: Unsupported = None
