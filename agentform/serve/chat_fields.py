"""The fields of `POST /v1/chat/completions`, as OpenAI names them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from agentform.serve.evidence_fields import ExtensionFields
from agentform.serve.parsing import Ignored, NoEffect, OpenFields, Unsupported, at_most, only, unsupported
from agentform.serve.sampling_fields import SamplingFields
from agentform.serve.tool_choice import AskedChoice

__all__ = [
    "ChatFields",
    "FunctionFields",
    "MessageFields",
    "ResponseFormat",
    "ResultFields",
    "SchemaFormat",
    "Text",
    "ToolFields",
]

_MOST_MESSAGES = 10_000
_MOST_TOOLS = 512
_MOST_STOPS = 16
_MOST_PARTS = 2_048
_MOST_PAST_CALLS = 512
_MOST_METADATA = 64
_MOST_ANSWERS = 16
_LONGEST_TEXT = 512

ShortText: TypeAlias = Annotated[str, Field(max_length=_LONGEST_TEXT)]
StopText: TypeAlias = Annotated[str, Field(min_length=1, max_length=_LONGEST_TEXT)]


class TextPart(OpenFields):
    """A piece of text, by its name here or in OpenAI's Responses; pictures, sound and files are not taken."""

    type: Literal["text", "input_text", "output_text"]
    text: str
    prompt_cache_breakpoint: Ignored = None


class RefusalPart(OpenFields):
    """What a model said instead of an answer."""

    type: Literal["refusal"]
    refusal: str

    @property
    def text(self) -> str:
        """The refusal is text like any other."""
        return self.refusal


Text: TypeAlias = str | Annotated[list[TextPart], at_most(_MOST_PARTS)]


class ThoughtPart(OpenFields):
    """What a model thought before its answer, as other servers tell it; it is no part of what was said."""

    type: Literal["thinking", "redacted_thinking", "reasoning"]

    @property
    def text(self) -> str:
        """Nothing that was said."""
        return ""


AnswerPart: TypeAlias = Annotated[TextPart | RefusalPart | ThoughtPart, Field(discriminator="type")]


class SystemFields(OpenFields):
    """Instructions."""

    role: Literal["system"]
    content: Text
    name: Ignored = None


class DeveloperFields(OpenFields):
    """Instructions, by their newer name."""

    role: Literal["developer"]
    content: Text
    name: Ignored = None


class UserFields(OpenFields):
    """What the user says."""

    role: Literal["user"]
    content: Text
    name: Ignored = None


class CalledFunction(OpenFields):
    """The function of a past call; `arguments` is JSON text, or whatever a model wrote there."""

    name: str
    arguments: Any = None


class PastCall(OpenFields):
    """A call that the assistant made."""

    id: ShortText | None = None
    type: Literal["function"] | None = "function"
    function: CalledFunction
    index: Ignored = None


class AssistantFields(OpenFields):
    """What the model said and called. Fields that servers add to their answers may be sent back."""

    role: Literal["assistant"]
    content: str | Annotated[list[AnswerPart], at_most(_MOST_PARTS)] | None = None
    tool_calls: Annotated[list[PastCall], at_most(_MOST_PAST_CALLS)] | None = None
    refusal: str | None = None
    name: Ignored = None
    annotations: Ignored = None
    reasoning_content: Any = None
    """What the model thought, if it is a text; of anything else nothing is known."""
    audio: Unsupported = None
    function_call: CalledFunction | None = None
    """The one call of a turn, as it was said before there were `tool_calls`."""


class ResultFields(OpenFields):
    """What a call returned."""

    content: Text | None = None
    tool_call_id: ShortText | None = None
    name: Ignored = None


class ToolResultFields(ResultFields):
    """What a tool returned."""

    role: Literal["tool"]


class FunctionResultFields(ResultFields):
    """What a function returned, as it was said before there were `tool_calls`."""

    role: Literal["function"]


MessageFields: TypeAlias = Annotated[
    SystemFields | DeveloperFields | UserFields | AssistantFields | ToolResultFields | FunctionResultFields,
    Field(discriminator="role"),
]


class FunctionFields(OpenFields):
    """A tool's name, description and the JSON Schema of its arguments."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolFields(OpenFields):
    """A tool."""

    type: Literal["function"] = "function"
    function: FunctionFields


class TextFormat(OpenFields):
    """An answer in free text."""

    type: Literal["text"]


class ObjectFormat(OpenFields):
    """An answer that is some JSON object, or one of a schema, as llama.cpp and others take it."""

    type: Literal["json_object"]
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")


class SchemaFormat(OpenFields):
    """The JSON Schema that an answer must satisfy."""

    name: ShortText = "answer"
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class SchemaAnswer(OpenFields):
    """An answer that satisfies a JSON Schema."""

    type: Literal["json_schema"]
    json_schema: SchemaFormat


ResponseFormat: TypeAlias = Annotated[TextFormat | ObjectFormat | SchemaAnswer, Field(discriminator="type")]


class StreamOptions(OpenFields):
    """What a stream holds beside the answer."""

    include_usage: bool | None = None
    include_obfuscation: Ignored = None


class ChatFields(SamplingFields):
    """A request for one turn."""

    model: str
    messages: Annotated[list[MessageFields], at_most(_MOST_MESSAGES, at_least=1)]
    tools: Annotated[list[ToolFields], at_most(_MOST_TOOLS)] | None = None
    tool_choice: AskedChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    stop: StopText | Annotated[list[StopText], at_most(_MOST_STOPS)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    n: int | None = Field(default=None, ge=1, le=_MOST_ANSWERS)
    user: ShortText | None = None
    metadata: Annotated[dict[ShortText, ShortText], Field(max_length=_MOST_METADATA)] | None = None
    prompt_cache_key: ShortText | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    logit_bias: Annotated[Any, NoEffect({})] = None
    modalities: Annotated[Any, only(["text"])] = None
    store: Annotated[bool | None, NoEffect(False)] = None
    service_tier: Ignored = None
    safety_identifier: Ignored = None
    prompt_cache_options: Ignored = None
    prompt_cache_retention: Ignored = None
    verbosity: Ignored = None
    chat_template_kwargs: dict[str, Any] | None = None
    """Of vLLM and SGLang: arguments of the model's chat template."""
    guided_json: dict[str, Any] | str | None = None
    """Of vLLM: the JSON Schema that an answer must satisfy; so are the next two."""
    structured_outputs: dict[str, Any] | None = None
    json_schema: dict[str, Any] | str | None = None
    """Of SGLang and llama.cpp."""
    guided_choice: Any = None
    guided_regex: str | None = None
    guided_grammar: str | None = None
    regex: str | None = None
    ebnf: str | None = None
    grammar: str | None = None
    """Of llama.cpp: a grammar in its notation."""
    reasoning_format: Literal["none", "auto", "deepseek", "deepseek-legacy"] | None = None
    """Of llama.cpp: whether the text before a call is reasoning (`auto`) or content (`none`)."""
    agentform: ExtensionFields | None = None
    audio: Unsupported = None
    prediction: Annotated[Any, NoEffect()] = None
    moderation: Unsupported = None
    web_search_options: Annotated[Any, NoEffect()] = None
    functions: Annotated[Any, unsupported("; use tools")] = None
    function_call: Annotated[Any, unsupported("; use tool_choice")] = None

    @property
    def is_choice(self) -> bool:
        """Whether the answer is one of given texts."""
        outputs = self.structured_outputs or {}
        return (
            self.response_format is None
            and not (self.guided_json or outputs.get("json"))
            and bool(self.guided_choice or outputs.get("choice"))
        )
