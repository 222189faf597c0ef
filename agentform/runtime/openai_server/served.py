"""What a server that speaks OpenAI's interface says of itself, which is the names of its models."""

from __future__ import annotations

import re
from typing import Any

from agentform.errors import ContextOverflow, EngineError, GrammarError, InvalidRequest
from agentform.runtime.http.failures import understood
from agentform.runtime.http.transport import Transport

__all__ = ["MODELS", "OPENAI", "pick_model", "refused_by_openai", "served_models"]

MODELS = "/v1/models"
OPENAI = "OpenAI's interface"
_MOST_NAMED = 12
_TOO_LONG = re.compile(r"context (?:length|window|size)\D{0,40}?(\d+) tokens\D*?(\d+)", re.IGNORECASE)
_OF_SCHEMAS = re.compile(r"schema|grammar|response_format|structured_outputs|guided", re.IGNORECASE)


def served_models(listed: Any) -> list[str]:
    """Names of the models in the reply at `MODELS`."""
    return [str(model["id"]) for model in listed["data"]]


def pick_model(transport: Transport, asked: str | None) -> str:
    """The model that was asked for, or the only one.

    Raises:
        InvalidRequest: there is no such model, or there are several and none was asked for.
        EngineError: the server is not reached, refuses, or does not list its models.
    """
    with understood(transport.where, OPENAI):
        listed = transport.ask_now("GET", MODELS)
        if listed is None:
            raise EngineError(f"{transport.where} does not know {MODELS}: there is no server of {OPENAI}")
        names = served_models(listed)
    shown = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
    if asked is not None and asked not in names:
        raise InvalidRequest(f"{transport.where} has no model {asked!r}; it has {shown or 'none'}")
    if asked is None and len(names) != 1:
        raise InvalidRequest(
            f"{transport.where} has {len(names)} models ({shown or 'none'}): name one with model=, or after a # in the "
            "URL"
        )
    return asked or names[0]


def refused_by_openai(said: str) -> EngineError | GrammarError:
    """The error for what such a server says of a request that it does not take; the words are the server's own."""
    if found := _TOO_LONG.search(said):
        return ContextOverflow(prompt_tokens=int(found[2]), context_tokens=int(found[1]))
    if _OF_SCHEMAS.search(said):
        return GrammarError(f"the server: {said}")
    return InvalidRequest(f"the server: {said}")
