"""Tools that the server runs itself: what a request is answered with may take several turns then.

::

    request ──▶ turn ──▶ a call of the server's own tool ──run──▶ its result ──▶ turn ──▶ … at most `most_calls` times
                  └────▶ an answer, or a call of the client's tools: the reply, with all that was run before it

Nothing of a turn is told before it is known that it is the last one, or that what it calls is the client's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields, replace

from agentform._util.threads import REQUESTS
from agentform.agent.responder import Response
from agentform.agent.result_text import error_text, result_text, within
from agentform.events import ChoiceMade, Emit, Event
from agentform.messages import Message, ToolCall, ToolResult
from agentform.runtime.engine import Engine
from agentform.schema.json_text import plain
from agentform.serve.turn_request import AskedTool, TurnRequest
from agentform.tools.toolset import Toolbox

__all__ = ["LoopResponse", "OwnTools", "RanCall"]

_SHARE = 4
"""Of the context, what one result may fill: a fourth."""


@dataclass(frozen=True, kw_only=True)
class RanCall:
    """A call that was run here, and what it returned."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, kw_only=True)
class LoopResponse(Response):
    """The last turn of several; `usage` is that of all of them."""

    ran: tuple[RanCall, ...] = ()


class OwnTools:
    """The tools, and the loop in which they are run."""

    def __init__(self, tools: Toolbox | None, *, most_calls: int) -> None:
        self._tools = tools or Toolbox()
        self._most_calls = most_calls

    def beside(self, request: TurnRequest) -> TurnRequest:
        """The request with these tools too, where it leaves it to the model what to do.

        A client's own tool of the same name stays; who says which tools may be called, or wants several answers, gets
        none of these.
        """
        given = {tool.name for tool in request.tools}
        own = [_asked(self._tools, name) for name in self._tools if name not in given]
        if not own or request.tool_choice != "auto" or request.allowed is not None or request.num_answers > 1:
            return request
        return replace(
            request,
            tools=(*request.tools, *own),
            own=frozenset(tool.name for tool in own),
            limits=replace(request.limits, parallel_calls=1),
        )

    async def answered(
        self,
        request: TurnRequest,
        turn: Callable[[TurnRequest, Emit], Awaitable[Response]],
        emit: Emit,
        *,
        engine: Engine,
        note: Callable[[str], None],
    ) -> LoopResponse:
        """Turns of `engine` until one ends in an answer or in a call of the client's.

        `note` gets the name of each tool before it runs.

        Raises:
            AgentformError: what a turn raises; a tool that fails is told to the model.
        """
        ran: list[RanCall] = []
        first: Response | None = None
        while True:
            held = _HeldEvents(emit, request.own if len(ran) < self._most_calls else frozenset())
            response = await turn(request if len(ran) < self._most_calls else _without_own(request), held)
            total = response.usage if first is None else first.usage + response.usage
            first = replace(first or response, usage=total)
            call = next((call for call in response.calls if call.name in request.own), None)
            if call is None:
                await held.release()
                return _last(response, first, ran)
            note(call.name)
            ran.append(await self._run(call, engine))
            request = _continued(request, response, ran[-1].result)

    async def _run(self, call: ToolCall, engine: Engine) -> RanCall:
        """A long text keeps its beginning and its end, so that the next turn still fits."""
        try:
            text, is_error = result_text(await self._tools[call.name].run(call.arguments)), False
        except Exception as error:  # a tool's failure is its result, as it is where an agent runs it
            text, is_error = error_text(error), True
        text = await REQUESTS.run(within, text, engine.tokenizer, engine.info.context_tokens // _SHARE)
        return RanCall(call=call, result=ToolResult(call_id=call.id, name=call.name, content=text, is_error=is_error))


class _HeldEvents:
    """Passes events on once it is known that the turn is the client's to see."""

    def __init__(self, emit: Emit, own: frozenset[str]) -> None:
        self._emit = emit
        self._own = own
        self._events: list[Event] = []
        self._is_open = not own
        self._is_hidden = False

    async def __call__(self, event: Event) -> None:
        self._events.append(event)
        if isinstance(event, ChoiceMade) and not self._is_open:
            self._is_hidden = event.decision.value in self._own
            self._is_open = not self._is_hidden
        if self._is_open:
            await self.release()

    async def release(self) -> None:
        """Pass on what is held."""
        events, self._events = self._events, []
        for event in events if not self._is_hidden else ():
            await self._emit(event)


def _asked(tools: Toolbox, name: str) -> AskedTool:
    schema = tools[name].target.form.schema
    parameters = plain(schema) if not isinstance(schema, bool) else None
    return AskedTool(name=name, description=tools[name].description, parameters=parameters)


def _without_own(request: TurnRequest) -> TurnRequest:
    """The tools stay in the prompt, so that what is cached of it goes on counting, but are not called any more."""
    left = tuple(tool.name for tool in request.tools if tool.name not in request.own)
    return replace(request, allowed=left) if left else replace(request, tool_choice="none")


def _continued(request: TurnRequest, response: Response, result: ToolResult) -> TurnRequest:
    """The request after a call of ours, with what is left of its tokens."""
    told = Message(role="tool", content=result.content, result=result)
    most = request.limits.completion_tokens
    left = None if most is None else max(1, most - response.usage.completion_tokens)
    limits = replace(request.limits, completion_tokens=left)
    return replace(request, messages=(*request.messages, response.message, told), limits=limits)


def _last(response: Response, all_turns: Response, ran: list[RanCall]) -> LoopResponse:
    given = {field.name: getattr(response, field.name) for field in fields(Response)}
    told = {"usage": all_turns.usage, "prompt_usage": all_turns.prompt_usage, "ran": tuple(ran)}
    return LoopResponse(**given | told)
