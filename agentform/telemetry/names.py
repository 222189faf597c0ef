"""Attribute and metric names: OpenTelemetry's semantic conventions for generative AI, and our own beside them.

https://opentelemetry.io/docs/specs/semconv/gen-ai/; they are spelt out here since the conventions' package keeps
them among its experimental ones, which move between its releases. A test compares each with that package's.
"""

from __future__ import annotations

from typing import Any, Final

from agentform.messages import Usage

__all__ = ["usage_attributes"]

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
MAX_TOKENS: Final = "gen_ai.request.max_tokens"
AGENT: Final = "gen_ai.agent.name"
CONVERSATION: Final = "gen_ai.conversation.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
TOKEN_TYPE: Final = "gen_ai.token.type"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
ERROR_TYPE: Final = "error.type"

COMPUTED_TOKENS: Final = "agentform.usage.computed_tokens"
REPLAYED_TOKENS: Final = "agentform.usage.replayed_tokens"
CACHE_MISS: Final = "agentform.cache.miss"
STEP: Final = "agentform.step"
FINISH: Final = "agentform.finish"

DURATION: Final = "gen_ai.client.operation.duration"
TOKEN_USAGE: Final = "gen_ai.client.token.usage"
SERVER_DURATION: Final = "gen_ai.server.request.duration"
TIME_TO_FIRST_TOKEN: Final = "gen_ai.server.time_to_first_token"
DURATION_BOUNDARIES: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKEN_BOUNDARIES: Final = tuple(4**n for n in range(14))


def usage_attributes(usage: Usage) -> dict[str, Any]:
    """A usage as span attributes; what is unknown is left out."""
    known = {
        INPUT_TOKENS: usage.prompt_tokens,
        OUTPUT_TOKENS: usage.completion_tokens,
        CACHE_READ_TOKENS: usage.cached_tokens,
        REASONING_TOKENS: usage.reasoning_tokens,
        COMPUTED_TOKENS: usage.computed_tokens,
        REPLAYED_TOKENS: usage.replayed_tokens,
        CACHE_MISS: usage.miss,
    }
    return {name: value for name, value in known.items() if value is not None}


def finish_reason(finish: str, *, calls: bool) -> str:
    """How a turn or run ended, in the conventions' words; `agentform.finish` has it as we call it."""
    if calls:
        return "tool_call"
    return {"length": "length", "tokens": "length", "deadline": "error", "error": "error"}.get(finish, "stop")
