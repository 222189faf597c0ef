"""The fields of `POST /v1/completions`, of `/tokenize` and `/detokenize`."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import Field

from agentform.serve.chat_fields import MessageFields, ShortText, StopText, StreamOptions, ToolFields
from agentform.serve.parsing import Ignored, OpenFields, Unsupported, at_most, only
from agentform.serve.sampling_fields import SamplingFields

__all__ = ["CompletionFields", "DetokenizeFields", "TokenizeFields"]

_MOST_PROMPTS = 64
_MOST_TOKENS = 200_000
_MOST_STOPS = 16
_MOST_MESSAGES = 10_000
_MOST_TOOLS = 512

TokenIds: TypeAlias = Annotated[list[Annotated[int, Field(ge=0)]], at_most(_MOST_TOKENS, at_least=1)]
PromptFields: TypeAlias = str | TokenIds | Annotated[list[str | TokenIds], at_most(_MOST_PROMPTS, at_least=1)]


class CompletionFields(SamplingFields):
    """A request to go on writing after a text."""

    model: str
    prompt: PromptFields
    max_tokens: int | None = Field(default=16, ge=0, le=1_000_000)
    n: int | None = Field(default=None, ge=1, le=16)
    stop: StopText | Annotated[list[StopText], at_most(_MOST_STOPS)] | None = None
    echo: bool | None = None
    logprobs: int | None = Field(default=None, ge=0, le=20)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: ShortText | None = None
    response_format: Unsupported = None
    guided_json: dict[str, Any] | str | None = None
    guided_choice: Any = None
    guided_regex: str | None = None
    guided_grammar: str | None = None
    structured_outputs: dict[str, Any] | None = None
    json_schema: dict[str, Any] | str | None = None
    regex: str | None = None
    ebnf: str | None = None
    grammar: str | None = None
    best_of: Annotated[int | None, only(1)] = None
    suffix: Unsupported = None


class TokenizeFields(OpenFields):
    """A text, or messages as a chat holds them."""

    model: str | None = None
    prompt: str | None = None
    content: str | None = None
    """Of llama.cpp: the text."""
    messages: Annotated[list[MessageFields], at_most(_MOST_MESSAGES, at_least=1)] | None = None
    tools: Annotated[list[ToolFields], at_most(_MOST_TOOLS)] | None = None
    return_token_strs: bool | None = None
    add_special_tokens: Ignored = None
    add_special: Ignored = None
    with_pieces: Ignored = None


class DetokenizeFields(OpenFields):
    """Token ids."""

    model: str | None = None
    tokens: Annotated[list[Annotated[int, Field(ge=0)]], at_most(_MOST_TOKENS)]
