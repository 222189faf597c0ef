"""What a chat shows of a turn while it runs: free text, the step chosen, each argument, the result and the cache."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.live import Live

from agentform.cli.demo.view import decision_line, evidence_table
from agentform.cli.safe_text import SafeText
from agentform.events import (
    AnswerDelta,
    ArgumentChosen,
    ArgumentDelta,
    CallReady,
    ChoiceMade,
    Event,
    HandedOff,
    ReasoningDelta,
    ToolFinished,
    TurnFinished,
)
from agentform.messages import Evidence, Usage

__all__ = ["TurnView", "cache_line"]


class TurnView:
    """Shows the events of one run; a context manager. What is done stays printed, what is going on is live."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._text = ""
        self._step: RenderableType | None = None
        self._chosen: dict[str, Evidence] = {}
        self._written: dict[str, str] = {}
        self._live: Live | None = None

    def __enter__(self) -> TurnView:
        return self

    def __exit__(self, *error: object) -> None:
        self.settle()

    def show(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case ReasoningDelta() | AnswerDelta():
                self._text += event.text
            case ChoiceMade():
                self._step = SafeText(f"→ {decision_line(event.decision)}", style="bold")
            case ArgumentChosen():
                self._chosen[event.evidence.pointer] = event.evidence
            case ArgumentDelta():
                before = self._written.get(event.pointer, "")
                self._written[event.pointer] = before + event.text
            case CallReady():
                self._chosen, self._written = {item.pointer: item for item in event.call.evidence}, {}
                self.settle()
                return
            case ToolFinished():
                self.settle()
                style = "red" if event.result.is_error else "cyan"
                self._console.print(SafeText(f"← {event.result.content}", style=style), soft_wrap=True)
                return
            case HandedOff():
                self.settle()
                self._console.print(SafeText(f"{event.agent} takes over", style="bold"))
                return
            case TurnFinished():
                self.settle()
                self._console.print(SafeText(cache_line(event.usage), style="dim"), soft_wrap=True)
                return
            case _:
                return
        self._update()

    def settle(self) -> None:
        """Print what is going on as it is now, and begin anew."""
        shown = self._shown()
        if self._live is not None:
            self._live.update(shown)
            self._live.stop()
        elif self._parts():
            self._console.print(shown)
        self._live, self._text, self._step = None, "", None
        self._chosen, self._written = {}, {}

    def _update(self) -> None:
        if not self._console.is_terminal:
            return
        if self._live is None:
            self._live = Live(console=self._console, refresh_per_second=12, vertical_overflow="visible")
            self._live.start()
        self._live.update(self._shown())

    def _shown(self) -> RenderableType:
        return Group(*self._parts())

    def _parts(self) -> list[RenderableType]:
        parts: list[RenderableType] = []
        if self._text.strip():
            parts.append(SafeText(self._text.strip(), style="italic" if self._step is not None else ""))
        if self._step is not None:
            parts.append(self._step)
        if self._chosen:
            parts.append(evidence_table(tuple(self._chosen.values())))
        parts += [SafeText(f"{pointer} … {text}", style="dim") for pointer, text in self._written.items()]
        return parts


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
