"""A model's call format as data: what stands around calls, names, ids and arguments, and the marks of its thoughts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, TypeAlias

from agentform.decoding.formats.values import JsonValues, ValueSpelling

__all__ = [
    "CDATA_CLOSE",
    "CDATA_OPEN",
    "RESULT_OPEN",
    "ArgumentStyle",
    "CallLayout",
    "CallPiece",
    "Elements",
    "JsonObject",
    "ReasoningMarks",
    "Slot",
    "TemplateRules",
    "ToolCallFormat",
]

CDATA_OPEN = "<![CDATA["
CDATA_CLOSE = "]]>"
RESULT_OPEN = "<tool_response>"
"""Before a tool's result in the message of a user, for templates without a role for results."""


class Slot(Enum):
    """What differs from call to call."""

    NAME = "name"
    ID = "id"
    INDEX = "index"
    ARGUMENTS = "arguments"


CallPiece: TypeAlias = str | Slot


@dataclass(frozen=True, kw_only=True)
class CallLayout:
    """Text around calls: `before` or `before_after_text`, `section_open`, calls with `between`, `section_close`."""

    call: tuple[CallPiece, ...]
    section_open: str = ""
    section_close: str = ""
    between: str = ""
    before: str = ""
    """Where the turn begins with calls."""
    before_after_text: str = "\n"
    """Between the turn's free text and its calls."""
    max_calls: int | None = None
    """Calls that one turn may hold; `None`: any number."""
    index: Literal["turn", "conversation"] = "turn"
    """From where calls are counted, where the layout numbers them."""
    first_index: int = 0
    """The number of the first call."""

    @property
    def opening(self) -> str:
        """What stands before the first thing that differs from call to call, the section's opening included."""
        first = self.call[0]
        return self.section_open + (first if isinstance(first, str) else "")


@dataclass(frozen=True, kw_only=True)
class JsonObject:
    """Arguments as one JSON object."""

    values: JsonValues = field(default_factory=JsonValues)
    kind: Literal["json"] = "json"


@dataclass(frozen=True, kw_only=True)
class Elements:
    """Arguments one by one: `open` key `middle` value `close`, with `separator` between them.

    Strings may have a middle and a close of their own: quotes, or an attribute that says what they are.
    An attribute may also say the type of every value.
    """

    open: str
    middle: str
    close: str
    string_middle: str
    string_close: str
    key_end: str = ""
    """Where the closing mark names the key once more (`</city>`): what follows the key there."""
    separator: str = ""
    string_values: JsonValues | None = None
    """How strings are escaped; `None`: written as they are."""
    scalars: ValueSpelling = field(default_factory=JsonValues)
    objects: ValueSpelling = field(default_factory=JsonValues)
    lists: ValueSpelling = field(default_factory=JsonValues)
    middles: tuple[tuple[str, str], ...] = ()
    """JSON types of other values that have a middle of their own, each with it."""
    cdata: str = ""
    """Characters; a string that holds one of them stands in a CDATA section."""
    nulls: bool = True
    """Whether null is written; else such an argument is left out."""
    sort_keys: bool = False
    kind: Literal["elements"] = "elements"

    def middle_of(self, kind: str) -> str:
        """What stands between the key and a value of this JSON type."""
        return self.string_middle if kind == "string" else dict(self.middles).get(kind, self.middle)

    def close_of(self, key: str, *, is_string: bool) -> str:
        """What closes the value of this argument."""
        return (self.string_close if is_string else self.close) + (key + self.key_end if self.key_end else "")

    @property
    def all_middles(self) -> tuple[str, ...]:
        """What may stand between a key and its value."""
        return tuple(dict.fromkeys((self.middle, self.string_middle, *(middle for _, middle in self.middles))))

    def can_hold(self, text: str) -> bool:
        """Whether a string can be told from what closes it; strings that are escaped always can."""
        if self.string_values is not None:
            return True
        close = self.string_close
        return bool(close.strip()) and close not in text and not _overlaps(text, close)

    @property
    def says_strings(self) -> bool:
        """Whether strings can be told from other values by what stands around them."""
        return (self.string_middle, self.string_close) != (self.middle, self.close)


def _overlaps(text: str, close: str) -> bool:
    """Whether the end of the text and the closing mark after it would spell the mark earlier."""
    return (text + close).find(close) < len(text)


ArgumentStyle: TypeAlias = JsonObject | Elements


@dataclass(frozen=True, kw_only=True)
class ReasoningMarks:
    """What stands around a thought."""

    open: str
    close: str
    before_text: str = ""
    """Between the closing mark and the turn's text."""
    before_calls: str = ""
    """Between the closing mark and the turn's calls, where no text stands before them."""
    prompted: str = ""
    """What the generation prompt itself writes of it: nothing, the opening, or a whole empty thought."""
    empty: str = ""
    """What the template writes in past turns where there was no thought."""
    kept: Literal["always", "tool calls", "never"] = "never"
    """Past thoughts in later prompts; "tool calls": until the user speaks again."""
    switches: tuple[str, ...] = ()
    """Template arguments that change how the model thinks, such as `enable_thinking`."""

    @property
    def is_open(self) -> bool:
        """Whether the model begins inside a thought."""
        mark = self.open.strip()
        return bool(mark) and mark in self.prompted and self.close.strip() not in self.prompted


@dataclass(frozen=True, kw_only=True)
class TemplateRules:
    """What a template demands of messages, so that they can be adapted before it refuses them."""

    system: Literal["any", "first", "none"] = "any"
    """System messages: anywhere, only as the first message, or not at all."""
    alternating: bool = False
    """Whether user and assistant must take turns."""
    content: Literal["string", "parts"] = "string"
    arguments: Literal["object", "text"] = "object"
    tool_role: bool = True
    """Whether results may be messages of the role `tool`."""
    results: Literal["in order", "any order"] = "any order"
    described: bool = False
    """Whether every parameter of a tool needs a description."""
    tools_argument: str = "tools"
    """The template argument that lists the tools."""
    tools_as_text: bool = False
    """Whether that argument is JSON text."""
    needs_tools: bool = False
    """Whether it fails where no tools are given, not even an empty list."""
    tools_with_system: bool = False
    """Whether tools are listed only beside a system message."""
    thoughts_needed: bool = False
    """Whether every past message of the model's must have a thought, be it empty."""
    date_argument: str = ""
    """The template argument without which it fails, which holds today's date."""
    ids: Literal["any", "nine"] = "any"
    """Ids that it accepts; "nine": nine letters and digits."""
    user_first: bool = False
    """Whether the first message, or the first after the system's, must be the user's."""
    thought_key: str | None = None
    """Under which key of a past message its thought is read, or "thinking part": in a part of its content that has the
    type `thinking`; `None`: no thought of the past is written."""
    content_with_calls: bool = True
    """Whether free text beside calls is written at all, and before them."""


@dataclass(frozen=True, kw_only=True)
class ToolCallFormat:
    """How a model writes calls."""

    layout: CallLayout
    arguments: ArgumentStyle = field(default_factory=JsonObject)
    reasoning: ReasoningMarks | None = None
    rules: TemplateRules = field(default_factory=TemplateRules)
    native: bool = True
    """Whether this is the model's own format, not the default one."""
    lists_tools: bool = True
    """Whether the template writes out the tools it is given."""
    renders_calls: bool = True
    """Whether the template writes calls of past turns; else they are given to it as text."""
    text_open: str = ""
    """What stands before the free text of an answer."""
    text_open_with_calls: str = ""
    """What stands before free text that is followed by calls."""
    turn_end: str = ""
    """The mark with which the template ends an assistant's turn."""
    marks: tuple[str, ...] = ()
    """Texts with which a call may begin in what the model writes."""
    step_lead: str = ""
    """Line on which the next step is chosen, for models that know no calls."""
    reason: str = ""
    """Why the format is not native, or what of it could not be learned."""

    @property
    def result_marks(self) -> tuple[str, ...]:
        """What begins a tool's result where results are text in a user's message: no model has business to write it."""
        return () if self.rules.tool_role else (RESULT_OPEN,)

    @property
    def style(self) -> str:
        """A word for the style of its arguments."""
        if isinstance(self.arguments, JsonObject):
            return "json object"
        if self.arguments.string_middle.strip(" ").endswith(("'", '"')) and self.arguments.middle.strip() == "=":
            return "keyword arguments"
        return "one element per argument"
