"""`POST /v1/messages` and `POST /v1/messages/count_tokens`, as Anthropic's clients know them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from agentform.serve.evidence_fields import wants_evidence
from agentform.serve.exchange import Exchange
from agentform.serve.foreign_fields import tell_ignored
from agentform.serve.messages_fields import MessagesFields
from agentform.serve.messages_reply import MessagesEvents, MessagesReply
from agentform.serve.messages_request import messages_request
from agentform.serve.parsing import parse
from agentform.serve.problems import Refused, bad_request
from agentform.serve.turns import PreparedTurn, Turns

__all__ = ["MessagesEndpoint"]


class MessagesEndpoint:
    """Answers Anthropic requests with turns."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def handler(self, body: bytes, exchange: Exchange) -> Callable[[Exchange], Awaitable[None]]:
        """Read a request.

        Raises:
            Refused: the request is none that can be served.
            AgentformError: for schemas that cannot be used.
        """
        fields = parse(MessagesFields, body)
        if fields.max_tokens is None:
            raise bad_request("max_tokens is needed", param="max_tokens", code="missing_required_parameter")
        turn = self._prepared(fields, exchange)
        asked = wants_evidence(fields.agentform, exchange.request)
        reply = MessagesReply(
            model=self._turns.model,
            request=turn.request,
            separate_text=fields.wants_thinking and self._turns.settings.reasoning_format != "none",
            with_evidence=asked,
        )
        return partial(_stream if fields.stream else _whole, turn, reply)

    def counter(self, body: bytes, exchange: Exchange) -> Callable[[Exchange], Awaitable[None]]:
        """Read a request whose tokens are to be counted.

        Raises:
            Refused: the request is none that can be served.
            AgentformError: for schemas that cannot be used.
        """
        return partial(_count, self._prepared(parse(MessagesFields, body), exchange))

    def _prepared(self, fields: MessagesFields, exchange: Exchange) -> PreparedTurn:
        self._turns.require_model(fields.model)
        tell_ignored(fields, exchange, strict=self._turns.settings.strict)
        request = messages_request(fields, self._turns.settings, thinks=self._turns.thinks(exchange))
        try:
            return self._turns.prepare(exchange, request)
        except Refused as refused:  # tools are flat here, and schemas have another name
            param = (refused.problem.param or "").replace(".function.parameters", ".input_schema")
            param = param.replace(".function.", ".")
            raise Refused(
                replace(refused.problem, param=param, message=f"{param}: {refused.problem.message}")
            ) from None


async def _whole(turn: PreparedTurn, reply: MessagesReply, exchange: Exchange) -> None:
    [response] = await turn.respond()
    await exchange.answer(reply.body(response))


async def _stream(turn: PreparedTurn, reply: MessagesReply, exchange: Exchange) -> None:
    events, begun = MessagesEvents(reply), False
    exchange.error_event = lambda problem: ("error", problem.body(exchange.request.url.path))
    async with turn.stream() as told:
        async for each in told:
            if not begun:  # not before: what cannot be served has a status of its own
                begun = True
                await exchange.typed(events.begin())
            await exchange.typed(events.of(each.event))
    if not begun:
        await exchange.typed(events.begin())
    [response] = told.result
    await exchange.typed(events.end(response))
    await exchange.end(done=False)


async def _count(turn: PreparedTurn, exchange: Exchange) -> None:
    await exchange.answer({"input_tokens": len(await turn.prompt_ids())})
