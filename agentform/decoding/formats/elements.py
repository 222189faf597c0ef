"""Reads arguments that are written one by one; the tool's schema says what a value is that could be several things."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from agentform.decoding.formats.reading import Unreadable, read_json
from agentform.decoding.formats.tags import TaggedValues, guessed
from agentform.decoding.formats.types import CDATA_CLOSE, CDATA_OPEN, Elements
from agentform.decoding.formats.values import JsonValues, read_any
from agentform.decoding.formats.write import value_text
from agentform.messages import JsonValue

__all__ = ["read_elements", "unwrapped"]

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_EMPTY: tuple[tuple[str, JsonValue], ...] = (("string", ""), ("array", []), ("object", {}), ("null", None))
_UNIONS = ("anyOf", "oneOf", "allOf")


def read_elements(
    style: Elements, text: str, at: int, *, following: str, schema: Mapping[str, Any]
) -> tuple[Mapping[str, JsonValue], int]:
    """The arguments from `at` on and where they end; `following` is the text that comes after the last one.

    A value ends at the first closing mark after which the next argument or `following` stands.

    Raises:
        Unreadable: there is no such value.
    """
    found: dict[str, JsonValue] = {}
    properties: Mapping[str, Any] = schema.get("properties") or {}
    more = _ends(style, following)
    while not _is_end(style, text, at, following, first=not found):
        start = at + (len(style.separator) if found and text.startswith(style.separator, at) else 0)
        key, middle, value_at = _key(style, text, start)
        is_string = None if not style.says_strings else middle == style.string_middle
        close = style.close_of(key, is_string=is_string is not False)
        if (tagged := _tagged(style, text, value_at, close, properties.get(key))) is not None:
            value, at = tagged
        elif (is_string is False and not isinstance(style.scalars, JsonValues)) or _is_bare(style, is_string):
            value, at = _delimited(style, text, value_at, close)
        else:
            value_end, at = _value_end(text, value_at, close, more)
            value = _value(style, text[value_at:value_end], is_string, properties.get(key))
        found[key] = value
    return found if style.nulls else _with_nulls(found, schema), at


def _with_nulls(found: Mapping[str, JsonValue], schema: Mapping[str, Any]) -> Mapping[str, JsonValue]:
    """The arguments with those that must be there, may be null, and are not: nulls are left out."""
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required: list[str] = list(schema.get("required") or ())
    nulls: list[str] = []
    for key, each in properties.items():
        types = _types(each)
        if key not in found and types and "null" in types and (key in required or types == {"null"}):
            nulls.append(key)
    return {**found, **dict.fromkeys(nulls)}


def _tagged(style: Elements, text: str, at: int, close: str, schema: Any) -> tuple[JsonValue, int] | None:
    """A value of tags and where it ends, if one begins there and the schema does not want text."""
    tags = style.objects
    if not isinstance(tags, TaggedValues) or not text.startswith(tags.open, at) or _types(schema) == {"string"}:
        return None
    try:
        value, end = tags.read_tags(text, at)
    except Unreadable:
        return None
    return (_typed(value, schema), end + len(close)) if text.startswith(close, end) else None


def _is_bare(style: Elements, is_string: bool | None) -> bool:
    """Whether a value ends where its own spelling ends, since nothing stands after it."""
    return is_string is False and not style.close


def _delimited(style: Elements, text: str, at: int, close: str) -> tuple[JsonValue, int]:
    spelling = {"{": style.objects, "[": style.lists}.get(text[at : at + 1], style.scalars)
    value, end = spelling.read(text, at)
    if not text.startswith(close, end):
        raise Unreadable(f"{close!r} is missing")
    return value, end + len(close)


def _is_end(style: Elements, text: str, at: int, following: str, *, first: bool) -> bool:
    rest = text[at:]
    if following.strip() and rest.lstrip().startswith(following.strip()):
        return True
    if style.open.strip():
        return not rest.lstrip().startswith((style.separator + style.open).strip())
    if following and rest.startswith(following):
        return True
    if not rest.strip():
        return True
    return not first and bool(style.separator) and not rest.startswith(style.separator)


def _key(style: Elements, text: str, at: int) -> tuple[str, str, int]:
    """A key, the text between it and its value, and where the value begins."""
    if style.open:
        stripped = style.open.strip()
        at += len(text[at:]) - len(text[at:].lstrip()) if not text.startswith(style.open, at) else 0
        opened = style.open if text.startswith(style.open, at) else stripped
        if not text.startswith(opened, at):
            raise Unreadable(f"{style.open!r} is missing")
        at += len(opened)
    ends = [(text.find(middle, at), -len(middle), middle) for middle in style.all_middles]
    ends = [item for item in ends if item[0] >= 0]
    if not ends:
        raise Unreadable("a key without a value")
    end, _, middle = min(ends)
    return text[at:end].strip(), middle, end + len(middle)


def _ends(style: Elements, following: str) -> re.Pattern[str]:
    """What may stand after a value."""
    key = r"[^\s<>=:,\"'{}\[\]]+"
    middles = "|".join(map(re.escape, style.all_middles))
    another = re.escape(style.separator + style.open) + (f"{key}(?:{middles})" if not style.open.strip() else "")
    last = re.escape(following) if following else r"\Z"
    return re.compile(f"(?:{another}|{last})|\\s*\\Z")


def _value_end(text: str, at: int, close: str, more: re.Pattern[str]) -> tuple[int, int]:
    """Where a value ends, and where its closing mark does."""
    end = text.find(close, at)
    while end >= 0:
        if more.match(text, end + len(close)):
            return end, end + len(close)
        end = text.find(close, end + 1)
    core = close.strip()
    if core and core != close and (end := text.find(core, at)) >= 0:
        return end, end + len(core)
    raise Unreadable("a value without an end")


def _value(style: Elements, text: str, is_string: bool | None, schema: Any) -> JsonValue:
    if is_string:
        return unwrapped(text) if style.string_values is None else _unescaped(text)
    if is_string is False:
        return _other(style, text)
    for option in _options(schema):
        if value_text(style, option) == text:
            return option
    types = _types(schema)
    if style.cdata and text.startswith(CDATA_OPEN):
        return unwrapped(text)
    if types is not None and types <= {"string"}:
        return text
    if not text and types is not None:  # of a style that writes nothing for empty lists and objects
        return next((empty for kind, empty in _EMPTY if kind in types), text)
    try:
        value = _other(style, text)
    except Unreadable:
        return text
    return value if types is None or _is_of(value, types) else text


def _typed(value: JsonValue, schema: Any) -> JsonValue:
    """A value of tags, its texts as what the schema says they are, and guessed where it does not."""
    data = cast("Mapping[str, Any]", schema if isinstance(schema, Mapping) else {})
    types = _types(data)
    if isinstance(value, Mapping):
        known = cast("Mapping[str, Any]", data.get("properties") or {})
        return {key: _typed(item, known.get(key, data.get("additionalProperties"))) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed(item, data.get("items")) for item in cast("list[JsonValue]", value)]
    if types == {"string"}:
        return value
    if value == "" and types is not None:
        return next((empty for kind, empty in _EMPTY if kind in types), value)
    return guessed(value)


def unwrapped(text: str) -> str:
    """A string without the CDATA section around it; the beginning of one as well."""
    if CDATA_OPEN.startswith(text):
        return ""
    return text[len(CDATA_OPEN) :].removesuffix(CDATA_CLOSE) if text.startswith(CDATA_OPEN) else text


def _unescaped(text: str) -> JsonValue:
    return read_json(f'"{text}"', 0)[0]


def _other(style: Elements, text: str) -> JsonValue:
    own = {"{": style.objects, "[": style.lists}.get(text.lstrip()[:1], style.scalars)
    for spelling in (own, JsonValues()):
        try:
            return read_any(spelling, text)
        except Unreadable:
            continue
    raise Unreadable(f"no value: {text[:20]!r}")


def _options(schema: Any) -> list[JsonValue]:
    if not isinstance(schema, Mapping):
        return []
    data = cast("Mapping[str, Any]", schema)
    return [data["const"]] if "const" in data else list(data.get("enum") or ())


def _types(schema: Any) -> set[str] | None:
    """The types that a schema allows; `None` where it does not say."""
    if not isinstance(schema, Mapping):
        return None
    data = cast("Mapping[str, Any]", schema)
    declared = data.get("type")
    if declared is not None:
        return {declared} if isinstance(declared, str) else set(map(str, declared))
    arms = next((data[key] for key in _UNIONS if isinstance(data.get(key), list)), None)
    found = [_types(arm) for arm in arms or ()]
    if not found or None in found:
        return None
    return {name for types in found for name in types or ()}


def _is_of(value: JsonValue, types: set[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in types
    return any(isinstance(value, _TYPES[name]) for name in types if name in _TYPES)
