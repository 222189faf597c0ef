"""Errors as OpenAI's clients read them, and which error of agentform becomes which status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentform.errors import (
    Abstained,
    AgentformError,
    CacheBudgetExceeded,
    CallError,
    CannotScore,
    ContextOverflow,
    DeadlineExceeded,
    EngineClosed,
    EngineUnavailable,
    GrammarError,
    InvalidInput,
    InvalidRequest,
    SchemaError,
    ToolError,
)

__all__ = ["Problem", "Refused", "bad_request", "model_not_found", "problem_of"]


_MESSAGES = "/v1/messages"
_MESSAGES_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Why a request is not served."""

    status: int
    message: str
    code: str
    param: str | None = None
    """The field at fault, such as `messages[0].content`."""
    place: tuple[str | int, ...] = ()
    """The same as keys and indices; empty where `param` names a field of the body itself, or none."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def type(self) -> str:
        """The coarse kind that OpenAI's clients know."""
        kinds = {401: "authentication_error", 429: "rate_limit_error"}
        return kinds.get(self.status) or ("invalid_request_error" if self.status < 500 else "server_error")

    def body(self, path: str = "") -> dict[str, Any]:
        """The JSON that is sent, in the shape of the API whose path it is: OpenAI's, or for messages Anthropic's."""
        if path.startswith(_MESSAGES):
            kind = _MESSAGES_TYPES.get(self.status) or ("invalid_request_error" if self.status < 500 else "api_error")
            return {"type": "error", "error": {"type": kind, "message": self.message}}
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


class Refused(Exception):
    """Ends the handling of a request; inside the server only."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def bad_request(
    message: str, *, param: str | None, code: str = "invalid_value", place: tuple[str | int, ...] = ()
) -> Refused:
    """A fault in the request's content."""
    return Refused(Problem(status=400, message=message, param=param, code=code, place=place))


def model_not_found(asked: str, served: str) -> Refused:
    """The request names another model than the one that is served."""
    message = f"there is no model {asked[:100]!r} here; the model is {served!r}"
    return Refused(Problem(status=404, message=message, param="model", code="model_not_found"))


# OpenAI's clients send a request again on 5xx unless they are told that it would not help.
_NOT_AGAIN = {"x-should-retry": "false"}

_STATUS: tuple[tuple[type[AgentformError], int, str], ...] = (
    (ContextOverflow, 400, "context_length_exceeded"),
    (CannotScore, 400, "cannot_score"),
    (CacheBudgetExceeded, 400, "cache_budget_exceeded"),
    (DeadlineExceeded, 504, "deadline_exceeded"),
    (EngineClosed, 503, "engine_closed"),
    (EngineUnavailable, 503, "engine_unavailable"),
    (Abstained, 422, "abstained"),
    (CallError, 422, "call_not_completed"),
    (SchemaError, 400, "unsupported_schema"),
    (GrammarError, 400, "unsupported_schema"),
    (ToolError, 400, "invalid_tool"),
    (InvalidRequest, 400, "invalid_request"),
    (InvalidInput, 400, "invalid_value"),
)


def problem_of(error: Exception, *, param: str | None = None) -> Problem:
    """What a client is told of an error; nothing of one that is not agentform's own."""
    for kind, status, code in _STATUS:
        if isinstance(error, kind):
            headers = _NOT_AGAIN if status >= 500 else {}
            return Problem(status=status, message=str(error), code=code, param=param, headers=headers)
    message = str(error) if isinstance(error, AgentformError) else "the server failed; its log says more"
    return Problem(status=500, message=message, code="server_error", headers=_NOT_AGAIN)
