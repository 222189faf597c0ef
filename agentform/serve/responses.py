"""`POST /v1/responses`, and what was answered by its id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.responses import Response as HTTPResponse

from agentform._util.threads import REQUESTS
from agentform.agent.responder import Response
from agentform.messages import Message
from agentform.serve.evidence_fields import wants_evidence
from agentform.serve.exchange import Exchange, logged_problem_of
from agentform.serve.foreign_fields import tell_ignored
from agentform.serve.kept_responses import KeptResponse, KeptResponses
from agentform.serve.parsing import parse
from agentform.serve.problems import Problem, Refused
from agentform.serve.responses_events import ResponsesEvents
from agentform.serve.responses_fields import ResponsesFields
from agentform.serve.responses_reply import ResponsesReply
from agentform.serve.responses_request import responses_request
from agentform.serve.turns import PreparedTurn, Turns

__all__ = ["ResponsesEndpoint"]


class ResponsesEndpoint:
    """Answers Responses requests with turns, and keeps the answers unless it is told not to."""

    def __init__(self, turns: Turns, kept: KeptResponses) -> None:
        self._turns = turns
        self._kept = kept

    def handler(self, body: bytes, exchange: Exchange) -> Callable[[Exchange], Awaitable[None]]:
        """Read a request.

        Raises:
            Refused: the request is none that can be served.
            AgentformError: for schemas that cannot be used.
        """
        fields = parse(ResponsesFields, body)
        self._turns.require_model(fields.model)
        tell_ignored(fields, exchange, strict=self._turns.settings.strict)
        if fields.previous_response_id is not None:
            return partial(self._going_on, fields)
        return partial(self._answer, *self._prepared(fields, exchange, ()))

    def _prepared(
        self, fields: ResponsesFields, exchange: Exchange, before: Sequence[Message]
    ) -> tuple[PreparedTurn, ResponsesReply]:
        thinks = self._turns.thinks(exchange)
        request = responses_request(fields, self._turns.settings, before=before, thinks=thinks)
        reply = ResponsesReply(
            model=self._turns.model,
            fields=fields,
            request=request,
            separate_text=self._turns.settings.reasoning_format != "none",
            with_evidence=wants_evidence(fields.agentform, exchange.request),
        )
        try:
            return self._turns.prepare(exchange, request), reply
        except Refused as refused:  # tools are flat here
            param = (refused.problem.param or "").replace(".function.", ".")
            raise Refused(replace(refused.problem, param=param or None)) from None

    async def _going_on(self, fields: ResponsesFields, exchange: Exchange) -> None:
        """From an answer that was kept."""
        client = self._turns.clients.of(exchange.request).name
        found = await self._kept.load(client, fields.previous_response_id or "")
        if found is None:
            raise Refused(_unknown(fields.previous_response_id or "", "previous_response_id", status=400))
        turn, reply = await REQUESTS.run(self._prepared, fields, exchange, found.messages)
        await self._answer(turn, reply, exchange)

    async def _answer(self, turn: PreparedTurn, reply: ResponsesReply, exchange: Exchange) -> None:
        if reply.fields.stream:
            await self._stream(turn, reply, exchange)
            return
        [response] = await turn.respond()
        body = reply.body(response)
        await self._keep(turn, reply, response, body)
        await exchange.answer(body)

    async def _stream(self, turn: PreparedTurn, reply: ResponsesReply, exchange: Exchange) -> None:
        events, begun = ResponsesEvents(reply), False
        exchange.error_event = lambda problem: ("error", events.error(_error(problem)))
        async with turn.stream() as told:
            async for each in told:
                if not begun:  # not before: what cannot be served has a status of its own
                    begun = True
                    await exchange.typed(events.begin())
                await exchange.typed(events.of(each.event))
        [response] = told.result
        if not begun:
            await exchange.typed(events.begin())
        body = reply.body(response)
        await self._keep(turn, reply, response, body)
        await exchange.typed(events.end(response, body))
        await exchange.end(done=False)

    async def _keep(self, turn: PreparedTurn, reply: ResponsesReply, response: Response, body: dict[str, Any]) -> None:
        if reply.fields.store is False:
            return
        told = reply.fields.instructions is not None  # which hold for one request alone
        messages = (*turn.request.messages[1 if told else 0 :], response.message)
        kept = KeptResponse(body=body, messages=messages, input_items=_items(reply.fields))
        await self._kept.save(turn.client.name, kept)

    async def get(self, request: Request) -> HTTPResponse:
        """An answer by its id, or what was asked for it."""
        response_id = request.path_params["id"]
        try:
            found = await self._kept.load(self._turns.clients.of(request).name, response_id)
        except Exception as error:
            return _told(logged_problem_of(error))
        if found is None:
            return _told(_unknown(response_id, "response_id"))
        if not request.url.path.endswith("/input_items"):
            return await REQUESTS.run(JSONResponse, found.body)
        first, last = (found.input_items[at]["id"] if found.input_items else None for at in (0, -1))
        listed = {"object": "list", "data": found.input_items, "has_more": False, "first_id": first, "last_id": last}
        return await REQUESTS.run(JSONResponse, listed)  # as large as a body may be

    async def delete(self, request: Request) -> HTTPResponse:
        """Forget an answer."""
        response_id = request.path_params["id"]
        try:
            gone = await self._kept.delete(self._turns.clients.of(request).name, response_id)
        except Exception as error:
            return _told(logged_problem_of(error))
        if not gone:
            return _told(_unknown(response_id, "response_id"))
        return JSONResponse({"id": response_id, "object": "response", "deleted": True})


def _items(fields: ResponsesFields) -> list[dict[str, Any]]:
    """What was asked, as items with ids."""
    if isinstance(fields.input, str):
        part = {"type": "input_text", "text": fields.input}
        return [{"type": "message", "id": "msg_0", "role": "user", "content": [part]}]
    items = [item.model_dump(exclude_none=True) for item in fields.input]
    return [{"id": f"item_{at}"} | item for at, item in enumerate(items)]


def _unknown(response_id: str, param: str, status: int = 404) -> Problem:
    message = f"there is no response {response_id[:100]!r} here"
    code = "previous_response_not_found" if status == 400 else "not_found"
    return Problem(status=status, message=message, param=param, code=code)


def _error(problem: Problem) -> dict[str, Any]:
    return {"code": problem.code, "message": problem.message, "param": problem.param}


def _told(problem: Problem) -> HTTPResponse:
    return JSONResponse(problem.body(), status_code=problem.status, headers=dict(problem.headers))
