"""Formats that no rendering shows: of templates that list tools but write no calls, and of models without tools."""

from __future__ import annotations

from dataclasses import replace

from agentform.decoding.formats.types import CallLayout, Elements, JsonObject, Slot, TemplateRules, ToolCallFormat
from agentform.decoding.formats.values import JsonValues, PythonValues

__all__ = ["DEFAULT_FORMAT", "by_signature"]

_HERMES = CallLayout(
    call=('<tool_call>\n{"name": "', Slot.NAME, '", "arguments": ', Slot.ARGUMENTS, "}\n</tool_call>"),
    between="\n",
    before_after_text="\n",
)
_JSON_CALL = ('{"name": "', Slot.NAME, '", "arguments": ', Slot.ARGUMENTS, "}")

DEFAULT_FORMAT = ToolCallFormat(
    layout=_HERMES,
    native=False,
    lists_tools=False,
    renders_calls=False,
    marks=("<tool_call>",),
    rules=TemplateRules(tool_role=False),
    step_lead="Next step:",
)
"""For models whose template knows no tools: they are listed in the system message, calls and results are text."""

_KEYWORDS = Elements(
    open="",
    middle="=",
    close="",
    string_middle="='",
    string_close="'",
    separator=", ",
    scalars=PythonValues(),
    objects=JsonValues(),
    lists=PythonValues(),
)


def _listed(opening: str, closing: str) -> CallLayout:
    return CallLayout(call=_JSON_CALL, section_open=opening, section_close=closing, between=", ", before_after_text="")


def _keywords(opening: str, closing: str) -> CallLayout:
    call = (Slot.NAME, "(", Slot.ARGUMENTS, ")")
    return CallLayout(call=call, section_open=opening, section_close=closing, between=", ", before_after_text="")


_TABLE: tuple[tuple[str, ToolCallFormat], ...] = (
    (
        "<|tool_call_start|>",
        ToolCallFormat(
            layout=_keywords("<|tool_call_start|>[", "]<|tool_call_end|>"),
            arguments=_KEYWORDS,
            marks=("<|tool_call_start|>",),
        ),
    ),
    (
        "<|tool_list_start|>",
        ToolCallFormat(
            layout=_keywords("<|tool_call_start|>[", "]<|tool_call_end|>"),
            arguments=_KEYWORDS,
            marks=("<|tool_call_start|>",),
        ),
    ),
    (
        "List of tools: [",
        ToolCallFormat(
            layout=_keywords("<|tool_call_start|>[", "]<|tool_call_end|>"),
            arguments=_KEYWORDS,
            marks=("<|tool_call_start|>",),
        ),
    ),
    (
        "<|/tool_call|>",
        ToolCallFormat(layout=_listed("<|tool_call|>[", "]<|/tool_call|>"), marks=("<|tool_call|>",)),
    ),
    ("<|tool_call|>", ToolCallFormat(layout=_listed("<|tool_call|>[", "]"), marks=("<|tool_call|>",))),
    ("functools[", ToolCallFormat(layout=_listed("functools[", "]"), marks=("functools[",))),
    ("[TOOL_CALLS]", ToolCallFormat(layout=_listed("[TOOL_CALLS][", "]"), marks=("[TOOL_CALLS]",))),
    ("<tool_call>", ToolCallFormat(layout=_HERMES, arguments=JsonObject(), marks=("<tool_call>",))),
)
"""A mark in the template's text, and the format of the models whose template holds it; the first counts."""


def by_signature(source: str) -> ToolCallFormat | None:
    """The format of a template that writes out tools but no calls, by the marks that it names."""
    for mark, format in _TABLE:
        if mark in source:
            return replace(format, renders_calls=False, reason=f"by its mark {mark}: the template writes no calls")
    return None
