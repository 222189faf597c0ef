"""llama.cpp's server as an engine: scores, completions and grammars over its own HTTP interface."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, cast

import numpy as np

from agentform.errors import DeadlineExceeded, EngineUnavailable, ModelMismatch
from agentform.grammar.compile import CompiledGrammar
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.engine import Chunk, GenerateRequest, ModelInfo, ScoreRequest, ScoreResult, Tokenizer
from agentform.runtime.grammar_cache import Grammars
from agentform.runtime.http.connection import Connection
from agentform.runtime.http.failures import understood
from agentform.runtime.http.in_flight import InFlight
from agentform.runtime.http.library import httpx
from agentform.runtime.http.retry_policy import RetryPolicy
from agentform.runtime.http.transport import Transport
from agentform.runtime.http.usage_totals import UsageTotals
from agentform.runtime.llama_server.bodies import LISTED, completion_body, most_tokens, read_body
from agentform.runtime.llama_server.completion import LlamaCompletion
from agentform.runtime.llama_server.drawing import draw
from agentform.runtime.llama_server.scores import LlamaScores
from agentform.runtime.llama_server.served import LLAMA_CPP, PROPS, LlamaServed, ask_llama_served, refused_by_llama
from agentform.runtime.llama_server.tokenizer import LlamaServerTokenizer
from agentform.runtime.llama_server.vocabulary import read_vocabulary
from agentform.runtime.models.tuned_scoring import read_scoring
from agentform.runtime.preparation import prepare_generation, prepare_score
from agentform.runtime.prior_store import PriorStore

__all__ = ["LlamaServer"]

_LACKS = (
    "No snapshots, pins or tiers: what is cached is the server's business, and no reason for a miss is told.",
    "A score asks the server once for every path of the options, one after the other; tokens outside its 512 most "
    "probable ones take a second request.",
    "Requests with a cache salt use no cache: the server has one for all.",
    "Penalties also count the tokens of the prompt.",
)
_FOLLOWED_HERE = (
    "This build of the server does not follow llguidance's grammars: they are followed here, and each token that they "
    "refuse takes another request."
)


class LlamaServer:
    """Implements `agentform.runtime.engine.Engine`; also an async context manager.

    Neither the weights nor llama.cpp are here. Any number of tasks, of any number of event loops, may use it at once.
    """

    def __init__(
        self,
        url: str,
        *,
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
        """Ask what is served, and read its vocabulary, which takes the server about as long as writing five tokens.

        Args:
            url: ``http://host:8080`` or ``https://…``.
            name: What `info` shows, by default the server's alias, or its model file's name.
            api_key: What the server was started with (``--api-key``).
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
            InvalidRequest: the address or an argument is none that can be used.
            ReplyMalformed: what answers is no server of llama.cpp.
            EngineError: the server refused for a reason of its own.
        """
        connection = Connection(
            url=url,
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
        self._transport = Transport(connection, refused=refused_by_llama)
        self._served = served = ask_llama_served(self._transport)
        with understood(self._transport.where, LLAMA_CPP):
            vocabulary = read_vocabulary(self._transport)
            self._tokenizer = LlamaServerTokenizer(self._transport, served, vocabulary)
        self._info = _info(name, served, self._tokenizer, self._transport.where)
        self._grammars = Grammars(
            self._tokenizer.for_grammars,
            vocabulary_size=self._info.vocabulary_size,
            eos_ids=lambda: self._tokenizer.eos_ids,
        )
        self._scores = LlamaScores(self._transport, vocabulary)
        self._counts = UsageTotals(capacity_tokens=served.context_tokens * served.num_slots)
        self._in_flight = InFlight()
        self.priors = PriorStore()
        """Label priors of this model; `load_engine` keeps them on disk too."""
        self._transport.after_outage = self._check_model_again

    def __repr__(self) -> str:
        return f"LlamaServer({self._transport.where!r}, model={self._info.name!r})"

    @property
    def info(self) -> ModelInfo:
        """The model being served. Its digest is of what the server says of it, since the weights are not here."""
        return self._info

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return cast("Tokenizer", self._tokenizer)  # its cached properties are properties, to all but the type checker

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        """See `Engine.generate`. Closing the connection is what ends a completion at the server.

        Raises:
            EngineUnavailable: the server is not reached, is overloaded, falls silent or breaks off.
            EngineUnauthorized: the server refuses the key or the client certificate.
            ReplyMalformed: the server answers with something else than its protocol says.
            ModelMismatch: the server has another model than before.
            EngineError: as `Engine.generate` says.
        """
        self._in_flight.check()
        prepared = await prepare_generation(request, self._info, self._grammars)
        grammar = prepared.grammar
        most = most_tokens(request, self._tokenizer.encode, self._info.context_tokens) if request.max_tokens else 0
        completion = LlamaCompletion(
            request,
            token_bytes=self._tokenizer.token_bytes,
            eos_ids=self._tokenizer.eos_ids,
            matcher=grammar.matcher() if grammar is not None else None,
            most_tokens=most,
        )
        first = completion.begin()
        if first is None and not most:
            first = await self._warmed(request, completion, prepared.deadline)
        if first is not None:
            yield self._counted(first, request)
        nth = 0
        while not completion.done:
            async with aclosing(self._streamed(request, completion, grammar, prepared.deadline, nth)) as chunks:
                async for chunk in chunks:
                    yield self._counted(chunk, request)
            nth += 1

    async def score(self, request: ScoreRequest) -> ScoreResult:
        """See `Engine.score`.

        Raises:
            EngineError: as `Engine.score` says, and what `generate` adds to that.
        """
        deadline = prepare_score(request, self._info)
        with self._in_flight.scope(deadline):
            result = await self._scores.ask(request)
            self._counts.add(result.usage, request.conversation, request.prompt_ids)
            return result
        raise DeadlineExceeded(f"the score of {len(request.branches)} branches was not done in {request.deadline_s} s")

    def expect_return(self, conversation: str, *, after: str) -> None:
        """Nothing: the server has no way to be told."""

    def statistics(self) -> CacheStatistics:
        """What the replies to this client said, added up; the server's own counts hold those of others too."""
        return self._counts.statistics()

    async def check_health(self) -> None:
        """Ask once whether requests are served now, and still by the same model.

        Raises:
            EngineUnavailable: the server is not reached, is overloaded, falls silent or breaks off.
            EngineUnauthorized: the server refuses the key or the client certificate.
            ModelMismatch: the server has another model than before.
            EngineClosed: the engine is closed.
            EngineError: what answers is no server of llama.cpp.
        """
        with self._in_flight.scope():
            await self._transport.probe("/health")
            await self._transport.shown(self._check_model_again)

    async def aclose(self) -> None:
        """Close the connections; requests in flight end with EngineClosed. Closing twice is harmless."""
        self._in_flight.close()
        await self._transport.aclose()

    async def __aenter__(self) -> LlamaServer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _warmed(self, request: GenerateRequest, completion: LlamaCompletion, deadline: float) -> Chunk:
        with self._in_flight.scope(deadline):
            reply = await self._transport.ask("/completion", read_body(request))
            with understood(self._transport.where, LLAMA_CPP):
                return completion.warmed(reply.get("timings") or {})
        return completion.expire()

    async def _streamed(
        self,
        request: GenerateRequest,
        completion: LlamaCompletion,
        grammar: CompiledGrammar | None,
        deadline: float,
        nth: int,
    ) -> AsyncGenerator[Chunk, None]:
        """One stream, until the completion is over or the grammar refused a token, in whose place one is drawn then.

        The server can follow a grammar from its beginning only.
        """
        by_server = grammar is not None and self._served.reads_llguidance and not completion.written
        completion.begin_stream()
        body = completion_body(
            request,
            written=completion.written,
            left=completion.left,
            grammar=grammar.lark if grammar is not None and by_server else "",
            listed=LISTED if grammar is not None and not by_server else 0,
            nth=nth,
        )
        async with aclosing(self._transport.events("/completion", body)) as events:
            while completion.goes_on:
                event = await self._next_event(events, deadline)
                with understood(self._transport.where, LLAMA_CPP):
                    chunk = completion.expire() if event is None else completion.feed(event)
                if chunk is not None:
                    yield chunk
        if completion.lost:
            yield await self._named(request, completion, deadline, nth)
        if completion.refused is not None:
            yield await self._drawn(request, completion, deadline, nth)

    async def _named(self, request: GenerateRequest, completion: LlamaCompletion, deadline: float, nth: int) -> Chunk:
        """The tokens that a stream went past, named by a whole reply."""
        body = completion_body(
            request, written=completion.written, left=min(completion.lost, completion.left), nth=nth, stream=False
        )
        completion.begin_stream()
        with self._in_flight.scope(deadline):
            reply = await self._transport.ask("/completion", body)
            with understood(self._transport.where, LLAMA_CPP):
                return completion.feed(reply) or Chunk()
        return completion.expire()

    async def _next_event(self, events: AsyncGenerator[dict[str, Any], None], deadline: float) -> dict[str, Any] | None:
        """`None` when the deadline comes first."""
        with self._in_flight.scope(deadline):
            async for event in events:
                return event
            raise EngineUnavailable(f"{self._transport.where} ended a stream before the completion was over")
        return None

    async def _drawn(self, request: GenerateRequest, completion: LlamaCompletion, deadline: float, nth: int) -> Chunk:
        """Go on with a token that the grammar allows, drawn from those that are listed or else from all."""
        assert completion.matcher is not None
        assert completion.refused is not None
        allowed = completion.matcher.allowed()
        known = {i: p for i, p in completion.refused.items() if i < len(allowed) and allowed[i]}
        if not known:
            ids = tuple(map(int, np.flatnonzero(allowed)))
            with self._in_flight.scope(deadline):
                known = await self._scores.at(request, completion.written, ids, [])
            if not known:
                return completion.expire()
        token = draw(known, request.sampling, Random(request.sampling.seed * 1_000_003 + nth))
        with understood(self._transport.where, LLAMA_CPP):
            return completion.put(token) or Chunk()

    async def _check_model_again(self) -> None:
        """After an outage: the same model must be there.

        Raises:
            ModelMismatch: another model is served than at first.
            Failure: the server did not answer as it should.
        """
        props = await self._transport.ask_once("GET", PROPS)
        listed = await self._transport.ask_once("GET", "/v1/models")
        with understood(self._transport.where, LLAMA_CPP):
            if self._served.is_of(props, listed):
                return
        raise ModelMismatch(f"{self._transport.where} no longer serves {self._served.name}; make a new engine")

    def _counted(self, chunk: Chunk, request: GenerateRequest) -> Chunk:
        if chunk.usage is not None:
            self._counts.add(chunk.usage, request.conversation, request.prompt_ids)
        return chunk


def _info(name: str | None, served: LlamaServed, tokenizer: LlamaServerTokenizer, where: str) -> ModelInfo:
    digest = f"llama-server:{hashlib.sha256(tokenizer.tokenizer_json.encode()).hexdigest()}"
    return ModelInfo(
        name=name or served.name,
        digest=digest,
        context_tokens=served.context_tokens,
        vocabulary_size=tokenizer.vocabulary_size,
        scoring=read_scoring(digest),
        why=f"{where} is a server of llama.cpp, with {served.num_slots} slots",
        lacks=_LACKS if served.reads_llguidance else (*_LACKS, _FOLLOWED_HERE),
    )
