"""SGLang somewhere else: an engine over HTTP, behind one address that is a server or a router before many."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, cast
from urllib.parse import quote

import anyio

from agentform.errors import (
    CacheBudgetExceeded,
    ContextOverflow,
    DeadlineExceeded,
    EngineError,
    EngineUnavailable,
    GrammarError,
    ModelMismatch,
)
from agentform.grammar.compile import CompiledGrammar
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.engine import Chunk, GenerateRequest, ModelInfo, ScoreRequest, ScoreResult, Tokenizer
from agentform.runtime.grammar_cache import Grammars
from agentform.runtime.http.connection import Connection
from agentform.runtime.http.in_flight import InFlight
from agentform.runtime.http.library import httpx
from agentform.runtime.http.retry_policy import RetryPolicy
from agentform.runtime.http.transport import Transport
from agentform.runtime.http.usage_totals import UsageTotals
from agentform.runtime.preparation import prepare_generation, prepare_score
from agentform.runtime.prior_store import PriorStore
from agentform.runtime.sglang.client.remote_model import remote_info, remote_tokenizer
from agentform.runtime.sglang.client.remote_score import RemoteScore
from agentform.runtime.sglang.client.server_info import MODEL_INFO, ask_served, check_tokenizer, identity_of, reads_lark
from agentform.runtime.sglang.wire.completion import Completion
from agentform.runtime.sglang.wire.failures import of_event, refused, understood
from agentform.runtime.sglang.wire.grammars import llguidance_params, xgrammar_params
from agentform.runtime.sglang.wire.requests import Body, generate_body, most_new_tokens
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer

__all__ = ["SGLangServer"]

ROUTING_KEY = "x-smg-routing-key"
"""The header by which SGLang's router, with the policy `manual`, keeps one conversation at one server."""

_ABORT_S = 2.0


class SGLangServer:
    """Implements `agentform.runtime.engine.Engine`; also an async context manager.

    Only the tokenizer is here; torch, SGLang and weights are where the server runs. Any number of tasks, of any number
    of event loops, asyncio or trio, may use an engine at once.
    """

    def __init__(
        self,
        url: str,
        *,
        tokenizer: HFTokenizer | Path | str | None = None,
        name: str | None = None,
        context_tokens: int | None = None,
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
        """Ask what is served, and check that the tokenizer is the model's. Waits for the server as `retries` says.

        Args:
            url: ``http://host:30000`` or ``https://…``, of a server or of a router before several.
            tokenizer: The model's tokenizer, or where its files are: a folder, a catalogue name or a hub id. Needed
                here since prompts are made of token ids, and text inside messages must not become control tokens. By
                default where the server says that it has it from, if that is a folder here or a hub id.
            name: What `info` shows, by default the name under which the model is served.
            context_tokens: The model's context. A server says it; behind a router it is read from the tokenizer
                folder's config.json, or has to be given.
            api_key: Sent as bearer token.
            headers: Further headers for each request.
            ca_file: Certificates to trust instead of the usual ones.
            client_certificate: PEM file with certificate and key, or a pair of files, to show to the server.
            verify: Whether the server's certificate is checked.
            connect_timeout_s: For opening a connection.
            read_timeout_s: The longest silence while a reply is awaited.
            max_connections: At once, per event loop; a request takes one for as long as its reply lasts.
            retries: What is asked again, how often, after what wait.
            transport: Instead of the network, for tests and special proxies; asked while starting.
            async_transport: The same for requests.

        Raises:
            EngineUnavailable: nothing answers at the address.
            EngineUnauthorized: the key or certificate is refused.
            ModelMismatch: the tokenizer is not the model's, or the context not so long.
            ModelNotFound: the tokenizer has to be named.
            InvalidRequest: the address or an argument is none that can be used.
            ReplyMalformed: what answers is no SGLang server.
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
        self._transport = Transport(connection, refused=refused, of_event=of_event)
        self._served = served = ask_served(self._transport)
        self._tokenizer = remote_tokenizer(tokenizer, served, self._transport.where)
        check_tokenizer(self._transport, self._tokenizer)
        self._reads_lark = reads_lark(self._transport, served)
        self._info = remote_info(name, context_tokens, served, self._tokenizer)
        self._grammars = Grammars(
            self._tokenizer.for_grammars,
            vocabulary_size=self._info.vocabulary_size,
            eos_ids=lambda: self._tokenizer.eos_ids,
        )
        self._scores = RemoteScore(self._transport, served)
        self._counts = UsageTotals(capacity_tokens=served.capacity_tokens or 0)
        self._in_flight = InFlight()
        self.priors = PriorStore()
        """Label priors of this model; `load_engine` keeps them on disk too."""
        self._transport.after_outage = self._check_model_again

    def __repr__(self) -> str:
        return f"SGLangServer({self._transport.where!r}, model={self._info.name!r})"

    @property
    def info(self) -> ModelInfo:
        """The model being served. Its digest is of what the server says of it, since the weights are not here."""
        return self._info

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return cast("Tokenizer", self._tokenizer)  # its cached properties are properties, to all but the type checker

    @property
    def is_router(self) -> bool:
        """Whether a router answers at the address."""
        return self._served.is_router

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Chunk, None]:
        """See `Engine.generate`. Tokens that the grammar forces are sampled and counted as any others.

        What was not answered at all is asked again as `retries` says, within the deadline; a stream that breaks off
        is not.

        Raises:
            EngineUnavailable: the server is not reached, is overloaded, falls silent or breaks off.
            EngineUnauthorized: the server refuses the key or the client certificate.
            ReplyMalformed: the server answers with something else than its protocol says.
            ModelMismatch: the server has another model than the tokenizer belongs to, or than before.
            EngineError: as `Engine.generate` says.
        """
        self._in_flight.check()
        prepared = await prepare_generation(request, self._info, self._grammars)
        grammar = prepared.grammar
        body = self._body(request, grammar)
        completion = Completion(
            request,
            token_bytes=self._tokenizer.token_bytes,
            eos_ids=self._tokenizer.eos_ids,
            matcher=grammar.matcher() if grammar is not None and self._reads_lark else None,
        )
        if (whole := completion.begin()) is not None:
            yield self._counted(whole, request)
            return
        replies = self._transport.events("/generate", body, headers=_routing(request.conversation))
        is_running = True  # at the server, as far as is known
        try:
            async with aclosing(replies):
                while not completion.done:
                    reply = await self._next_reply(replies, prepared.deadline)
                    with understood(self._transport.where):
                        chunk = completion.expire() if reply is None else completion.feed(reply)
                        is_running = reply is None or not _is_over(reply)
                    if not is_running:
                        await self._read_to_end(replies)
                    if chunk is not None:
                        yield self._counted(chunk, request)
        except EngineUnavailable:
            is_running = False
            raise
        finally:
            if is_running and not self._served.is_router and not self._in_flight.closed:
                # Closing the connection ends it too, once the server notices; a router knows no other way.
                await self._transport.tell("/abort_request", {"rid": body["rid"]}, within_s=_ABORT_S)

    async def score(self, request: ScoreRequest) -> ScoreResult:
        """See `Engine.score`.

        Raises:
            EngineError: as `Engine.score` says, and what `generate` adds to that.
        """
        deadline = prepare_score(request, self._info)
        self._check_room(len(request.prompt_ids) + max((len(branch.path) for branch in request.branches), default=0))
        with self._in_flight.scope(deadline):
            result = await self._scores.ask(request, _routing(request.conversation))
            self._counts.add(result.usage, request.conversation, request.prompt_ids)
            return result
        raise DeadlineExceeded(f"the score of {len(request.branches)} branches was not done in {request.deadline_s} s")

    def expect_return(self, conversation: str, *, after: str) -> None:
        """Nothing: SGLang has no way to be told. Its cache forgets what was used longest ago."""

    def statistics(self) -> CacheStatistics:
        """What the replies to this client said, added up; the server's own counts hold those of others too."""
        return self._counts.statistics()

    async def check_health(self) -> None:
        """Ask once whether requests are served now, and still by the same model; SGLang takes a second to say.

        Raises:
            EngineUnavailable: the server is not reached, is overloaded, falls silent or breaks off.
            EngineUnauthorized: the server refuses the key or the client certificate.
            ModelMismatch: the server has another model than the tokenizer belongs to, or than before.
            EngineClosed: the engine is closed, or its worker died.
            EngineError: what answers is no SGLang.
        """
        with self._in_flight.scope():
            await self._transport.probe("/health")
            await self._transport.shown(self._check_model_again)

    async def aclose(self) -> None:
        """Close the connections; requests in flight end with EngineClosed. Closing twice is harmless."""
        self._in_flight.close()
        await self._transport.aclose()

    async def __aenter__(self) -> SGLangServer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _check_room(self, num_prompt: int, num_more: int = 0) -> None:
        """As far as the server said; a server that a router asks refuses for itself.

        Raises:
            CacheBudgetExceeded: the request needs more than the server's pool.
            ContextOverflow: the prompt leaves no room for a token.
        """
        most, capacity = self._served.prompt_tokens, self._served.capacity_tokens
        if capacity is not None and num_prompt + num_more > capacity:
            raise CacheBudgetExceeded(
                f"the request may need {num_prompt + num_more:,} cached tokens; the server's pool holds {capacity:,}"
            )
        if most is not None and num_prompt >= most:
            raise ContextOverflow(prompt_tokens=num_prompt, context_tokens=most)

    def _body(self, request: GenerateRequest, grammar: CompiledGrammar | None) -> Body:
        """What is posted for a completion.

        Raises:
            ContextOverflow: prompt and completion together do not fit the model's context.
            CacheBudgetExceeded: the request needs more than the budget, even with all else evicted.
            GrammarError: the grammar does not compile, or its matcher stops with an error.
        """
        params = {} if grammar is None else self._grammar_params(grammar)
        most = most_new_tokens(request, request.grammar, self._tokenizer.encode, self._info.context_tokens)
        self._check_room(len(request.prompt_ids), most)
        body = generate_body(request, eos_ids=self._tokenizer.eos_ids, grammar=params, max_new_tokens=most)
        return {**body, "rid": uuid.uuid4().hex}

    def _grammar_params(self, grammar: CompiledGrammar) -> dict[str, str]:
        if self._reads_lark:
            return llguidance_params(grammar)
        if self._served.is_router:  # it would drop the structural tag without a word, and the text would be free
            raise GrammarError(
                f"{self._transport.where} is a router before servers that run xgrammar, and passes no structural tags "
                "on; start the servers with --grammar-backend llguidance"
            )
        return xgrammar_params(grammar.spec)

    async def _next_reply(
        self, replies: AsyncGenerator[dict[str, Any], None], deadline: float
    ) -> dict[str, Any] | None:
        """`None` when the deadline comes first."""
        with self._in_flight.scope(deadline):
            async for reply in replies:
                return reply
            raise EngineUnavailable(f"{self._transport.where} ended a stream before the completion was over")
        return None

    async def _read_to_end(self, replies: AsyncGenerator[dict[str, Any], None]) -> None:
        """So that the connection can serve the next request; what fails now no longer matters."""
        with anyio.move_on_after(_ABORT_S), suppress(EngineError):
            async for _ in replies:
                pass

    async def _check_model_again(self) -> None:
        """After an outage: the same model must be there.

        Raises:
            ModelMismatch: another model is served than at first.
            Failure: the server did not answer as it should.
        """
        model = await self._transport.ask_once("GET", MODEL_INFO)
        if not isinstance(model, dict) or identity_of(cast("dict[str, Any]", model)) != self._served.identity:
            raise ModelMismatch(f"{self._transport.where} no longer serves {self._served.name}; make a new engine")

    def _counted(self, chunk: Chunk, request: GenerateRequest) -> Chunk:
        if chunk.usage is not None:
            self._counts.add(chunk.usage, request.conversation, request.prompt_ids)
        return chunk


def _is_over(reply: Mapping[str, Any]) -> bool:
    """Whether the server itself ended the completion with this reply."""
    return bool((reply.get("meta_info") or {}).get("finish_reason"))


def _routing(conversation: str | None) -> dict[str, str]:
    return {} if conversation is None else {ROUTING_KEY: quote(conversation, safe="")[:256]}
