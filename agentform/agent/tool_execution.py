"""Runs the calls of one turn: at the same time, within limits, each with its result whatever becomes of the others."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from agentform.agent.approval import Deny, copied, review
from agentform.agent.observer import Done, Report, ToolObserved, observed
from agentform.agent.protocols import RunView
from agentform.agent.result_text import error_text, result_text, within
from agentform.decoding.prompt_work import prompt_work
from agentform.errors import ToolAborted, ToolFailed
from agentform.events import CallReady, ToolFinished, ToolStarted
from agentform.messages import Message, ToolCall, ToolResult
from agentform.tools.context import RunContext
from agentform.tools.tool import Tool

__all__ = ["ToolRound", "failed"]


@dataclass(kw_only=True)
class ToolRound:
    """The calls of one turn, and what has become of each so far."""

    run: RunView
    calls: list[ToolCall]
    """As they are run: a human may have changed them."""
    results: list[ToolResult | None] = field(init=False)
    """In the order of the calls; `None` while a call has none."""
    failures: dict[int, ToolFailed] = field(default_factory=dict[int, ToolFailed])
    """By number of the call, those that the policy is to raise."""

    def __post_init__(self) -> None:
        self.results = [None] * len(self.calls)
        # Kept from everybody who is told of the calls: what is run is what was approved.
        self._frozen = list(map(copied, self.calls))

    async def review(self) -> None:
        """Announce the calls and ask the human about each, one after the other.

        Raises:
            InvalidInput: as `approval.review` raises it.
        """
        for at, call in enumerate(self.calls):
            await self.run.emit(CallReady(call=call))
            if self.run.approve is None or call.name not in self.run.agent.caller.targets:
                continue
            reviewed = await review(self._frozen[at], self.run.agent.caller.targets[call.name], self.run.approve)
            if isinstance(reviewed, Deny):
                await self.finish(at, failed(call, f"Denied: {reviewed.reason}".rstrip(": ")))
            else:
                self._frozen[at] = reviewed
                self.calls[at] = copied(reviewed)

    @property
    def ran(self) -> list[ToolCall]:
        """The calls as they were run, whatever has become of `calls` in others' hands."""
        return list(map(copied, self._frozen))

    async def run_tools(self) -> None:
        """Run the calls of tools that have no result yet. One that fails does not end the others."""
        limiter = anyio.CapacityLimiter(self.run.limits.tools_at_once)
        async with anyio.create_task_group() as group:
            for at, call in enumerate(self.calls):
                if self.results[at] is None and call.name in self.run.agent.tools:
                    group.start_soon(self._run_one, at, copied(self._frozen[at]), limiter)

    async def finish(self, at: int, result: ToolResult) -> None:
        """Take the result of a call and tell of it."""
        self.results[at] = result
        await self.run.emit(ToolFinished(call=self.calls[at], result=result))

    def messages(self) -> list[Message]:
        """The results as the model reads them; none if nothing has happened.

        When some calls have ended and others were stopped, all are told: what has happened in the world must be known.
        """
        happened = [r for at, r in enumerate(self.results) if r is not None and at not in self.failures]
        if not happened:
            return []
        stopped = "Error: the run was stopped before this call had ended"
        results = [r or failed(call, stopped) for call, r in zip(self.calls, self.results, strict=True)]
        return [Message(role="tool", content=result.content, result=result) for result in results]

    def raise_failure(self) -> None:
        """Raise the failure of the first call that failed and whose policy is to raise."""
        if self.failures:
            raise self.failures[min(self.failures)]

    async def _run_one(self, at: int, call: ToolCall, limiter: anyio.CapacityLimiter) -> None:
        async with limiter:
            await self.run.emit(ToolStarted(call=self.calls[at]))
            self.run.session.expect_return(after=call.name)
            tool = self.run.agent.tools[call.name]
            try:
                with observed(self.run.observers, self._operation(tool, call)) as report:
                    result = await self._result(tool, call, report)
            except ToolFailed as failure:
                self.failures[at] = failure
                result = await self._short(failed(call, error_text(failure.__cause__)))
        await self.finish(at, result)

    async def _result(self, tool: Tool[..., Any], call: ToolCall, report: Report) -> ToolResult:
        try:
            text = result_text(await tool.run(call.arguments, context=self._context(call)))
        except Exception as error:
            if (tool.policy.on_error or self.run.agent.on_tool_error) == "raise":
                raise ToolFailed(call.name, error) from error
            kind = error.kind if isinstance(error, ToolAborted) else type(error).__name__
            result = await self._short(failed(call, error_text(error)))
            report(Done(finish="error", error=kind, content=result.content))
            return result
        result = await self._short(ToolResult(call_id=call.id, name=call.name, content=text))
        report(Done(finish="ok", content=result.content))
        return result

    async def _short(self, result: ToolResult) -> ToolResult:
        """Its text within its share: the results of one turn fill half of what is left of the context at most.

        A run that is stopped meanwhile waits for it: what a tool has done is told.
        """
        engine = self.run.agent.engine
        left = engine.info.context_tokens - len(self.run.conversation.token_ids)
        share = left // (2 * len(self.calls))
        most, text = min(share, self.run.limits.result_tokens), result.content
        with anyio.CancelScope(shield=True):
            text = await prompt_work(len(text), within, text, engine.tokenizer, most)
        return replace(result, content=text)

    def _operation(self, tool: Tool[..., Any], call: ToolCall) -> ToolObserved:
        return ToolObserved(
            agent=self.run.agent.name,
            conversation=self.run.conversation.id,
            tool=call.name,
            description=tool.description,
            call_id=call.id,
            arguments=call.arguments,
        )

    def _context(self, call: ToolCall) -> RunContext[Any]:
        return RunContext(
            context=self.run.context,
            call=call,
            agent=self.run.agent.name,
            conversation=self.run.conversation.id,
            messages=tuple(self.run.conversation.messages),
            usage=self.run.session.usage,
            remaining_s=self.run.session.remaining_s(),
            charge=self.run.session.charge,
            run=self.run,
        )


def failed(call: ToolCall, text: str) -> ToolResult:
    """A result that says what went wrong."""
    return ToolResult(call_id=call.id, name=call.name, content=text, is_error=True)
