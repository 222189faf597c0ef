"""How values were decided, as HTML for notebooks: `_repr_html_` of forms, decisions and runs.

No script, nothing from elsewhere, all text escaped; colours are the notebook's own, light or dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from agentform._util.text import visible_text
from agentform.messages import Evidence, JsonValue, ToolCall, Usage
from agentform.schema.json_text import dumps

__all__ = ["call_html", "evidence_html", "odds_html", "shown", "text_html", "usage_html"]

_STYLE = (
    "<style>.agentform{color:inherit;font-size:90%}.agentform table{border-collapse:collapse;margin:.2em 0}"
    ".agentform th,.agentform td{text-align:left;vertical-align:top;padding:.2em .8em .2em 0;background:none;"
    "border-bottom:1px solid #8886}.agentform code{background:none;color:inherit;white-space:pre-wrap}"
    ".agentform meter{width:6em}.agentform .dim{opacity:.75}</style>"
)


def shown(*parts: str) -> str:
    """The parts as one piece of a notebook."""
    return f'{_STYLE}<div class="agentform">{"".join(parts)}</div>'


def text_html(text: str) -> str:
    """Text as a paragraph that keeps its lines."""
    return f'<p style="white-space:pre-wrap">{_text(text)}</p>' if text else ""


def evidence_html(evidence: Sequence[Evidence], *, caption: str = "") -> str:
    """One row per leaf: its value, how it was decided, the distribution, legal mass and what the prior took out."""
    heads = ("leaf", "value", "how", "options", "legal mass", "before the prior")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    rows = "".join(map(_row, evidence))
    title = f"<caption>{_text(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def call_html(call: ToolCall) -> str:
    """A call: how it was decided to make it, and each of its arguments."""
    decision = "" if call.decision is None else evidence_html((call.decision,), caption="to call")
    return f"<p><b>{_text(call.name)}</b></p>{decision}{evidence_html(call.evidence, caption='arguments')}"


def odds_html(options: Sequence[tuple[JsonValue, float]]) -> str:
    """Options with their probabilities as bars."""
    return "<br>".join(
        f'<meter min="0" max="1" value="{probability:.4f}" aria-label="{_json(value)}"></meter> '
        f"{probability:.1%} <code>{_json(value)}</code>"
        for value, probability in options
    )


def usage_html(usage: Usage, prompt: Usage | None = None) -> str:
    """Tokens, and why the prompt was not fully cached."""
    read = prompt or usage
    cached = "an unknown number" if read.cached_tokens is None else f"{read.cached_tokens:,}"
    miss = f" (not all: {_text(read.miss)})" if read.miss else ""
    written = f"{usage.completion_tokens:,} tokens written"
    return f'<p class="dim">{cached} of {read.prompt_tokens:,} prompt tokens from the cache{miss}, {written}</p>'


def _row(item: Evidence) -> str:
    options = [] if item.probability is None else [(item.value, item.probability)]
    options += [(other.value, other.probability) for other in item.alternatives]
    how = f"{item.how} by {item.by}" if item.by else item.how
    how += f" in {item.ways} ways" if item.ways > 1 else ""
    name = f'<th scope="row"><code>{_text(item.pointer)}</code></th>'
    cells = [f"<code>{_json(item.value)}</code>", _text(how), odds_html(options)]
    cells += [_share(item.legal_mass), _share(item.raw_probability)]
    return f"<tr>{name}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _share(number: float | None) -> str:
    return "" if number is None else f"{number:.1%}"


def _json(value: JsonValue) -> str:
    return _text(dumps(value))


def _text(text: str) -> str:
    return escape(visible_text(text))
