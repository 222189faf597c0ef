"""Which text of a whole answer is content, and which is reasoning."""

from __future__ import annotations

from agentform.agent.responder import Response
from agentform.schema.json_text import loads
from agentform.serve.turn_request import TurnRequest

__all__ = ["answer_texts"]


def answer_texts(
    response: Response, request: TurnRequest, *, separate: bool, is_choice: bool = False
) -> tuple[str, str]:
    """Content and reasoning.

    `separate`: the text before a call is reasoning. `is_choice`: the answer is one of given texts, told as it is and
    not as JSON.
    """
    content = response.message.content
    if separate and (response.calls or (response.truncated and not request.is_formed)):
        return "", "\n\n".join(part for part in (response.reasoning, content) if part)
    if is_choice and response.finish == "answer" and not response.calls:
        content = str(loads(content))
    return content, response.reasoning
