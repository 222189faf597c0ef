"""What may watch an agent from outside: records of runs, model turns and tools, as telemetry needs them.

An observer gets each operation when it begins and what came of it when it ends. The context manager that it returns is
entered and left in the task that does the work, so that what it sets for the current context (an OpenTelemetry span,
say) holds for everything below: turns and tools inside the run, agents inside a tool, a user's own spans.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from agentform.messages import JsonValue, Message, ToolCall, Usage

__all__ = ["Done", "Observer", "Operation", "Report", "RunObserved", "ToolObserved", "TurnObserved", "observed"]


@dataclass(frozen=True, kw_only=True)
class RunObserved:
    """A run of an agent begins; `invoke_agent` in OpenTelemetry's words."""

    agent: str
    model: str
    conversation: str


@dataclass(frozen=True, kw_only=True)
class TurnObserved:
    """The model is asked for its next step; `chat` in OpenTelemetry's words."""

    agent: str
    model: str
    conversation: str
    step: int
    """Number of the turn in its run, from 0."""
    messages: tuple[Message, ...] | None = None
    """The conversation that the turn answers; `None` unless the observer asks for content."""
    tools: tuple[Mapping[str, JsonValue], ...] | None = None
    """Definitions of the tools that may be called, in OpenAI's layout; `None` unless the observer asks for content."""


@dataclass(frozen=True, kw_only=True)
class ToolObserved:
    """A tool begins to run; `execute_tool` in OpenTelemetry's words."""

    agent: str
    conversation: str
    tool: str
    description: str
    call_id: str
    arguments: Mapping[str, JsonValue] | None = None
    """`None` unless the observer asks for content."""


Operation: TypeAlias = RunObserved | TurnObserved | ToolObserved


@dataclass(frozen=True, kw_only=True)
class Done:
    """What came of an operation that was not ended by an exception."""

    usage: Usage | None = None
    """Of a run, all turns together; of a turn, its own; `None` for tools."""
    finish: str | None = None
    """How it ended: `RunResult.finish` of a run, `Turn.finish` of a turn, `ok` or `error` of a tool."""
    calls: tuple[str, ...] = ()
    """Tools that the turn called."""
    error: str | None = None
    """Class name of the error that a tool raised and that was fed back to the model."""
    content: str | None = None
    """The answer, the turn's free text or the tool's result; `None` unless the observer asks for content."""
    tool_calls: tuple[ToolCall, ...] | None = None
    """The turn's calls with their arguments; `None` unless the observer asks for content."""


Report: TypeAlias = Callable[[Done], None]
"""Called at most once, before the operation's context manager is left."""


class Observer(Protocol):
    """Watches agents: ``Agent(engine, observers=[observer])``.

    `observe` and what it returns must not block and must not raise.
    """

    @property
    def content(self) -> bool:
        """Whether records shall hold what users, models and tools said. It may hold secrets."""
        ...

    def observe(self, operation: Operation) -> AbstractContextManager[Report]:
        """Entered when the operation begins and left when it ends, with the exception if one ended it."""
        ...


@contextmanager
def observed(observers: Sequence[Observer], operation: Operation) -> Generator[Report]:
    """The operation in view of all observers; content goes only to those that ask for it."""
    with ExitStack() as stack:
        reports = [
            (observer.content, stack.enter_context(observer.observe(_shown(operation, observer.content))))
            for observer in observers
        ]

        def report(done: Done) -> None:
            for content, each in reports:
                each(done if content else replace(done, content=None, tool_calls=None))

        yield report


def _shown(operation: Operation, content: bool) -> Operation:
    if content or isinstance(operation, RunObserved):
        return operation
    if isinstance(operation, ToolObserved):
        return replace(operation, arguments=None)
    return replace(operation, messages=None, tools=None)
