"""`POST /v1/chat/completions`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from agentform.serve.chat_chunks import ChatChunks
from agentform.serve.chat_fields import ChatFields
from agentform.serve.chat_reply import ChatCompletion
from agentform.serve.chat_request import chat_request
from agentform.serve.evidence_fields import wants_evidence
from agentform.serve.exchange import Exchange
from agentform.serve.foreign_fields import tell_ignored
from agentform.serve.parsing import parse
from agentform.serve.turns import PreparedTurn, Turns

__all__ = ["ChatEndpoint"]


class ChatEndpoint:
    """Answers chat requests with turns; all calls in its answers are valid."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def handler(self, body: bytes, exchange: Exchange) -> Callable[[Exchange], Awaitable[None]]:
        """Read a request.

        Raises:
            Refused: the request is none that can be served.
            AgentformError: for schemas that cannot be used.
        """
        fields = parse(ChatFields, body)
        self._turns.require_model(fields.model)
        tell_ignored(fields, exchange, strict=self._turns.settings.strict)
        request = chat_request(fields, self._turns.settings, thinks=self._turns.thinks(exchange))
        turn = self._turns.prepare(exchange, request)
        completion = self._completion(fields, turn)
        if not fields.stream:
            return lambda exchange: _whole(exchange, turn, completion)
        with_usage = fields.stream_options is not None and bool(fields.stream_options.include_usage)
        return lambda exchange: _stream(exchange, turn, completion, with_usage=with_usage)

    def _completion(self, fields: ChatFields, turn: PreparedTurn) -> ChatCompletion:
        separate = (fields.reasoning_format or self._turns.settings.reasoning_format) != "none"
        return ChatCompletion(
            model=self._turns.model,
            fingerprint=f"fp_{turn.client.engine.info.digest[:12]}",
            request=turn.request,
            is_choice=fields.is_choice,
            separate_text=separate,
            with_evidence=wants_evidence(fields.agentform, turn.exchange.request),
        )


async def _whole(exchange: Exchange, turn: PreparedTurn, completion: ChatCompletion) -> None:
    await exchange.answer(completion.body(await turn.respond()))


async def _stream(exchange: Exchange, turn: PreparedTurn, completion: ChatCompletion, *, with_usage: bool) -> None:
    usage: dict[str, Any] = {"usage": None} if with_usage else {}
    choices = [ChatChunks(completion, at) for at in range(turn.request.num_answers)]
    async with turn.stream() as events:
        async for told in events:
            for chunk in choices[told.index].of(told.event):
                await exchange.event(chunk | usage)
    for chunks, response in zip(choices, events.result, strict=True):
        for chunk in chunks.end(response):
            await exchange.event(chunk | usage)
    if with_usage:
        await exchange.event(completion.usage_chunk(events.result))
    await exchange.end()
