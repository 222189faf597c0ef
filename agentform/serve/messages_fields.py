"""The fields of `POST /v1/messages`, as Anthropic names them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from agentform.serve.chat_fields import ShortText, StopText
from agentform.serve.evidence_fields import ExtensionFields
from agentform.serve.parsing import Ignored, OpenFields, Unsupported, at_most
from agentform.serve.sampling_fields import SamplingFields
from agentform.serve.tool_choice import AskedChoice

__all__ = [
    "Blocks",
    "MessagesFields",
    "ResultBlock",
    "SaidFields",
    "TextBlock",
    "ThinkingBlock",
    "UseBlock",
]

_MOST_MESSAGES = 10_000
_MOST_BLOCKS = 2_048
_MOST_TOOLS = 512
_MOST_STOPS = 16


class TextBlock(OpenFields):
    """A piece of text; pictures and documents are not taken."""

    type: Literal["text"]
    text: str
    citations: Ignored = None
    cache_control: Ignored = None


class ThinkingBlock(OpenFields):
    """What the model thought."""

    type: Literal["thinking"]
    thinking: str
    signature: Ignored = None


class HiddenThinkingBlock(OpenFields):
    """A thought that cannot be read."""

    type: Literal["redacted_thinking"]


class UseBlock(OpenFields):
    """A call that the model made."""

    type: Literal["tool_use"]
    id: ShortText
    name: str
    input: Any = None
    caller: Ignored = None
    cache_control: Ignored = None


class ResultBlock(OpenFields):
    """What a call returned."""

    type: Literal["tool_result"]
    tool_use_id: ShortText
    content: str | Annotated[list[TextBlock], at_most(_MOST_BLOCKS)] | None = None
    is_error: bool | None = None
    cache_control: Ignored = None


Blocks: TypeAlias = Annotated[
    list[
        Annotated[TextBlock | ThinkingBlock | HiddenThinkingBlock | UseBlock | ResultBlock, Field(discriminator="type")]
    ],
    at_most(_MOST_BLOCKS),
]


class SaidFields(OpenFields):
    """A message."""

    role: Literal["user", "assistant", "system"]
    content: str | Blocks


class NamedTool(OpenFields):
    """A tool."""

    type: Literal["custom"] | None = None
    name: str
    description: str | None = None
    input_schema: dict[str, Any]
    strict: bool | None = None
    cache_control: Ignored = None
    eager_input_streaming: Ignored = None


class ThinkingSettings(OpenFields):
    """Whether and how long the model thinks."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = Field(default=None, ge=0, le=1_000_000)
    display: Ignored = None


class SchemaOfAnswer(OpenFields):
    """An answer that satisfies a JSON Schema."""

    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class OutputSettings(OpenFields):
    """What the answer has to be, and how much is done for it."""

    format: SchemaOfAnswer | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class MessagesFields(SamplingFields):
    """A request for one turn, or for how many tokens it would read."""

    model: str
    messages: Annotated[list[SaidFields], at_most(_MOST_MESSAGES, at_least=1)]
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    system: str | Annotated[list[TextBlock], at_most(_MOST_BLOCKS)] | None = None
    tools: Annotated[list[NamedTool], at_most(_MOST_TOOLS)] | None = None
    tool_choice: AskedChoice | None = None
    stop_sequences: Annotated[list[StopText], at_most(_MOST_STOPS)] | None = None
    stream: bool | None = None
    thinking: ThinkingSettings | None = None
    output_config: OutputSettings | None = None
    output_format: SchemaOfAnswer | None = None
    metadata: Ignored = None
    service_tier: Ignored = None
    cache_control: Ignored = None
    chat_template_kwargs: dict[str, Any] | None = None
    agentform: ExtensionFields | None = None
    mcp_servers: Unsupported = None
    container: Unsupported = None

    @property
    def wants_thinking(self) -> bool:
        """Whether thoughts are asked for."""
        return self.thinking is not None and self.thinking.type != "disabled"
