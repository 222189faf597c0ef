"""A decision model behind `POST /v1/systemone`, whoever serves it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, cast

from agentform.deciders.address import endpoint_of
from agentform.errors import InvalidRequest, ReplyMalformed
from agentform.forms.asked import Asked, Decision
from agentform.forms.system_one import decision_from, question_body
from agentform.runtime.http.connection import Connection
from agentform.runtime.http.retry_policy import RetryPolicy
from agentform.runtime.http.transport import Transport

__all__ = ["SystemOneModel"]

_MOST_QUESTIONS = 400
"""Of one request."""
_ONCE_MORE = RetryPolicy(retries=1, first_wait_s=0.1, longest_retry_after_s=5.0)


class SystemOneModel:
    """Asks a System One endpoint. Use from any number of event loops."""

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 10.0,
        retries: RetryPolicy = _ONCE_MORE,
        **connection: Any,
    ) -> None:
        """`model` is asked of the server when it is first needed, where it is not given.

        Raises:
            InvalidRequest: the address is no URL of http or https, or the key none for a header.
        """
        base, self._path = endpoint_of(url)
        self._connection = Connection(
            url=base, api_key=api_key, read_timeout_s=timeout_s, retries=retries, **connection
        )
        self._transport = Transport(self._connection)
        self._model = model

    @property
    def name(self) -> str:
        """The model's name, or the server's address before it is known."""
        return self._model or self._transport.where

    async def decide(self, state: str, questions: Mapping[str, Asked]) -> Mapping[str, Decision]:
        """A decision for every question.

        Raises:
            EngineUnavailable, EngineUnauthorized: the server is not there, is silent for too long or refuses the key.
            InvalidRequest, ContextOverflow: the server refuses the request.
            ReplyMalformed: what it answers is not System One's, or probabilities are none or sum to something else.
            EngineError: the server failed otherwise.
        """
        model = self._model = self._model or await self._only_model()
        waiting, decided = iter(questions.items()), dict[str, Decision]()
        while batch := dict(islice(waiting, _MOST_QUESTIONS)):
            bodies = {name: question_body(asked) for name, asked in batch.items()}
            request = {"model": model, "state": state, "questions": bodies}
            reply = await self._transport.shown(lambda request=request: self._transport.ask(self._path, request))
            decided |= self._read(reply, batch)
        return decided

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._transport.aclose()

    def _read(self, reply: Any, asked: Mapping[str, Asked]) -> dict[str, Decision]:
        where = self._transport.where
        answers: Any = cast("dict[str, Any]", reply).get("answers") if isinstance(reply, dict) else None
        if not isinstance(answers, dict):
            raise ReplyMalformed(f"{where} sent a reply without answers")
        found = cast("dict[str, Any]", answers)
        if missing := [name for name in asked if name not in found]:
            raise ReplyMalformed(f"{where} left questions without an answer: {', '.join(missing[:3])}")
        return {name: decision_from(name, each, found[name], where=where) for name, each in asked.items()}

    async def _only_model(self) -> str:
        path = self._path.rpartition("/")[0] + "/models"
        listed = await self._transport.shown(lambda: self._transport.ask_once("GET", path))
        try:
            rows = listed.get("models") or listed["data"]
            names = [str(row.get("name") or row["id"]) for row in rows]
        except (AttributeError, KeyError, TypeError) as error:
            raise ReplyMalformed(f"{self._transport.where} sent a list of models that is none") from error
        if len(names) != 1:
            said = ", ".join(names[:8]) or "none"
            raise InvalidRequest(f"{self._transport.where} has {len(names)} models ({said}): say which, with model=…")
        return names[0]
