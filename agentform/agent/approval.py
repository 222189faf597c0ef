"""A human's word before a call is run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from agentform._util.threads import APPROVALS
from agentform.errors import InvalidInput
from agentform.messages import JsonValue, ToolCall
from agentform.schema.json_text import dumps, loads
from agentform.schema.target import Target

__all__ = ["Allow", "Approval", "Approve", "Deny", "copied", "review", "strictest"]


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


async def review(call: ToolCall, target: Target, approve: Approve) -> ToolCall | Deny:
    """The call as it may be run, or the denial. An edited call carries no evidence: no model decided on it.

    Whoever is asked is shown a copy: what they or others do to it afterwards changes nothing of what was approved.

    Raises:
        InvalidInput: edited arguments break the tool's schema, or `approve` returned something else than an approval.
    """
    answer = await _asked(approve, copied(call))
    if answer is False or isinstance(answer, Deny):
        return answer or Deny()
    if answer is True or answer == Allow():
        return call
    if not isinstance(answer, Allow) or answer.arguments is None:
        raise InvalidInput(f"approve returned {answer!r} for {call.name!r}: Allow(…), Deny(…), True or False can be")
    edited = copied(replace(call, arguments=answer.arguments, evidence=()))
    _check(call.name, target, edited.arguments)
    return edited


def strictest(*approvers: Approve | None) -> Approve | None:
    """Asks each of `approvers`, once, until one denies; each sees the arguments as those before left them."""
    each = tuple({id(approve): approve for approve in approvers if approve is not None}.values())
    if len(each) < 2:
        return each[0] if each else None

    async def ask(call: ToolCall) -> Any:
        edited = call
        for approve in each:
            answer = await _asked(approve, copied(edited))
            if isinstance(answer, Allow) and answer.arguments is not None:
                edited = replace(edited, arguments=answer.arguments, evidence=())
            elif answer is not True and answer != Allow():
                return answer
        return True if edited is call else Allow(edited.arguments)

    return ask


def copied(call: ToolCall) -> ToolCall:
    """The call with arguments of its own."""
    return replace(call, arguments=cast("Mapping[str, JsonValue]", loads(dumps(call.arguments))))


async def _asked(approve: Approve, call: ToolCall) -> object:
    if inspect.iscoroutinefunction(approve):
        return await approve(call)
    answer = await APPROVALS.run(approve, call)
    return await answer if inspect.isawaitable(answer) else answer


def _check(name: str, target: Target, arguments: Mapping[str, JsonValue]) -> None:
    violations = target.validator.check(arguments)
    if violations:
        reasons = "; ".join(f"{v.pointer or '(whole)'}: {v.reason}" for v in violations)
        raise InvalidInput(f"the edited arguments of {name!r} are not valid: {reasons}")
