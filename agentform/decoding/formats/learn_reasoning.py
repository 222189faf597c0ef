"""Finds out the marks around a model's thoughts, what the prompt writes of them and what is kept of past ones."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
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
_MARK = re.compile(r"<[^<>\n]+>|\[[^\[\]\n]+\]")
_PARTNERS = (("/", ""), ("close", "open"), ("end", "begin"), ("end", "start"), ("END", "START"), ("suffix", "prefix"))
"""What makes a closing mark of an opening one."""
_CALL = ProbeCall(arguments={KEYS[0]: "zqvalue"})


def learn_reasoning(probe: Probe, around: Around, opening: str) -> ReasoningMarks | None:
    """The marks; `None` for models that do not think. `opening` is what calls begin with."""
    prompted = around.prompt[around.begin :]
    switches = _switches(probe, around.prompt)
    marks = _rendered(probe, around, opening) or _named(probe.template.template_source, prompted, bool(switches))
    if marks is None:
        return None
    return replace(
        marks,
        prompted=marks.prompted or prompted,
        empty=marks.empty or around.empty_thought,
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
    found = _CLOSE.match(first.after)
    mark = found[0] if found else first.after.rstrip()
    marks = ReasoningMarks(open=first.open, close=mark)
    if not first.open.strip():
        marks = _hidden(first, marks, around.prompt, probe.said() or "")
    return replace(
        marks,
        before_text=said.after.removeprefix(marks.close) if said else "",
        before_calls=called.after.removeprefix(marks.close) if called else "",
    )


@dataclass(frozen=True, kw_only=True)
class _AroundThought:
    """What stands before a thought from the beginning of the text on, of that what is the turn's own, and after it."""

    before: str
    open: str
    after: str


def _around_thought(text: str | None, around: Around, until: str) -> _AroundThought | None:
    if text is None or THOUGHT not in text:
        return None
    start = text.index(THOUGHT)
    end = start + len(THOUGHT)
    stop = text.find(until, end)
    begin = min(around.begin, len(common_prefix(around.prompt, text)))
    if stop < end or start < begin:
        return None
    return _AroundThought(before=text[:start], open=text[begin:start], after=text[end:stop])


def _hidden(found: _AroundThought, marks: ReasoningMarks, prompt: str, said: str) -> ReasoningMarks:
    """The marks of a thought whose opening stands in front of every turn, whether there is a thought or not."""
    pair = _pair(found)
    if pair is None:  # the prompt may open it with words that no past turn holds
        opened = prompt[len(found.before) :] if prompt.startswith(found.before) else ""
        return replace(marks, open=opened if marks.close.strip() not in opened else "")
    opening, close = pair
    begin = len(found.before) - len(opening)
    prompted = prompt[begin:] if prompt.startswith(found.before) else ""
    empty = next((each for each in (opening + close, opening + close.lstrip()) if said.startswith(each, begin)), "")
    return replace(marks, open=opening, close=close, prompted=prompted, empty=empty)


def _pair(found: _AroundThought) -> tuple[str, str] | None:
    """The opening mark at the end of what stands before a thought that belongs to the closing one after it."""
    before = found.before.rstrip()
    for opening, closing in _PAIRS:
        if before.endswith(opening.strip()) and closing in found.after:
            end = found.after.index(closing) + len(closing)
            return found.before[before.rindex(opening.strip()) :], found.after[:end]
    for end in reversed([each.end() for each in _MARK.finditer(found.after)]):
        close = found.after[:end]
        for word, partner in _PARTNERS:
            opening = close.strip().replace(word, partner, 1)
            if opening != close.strip() and before.endswith(opening):
                return found.before[before.rindex(opening) :], close
    return None


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
