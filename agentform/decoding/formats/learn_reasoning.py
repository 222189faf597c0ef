"""Finds out the marks around a model's thoughts, what the prompt writes of them and what is kept of past ones."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Literal

from agentform.decoding.formats.learn_layout import Around
from agentform.decoding.formats.probe import KEYS, TEXT, THOUGHT, Probe, ProbeCall, common_prefix
from agentform.decoding.formats.types import ReasoningMarks

__all__ = ["learn_reasoning"]

_SWITCHES = ("enable_thinking", "thinking", "reasoning_effort", "thinking_mode", "reasoning", "thinking_budget")
_VALUES: tuple[Any, ...] = (True, False, "low", "high", "on", "off")
_PAIRS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<seed:think>", "</seed:think>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<thinking>", "</thinking>"),
    ("<|channel>thought\n", "<channel|>"),
)
"""Marks that some templates name without ever rendering a thought."""
_CLOSE = re.compile(r"\s*(?:<[^<>\n]+>|\[[^\[\]\n]+\])")
_CALL = ProbeCall(arguments={KEYS[0]: "zqvalue"})


def learn_reasoning(probe: Probe, around: Around, opening: str) -> ReasoningMarks | None:
    """The marks; `None` for models that do not think. `opening` is what calls begin with."""
    prompted = around.prompt[around.begin :]
    switches = _switches(probe, around.prompt)
    marks = _rendered(probe, around, opening) or _named(probe.template.template_source, prompted, bool(switches))
    if marks is None:
        return None
    shared = _shared_opening(marks, around)
    return replace(
        marks,
        open=shared + marks.open,
        prompted=shared + prompted,
        empty=shared + around.empty_thought if around.empty_thought else "",
        kept=_kept(probe),
        switches=switches,
    )


def _rendered(probe: Probe, around: Around, opening: str) -> ReasoningMarks | None:
    """The marks around a thought that the template writes into a past turn."""
    called = _around_thought(probe.called(_CALL, thought=THOUGHT), around, opening) if opening else None
    said = _around_thought(probe.said(thought=THOUGHT, then=False), around, TEXT)
    first = called or said
    if first is None:
        return None
    close = _CLOSE.match(first[1])
    mark = close[0] if close else first[1].rstrip()
    return ReasoningMarks(
        open=first[0],
        close=mark,
        before_text=said[1].removeprefix(mark) if said else "",
        before_calls=called[1].removeprefix(mark) if called else "",
    )


def _shared_opening(marks: ReasoningMarks, around: Around) -> str:
    """The opening mark, where it stands in front of every turn, whether there is a thought or not."""
    partner = marks.close.strip().replace("/", "", 1)
    before = around.prompt[: around.begin]
    is_shared = "/" in marks.close and partner not in marks.open and before.rstrip().endswith(partner)
    return before[before.rindex(partner) :] if is_shared else ""


def _around_thought(text: str | None, around: Around, after: str) -> tuple[str, str] | None:
    if text is None or THOUGHT not in text:
        return None
    start = text.index(THOUGHT)
    end = start + len(THOUGHT)
    until = text.find(after, end)
    begin = min(around.begin, len(common_prefix(around.prompt, text)))
    return (text[begin:start], text[end:until]) if until >= end and start >= begin else None


def _named(source: str, prompted: str, switched: bool) -> ReasoningMarks | None:
    for opening, closing in _PAIRS:
        if opening.strip() in prompted or (opening in source and closing in source) or (switched and closing in source):
            return ReasoningMarks(open=opening, close=closing, before_text="\n\n", before_calls="\n\n")
    return None


def _kept(probe: Probe) -> Literal["always", "tool calls", "never"]:
    if THOUGHT in (probe.said(thought=THOUGHT) or ""):
        return "always"
    return "tool calls" if THOUGHT in (probe.called(_CALL, thought=THOUGHT) or "") else "never"


def _switches(probe: Probe, prompt: str) -> tuple[str, ...]:
    """Arguments of the template that change its generation prompt or what stands before it."""
    source = probe.template.template_source
    usual = probe.render([probe.user()], generation_prompt=True)
    named = [name for name in _SWITCHES if re.search(rf"\b{name}\b", source)]
    return tuple(name for name in named if any(_differs(probe, name, value, usual) for value in _VALUES))


def _differs(probe: Probe, name: str, value: Any, usual: str | None) -> bool:
    text = probe.render([probe.user()], generation_prompt=True, arguments={name: value})
    return text is not None and text != usual
