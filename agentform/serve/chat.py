"""`POST /v1/chat/completions`."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

from agentform.agent.responder import Responder, Response
from agentform.serve.chat_fields import ChatFields, ToolFields
from agentform.serve.chat_reply import ChatChunks, Completion
from agentform.serve.chat_request import ChatRequest, chat_request, toolbox_of, tools_key
from agentform.serve.exchange import Exchange
from agentform.serve.metrics import ServerMetrics
from agentform.serve.parsing import parse
from agentform.serve.settings import ServerSettings
from agentform.serve.wire import bad_request, model_not_found
from agentform.tools.toolset import Toolbox

__all__ = ["Chat"]

_KEPT_TOOLBOXES = 64
_LONGEST_CONVERSATION = 512


class Chat:
    """Answers chat requests with a `Responder`; all calls in its answers are valid."""

    def __init__(self, responder: Responder, settings: ServerSettings, *, model: str, metrics: ServerMetrics) -> None:
        self._responder = responder
        self._settings = settings
        self._model = model
        self._metrics = metrics
        self._fingerprint = f"fp_{responder.engine.info.digest[:12]}"
        # The same object for the same tools, for which the responder keeps what it prepared.
        self._toolbox = lru_cache(maxsize=_KEPT_TOOLBOXES)(_toolbox)

    def handler(self, body: bytes, exchange: Exchange) -> Callable[[Exchange], Awaitable[None]]:
        """Read a request. Raises Refused, and AgentformError for schemas that cannot be used."""
        fields = parse(ChatFields, body)
        if fields.model != self._model:
            raise model_not_found(fields.model, self._model)
        header = exchange.request.headers.get("x-conversation-id")
        if header is not None and len(header) > _LONGEST_CONVERSATION:
            raise bad_request("X-Conversation-Id is too long", param="X-Conversation-Id")
        request = chat_request(fields, header, self._settings)
        toolbox = self._toolbox(tools_key(fields))
        completion = Completion(model=self._model, fingerprint=self._fingerprint)
        if not fields.stream:
            return lambda exchange: self._whole(exchange, request, toolbox, completion)
        with_usage = fields.stream_options is not None and bool(fields.stream_options.include_usage)
        return lambda exchange: self._stream(exchange, request, toolbox, completion, with_usage=with_usage)

    async def _whole(self, exchange: Exchange, request: ChatRequest, toolbox: Toolbox, completion: Completion) -> None:
        response = await self._responder.respond(request.messages, **_options(request, toolbox))
        self._count(response)
        await exchange.answer(completion.body(response))

    async def _stream(
        self,
        exchange: Exchange,
        request: ChatRequest,
        toolbox: Toolbox,
        completion: Completion,
        *,
        with_usage: bool,
    ) -> None:
        chunks = ChatChunks(completion, with_tools=bool(toolbox), with_form=request.output is not None)
        usage = {"usage": None} if with_usage else {}
        async with self._responder.stream(request.messages, **_options(request, toolbox)) as turn:
            begun = False
            async for event in turn:
                if not begun:  # not before: what cannot be served has a status of its own
                    begun = True
                    await exchange.event(chunks.begin() | usage)
                for chunk in chunks.of(event):
                    await exchange.event(chunk | usage)
        response = turn.result
        if not begun:
            await exchange.event(chunks.begin() | usage)
        for chunk in chunks.end(response):
            await exchange.event(chunk | usage)
        self._count(response)
        if with_usage:
            await exchange.event(completion.usage_chunk(response))
        await exchange.end()

    def _count(self, response: Response) -> None:
        self._metrics.tokens(response.prompt_usage, response.usage)


def _options(request: ChatRequest, toolbox: Toolbox) -> dict[str, Any]:
    return {
        "tools": toolbox,
        "tool_choice": request.tool_choice,
        "output": request.output,
        "stop": request.stop,
        "sampling": request.sampling,
        "limits": request.limits,
        "conversation": request.conversation,
    }


def _toolbox(key: str) -> Toolbox:
    return toolbox_of([ToolFields.model_validate(tool) for tool in json.loads(key)])
