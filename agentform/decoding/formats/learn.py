"""How a model writes calls and thoughts, learned from its chat template by rendering and comparing.

Where rendering shows no calls, a short table of marks decides (`signatures`); where that does not know the template
either, the format is the default one, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from agentform.decoding.formats.framing import CallFraming
from agentform.decoding.formats.learn_arguments import Unlearnable, learn_arguments
from agentform.decoding.formats.learn_layout import Around, learn_layout, turn_end
from agentform.decoding.formats.learn_reasoning import learn_reasoning
from agentform.decoding.formats.learn_values import Unquoted
from agentform.decoding.formats.probe import (
    KEYS,
    NAMES,
    RESULT,
    TEXT,
    Probe,
    ProbeCall,
    Template,
    common_prefix,
    second,
)
from agentform.decoding.formats.rules import learn_rules
from agentform.decoding.formats.signatures import DEFAULT_FORMAT, by_signature
from agentform.decoding.formats.types import ToolCallFormat
from agentform.decoding.formats.values import JsonValues, PythonValues
from agentform.decoding.formats.write import WrittenCall, calls_text
from agentform.messages import JsonValue

__all__ = ["learn_format"]

_MARK = re.compile(r"<[^<>\n]+>|\[[A-Z_]+\]")
_CHECKS: tuple[dict[str, JsonValue], ...] = (
    {KEYS[0]: "plain", KEYS[1]: 3},
    {KEYS[1]: [1, "zqé", {"zqb": False}], KEYS[0]: "two\nlines"},
    {KEYS[0]: 'a "q" <b> & c'},
    {KEYS[0]: True},
    {},
)


def learn_format(template: Template) -> ToolCallFormat:
    """The format of the model's chat template. Never raises: what cannot be learned has a `reason`."""
    try:
        return _learned(template)
    except Exception as error:  # a template is a program of others: whatever it does, the model is served
        return replace(DEFAULT_FORMAT, reason=f"the chat template could not be examined: {error}")


def _learned(template: Template) -> ToolCallFormat:
    rules = learn_rules(Probe(template))
    probe = Probe(template, rules)
    lists_tools = NAMES[0] in (probe.render([probe.user()], generation_prompt=True) or "")
    reasons: list[str] = []
    for arguments in ("object", "text"):
        for with_tools in (True, False) if lists_tools else (False,):
            try:
                found = _by_rendering(replace(probe, with_tools=with_tools).under(arguments=arguments))
            except Unlearnable as error:
                reasons.append(str(error))
                if isinstance(error, Unquoted) and (text := _as_text(replace(probe, with_tools=with_tools), error)):
                    return replace(text, lists_tools=lists_tools)
            else:
                return replace(found, lists_tools=lists_tools)
    plain = replace(probe, with_tools=lists_tools)
    found = by_signature(template.template_source) if lists_tools else None
    return _completed(plain, found, lists_tools, reasons[0])


def _completed(probe: Probe, found: ToolCallFormat | None, lists_tools: bool, reason: str) -> ToolCallFormat:
    """A format that rendering did not show, with what it does show."""
    said, prompt = probe.said(), probe.prompt()
    format = found or replace(DEFAULT_FORMAT, reason=reason if lists_tools else "the template knows no tools")
    rules = replace(probe.rules, tool_role=found is not None and _takes_results_after_text(probe))
    format = replace(
        format, rules=rules, lists_tools=lists_tools and found is not None, turn_end=turn_end(said, prompt)
    )
    if said is None or prompt is None or TEXT not in said:
        return format
    around = Around(prompt=prompt, begin=len(common_prefix(prompt, said)), empty_thought="")
    return replace(format, reasoning=learn_reasoning(probe, around, ""))


def _mark_after_name(format: ToolCallFormat) -> list[str]:
    """What of the text between a call's name and its arguments no answer begins with."""
    after = CallFraming(format=format).after_name
    for mark in _MARK.findall(format.text_open):
        after = after.replace(mark, "")
    found = _MARK.search(after)
    mark = found[0] if found else after.strip()
    return [mark] if len(mark) > 1 else []


def _takes_results_after_text(probe: Probe) -> bool:
    """Whether a result may follow a call that the template takes for text."""
    if not probe.rules.tool_role:
        return False
    call = ProbeCall(arguments={})
    text = probe.render([probe.user(), probe.assistant(TEXT), probe.result(call, 0)], generation_prompt=True)
    return text is not None and f"{RESULT}0" in text


def _by_rendering(probe: Probe) -> ToolCallFormat:
    style = learn_arguments(probe)
    layout, around, kept = learn_layout(probe, style)
    said = probe.said()
    end = turn_end(said, around.prompt)
    format = ToolCallFormat(
        layout=layout,
        arguments=style,
        reasoning=learn_reasoning(probe, around, layout.opening),
        rules=replace(probe.rules, content_with_calls=kept),
        text_open=_text_open(said, around),
        text_open_with_calls=_text_open(probe.called(_first(), text=TEXT), around) if kept else "",
        turn_end=end,
    )
    format = replace(format, marks=tuple(_marks(format, end, probe.template.template_source)))
    _check(probe, format, around)
    return format


def _as_text(probe: Probe, error: Unquoted) -> ToolCallFormat | None:
    """Calls with keywords whose quotes the template forgets: written as the model does, given to it as text."""
    style = error.style
    if style.open or style.middle.strip() != "=" or not isinstance(style.scalars, PythonValues):
        return None
    layout, around, kept = learn_layout(probe, style)
    quoted = replace(style, string_middle=style.middle + '"', string_close='"', string_values=JsonValues())
    format = ToolCallFormat(
        layout=layout,
        arguments=replace(quoted, objects=PythonValues(), lists=PythonValues()),
        rules=replace(probe.rules, tool_role=_takes_results_after_text(probe), content_with_calls=kept),
        renders_calls=False,
        turn_end=turn_end(probe.said(), around.prompt),
        reason="the template writes strings without quotes: calls of past turns are given to it as text",
    )
    text = _expected(format, [ProbeCall(arguments=_CHECKS[2])])
    return format if text in (probe.said(text) or "") else None


def _first() -> ProbeCall:
    return ProbeCall(arguments={KEYS[0]: "zqvalue"})


def _text_open(said: str | None, around: Around) -> str:
    """What stands between the beginning of a turn and its text."""
    if said is None or TEXT not in said:
        return ""
    before = said[: said.index(TEXT)]
    if before.startswith(around.prompt):
        return before[len(around.prompt) :]
    return before[around.begin :].removeprefix(around.empty_thought)


def _marks(format: ToolCallFormat, end: str, source: str) -> list[str]:
    """Texts with which calls begin; never what also ends a turn, or what answers begin with."""
    layout = format.layout
    opening = layout.opening.strip() or layout.before_after_text.strip()
    if not opening:
        return []
    if "to=functions." in opening:
        return ["to=functions.", *(["<|channel|>commentary to="] if "<|channel|>" in source else [])]
    if format.text_open.strip().startswith(opening):
        return _mark_after_name(format)
    found = _MARK.match(opening)
    mark = found[0] if found else opening.split("\n", 1)[0]
    if end.strip() and mark == end.strip():
        mark = opening.split("{", 1)[0].rstrip() or opening
    return [mark, *(["<|python_tag|>"] if "<|python_tag|>" in source and mark != "<|python_tag|>" else [])]


def _check(probe: Probe, format: ToolCallFormat, around: Around) -> None:
    """That calls are written as the template writes them.

    Raises:
        Unlearnable: the template does not show it.
    """
    for arguments in _CHECKS:
        first, other = ProbeCall(arguments=arguments), second(arguments)
        several = [(first, other), (other, first)] if format.layout.max_calls is None else []
        for calls in ((first,), (other,), *several):
            text = probe.called(*calls)
            if text is None:
                raise Unlearnable(f"the template refuses a call with the arguments {arguments}")
            if not text.startswith(_expected(format, calls), _start(text, around)):
                raise Unlearnable(f"the arguments {arguments} are written in another way than others")


def _start(text: str, around: Around) -> int:
    return len(around.prompt) if text.startswith(around.prompt) else around.begin + len(around.empty_thought)


def _expected(format: ToolCallFormat, calls: Sequence[ProbeCall]) -> str:
    written = [WrittenCall(name=call.name, arguments=call.arguments, id=call.id) for call in calls]
    return calls_text(format, written)
