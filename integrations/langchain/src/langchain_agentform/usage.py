"""What a turn cost, in LangChain's words."""

from __future__ import annotations

from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata

from agentform import Usage

__all__ = ["usage_metadata"]


def usage_metadata(prompt: Usage, total: Usage) -> UsageMetadata:
    """`prompt` is the turn's first request, `total` all of them.

    A turn reads its prompt once for the text, and again, from the cache, for every batch of choices and every
    argument; the input is counted once, since it says how long the conversation is. Unknown counts are left out.
    """
    output = OutputTokenDetails(reasoning=total.reasoning_tokens)
    made = UsageMetadata(
        input_tokens=prompt.prompt_tokens,
        output_tokens=total.completion_tokens,
        total_tokens=prompt.prompt_tokens + total.completion_tokens,
        output_token_details=output,
    )
    if prompt.cached_tokens is not None:
        made["input_token_details"] = InputTokenDetails(cache_read=prompt.cached_tokens)
    return made
