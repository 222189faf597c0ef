"""Runs the turns that requests ask for; the one way from every wire to the engine."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import anyio

from agentform._util.gather import at_once
from agentform.agent.responder import Responder, Response
from agentform.agent.streaming import Streaming, streaming
from agentform.decoding.tool_format import format_of
from agentform.events import CallRepeated, Emit, Event
from agentform.serve.clients import Client, Clients
from agentform.serve.exchange import Exchange
from agentform.serve.kept_toolboxes import KeptToolboxes
from agentform.serve.metrics import ServerMetrics
from agentform.serve.own_tools import OwnTools
from agentform.serve.problems import bad_request, model_not_found
from agentform.serve.request_record import count_tokens, record_of
from agentform.serve.settings import ServerSettings
from agentform.serve.turn_request import TurnRequest, toolbox_of, tools_key
from agentform.tools.toolset import Toolbox

__all__ = ["RAN", "REPEATED", "AnswerEvent", "AnswerStream", "PreparedTurn", "Turns"]

RAN = "x-agentform-ran"
"""Header with the names of the server's own tools that were run for a reply that is no stream."""
REPEATED = "x-agentform-repeated-call"
"""Header with the name of a tool that the model wanted to call once more, with the same arguments and result."""
_LONGEST_CONVERSATION = 512
_SEEDS_APART = 1 << 20
"""Between the answers to one request; a turn takes a seed for everything that it writes."""


@dataclass(frozen=True)
class AnswerEvent:
    """An event of one of the answers to a request."""

    index: int
    event: Event


class AnswerStream:
    """Answers in progress: iterate over their events, then read `result`."""

    def __init__(self, inner: Streaming[list[Response]]) -> None:
        self._inner = inner

    def __aiter__(self) -> AnswerStream:
        return self

    async def __anext__(self) -> AnswerEvent:
        return cast("Any", await self._inner.__anext__())

    @property
    def result(self) -> list[Response]:
        """The answers, once the events have ended."""
        return self._inner.result


class Turns:
    """What all wires share: the clients, their tools of past turns, and the counts."""

    def __init__(
        self,
        clients: Clients,
        settings: ServerSettings,
        *,
        model: str,
        metrics: ServerMetrics,
        tools: Toolbox | None = None,
    ) -> None:
        """`tools` are offered to every request and run here."""
        self.clients = clients
        self.settings = settings
        self.model = model
        self.metrics = metrics
        self._own = OwnTools(tools, most_calls=settings.own_calls)
        self._toolboxes = KeptToolboxes(toolbox_of)

    def require_model(self, asked: str) -> None:
        """Check that a request names the model that is served.

        Raises:
            Refused: it names another one.
        """
        if asked != self.model:
            raise model_not_found(asked, self.model)

    def thinks(self, exchange: Exchange) -> bool:
        """Whether the model thinks between marks of its own."""
        return format_of(self.clients.of(exchange.request).engine.tokenizer).reasoning is not None

    def prepare(self, exchange: Exchange, request: TurnRequest) -> PreparedTurn:
        """Everything that a turn needs.

        Raises:
            Refused: a tool is none that can be called, or the conversation's name is too long.
        """
        header = exchange.request.headers.get("x-conversation-id")
        if header is not None and len(header) > _LONGEST_CONVERSATION:
            raise bad_request("X-Conversation-Id is too long", param="X-Conversation-Id")
        client = self.clients.of(exchange.request)
        request = self._own.beside(request)
        toolbox = self._toolboxes.of(tools_key(request.tools), client.name)
        named = replace(request, conversation=header or request.conversation)
        return PreparedTurn(
            client=client, request=named, toolbox=toolbox, metrics=self.metrics, exchange=exchange, own=self._own
        )


@dataclass(frozen=True, kw_only=True)
class PreparedTurn:
    """A request, and what serves it."""

    client: Client
    request: TurnRequest
    toolbox: Toolbox
    metrics: ServerMetrics
    exchange: Exchange
    own: OwnTools

    @property
    def responder(self) -> Responder:
        """What runs the turn."""
        return self.client.responder

    async def prompt_ids(self) -> tuple[int, ...]:
        """The tokens that the model would read.

        Raises:
            AgentformError: what `Responder.prompt_ids` raises.
        """
        request = self.request
        return await self.responder.prompt_ids(request.messages, tools=self.toolbox, reasoning=request.reasoning)

    async def respond(self) -> list[Response]:
        """The answers, of which there is one unless more were asked for.

        Raises:
            AgentformError: what `Responder.respond` raises.
        """
        work = [partial(self._respond, at, self._tell) for at in range(self.request.num_answers)]
        done = await at_once(work)
        self._count(done)
        return done

    @asynccontextmanager
    async def stream(self) -> AsyncGenerator[AnswerStream, None]:
        """The events of the answers as they come, each a `AnswerEvent`; in the end the answers.

        Raises:
            AgentformError: what `Responder.respond` raises, where the events are read.
        """

        async def work(emit: Emit) -> list[Response]:
            send = cast("Any", emit)

            async def one(at: int) -> Response:
                async def tell(event: Event) -> None:
                    await self._tell(event)
                    if not isinstance(event, CallRepeated):
                        await send(AnswerEvent(at, event))

                return await self._respond(at, tell)

            return await at_once([partial(one, at) for at in range(self.request.num_answers)])

        async with streaming(work) as turn:
            yield AnswerStream(turn)
        self._count(turn.result)

    async def _respond(self, at: int, emit: Emit) -> Response:
        if not self.request.own:
            return await self._turn(self.request, emit, at=at)
        record = record_of(self.exchange.request.scope)
        note = record.ran.append if record is not None else _unnoted
        response = await self.own.answered(self.request, self._turn, emit, engine=self.client.engine, note=note)
        if response.ran:
            self.exchange.headers[RAN] = ", ".join(each.call.name for each in response.ran)
        return response

    async def _turn(self, request: TurnRequest, emit: Emit, *, at: int = 0) -> Response:
        seed = (request.sampling.seed + at * _SEEDS_APART) % 2**63
        return await self.responder.respond(
            request.messages,
            tools=self.toolbox,
            tool_choice=request.tool_choice,
            output=request.output,
            stop=request.stop,
            sampling=replace(request.sampling, seed=seed),
            limits=request.limits,
            conversation=request.conversation if at == 0 else None,
            reasoning=request.reasoning,
            allowed=request.allowed,
            logprobs=request.logprobs,
            grammar=request.grammar,
            emit=emit,
        )

    async def _tell(self, event: Event) -> None:
        if (record := record_of(self.exchange.request.scope)) is not None:
            record.written(event)
        if isinstance(event, CallRepeated):
            self.exchange.headers[REPEATED] = event.call.name.encode("ascii", "replace").decode()
        await anyio.lowlevel.checkpoint()

    def _count(self, responses: list[Response]) -> None:
        for response in responses:
            count_tokens(self.exchange.request.scope, self.metrics, response.prompt_usage, response.usage)


def _unnoted(name: str) -> None:
    """Nobody keeps a record."""
    del name
