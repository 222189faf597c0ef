"""`POST /v1/chat/completions`."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from agentform.agent.responder import Responder, Response
from agentform.serve.chat_fields import ChatFields, ToolFields
from agentform.serve.chat_reply import ChatChunks, ChatCompletion
from agentform.serve.chat_request import ChatRequest, chat_request, toolbox_of, tools_key
from agentform.serve.clients import Clients
from agentform.serve.exchange import Exchange
from agentform.serve.foreign_fields import HEADER, ignored_fields
from agentform.serve.kept_toolboxes import KeptToolboxes
from agentform.serve.metrics import ServerMetrics
from agentform.serve.parsing import parse
from agentform.serve.problems import bad_request, model_not_found
from agentform.serve.settings import ServerSettings
from agentform.tools.toolset import Toolbox

__all__ = ["ChatEndpoint"]

_LONGEST_CONVERSATION = 512


@dataclass(frozen=True)
class _PreparedChat:
    """A request, and what serves it."""

    responder: Responder
    request: ChatRequest
    toolbox: Toolbox
    completion: ChatCompletion

    def options(self) -> dict[str, Any]:
        """What the responder is told beside the messages."""
        return {
            "tools": self.toolbox,
            "tool_choice": self.request.tool_choice,
            "output": self.request.output,
            "stop": self.request.stop,
            "sampling": self.request.sampling,
            "limits": self.request.limits,
            "conversation": self.request.conversation,
            "reasoning": self.request.reasoning,
        }


class ChatEndpoint:
    """Answers chat requests with a `Responder`; all calls in its answers are valid."""

    def __init__(self, clients: Clients, settings: ServerSettings, *, model: str, metrics: ServerMetrics) -> None:
        self._clients = clients
        self._settings = settings
        self._model = model
        self._metrics = metrics
        self._toolboxes = KeptToolboxes(_toolbox)

    def handler(self, body: bytes, exchange: Exchange) -> Callable[[Exchange], Awaitable[None]]:
        """Read a request.

        Raises:
            Refused: the request is none that can be served.
            AgentformError: for schemas that cannot be used.
        """
        fields = parse(ChatFields, body)
        if fields.model != self._model:
            raise model_not_found(fields.model, self._model)
        header = exchange.request.headers.get("x-conversation-id")
        if header is not None and len(header) > _LONGEST_CONVERSATION:
            raise bad_request("X-Conversation-Id is too long", param="X-Conversation-Id")
        if ignored := ignored_fields(fields):
            exchange.headers[HEADER] = ignored
        request = chat_request(fields, header, self._settings)
        client = self._clients.of(exchange.request)
        toolbox = self._toolboxes.of(tools_key(fields), client.name)
        completion = ChatCompletion(model=self._model, fingerprint=f"fp_{client.engine.info.digest[:12]}")
        asked = _PreparedChat(client.responder, request, toolbox, completion)
        if not fields.stream:
            return lambda exchange: self._whole(exchange, asked)
        with_usage = fields.stream_options is not None and bool(fields.stream_options.include_usage)
        return lambda exchange: self._stream(exchange, asked, with_usage=with_usage)

    async def _whole(self, exchange: Exchange, asked: _PreparedChat) -> None:
        response = await asked.responder.respond(asked.request.messages, **asked.options())
        self._count(response)
        await exchange.answer(asked.completion.body(response))

    async def _stream(self, exchange: Exchange, asked: _PreparedChat, *, with_usage: bool) -> None:
        request, completion = asked.request, asked.completion
        chunks = ChatChunks(completion, with_tools=bool(asked.toolbox), with_form=request.output is not None)
        usage = {"usage": None} if with_usage else {}
        async with asked.responder.stream(request.messages, **asked.options()) as turn:
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


def _toolbox(key: str) -> Toolbox:
    """The tools that `tools_key` tells apart."""
    return toolbox_of([ToolFields.model_validate(tool) for tool in json.loads(key)])
