"""Any server that speaks OpenAI's interface as an engine that writes, under JSON Schemas, and cannot score."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Any

from agentform.errors import CannotScore, EngineUnavailable, InvalidRequest, ModelMismatch
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.engine import Chunk, GenerateRequest, ModelInfo, ScoreRequest, ScoreResult, Tokenizer
from agentform.runtime.http.connection import Connection
from agentform.runtime.http.failures import understood
from agentform.runtime.http.in_flight import InFlight
from agentform.runtime.http.library import httpx
from agentform.runtime.http.retry_policy import RetryPolicy
from agentform.runtime.http.transport import Transport
from agentform.runtime.http.usage_totals import UsageTotals
from agentform.runtime.openai_server.bodies import ask
from agentform.runtime.openai_server.completion import ChatCompletionStream
from agentform.runtime.openai_server.schema_ways import CHAT, SCHEMA_WAYS, SchemaWay, find_schema_way
from agentform.runtime.openai_server.served import MODELS, OPENAI, pick_model, refused_by_openai, served_models
from agentform.runtime.preparation import prepare_generation
from agentform.runtime.prior_store import PriorStore
from agentform.runtime.scripted.byte_tokenizer import ByteTokenizer

__all__ = ["OpenAIServer"]

_MOST_BYTES = 1 << 24
_LACKS = (
    "No scores: choices are written, and nothing is known of how probable they or other options were.",
    "The server has tokenizer and chat template: token ids are bytes here, and the server says what fits its context.",
    "No writing on from the middle of a message: what is begun is shown as one, and a form is written whole.",
    "Grammars other than JSON Schemas are refused.",
    "What is cached is the server's business.",
)
_BY_TEXT = (
    "This server follows no JSON Schema that it was tried with: the model is told of it, and the reply is checked."
)


class OpenAIServer:
    """Implements `agentform.runtime.engine.Engine`; also an async context manager.

    Any number of tasks, of any number of event loops, may use it at once.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        schema_way: SchemaWay | None = None,
        name: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        ca_file: Path | str | None = None,
        client_certificate: tuple[Path | str, Path | str] | Path | str | None = None,
        verify: bool = True,
        connect_timeout_s: float = 5.0,
        read_timeout_s: float = 300.0,
        max_connections: int = 256,
        retries: RetryPolicy | None = None,
        transport: httpx.BaseTransport | None = None,
        async_transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Ask which models there are, and try how the server takes a JSON Schema: one to three short completions.

        Args:
            url: ``http://host:8000`` or ``https://…``, with or without ``/v1``.
            model: Which of the server's models; may be left out where there is one.
            schema_way: The field that carries a JSON Schema, or "text" for none; found by trying where it is not given.
            name: What `info` shows, by default the model's name.
            api_key: Sent as a bearer token.
            headers: Further headers for each request.
            ca_file: Certificates to trust instead of the usual ones.
            client_certificate: PEM file with certificate and key, or a pair of files, to show to the server.
            verify: Whether the server's certificate is checked.
            connect_timeout_s: For opening a connection.
            read_timeout_s: The longest silence while a reply is awaited.
            max_connections: At once, per event loop.
            retries: What is asked again, how often, after what wait.
            transport: Instead of the network, for tests and special proxies; asked while starting.
            async_transport: The same for requests.

        Raises:
            EngineUnavailable: nothing answers at the address.
            EngineUnauthorized: the key or certificate is refused.
            InvalidRequest: the address or an argument is none that can be used, or it is not said which model.
            ReplyMalformed: what answers does not speak OpenAI's interface.
            EngineError: the server refused for a reason of its own.
        """
        if schema_way is not None and schema_way not in SCHEMA_WAYS:
            raise InvalidRequest(f"schema_way must be one of {', '.join(SCHEMA_WAYS)}, got {schema_way!r}")
        connection = Connection(
            url=url.rstrip("/").removesuffix("/v1"),
            api_key=api_key,
            headers=headers or {},
            ca_file=ca_file,
            client_certificate=client_certificate,
            verify=verify,
            connect_timeout_s=connect_timeout_s,
            read_timeout_s=read_timeout_s,
            max_connections=max_connections,
            retries=retries or RetryPolicy(),
            transport=transport,
            async_transport=async_transport,
        )
        self._transport = Transport(connection, refused=refused_by_openai)
        self._model = pick_model(self._transport, model)
        self.schema_way: SchemaWay = schema_way or find_schema_way(self._post_now, self._model)
        """The field that carries a JSON Schema; "text" where the server follows none."""
        self._tokenizer = ByteTokenizer()
        self._info = _info(name, self._model, self._transport.where, self.schema_way)
        self._counts = UsageTotals()
        self._in_flight = InFlight()
        self.priors = PriorStore()
        """Empty: nothing is scored."""
        self._transport.after_outage = self._check_model_again

    def __repr__(self) -> str:
        return f"OpenAIServer({self._transport.where!r}, model={self._info.name!r})"

    @property
    def info(self) -> ModelInfo:
        """The model being served. Its digest is of the server's address and the model's name."""
        return self._info

    @property
    def tokenizer(self) -> Tokenizer:
        """Bytes: the model's own tokenizer is the server's."""
        return self._tokenizer

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        """See `Engine.generate`. Closing the connection is what ends a completion at the server.

        Raises:
            EngineUnavailable: the server is not reached, is overloaded, falls silent or breaks off.
            EngineUnauthorized: the server refuses the key or the client certificate.
            ReplyMalformed: the server answers with something else than OpenAI's interface says.
            ModelMismatch: the server no longer has the model.
            GrammarError: the grammar is no JSON Schema, or the server refuses it.
            EngineError: as `Engine.generate` says.
        """
        self._in_flight.check()
        deadline = (await prepare_generation(request, self._info, None)).deadline
        asked = ask(request, model=self._model, way=self.schema_way)
        completion = ChatCompletionStream(request, asked)
        if not request.max_tokens:
            yield completion.unasked()
            return
        async with aclosing(self._transport.events(CHAT, asked.body)) as events:
            while not completion.done:
                chunk = await self._next_chunk(events, completion, deadline)
                if chunk is not None:
                    if chunk.usage is not None:
                        self._counts.add(chunk.usage, request.conversation, request.prompt_ids)
                    yield chunk

    async def score(self, request: ScoreRequest) -> ScoreResult:
        """Nothing is scored here.

        Raises:
            CannotScore: always.
        """
        raise CannotScore(self._transport.where)

    def expect_return(self, conversation: str, *, after: str) -> None:
        """Nothing: the server has no way to be told."""

    def statistics(self) -> CacheStatistics:
        """What the replies to this client said, added up."""
        return self._counts.statistics()

    async def check_health(self) -> None:
        """Ask once whether the server answers, and still has the model.

        Raises:
            EngineUnavailable: the server is not reached, is overloaded, falls silent or breaks off.
            EngineUnauthorized: the server refuses the key or the client certificate.
            ModelMismatch: the server no longer has the model.
            EngineClosed: the engine is closed.
            EngineError: what answers does not speak OpenAI's interface.
        """
        with self._in_flight.scope():
            await self._transport.shown(self._check_model_again)

    async def aclose(self) -> None:
        """Close the connections; requests in flight end with EngineClosed. Closing twice is harmless."""
        self._in_flight.close()
        await self._transport.aclose()

    async def __aenter__(self) -> OpenAIServer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _post_now(self, path: str, body: dict[str, Any]) -> Any:
        return self._transport.ask_now("POST", path, body)

    async def _next_chunk(
        self, events: AsyncGenerator[dict[str, Any], None], completion: ChatCompletionStream, deadline: float
    ) -> Chunk | None:
        with self._in_flight.scope(deadline):
            async for event in events:
                with understood(self._transport.where, OPENAI):
                    return completion.feed(event)
            if not completion.is_finished:
                raise EngineUnavailable(f"{self._transport.where} ended a stream before the completion was over")
            return completion.ended()
        return completion.expire()

    async def _check_model_again(self) -> None:
        """After an outage: the model must be there.

        Raises:
            ModelMismatch: it is not.
            Failure: the server did not answer as it should.
        """
        listed = await self._transport.ask_once("GET", MODELS)
        with understood(self._transport.where, OPENAI):
            if self._model in served_models(listed):
                return
        raise ModelMismatch(f"{self._transport.where} no longer serves {self._model}; make a new engine")


def _info(name: str | None, model: str, where: str, way: SchemaWay) -> ModelInfo:
    named = hashlib.sha256(f"{where}\n{model}".encode()).hexdigest()
    by = "follows no JSON Schema" if way == "text" else f"writes by the JSON Schema in {way}"
    return ModelInfo(
        name=name or model,
        digest=f"openai-server:{named}",
        context_tokens=_MOST_BYTES,
        vocabulary_size=ByteTokenizer.vocabulary_size,
        why=f"{where} speaks OpenAI's interface, which tells no probabilities of options, and {by}",
        scores=False,
        lacks=(*_LACKS, _BY_TEXT) if way == "text" else _LACKS,
    )
