"""What SGLang's server and router look like from outside, before an embedded engine, in a thread and a real socket.

Replies have the shape that SGLang 0.5.21 and sglang-router 0.3.2 gave on the day this was written; `faults` makes the
next requests fail.
"""

from __future__ import annotations

import json
import socket
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agentform.grammar.spec import GrammarSpec
from agentform.runtime.engine import Branch, Engine, GenerateRequest, Sampling, ScoreRequest
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from tests.support.waiting import Background

__all__ = ["Asked", "FakeSGLang", "Fault", "Listening", "held_port", "served"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What happens to one request of `/generate` instead of an answer, or after some of its events."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b'{"error": {"message": "broken on purpose"}}'
    after_events: int | None = None
    """The connection breaks after so many events of a stream."""
    event: bytes | None = None
    """Sent instead of the first event of a stream."""
    hang: bool = False
    ends: bool = False
    """The stream ends without a finish after `after_events`, as if all were well."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: Any
    client_port: int


class FakeSGLang:
    """An ASGI app. `engine` answers; its tokenizer reads texts unless the server has another one."""

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        *,
        api_key: str | None = None,
        is_router: bool = False,
        grammar_backend: str = "llguidance",
        tokenizer: HFTokenizer | None = None,
        most_queued: int | None = None,
    ) -> None:
        self.engine = engine
        self.folder = folder
        self.api_key = api_key
        self.is_router = is_router
        self.grammar_backend = grammar_backend
        self.tokenizer = tokenizer or HFTokenizer(folder)
        self.most_queued = most_queued
        self.weight_version = "default"
        self.faults: deque[Fault] = deque()
        self.asked: list[Asked] = []
        self.aborted: list[str] = []
        self.disconnected: list[str] = []
        """Ids of streamed requests that were not read to their end."""
        alone = [Route("/server_info", self._server_info), Route("/abort_request", self._abort, methods=["POST"])]
        self.app = Starlette(
            routes=[
                Route("/generate", self._generate, methods=["POST"]),
                Route("/health", self._health),
                Route("/get_model_info", self._model_info),
                Route("/v1/models", self._models),
                *([Route("/workers", self._workers)] if is_router else alone),
            ]
        )

    def requests_of(self, path: str = "/generate") -> list[Any]:
        """Bodies of what was asked under a path, the text that checks the tokenizer left out."""
        return [a.body for a in self.asked if a.path == path and not (isinstance(a.body, dict) and "text" in a.body)]

    async def _seen(self, request: Request) -> Any:
        raw = await request.body()
        body = json.loads(raw) if raw else None
        assert request.client is not None
        seen = Asked(path=request.url.path, headers=dict(request.headers), body=body, client_port=request.client.port)
        self.asked.append(seen)
        return body

    def _refused(self, request: Request) -> Response | None:
        if self.api_key is None or request.headers.get("authorization") == f"Bearer {self.api_key}":
            return None
        return JSONResponse({"error": "Unauthorized"}, status_code=401)

    async def _health(self, request: Request) -> Response:
        await self._seen(request)
        return self._refused(request) or Response()

    async def _model_info(self, request: Request) -> Response:
        await self._seen(request)
        facts = {
            "model_path": str(self.folder),
            "served_model_name": "tiny",
            "tokenizer_path": str(self.folder),
            "is_generation": True,
            "weight_version": self.weight_version,
        }
        return self._refused(request) or JSONResponse(facts)

    async def _models(self, request: Request) -> Response:
        model: dict[str, Any] = {"id": "tiny", "object": "model"}
        if not self.is_router:
            model["max_model_len"] = self.engine.info.context_tokens
        return JSONResponse({"object": "list", "data": [model]})

    async def _workers(self, request: Request) -> Response:
        return JSONResponse({"workers": []})

    async def _server_info(self, request: Request) -> Response:
        facts = {
            "grammar_backend": self.grammar_backend,
            "max_queued_requests": self.most_queued,
            "max_req_input_len": self.engine.info.context_tokens,
            "max_total_num_tokens": self.engine.statistics().capacity_tokens,
            "dtype": "auto",
        }
        return JSONResponse(facts)

    async def _abort(self, request: Request) -> Response:
        self.aborted.append((await self._seen(request))["rid"])
        return Response()

    async def _generate(self, request: Request) -> Response:
        body = await self._seen(request)
        refused = self._refused(request)
        if refused is not None:
            return refused
        if "text" in body:
            return self._read_text(body)
        fault = self.faults.popleft() if self.faults else Fault()
        if fault.hang:
            await anyio.sleep_forever()
        if fault.status is not None:
            return Response(fault.body, status_code=fault.status, headers=fault.headers)
        if body.get("stream"):
            return StreamingResponse(self._events(body, fault), media_type="text/event-stream")
        nested = body["input_ids"] and isinstance(body["input_ids"][0], list)
        if self.is_router and nested:
            return Response("token_ids_logprob[0]: invalid type: sequence, expected u32", status_code=422)
        prompts = body["input_ids"] if nested else [body["input_ids"]]
        wanted = body.get("token_ids_logprob") or [[]] * len(prompts)
        replies = [await self._scored(ids, c) for ids, c in zip(prompts, wanted if nested else [wanted], strict=True)]
        return JSONResponse(replies if nested else replies[0])

    def _read_text(self, body: dict[str, Any]) -> Response:
        if "ebnf" in body["sampling_params"] and self.grammar_backend != "llguidance":
            return JSONResponse({"error": {"message": "Failed to compile ebnf grammar: unexpected"}}, status_code=400)
        read = [[None, token, None] for token in self.tokenizer.encode(body["text"])]
        return JSONResponse({"text": "", "output_ids": [], "meta_info": {"input_token_logprobs": read}})

    async def _scored(self, ids: list[int], candidates: list[int]) -> dict[str, Any]:
        branches = (Branch(path=(), candidates=tuple(candidates)),) if candidates and candidates != [[]] else ()
        branches = branches or (Branch(path=(), candidates=(0,)),)
        result = await self.engine.score(ScoreRequest(prompt_ids=tuple(ids), branches=branches))
        rows = [[p, t, None] for p, t in zip(result.logprobs[0], branches[0].candidates, strict=True)]
        meta = self._meta(len(ids), result.usage.cached_tokens, 0, {"type": "length", "length": 0})
        return {"text": "", "output_ids": [], "meta_info": {**meta, "output_token_ids_logprobs": [rows]}}

    async def _events(self, body: dict[str, Any], fault: Fault) -> AsyncIterator[bytes]:
        if fault.event is not None:
            yield fault.event
        number, is_over = 0, False
        try:
            async for reply in self._completion(body):
                if number == fault.after_events:
                    if fault.ends:
                        return
                    raise ConnectionAbortedError("broken on purpose")
                yield b"data: " + json.dumps(reply).encode() + b"\n\n"
                number += 1
            yield b"data: [DONE]\n\n"
            is_over = True
        finally:
            if not is_over:
                self.disconnected.append(body.get("rid", ""))

    async def _completion(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Replies with all tokens so far, the token that ends a sequence included."""
        params, ids, cached = body["sampling_params"], [], 0
        grammar = params.get("ebnf")
        request = GenerateRequest(
            prompt_ids=tuple(body["input_ids"]),
            max_tokens=params["max_new_tokens"],
            stop=tuple(params.get("stop", ())),
            sampling=Sampling(temperature=params["temperature"], top_p=params["top_p"], seed=params["sampling_seed"]),
            grammar=None if grammar is None else GrammarSpec(kind="lark", text=grammar),
        )
        async for chunk in self.engine.generate(request):
            ids += chunk.token_ids
            reason = None
            if chunk.finish is not None:
                assert chunk.usage is not None
                cached = chunk.usage.cached_tokens or 0
                if chunk.finish == "eos":
                    ids.append(min(self.tokenizer.eos_ids))
                reason = {"type": "length"} if chunk.finish == "length" else {"type": "stop"}
            if chunk.token_ids or reason:
                meta = self._meta(len(body["input_ids"]), cached, len(ids), reason)
                yield {"text": "", "output_ids": list(ids), "meta_info": meta}

    def _meta(self, num_prompt: int, cached: int | None, num_sampled: int, reason: Any) -> dict[str, Any]:
        return {
            "finish_reason": reason,
            "prompt_tokens": num_prompt,
            "completion_tokens": num_sampled,
            "cached_tokens": cached,
        }


@dataclass(frozen=True, kw_only=True)
class Listening:
    """A server that answers at `url`."""

    port: int
    scheme: str

    @property
    def url(self) -> str:
        return f"{self.scheme}://localhost:{self.port}"


@contextmanager
def held_port() -> Iterator[int]:
    """A port that stays ours while nobody listens there: no other socket gets it, a client's least of all."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@contextmanager
def served(fake: Any, *, port: int = 0, **tls: Any) -> Iterator[Listening]:
    """Serve an object's ASGI `app` until the block is left; `tls` are uvicorn's own `ssl_` settings.

    A `port` is one of `held_port`, which others may listen at one after the other.
    """
    config = uvicorn.Config(fake.app, log_config=None, lifespan="off", timeout_graceful_shutdown=0, **tls)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", port), reuse_port=bool(port)) as listener:
        thread = Background(lambda: server.run(sockets=[listener]))
        try:
            yield Listening(port=listener.getsockname()[1], scheme="https" if tls else "http")
        finally:
            server.should_exit = server.force_exit = True
            thread.done()
