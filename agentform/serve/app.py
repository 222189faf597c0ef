"""The server as an ASGI application, for uvicorn or for mounting in another one."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agentform._util.threads import REQUESTS
from agentform.agent.responder import Responder
from agentform.errors import EngineClosed
from agentform.forms.label_prior import PriorStore
from agentform.forms.langchain_decider import DeciderSource, decider_of
from agentform.runtime.engine import Engine
from agentform.serve.admission import Admission
from agentform.serve.chat import ChatEndpoint
from agentform.serve.clients import Clients
from agentform.serve.completions import CompletionsEndpoint
from agentform.serve.decisions import DecisionEndpoint
from agentform.serve.descriptions import landing_page, openapi_document
from agentform.serve.exchange import Handler, exchange_app
from agentform.serve.freed_memory import FreedMemory
from agentform.serve.guards import FramingGuard, KeyGuard, LocalGuard, PathGuard, Recorder
from agentform.serve.kept_responses import KeptResponses
from agentform.serve.messages_endpoint import MessagesEndpoint
from agentform.serve.metrics import ServerMetrics
from agentform.serve.page_endpoint import PAGE_FILES, PageEndpoint, page_file
from agentform.serve.problems import Problem, model_not_found
from agentform.serve.receive import BodyMemory
from agentform.serve.responses import ResponsesEndpoint
from agentform.serve.settings import ServerSettings
from agentform.serve.systemone import SystemOneEndpoint, model_entry
from agentform.serve.tokenize_endpoint import TokenizeEndpoint
from agentform.serve.tracing import RequestSpans
from agentform.serve.turns import Turns
from agentform.telemetry import traced
from agentform.tools.toolset import Toolbox
from agentform.turn.reasoning import Reasoning

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

__all__ = ["Service"]

_BODIES_AT_ONCE = 16
"""Bodies of the largest size that may be arriving at the same time."""


@dataclass(kw_only=True)
class Service:
    """An engine behind HTTP. Closing the engine is its owner's business."""

    engine: Engine
    settings: ServerSettings = field(default_factory=ServerSettings)
    reasoning: Reasoning = field(default_factory=Reasoning)
    priors: PriorStore = field(default_factory=PriorStore)
    decider: DeciderSource | None = None
    """A decision model that chooses tools and closed values of turns, and answers at the endpoints that decide."""
    tools: Toolbox | None = None
    """Tools that are run here for the page at `/page`; those of requests are run by whoever sent them."""
    own_tools: Toolbox | None = None
    """Tools that every request is offered beside its own, and that are run here between its turns."""
    instructions: str = ""
    """The system message that the page begins with."""
    tracer_provider: TracerProvider | None = None
    """Makes the spans of `ServerSettings.trace`, by default the global one."""

    def __post_init__(self) -> None:
        settings = self.settings
        self.model = settings.served_name or self.engine.info.name
        if settings.trace:
            self.engine = traced(self.engine, tracer_provider=self.tracer_provider)
        self.admission = Admission(
            max_running=settings.max_running, max_queued=settings.max_queued, deadline_s=settings.deadline_s
        )
        self.metrics = ServerMetrics(self.engine, self.admission)
        self.engine_failed = False
        self.app: ASGIApp = self._app()

    def _app(self) -> ASGIApp:
        routes = self._routes()
        paths = [route.path for route in routes if "{" not in route.path]
        keys = self.settings.api_keys
        open_paths = ("/health", *(PAGE_FILES if self.settings.page else ()))
        guard = Middleware(KeyGuard, keys=keys, open_paths=open_paths) if keys else Middleware(LocalGuard)
        return Starlette(
            routes=routes,
            middleware=[
                Middleware(PathGuard, paths=paths),
                Middleware(Recorder, metrics=self.metrics, paths=paths, access_log=self.settings.access_log),
                *self._spans(paths),
                Middleware(FramingGuard),
                guard,
            ],
            exception_handlers={HTTPException: _not_here},
        )

    def _spans(self, paths: list[str]) -> list[Middleware]:
        if not self.settings.trace:
            return []
        return [Middleware(RequestSpans, paths=paths, tracer_provider=self.tracer_provider)]

    def _routes(self) -> list[Route]:
        clients = Clients(self.engine, self.settings.api_keys, self._responder, share_cache=self.settings.share_cache)
        turns = Turns(clients, self.settings, model=self.model, metrics=self.metrics, tools=self.own_tools)
        chat = ChatEndpoint(turns)
        messages, tokenize = MessagesEndpoint(turns), TokenizeEndpoint(turns)
        responses = ResponsesEndpoint(turns, KeptResponses(self.settings.responses_file))
        decider = decider_of(self.decider)
        decisions = DecisionEndpoint(clients, self.priors, model=self.model, metrics=self.metrics, decider=decider)
        systemone = SystemOneEndpoint(clients, self.priors, model=self.model, metrics=self.metrics, decider=decider)
        handlers = {
            "/v1/chat/completions": chat.handler,
            "/v1/responses": responses.handler,
            "/v1/messages": messages.handler,
            "/v1/messages/count_tokens": messages.counter,
            "/v1/completions": CompletionsEndpoint(turns).handler,
            "/tokenize": tokenize.tokens,
            "/detokenize": tokenize.text,
            "/v1/decisions": decisions.handler,
            "/v1/systemone": systemone.handler,
        }
        page = PageEndpoint(self.tools, self.instructions)
        if self.settings.page:
            handlers["/page/call"] = page.call
        memory, freed = BodyMemory(_BODIES_AT_ONCE * self.settings.max_body_bytes), FreedMemory()

        def endpoint(handler: Handler) -> _Endpoint:
            settings, admission = self.settings, self.admission
            return _Endpoint(
                exchange_app(
                    handler, admission=admission, settings=settings, memory=memory, freed=freed, failed=self._failed
                )
            )

        return [
            *(Route(path, endpoint(handler), methods=["POST"]) for path, handler in handlers.items()),
            Route("/v1/responses/{id}", responses.get, methods=["GET"]),
            Route("/v1/responses/{id}", responses.delete, methods=["DELETE"]),
            Route("/v1/responses/{id}/input_items", responses.get, methods=["GET"]),
            Route("/v1/models", self._models, methods=["GET"]),
            Route("/v1/models/{name:path}", self._model, methods=["GET"]),
            *(self._page_routes(page) if self.settings.page else ()),
            Route("/", self._page, methods=["GET"]),
            Route("/openapi.json", self._document, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/metrics", self._metrics_text, methods=["GET"]),
        ]

    def _page_routes(self, page: PageEndpoint) -> list[Route]:
        files = [Route(path, page_file, methods=["GET"]) for path in PAGE_FILES]
        return [*files, Route("/page/tools", page.tools, methods=["GET"])]

    def _responder(self, engine: Engine) -> Responder:
        return Responder(engine, reasoning=self.reasoning, priors=self.priors, decider=self.decider)

    def _failed(self, error: Exception) -> None:
        self.engine_failed = self.engine_failed or isinstance(error, EngineClosed)

    async def _health(self, request: Request) -> Response:
        state = "failed" if self.engine_failed else "draining" if self.admission.draining else "ok"
        return JSONResponse({"status": state, "model": self.model}, status_code=200 if state == "ok" else 503)

    async def _metrics_text(self, request: Request) -> Response:
        text, content_type = self.metrics.exposition(request.headers.get("accept", ""))
        return Response(text, headers={"content-type": content_type, "vary": "accept"})

    async def _models(self, request: Request) -> Response:
        """OpenAI's list, which is also Anthropic's, and beside it the one of System One."""
        pages = {"has_more": False, "first_id": self.model, "last_id": self.model}
        models = {"models": [model_entry(self.model)]}
        return JSONResponse({"object": "list", "data": [self._model_body()]} | models | pages)

    async def _model(self, request: Request) -> Response:
        if request.path_params["name"] != self.model:
            return _problem(model_not_found(request.path_params["name"], self.model).problem)
        return JSONResponse(self._model_body())

    async def _page(self, request: Request) -> Response:
        return HTMLResponse(landing_page(self.model, with_page=self.settings.page))

    async def _document(self, request: Request) -> Response:
        return JSONResponse(await REQUESTS.run(openapi_document, version("agentform")))

    def _model_body(self) -> dict[str, object]:
        return {
            "id": self.model,
            "object": "model",
            "created": 0,
            "owned_by": "agentform",
            "type": "model",  # as Anthropic's clients expect it
            "display_name": self.model,
            "created_at": "1970-01-01T00:00:00Z",
            "context_tokens": self.engine.info.context_tokens,
        }


class _Endpoint:
    """An ASGI application as an object: functions are taken for functions of a request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def _problem(problem: Problem) -> Response:
    return JSONResponse(problem.body(), status_code=problem.status, headers=dict(problem.headers))


async def _not_here(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    messages = {404: "there is nothing at this path", 405: "this path does not take this method"}
    codes = {404: "not_found", 405: "method_not_allowed"}
    problem = Problem(status=status, message=messages.get(status, "refused"), code=codes.get(status, "refused"))
    allowed = (error.headers or {}) if isinstance(error, HTTPException) else {}
    return JSONResponse(problem.body(request.url.path), status_code=status, headers=dict(allowed))
