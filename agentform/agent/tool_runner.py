"""Runs the calls of one turn: at the same time, within limits, each with its result whatever becomes of the others."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from agentform.agent.approval import Deny, review
from agentform.agent.observer import Done, Report, ToolObserved, observed
from agentform.errors import ToolFailed
from agentform.messages import CallReady, Message, ToolCall, ToolFinished, ToolResult, ToolStarted
from agentform.run_context import RunContext
from agentform.schema.json_text import dumps, to_jsonable
from agentform.tools import Tool

if TYPE_CHECKING:
    from agentform.agent.run import Run

__all__ = ["Round"]


@dataclass(kw_only=True)
class Round:
    """The calls of one turn and what has become of them so far."""

    run: Run
    calls: list[ToolCall]
    """As they are run; a human may have changed them."""
    results: list[ToolResult | None] = field(default_factory=list[ToolResult | None])
    """In the order of the calls; `None` while a call has none."""
    failures: dict[int, ToolFailed] = field(default_factory=dict[int, ToolFailed])

    def __post_init__(self) -> None:
        self.results = [None] * len(self.calls)

    async def review(self) -> None:
        """Announce the calls and ask the human about each, one after the other.

        Raises:
            InvalidInput: as `approval.review` raises it.
        """
        for at, call in enumerate(self.calls):
            await self.run.emit(CallReady(call=call))
            if self.run.approve is None or call.name not in self.run.agent.tools:
                continue
            reviewed = await review(call, self.run.agent.tools[call.name], self.run.approve)
            if isinstance(reviewed, Deny):
                await self._finish(at, _error(call, f"Denied: {reviewed.reason}".rstrip(": ")))
            else:
                self.calls[at] = reviewed

    async def run_tools(self) -> None:
        """Run what has no result yet. A tool that fails does not end the others, whatever the policy."""
        limiter = anyio.CapacityLimiter(self.run.limits.tools_at_once)
        async with anyio.create_task_group() as group:
            for at, call in enumerate(self.calls):
                if self.results[at] is None and call.name in self.run.agent.tools:
                    group.start_soon(self._run_one, at, call, limiter)

    def messages(self) -> list[Message]:
        """The results as the model reads them; none if no call has a result.

        A run that was stopped while some calls had ended and others had not keeps them all: what has happened in the
        world has to be known.
        """
        if not any(self.results):
            return []
        stopped = "Error: the run was stopped before this call had ended"
        results = [r or _error(call, stopped) for call, r in zip(self.calls, self.results, strict=True)]
        return [Message(role="tool", content=result.content, result=result) for result in results]

    def raise_failure(self) -> None:
        """Raise the failure of the first call that failed and whose policy is to raise."""
        if self.failures:
            raise self.failures[min(self.failures)]

    async def _run_one(self, at: int, call: ToolCall, limiter: anyio.CapacityLimiter) -> None:
        tool = self.run.agent.tools[call.name]
        async with limiter:
            await self.run.emit(ToolStarted(call=call))
            with observed(self.run.observers, self._operation(tool, call)) as report:
                result = await self._result(at, tool, call, report)
            self.results[at] = result
        await self.run.emit(ToolFinished(call=call, result=result))

    async def _finish(self, at: int, result: ToolResult) -> None:
        self.results[at] = result
        await self.run.emit(ToolFinished(call=self.calls[at], result=result))
