"""How a model's language spells JSON values: JSON with its own spacing, Python literals, or bare words and quotes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from agentform.decoding.formats.reading import Unreadable, read_bare, read_json, read_python
from agentform.decoding.formats.tags import TaggedValues
from agentform.messages import JsonValue
from agentform.schema.json_text import plain

__all__ = ["BareValues", "JsonValues", "PythonValues", "ValueSpelling", "sorted_like_templates"]


@dataclass(frozen=True, kw_only=True)
class JsonValues:
    """JSON; `indent` and `base` (spaces before each line but the first) where it is written over several lines."""

    item_separator: str = ", "
    key_separator: str = ": "
    ensure_ascii: bool = False
    sort_keys: bool = False
    indent: int | None = None
    base: int = 0
    kind: Literal["json"] = "json"

    def write(self, value: JsonValue) -> str:
        """The value's text."""
        text = json.dumps(
            plain(value),
            ensure_ascii=self.ensure_ascii,
            sort_keys=self.sort_keys,
            indent=self.indent,
            separators=(self.item_separator, self.key_separator),
        )
        return text.replace("\n", "\n" + " " * self.base) if self.base else text

    def read(self, text: str, at: int = 0) -> tuple[JsonValue, int]:
        """The value that begins at `at`, and where it ends.

        Raises:
            Unreadable: there is no such value.
        """
        return read_json(text, at)


@dataclass(frozen=True, kw_only=True)
class PythonValues:
    """Python literals, as `str` of a dict or list gives them."""

    kind: Literal["python"] = "python"

    def write(self, value: JsonValue) -> str:
        """The value's text."""
        return value if isinstance(value, str) else str(plain(value))

    def read(self, text: str, at: int = 0) -> tuple[JsonValue, int]:
        """The value that begins at `at`, and where it ends.

        Raises:
            Unreadable: there is no such value.
        """
        return read_python(text, at)


@dataclass(frozen=True, kw_only=True)
class BareValues:
    """Objects with bare or quoted keys and strings between marks of their own, nothing escaped (Gemma 4)."""

    quote: str
    quoted_keys: bool = False
    sort_keys: bool = True
    null: str = "None"
    kind: Literal["bare"] = "bare"

    def write(self, value: JsonValue) -> str:
        """The value's text."""
        if isinstance(value, str):
            return f"{self.quote}{value}{self.quote}"
        if value is None:
            return self.null
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, Mapping):
            items = sorted_like_templates(value) if self.sort_keys else value
            key = self.write if self.quoted_keys else str
            return "{" + ",".join(f"{key(name)}:{self.write(item)}" for name, item in items.items()) + "}"
        if isinstance(value, list | tuple):
            return "[" + ",".join(map(self.write, cast("list[JsonValue]", value))) + "]"
        return str(value)

    def read(self, text: str, at: int = 0) -> tuple[JsonValue, int]:
        """The value that begins at `at`, and where it ends.

        Raises:
            Unreadable: there is no such value.
        """
        return read_bare(text, at, quote=self.quote, null=self.null)


ValueSpelling: TypeAlias = JsonValues | PythonValues | BareValues | TaggedValues


def sorted_like_templates(value: Mapping[str, Any]) -> dict[str, Any]:
    """The items as Jinja's `dictsort` orders them."""
    return dict(sorted(value.items(), key=lambda item: item[0].lower()))


def read_any(spelling: ValueSpelling, text: str) -> JsonValue:
    """The value that is the whole of `text`, spaces around it left out.

    Raises:
        Unreadable: there is no such value.
    """
    value, end = spelling.read(text, len(text) - len(text.lstrip()))
    if text[end:].strip():
        raise Unreadable(f"more text after a value: {text[end : end + 20]!r}")
    return value
