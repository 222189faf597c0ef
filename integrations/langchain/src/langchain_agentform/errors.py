"""agentform's errors as LangChain knows them: each is both, so code that catches either goes on working."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from langchain_core.exceptions import (
    ContextOverflowError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelRefusalError,
    ModelTimeoutError,
)

from agentform.errors import (
    Abstained,
    AgentformError,
    CacheBudgetExceeded,
    CannotScore,
    ContextOverflow,
    DeadlineExceeded,
    EngineClosed,
    EngineUnauthorized,
    EngineUnavailable,
    GrammarError,
    InvalidInput,
    InvalidRequest,
    ModelMismatch,
    ModelNotFound,
    ReplyMalformed,
    SchemaError,
    ToolError,
    WeightsUnavailable,
)

__all__ = ["UnsupportedContent", "as_langchain_error", "langchain_errors"]


class UnsupportedContent(ModelInvalidRequestError, InvalidInput):
    """Raised when a message holds what the model cannot read: images, audio, files, or a role it does not know."""


_KINDS: tuple[tuple[type[AgentformError], type[ModelError]], ...] = (
    (DeadlineExceeded, ModelTimeoutError),
    (ContextOverflow, ContextOverflowError),
    (Abstained, ModelRefusalError),
    (ModelNotFound, ModelNotFoundError),
    (WeightsUnavailable, ModelConnectionError),
    (EngineClosed, ModelConnectionError),
    (EngineUnavailable, ModelConnectionError),
    (EngineUnauthorized, ModelAuthenticationError),
    (CacheBudgetExceeded, ModelAPIError),
    (ReplyMalformed, ModelAPIError),
    (ModelMismatch, ModelAPIError),
    (CannotScore, ModelInvalidRequestError),
    (InvalidRequest, ModelInvalidRequestError),
    (InvalidInput, ModelInvalidRequestError),
    (SchemaError, ModelInvalidRequestError),
    (ToolError, ModelInvalidRequestError),
    (GrammarError, ModelInvalidRequestError),
)


def as_langchain_error(error: AgentformError) -> AgentformError:
    """The same error, also of the LangChain kind that means it; as it is where LangChain has no such kind."""
    theirs = next((to for kind, to in _KINDS if isinstance(error, kind)), None)
    if theirs is None or isinstance(error, ModelError):
        return error
    name = type(error).__name__
    both = type(
        name, (type(error), theirs), {"__init__": _taken_over, "__module__": __name__, "__doc__": error.__doc__}
    )
    return both(error)


def _taken_over(self: Exception, error: Exception) -> None:
    """Says what `error` says and knows what it knows; its own class's arguments are not at hand any more."""
    Exception.__init__(self, str(error))
    self.__dict__ |= {"raw_message": None} | error.__dict__ if isinstance(error, Abstained) else error.__dict__


@contextmanager
def langchain_errors() -> Generator[None]:
    """Errors of agentform that leave the block are LangChain's too."""
    try:
        yield
    except AgentformError as error:
        translated = as_langchain_error(error)
        if translated is error:
            raise
        raise translated from error
