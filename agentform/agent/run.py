"""One run: turns until the model answers, calls in between, and the limits that make it answer."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import anyio

from agentform.agent.approval import strictest
from agentform.agent.conversation import Conversation
from agentform.agent.observer import Done, RunObserved, TurnObserved, observed
from agentform.agent.options import RunSettings
from agentform.agent.protocols import AgentLike
from agentform.agent.result import RunFinish, RunResult
from agentform.agent.tool_execution import ToolRound, failed
from agentform.decoding.session import Session
from agentform.errors import InvalidInput, StoreError
from agentform.events import CallRepeated, Emit, HandedOff, RunFinished, TurnFinished
from agentform.messages import Message, ToolCall, ToolResult
from agentform.turn.types import TurnOptions, TurnResult

__all__ = ["Run"]

_SAVE_S = 10.0
"""Seconds that a store gets, a cancelled run's too."""


class Run:
    """A run in progress. Made inside a running event loop, and used once."""

    def __init__(self, agent: AgentLike, conversation: Conversation, settings: RunSettings, emit: Emit) -> None:
        self.agent: AgentLike = agent
        """The agent whose turn it is; a handoff changes it."""
        self.conversation = conversation
        self.limits = settings.limits
        self.context = settings.context
        self.approve = settings.approve
        self.observers = settings.observers
        self.emit = emit
        self.session = Session(
            agent.engine, limits=settings.limits, conversation=conversation.id, sampling=settings.sampling
        )
        self.calls: list[ToolCall] = []
        """Those that were made, as they were run."""
        self._asked: list[ToolCall] = []
        """`calls` as the model made them, before a human changed them."""
        self._form = agent.form
        self._finish: RunFinish = "answer"
        self._num_handoffs = 0
        self._store = settings.store

    async def execute(self, prompt: str | Sequence[Message]) -> RunResult[Any]:
        """Run to the end. What an unfinished run has done stays in the conversation, the rest is taken back.

        Raises:
            InvalidInput: the conversation is in use, or there is nothing to answer.
            AgentformError: whatever else `Agent.run` says.
        """
        talk = self.conversation
        if talk.running:
            raise InvalidInput(f"conversation {talk.id} is in use by another run")
        talk.running = True
        num_messages = len(talk.messages)
        try:
            talk.add(prompt)
            result = await self._observed()
        except BaseException:
            talk.roll_back(num_messages)
            if len(talk.messages) > num_messages:
                with suppress(StoreError):  # what ended the run is what its caller has to know
                    await self._save()
            raise
        finally:
            talk.running = False
        await self.emit(RunFinished(finish=result.finish, usage=result.usage))
        return result

    async def _observed(self) -> RunResult[Any]:
        operation = RunObserved(
            agent=self.agent.name, model=self.agent.engine.info.name, conversation=self.conversation.id
        )
        with observed(self.observers, operation) as report:
            result = await self._steps()
            content = self.conversation.messages[-1].content
            report(Done(usage=result.usage, finish=result.finish, content=content))
        return result

    async def _steps(self) -> RunResult[Any]:
        for step in range(self.limits.steps):
            self._consider_limits(step)
            turn = await self._turn(step)
            if (repeated := self._repeated(turn.message.calls)) is not None:
                self._finish = "repetition"
                await self.emit(CallRepeated(call=repeated))
                continue
            self.conversation.extend(turn.message, token_ids=turn.token_ids, model=self.agent.engine.info.digest)
            if turn.message.calls:
                await self._answer_calls(turn.message)
            await self._save()
            if not turn.message.calls:
                return self._result(turn)
        raise AssertionError("the last step offers no tool, so it ends with an answer")

    def _consider_limits(self, step: int) -> None:
        """Let the model answer from here on if the run may not go on otherwise."""
        if self._finish != "answer" or not self.agent.caller.targets:
            return
        tokens = self.limits.completion_tokens
        usage = self.session.usage
        if step + 1 == self.limits.steps:
            self._finish = "steps"
        elif step and tokens is not None and tokens - usage.completion_tokens <= self.limits.answer_tokens:
            self._finish = "tokens"
        elif step and self.limits.stop_when is not None and self.limits.stop_when(usage):
            self._finish = "stopped"

    async def _turn(self, step: int) -> TurnResult:
        agent, talk = self.agent, self.conversation
        model = agent.engine.info
        barred = frozenset(agent.handoffs) if self._num_handoffs >= self.limits.handoffs else frozenset[str]()
        options = TurnOptions(may_call=self._finish == "answer", form=self._form, barred=barred)
        operation = TurnObserved(
            agent=agent.name,
            model=model.name,
            conversation=talk.id,
            step=step,
            messages=tuple(talk.messages) if self._shows_content else None,
            tools=self._offered(options) if self._shows_content else None,
        )
        with observed(self.observers, operation) as report:
            turn = await agent.caller.turn(
                self.session, talk.messages, past=talk.past(model.digest), options=options, emit=self.emit
            )
            usage = self.session.turn_usage
            calls = tuple(call.name for call in turn.message.calls)
            made = turn.message.calls
            report(
                Done(usage=usage, finish=turn.finish, calls=calls, content=turn.message.content, tool_calls=tuple(made))
            )
        await self.emit(TurnFinished(step=step, usage=usage, total=self.session.usage))
        return turn

    def _offered(self, options: TurnOptions) -> tuple[dict[str, Any], ...]:
        return tuple(tool.definition() for tool in self.agent.tools.values()) if options.may_call else ()

    @property
    def _shows_content(self) -> bool:
        return any(observer.content for observer in self.observers)

    def _repeated(self, calls: Sequence[ToolCall]) -> ToolCall | None:
        """The first of the calls that was made as often as it may be."""

        def times(call: ToolCall) -> int:
            return sum((asked.name, asked.arguments) == (call.name, call.arguments) for asked in self._asked)

        return next((call for call in calls if times(call) >= self.limits.same_call), None)

    async def _answer_calls(self, message: Message) -> None:
        """Give every call of the last message its result.

        Raises:
            DeadlineExceeded, ToolFailed, InvalidInput: calls that have ended by then keep their results.
        """
        self._asked += message.calls
        work = ToolRound(run=self, calls=list(message.calls))
        try:
            await self.session.within_deadline(functools.partial(self._work, work))
        finally:
            ran = work.ran
            self.conversation.messages[-1] = replace(message, calls=tuple(ran))
            self.calls += ran
            self.conversation.messages += work.messages()
        work.raise_failure()

    async def _work(self, work: ToolRound) -> None:
        await work.review()
        await work.run_tools()
        handoffs = [
            (at, call)
            for at, call in enumerate(work.calls)
            if call.name in self.agent.handoffs and work.results[at] is None  # none that was denied
        ]
        if work.failures or not handoffs:
            return
        await self._hand_over(work, *handoffs[0])
        for at, call in handoffs[1:]:
            await work.finish(at, failed(call, f"Error: {self.agent.name} takes over already"))

    async def _hand_over(self, work: ToolRound, at: int, call: ToolCall) -> None:
        self.agent = self.agent.handoffs[call.name]
        self.session.move_to(self.agent.engine)
        self.approve = strictest(self.approve, self.agent.settings.approve)
        self._num_handoffs += 1
        await self.emit(HandedOff(call=call, agent=self.agent.name))
        await work.finish(at, ToolResult(call_id=call.id, name=call.name, content=f"{self.agent.name} takes over."))

    async def _save(self) -> None:
        """What has happened is written down, come what may; but not even a store may hold up a cancelled run for good.

        Raises:
            StoreError: the store did not save, or not in time.
        """
        if self._store is None:
            return
        with anyio.move_on_after(_SAVE_S, shield=True) as scope:
            await self._store.save(self.conversation)
        if scope.cancelled_caught:
            raise StoreError(f"conversation {self.conversation.id!r} could not be saved within {_SAVE_S:g} s")

    def _result(self, turn: TurnResult) -> RunResult[Any]:
        output, evidence = turn.message.content, ()
        if self._form is not None and turn.filled is not None:
            output = self._form.validator.build(turn.filled.value)
            evidence = turn.filled.evidence()
        return RunResult(
            output=output,
            finish="length" if turn.finish == "length" else self._finish,
            calls=tuple(self.calls),
            messages=tuple(self.conversation.messages),
            usage=self.session.usage,
            conversation=self.conversation,
            agent=self.agent,
            evidence=evidence,
        )
