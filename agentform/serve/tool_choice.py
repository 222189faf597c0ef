"""What a turn may come to, in the spellings of every API: each endpoint takes them all.

::

    "auto" | "none" | "required" | "any"                            OpenAI; "any" is Mistral's "required"
    {"type": "auto" | "none" | "required" | "any"}                  Anthropic
    {"type": "function", "function": {"name": …}}                   chat completions
    {"type": "function" | "tool", "name": …}                        Responses; Anthropic
    {"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}   chat completions
    {"type": "allowed_tools", "mode", "tools"}                      Responses
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self, TypeAlias, cast, get_args

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from agentform.agent.responder import ToolChoice, UseTool
from agentform.serve.parsing import OpenFields, at_most
from agentform.serve.problems import bad_request

__all__ = ["AskedChoice", "allows_parallel", "chosen", "told_choice"]

_MOST_TOOLS = 512
_Word: TypeAlias = Literal["auto", "none", "required", "any"]
_WORDS: tuple[str, ...] = get_args(_Word)
_KINDS = "must be 'auto', 'none', 'required', 'any' or an object of type 'function', 'tool' or 'allowed_tools'"


class _Function(OpenFields):
    name: str


class _CommonFields(OpenFields):
    disable_parallel_tool_use: bool | None = None


class _Named(_CommonFields):
    """One tool, by its name beside `type` or below `function`."""

    type: Literal["function", "tool"] | None = None
    name: str | None = None
    function: _Function | None = None

    @model_validator(mode="after")
    def _has_a_name(self) -> Self:
        if self.name is None and self.function is None:
            raise PydanticCustomError("missing_name", "a tool is chosen by its name, which is missing")
        if self.name is not None and self.function is not None and self.name != self.function.name:
            raise PydanticCustomError("two_names", "name and function.name differ: give one of them")
        return self

    @property
    def said(self) -> str:
        """The name."""
        return self.function.name if self.function is not None else cast("str", self.name)

    @property
    def place(self) -> str:
        """Where the name stands in this object."""
        return "function.name" if self.function is not None else "name"


class _Mode(_CommonFields):
    """A word as an object."""

    type: _Word


class _Listed(OpenFields):
    mode: Literal["auto", "required", "any"]
    tools: Annotated[list[_Named], at_most(_MOST_TOOLS)]


class _Allowed(_CommonFields):
    """Some of the tools, below `allowed_tools` or beside `type`."""

    type: Literal["allowed_tools"] | None = None
    allowed_tools: _Listed | None = None
    mode: Literal["auto", "required", "any"] | None = None
    tools: Annotated[list[_Named], at_most(_MOST_TOOLS)] | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.allowed_tools is None and (self.mode is None or self.tools is None):
            raise PydanticCustomError("missing_tools", "allowed_tools needs mode ('auto' or 'required') and tools")
        return self

    @property
    def listed(self) -> tuple[str, list[_Named], str]:
        """The mode, the tools, and where they stand in this object."""
        if self.allowed_tools is not None:
            return self.allowed_tools.mode, self.allowed_tools.tools, "allowed_tools.tools"
        return cast("str", self.mode), self.tools or [], "tools"


def _kind(said: Any) -> str | None:
    if not isinstance(said, dict):
        return _KIND_OF.get(type(said), "word")
    fields = cast("dict[str, Any]", said)
    kind = fields.get("type")
    if isinstance(kind, str) and kind in _WORDS:
        return "mode"
    if kind == "allowed_tools" or (kind is None and "allowed_tools" in fields):
        return "allowed"
    if kind in ("function", "tool") or (kind is None and {"function", "name"} & fields.keys()):
        return "named"
    return None


_KIND_OF: dict[type, str] = {_Mode: "mode", _Named: "named", _Allowed: "allowed"}

AskedChoice: TypeAlias = Annotated[
    Annotated[_Word, Tag("word")]
    | Annotated[_Mode, Tag("mode")]
    | Annotated[_Named, Tag("named")]
    | Annotated[_Allowed, Tag("allowed")],
    Discriminator(_kind, custom_error_type="invalid_value", custom_error_message=_KINDS),
    Field(),
]
"""The field of a request."""


def chosen(asked: Any, names: Sequence[str]) -> tuple[ToolChoice, tuple[str, ...] | None]:
    """What the turn may come to, and the tools that may be called if they are not all `names`.

    Raises:
        Refused: a call is required of no tools, or of one that there is not.
    """
    if isinstance(asked, _Named):
        return UseTool(_existing(asked, names, "tool_choice")), None
    allowed, word = None, asked.type if isinstance(asked, _Mode) else asked
    if isinstance(asked, _Allowed):
        word, tools, place = asked.listed
        allowed = tuple(_existing(tool, names, f"tool_choice.{place}[{at}]") for at, tool in enumerate(tools))
    if word not in ("required", "any"):
        return ("none" if word == "none" else "auto"), allowed
    if not (names if allowed is None else allowed):
        raise bad_request("tool_choice requires a call, but there are no tools", param="tool_choice")
    return "required", allowed


def allows_parallel(asked: Any) -> bool:
    """Whether the choice says, as Anthropic's does, that a turn may hold several calls."""
    return isinstance(asked, _CommonFields) and asked.disable_parallel_tool_use is False


def told_choice(asked: Any) -> Any:
    """The choice as Responses spell it, for clients that read it back."""
    if isinstance(asked, _Named):
        return {"type": "function", "name": asked.said}
    if isinstance(asked, _Allowed):
        mode, tools, _ = asked.listed
        return {"type": "allowed_tools", "mode": _openai(mode), "tools": [told_choice(tool) for tool in tools]}
    return _openai(asked.type if isinstance(asked, _Mode) else asked or "auto")


def _openai(word: str) -> str:
    return "required" if word == "any" else word


def _existing(tool: _Named, names: Sequence[str], place: str) -> str:
    if tool.said in names:
        return tool.said
    listed = f"the tools are {', '.join(map(repr, names[:10]))}" if names else "there are no tools"
    raise bad_request(f"tool_choice names no tool with {tool.said[:100]!r}; {listed}", param=f"{place}.{tool.place}")
