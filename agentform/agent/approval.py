"""A human's word before a call is run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from agentform._util.threads import APPROVALS
from agentform.errors import InvalidInput
from agentform.messages import JsonValue, ToolCall
from agentform.tools.tool import Tool

__all__ = ["Allow", "Approval", "Approve", "Deny", "review"]


@dataclass(frozen=True)
class Allow:
    """The call may be run, with other arguments if any are given."""

    arguments: Mapping[str, JsonValue] | None = None


@dataclass(frozen=True)
class Deny:
    """The call is not run; the model is told why."""

    reason: str = ""


Approval: TypeAlias = Allow | Deny | bool
Approve: TypeAlias = Callable[[ToolCall], Approval | Awaitable[Approval]]
"""Decides on a call: ``Agent(…, approve=ask_the_user)``. One that is not async runs in a worker thread."""


async def review(call: ToolCall, tool: Tool[..., object], approve: Approve) -> ToolCall | Deny:
    """The call as it may be run, or the denial. An edited call carries no evidence: no model decided on it.

    Raises:
        InvalidInput: edited arguments break the tool's schema, or `approve` returned something else than an approval.
    """
    answer = await _asked(approve, call)
    if answer is False or isinstance(answer, Deny):
        return answer or Deny()
    if answer is True or answer == Allow():
        return call
    if not isinstance(answer, Allow) or answer.arguments is None:
        raise InvalidInput(f"approve returned {answer!r} for {call.name!r}: Allow(…), Deny(…), True or False can be")
    _check(tool, answer.arguments)
    return replace(call, arguments=answer.arguments, evidence=())


async def _asked(approve: Approve, call: ToolCall) -> object:
    if inspect.iscoroutinefunction(approve):
        return await approve(call)
    answer = await APPROVALS.run(approve, call)
    return await answer if inspect.isawaitable(answer) else answer


def _check(tool: Tool[..., object], arguments: Mapping[str, JsonValue]) -> None:
    violations = tool.target.validator.check(arguments)
    if violations:
        reasons = "; ".join(f"{v.pointer or '(whole)'}: {v.reason}" for v in violations)
        raise InvalidInput(f"the edited arguments of {tool.name!r} are not valid: {reasons}")
