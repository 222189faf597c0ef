"""What a chat shows of a turn while it runs: free text, the step chosen, each argument, the result and the cache."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment

from agentform.cli.chat.step import Step
from agentform.cli.safe_text import SafeText
from agentform.events import (
    AnswerDelta,
    ArgumentChosen,
    ArgumentDelta,
    CallReady,
    CallRepeated,
    ChoiceMade,
    Event,
    HandedOff,
    ReasoningDelta,
    ThoughtDelta,
    ToolFinished,
    TurnFinished,
)
from agentform.messages import Evidence, ToolCall, Usage

__all__ = ["TurnView", "cache_line"]


_DELTAS = (ThoughtDelta, ReasoningDelta, AnswerDelta, ArgumentDelta)
_REFRESH_S = 1 / 12


class TurnView:
    """Shows the events of one run; a context manager. What is done is printed once, what is going on is live."""

    def __init__(self, console: Console, *, shows_reasoning: bool = True) -> None:
        self._console = console
        self._shows_reasoning = shows_reasoning
        self._steps: list[Step] = [Step()]
        self._costs: list[Usage] = []
        self._live: Live | None = None
        self._refreshed = 0.0

    def __enter__(self) -> TurnView:
        return self

    def __exit__(self, *error: object) -> None:
        self.settle()

    def show(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case ThoughtDelta():
                self._steps[-1].thought += event.text
            case ReasoningDelta() | AnswerDelta():
                self._steps[-1].text += event.text
            case ChoiceMade():
                self._decided(event.decision)
            case ArgumentChosen():
                self._steps[-1].choose(event.call_id, event.evidence)
            case ArgumentDelta():
                written = self._steps[-1].written
                written[event.pointer] = written.get(event.pointer, "") + event.text
            case _:
                self._done(event)
                return
        self._draw(at_once=not isinstance(event, _DELTAS))

    def _decided(self, decision: Evidence) -> None:
        if self._steps[-1].decision is not None:  # one more call of the same turn
            self._steps.append(Step())
        self._steps[-1].decision = decision

    def _done(self, event: Event) -> None:
        """Take in what ends something."""
        match event:
            case CallReady():
                self._ready(event.call)
            case ToolFinished():
                style = "red" if event.result.is_error else "cyan"
                self._say(SafeText(f"← {event.result.content}", style=style))
            case HandedOff():
                self._say(SafeText(f"{event.agent} takes over", style="bold"))
            case CallRepeated():
                self._say(SafeText(f"{event.call.name} was called like this before: now it answers", style="yellow"))
            case TurnFinished():
                self._costs.append(event.usage)  # after its calls, which are told of when they are to be made
                if not any(step.calls for step in self._steps):
                    self.settle()
            case _:
                pass

    def _say(self, line: SafeText) -> None:
        self.settle()
        self._console.print(line)

    def _ready(self, call: ToolCall) -> None:
        """Print a call as it is in the end."""
        found = [step for step in self._steps if step.call_id == call.id]
        found = found or [step for step in self._steps if step.calls and step.call_id is None] or [Step()]
        step = found[0]
        step.call_id = call.id
        step.ready(call.evidence)
        self._stop()
        self._console.print(Group(*self._parts([step], is_over=True)))
        self._steps = [other for other in self._steps if other is not step]
        if not any(other.calls for other in self._steps):
            self.settle()

    def settle(self) -> None:
        """Print what is going on as it is now, and begin anew."""
        self._stop()
        if parts := self._parts(self._steps, is_over=True):
            self._console.print(Group(*parts))
        for usage in self._costs:
            self._console.print(SafeText(cache_line(usage), style="dim"))
        self._steps, self._costs = [Step()], []

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()  # it takes its picture away
            self._live = None

    def _draw(self, *, at_once: bool) -> None:
        """Show what is going on; in this thread alone, as others may print too. Of text not every piece is drawn."""
        if not self._console.is_terminal:
            return
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        now = time.monotonic()
        if at_once or now - self._refreshed > _REFRESH_S:
            self._refreshed = now
            self._live.update(_LastLines(Group(*self._parts(self._steps, is_over=False))), refresh=True)

    def _parts(self, steps: Sequence[Step], *, is_over: bool) -> list[RenderableType]:
        shows = self._shows_reasoning
        return [part for step in steps for part in step.parts(shows_reasoning=shows, is_over=is_over)]


class _LastLines:
    """As much of what is shown as a terminal has room for, from its end: what scrolls away cannot be taken back."""

    def __init__(self, shown: RenderableType) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Called by rich to print it."""
        lines = console.render_lines(self._shown, options.update(height=None), pad=False)
        for line in lines[-max(1, console.height - 2) :]:
            yield from line
            yield Segment.line()


def cache_line(usage: Usage) -> str:
    """What a turn cost, and why its prompt was not fully cached, if it was not."""
    counts = [
        f"{'?' if count is None else f'{count:,}'} {what}"
        for count, what in (
            (usage.cached_tokens, "cached"),
            (usage.computed_tokens, "computed"),
            (usage.completion_tokens, "written"),
        )
    ]
    return f"tokens: {', '.join(counts)}{f'; cache miss: {usage.miss}' if usage.miss else ''}"
