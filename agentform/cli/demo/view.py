"""What the demonstration prints: a turn's reasoning, how its call was decided, the tool's result, and the costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from agentform.cli.safe_text import SafeText
from agentform.cli.tables import Table
from agentform.events import AnswerDelta, CallReady, ChoiceMade, Event, ReasoningDelta, ToolFinished, ToolStarted
from agentform.messages import Evidence, Usage
from agentform.schema.json_text import dumps

__all__ = ["Cost", "cost_table", "decision_line", "evidence_table", "show_event"]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one message cost."""

    message: str
    usage: Usage
    seconds: float


def show_event(console: Console, event: Event) -> None:
    """Print one event of a run."""
    match event:
        case ReasoningDelta() | AnswerDelta():
            console.print(
                SafeText(event.text), end="", style="italic" if isinstance(event, ReasoningDelta) else "green"
            )
        case ChoiceMade():
            console.print()
            console.print(SafeText(f"→ {decision_line(event.decision)}", style="bold"))
        case CallReady():
            console.print(evidence_table(event.call.evidence))
        case ToolStarted():
            pass
        case ToolFinished():
            console.print(SafeText(f"← {event.result.content}", style="red" if event.result.is_error else "cyan"))


def decision_line(decision: Evidence) -> str:
    """What a turn does next, and how that was decided."""
    step = "answer" if decision.value is None else f"call {decision.value}"
    sure = _number(", p", decision.probability) + _number(", legal mass", decision.legal_mass)
    return f"{step}  ({_how(decision)}{sure})"


def _how(item: Evidence) -> str:
    """How a value was decided, and by whom where it was not the engine's own model."""
    return f"{item.how} by {item.by}" if item.by else item.how


def _number(label: str, value: float | None) -> str:
    return "" if value is None else f"{label} {value:.2g}"


def evidence_table(evidence: Sequence[Evidence]) -> Table:
    """One row per argument: its value, and how it was decided."""
    table = Table("argument", "value", "how", "p", "p raw", "legal mass", "else", box=None, padding=(0, 2, 0, 0))
    for item in evidence:
        others = ", ".join(f"{dumps(other.value)} {other.probability:.2f}" for other in item.alternatives)
        numbers = (item.probability, item.raw_probability, item.legal_mass)
        shown = ["" if number is None else f"{number:.3f}" for number in numbers]
        texts = [SafeText(text) for text in (item.pointer, dumps(item.value), _how(item))]
        table.add_row(*texts, *shown, SafeText(others))
    return table


_LEAST_MESSAGE = 10
_NUMBERS = ("computed", "from cache", "completion", "reasoning", "seconds")


def cost_table(costs: list[Cost], *, load_s: float, width: int) -> Table:
    """Tokens and seconds per message and in all, in `width` characters; unknown counts are shown as `?`.

    The numbers stand whole; messages are cut to what is left beside them.
    """
    table = Table(title="What it cost", caption=f"The model loaded in {load_s:.1f} s.")
    beside = sum(len(name) + 3 for name in _NUMBERS) + 4
    table.add_column("message", no_wrap=True, overflow="ellipsis", width=max(_LEAST_MESSAGE, width - beside))
    for column in _NUMBERS:
        table.add_column(column, justify="right", no_wrap=True, min_width=len(column))
    for cost in costs:
        table.add_row(SafeText(cost.message), *_counts(cost.usage), f"{cost.seconds:.2f}")
    total = sum((cost.usage for cost in costs), Usage())
    table.add_section()
    table.add_row("all", *_counts(total), f"{sum(cost.seconds for cost in costs):.2f}")
    return table


def _counts(usage: Usage) -> tuple[str, ...]:
    counts = (usage.computed_tokens, usage.cached_tokens, usage.completion_tokens, usage.reasoning_tokens)
    return tuple("?" if count is None else f"{count:,}" for count in counts)
