"""The agent loop: turns until the model answers, tools in between."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from agentform.agent.conversation import Conversation
from agentform.calls.blocking import run_blocking
from agentform.calls.caller import Aim, Caller
from agentform.calls.choose import Scoring
from agentform.calls.limits import Limits
from agentform.calls.prior import PriorStore
from agentform.calls.session import Session
from agentform.calls.thinking import Emit, Reasoning
from agentform.errors import DeadlineExceeded, InvalidInput, ToolFailed
from agentform.messages import CallReady, Event, Message, ToolCall, ToolFinished, ToolResult, ToolStarted, Usage
from agentform.runtime.engine import Engine
from agentform.schema.json_text import dumps, to_jsonable
from agentform.tools import Toolbox

__all__ = ["Agent", "AgentRun", "OnToolError", "RunResult"]

RunFinish = Literal["answer", "length", "steps", "repetition"]
OnToolError = Literal["feed_back", "raise"]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What a run came to."""

    output: str
    """The answer."""
    finish: RunFinish
    """`answer`; `length` when the answer was cut off at its limit; `steps` or `repetition` when the model had to
    answer because the step limit was reached or it asked for the same call again."""
    calls: tuple[ToolCall, ...]
    messages: tuple[Message, ...]
    """The whole conversation, this run's messages included."""
    usage: Usage
    conversation: Conversation


@dataclass(kw_only=True)
class _Outcome:
    """How a run ended, if it did."""

    result: RunResult | None = None
    failure: Exception | None = None

    def raise_failure(self) -> None:
        """Raise what ended the run, once: its reader may have handled it."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure


class AgentRun:
    """A run in progress: iterate over its events, then read `result`."""

    def __init__(self, events: MemoryObjectReceiveStream[Event], outcome: _Outcome) -> None:
        self._events = events
        self._outcome = outcome

    def __aiter__(self) -> AgentRun:
        return self

    async def __anext__(self) -> Event:
        try:
            return await self._events.receive()
        except anyio.EndOfStream:
            self._outcome.raise_failure()
        raise StopAsyncIteration

    @property
    def result(self) -> RunResult:
        """The result, once the events have ended.

        Raises:
            InvalidInput: the run is not over.
        """
        if self._outcome.result is None:
            raise InvalidInput("the run is not over: iterate over its events to the end first")
        return self._outcome.result


class Agent:
    """Reasons in free text, chooses its calls, runs its tools, until it answers.

    An agent holds no conversation and may serve many at once.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        tools: Iterable[Callable[..., Any]] = (),
        instructions: str = "",
        limits: Limits | None = None,
        scoring: Scoring | None = None,
        reasoning: Reasoning | None = None,
        priors: PriorStore | None = None,
        on_tool_error: OnToolError = "feed_back",
    ) -> None:
        self.engine = engine
        self.tools = tools if isinstance(tools, Toolbox) else Toolbox(tools)
        self.limits = limits or Limits()
        self.on_tool_error: OnToolError = on_tool_error
        self._caller = Caller(
            engine=engine,
            targets={name: tool.target for name, tool in self.tools.items()},
            instructions=instructions,
            scoring=scoring or Scoring.of(engine),
            reasoning=reasoning or Reasoning(),
            priors=priors or PriorStore(),
        )

    async def run(
        self,
        prompt: str | Sequence[Message],
        *,
        conversation: Conversation | None = None,
        limits: Limits | None = None,
    ) -> RunResult:
        """Run to the end.

        Raises:
            DeadlineExceeded: the run was not done by its deadline.
            ToolFailed: a tool raised and the policy is to raise.
            CallRejected, ArgumentsTruncated, Abstained: a call could not be completed.
            EngineError: the engine could not serve a request.
        """
        return await self._run(prompt, conversation or Conversation(), limits or self.limits, _ignore)

    def run_sync(
        self,
        prompt: str | Sequence[Message],
        *,
        conversation: Conversation | None = None,
        limits: Limits | None = None,
    ) -> RunResult:
        """`run` for code without an event loop, and for notebooks whose loop is already running."""
        return run_blocking(functools.partial(self.run, prompt, conversation=conversation, limits=limits))

    @asynccontextmanager
    async def stream(
        self,
        prompt: str | Sequence[Message],
        *,
        conversation: Conversation | None = None,
        limits: Limits | None = None,
    ) -> AsyncGenerator[AgentRun, None]:
        """Run and watch: ``async with agent.stream(…) as run: async for event in run: …``.

        Leaving the block early cancels the run. Raises what `run` raises, where the events are read.
        """
        send, receive = anyio.create_memory_object_stream[Event](0)
        outcome = _Outcome()

        async def produce() -> None:
            async with send:
                try:
                    outcome.result = await self._run(
                        prompt, conversation or Conversation(), limits or self.limits, send.send
                    )
                except Exception as error:
                    outcome.failure = error

        failure: BaseException | None = None
        try:
            async with receive, anyio.create_task_group() as group:
                group.start_soon(produce)
                yield AgentRun(receive, outcome)
                group.cancel_scope.cancel()
        except BaseExceptionGroup as errors:
            failure = _only(errors)
        if failure is not None:
            raise failure
        outcome.raise_failure()

    async def _run(
        self, prompt: str | Sequence[Message], conversation: Conversation, limits: Limits, emit: Emit
    ) -> RunResult:
        if conversation.running:
            raise InvalidInput(f"conversation {conversation.id} is in use by another run")
        conversation.running = True
        num_messages = len(conversation.messages)
        try:
            conversation.add(prompt)
            return await self._steps(conversation, limits, emit)
        except BaseException:
            conversation.roll_back(num_messages)
            raise
        finally:
            conversation.running = False

    async def _steps(self, conversation: Conversation, limits: Limits, emit: Emit) -> RunResult:
        session = Session(self.engine, limits=limits, conversation=conversation.id)
        calls: list[ToolCall] = []
        finish: RunFinish = "answer"
        for step in range(limits.steps):
            if step + 1 == limits.steps and finish == "answer" and self.tools:
                finish = "steps"
            turn = await self._caller.turn(
                session,
                conversation.messages,
                past=conversation.token_ids,
                aim=Aim(may_call=finish == "answer"),
                emit=emit,
            )
            if any(_times_made(call, calls) >= limits.same_call for call in turn.message.calls):
                finish = "repetition"
                continue
            conversation.messages.append(turn.message)
            conversation.token_ids = turn.token_ids
            if not turn.message.calls:
                return _result(
                    conversation, session, calls, "length" if turn.finish == "length" else finish, turn.message.content
                )
            for call in turn.message.calls:
                await emit(CallReady(call=call))
                calls.append(call)
                result = await self._run_tool(session, call, emit)
                conversation.messages.append(Message(role="tool", content=result.content, result=result))
        raise AssertionError("the last step offers no tool, so it ends with an answer")

    async def _run_tool(self, session: Session, call: ToolCall, emit: Emit) -> ToolResult:
        await emit(ToolStarted(call=call))
        try:
            tool = self.tools[call.name]
            returned = await session.within_deadline(functools.partial(tool.run, call.arguments))
            result = ToolResult(call_id=call.id, name=call.name, content=_as_text(returned))
        except DeadlineExceeded:
            raise
        except Exception as error:
            if self.on_tool_error == "raise":
                raise ToolFailed(call.name, error) from error
            text = f"Error: {type(error).__name__}: {error}"
            result = ToolResult(call_id=call.id, name=call.name, content=text, is_error=True)
        await emit(ToolFinished(call=call, result=result))
        return result


def _times_made(call: ToolCall, calls: Sequence[ToolCall]) -> int:
    return sum(made.name == call.name and made.arguments == call.arguments for made in calls)


def _result(
    conversation: Conversation, session: Session, calls: list[ToolCall], finish: RunFinish, output: str
) -> RunResult:
    return RunResult(
        output=output,
        finish=finish,
        calls=tuple(calls),
        messages=tuple(conversation.messages),
        usage=session.usage,
        conversation=conversation,
    )


def _as_text(returned: Any) -> str:
    return returned if isinstance(returned, str) else dumps(to_jsonable(returned))


async def _ignore(event: Event) -> None:
    del event


def _only(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error that ended the run; a task group wraps what its task raised."""
    if len(errors.exceptions) != 1:
        return errors
    inner = errors.exceptions[0]
    return _only(cast("BaseExceptionGroup[BaseException]", inner)) if isinstance(inner, BaseExceptionGroup) else inner
