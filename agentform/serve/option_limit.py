"""How many options the questions of one request may have together."""

from __future__ import annotations

from collections.abc import Iterable

from agentform.forms.asked import Asked
from agentform.serve.problems import bad_request

__all__ = ["require_few_options"]

_MOST_OPTIONS = 10_000


def require_few_options(questions: Iterable[Asked]) -> None:
    """Check that a request asks for no more than can be scored.

    Raises:
        Refused: its questions have too many options together.
    """
    if sum(len(question.told) for question in questions) > _MOST_OPTIONS:
        raise bad_request(f"the questions have more than {_MOST_OPTIONS:,} options together", param="questions")
