"""One step of a turn as far as it is known: what was thought and said, what was decided, and each argument."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.console import RenderableType

from agentform.cli.demo.view import decision_line, evidence_table
from agentform.cli.safe_text import SafeText
from agentform.messages import Evidence

__all__ = ["Step"]


@dataclass(kw_only=True)
class Step:
    """A call with what was said before it, or an answer."""

    thought: str = ""
    text: str = ""
    decision: Evidence | None = None
    call_id: str | None = None
    chosen: dict[str, Evidence] = field(default_factory=dict[str, Evidence])
    written: dict[str, str] = field(default_factory=dict[str, str])
    """JSON text of arguments that are being written."""

    @property
    def calls(self) -> bool:
        """Whether a call was decided, or its arguments are coming."""
        return self.call_id is not None or (self.decision is not None and self.decision.value is not None)

    def choose(self, call_id: str, evidence: Evidence) -> None:
        """Take in an argument."""
        self.call_id = call_id
        self.chosen[evidence.pointer] = evidence

    def ready(self, evidence: tuple[Evidence, ...]) -> None:
        """Take in all arguments, as they are in the end."""
        self.chosen, self.written = {item.pointer: item for item in evidence}, {}

    def parts(self, *, shows_reasoning: bool, is_over: bool) -> list[RenderableType]:
        """What is shown of it. Without reasoning, text is shown once it is known to be an answer."""
        parts: list[RenderableType] = []
        if self.thought.strip() and shows_reasoning:
            parts.append(SafeText(self.thought.strip(), style="dim italic"))
        is_answer = not self.calls and (is_over or self.decision is not None)
        if self.text.strip() and (shows_reasoning or is_answer):
            parts.append(SafeText(self.text.strip(), style="italic" if self.calls else ""))
        if self.decision is not None:
            parts.append(SafeText(f"→ {decision_line(self.decision)}", style="bold"))
        if self.chosen:
            parts.append(evidence_table(tuple(self.chosen.values())))
        return parts + [SafeText(f"{pointer} … {text}", style="dim") for pointer, text in self.written.items()]
