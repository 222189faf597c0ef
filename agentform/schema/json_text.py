"""Strict JSON text: what is written can be read by anyone, what is read means what it says."""

from __future__ import annotations

import json
import math
from collections import UserList
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Literal, NoReturn, TypeVar, cast

from pydantic_core import to_jsonable_python

from agentform._util.text import is_unicode, text_of, unicode_text
from agentform.errors import InvalidInput
from agentform.messages import JsonValue
from agentform.schema.form import Path, pointer
from agentform.schema.json_keys import MAX_DEPTH, items_by_text, keys_collide

__all__ = ["dumps", "json_type", "loads", "plain", "problems", "text_or_json", "to_jsonable"]

T = TypeVar("T")

_BYTES_MODES: tuple[Literal["utf8", "base64"], ...] = ("utf8", "base64")


def dumps(value: JsonValue) -> str:
    """The value as one line of JSON: `{"a": 1, "b": [1, 2]}`, raw UTF-8, keys in their own order.

    Raises:
        InvalidInput: for NaN, infinities and anything that is not a JSON value, naming the place.
    """
    return _within_depth(lambda: _dumps(value))


def json_type(value: JsonValue) -> str:
    """What JSON Schema calls the value's type; a whole number is an "integer" if Python has it as one."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"


def text_or_json(value: JsonValue) -> str:
    """A text as it is, any other value as `dumps` writes it."""
    return value if isinstance(value, str) else dumps(value)


def _dumps(value: JsonValue) -> str:
    if _is_plain(value):
        return _write(value)
    for path, reason in problems(value):
        raise InvalidInput(f"not JSON at '{pointer(path)}': {reason}")
    return _write(plain(value))


def _is_plain(value: Any) -> bool:
    """Whether `json` writes the value as it is: a quick look, for lists of a million numbers."""
    open_items = [iter((value,))]
    while open_items and len(open_items) <= MAX_DEPTH:
        for item in open_items[-1]:
            kind = type(item)
            if kind is list or (kind is dict and all(type(key) is str and is_unicode(key) for key in item)):
                open_items.append(iter(item if kind is list else item.values()))
                break
            if not (kind in _PLAIN or (kind is str and is_unicode(item)) or (kind is float and math.isfinite(item))):
                return False
        else:
            open_items.pop()
    return not open_items


_PLAIN = frozenset({int, bool, type(None)})


def loads(text: str) -> JsonValue:
    """The value of a JSON text. Integers are exact, whatever their size.

    Raises:
        InvalidInput: for text that is not JSON, for NaN and Infinity, for a number too large for a float, and for
            an object that names a key twice.
    """
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_unique_keys)
    except RecursionError:
        raise InvalidInput("not JSON: nested too deeply") from None
    except ValueError as error:
        raise InvalidInput(f"not JSON: {error}") from None


def plain(value: Any) -> Any:
    """A JSON value made of `dict` and `list` only, where mappings and tuples stood."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def problems(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Every place at which the value is not JSON, with the reason; nothing for a JSON value."""
    if len(path) > MAX_DEPTH:
        yield path, f"nested more than {MAX_DEPTH} levels deep"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(key, str):
                yield from problems(item, (*path, key))
            else:
                yield path, f"the key {key!r} is not a string"
    elif isinstance(value, (list, tuple)):
        for at, item in enumerate(value):
            yield from problems(item, (*path, str(at)))
    elif reason := _scalar_problem(value):
        yield path, reason


def to_jsonable(value: Any) -> JsonValue:
    """The JSON value that stands for a Python value: dates as ISO text, `Decimal` as text, models as objects.

    Arrays, tensors, views and mappings of any library are lists, numbers and objects. What else it does not know
    becomes its `str` (an error with its type, nothing with its address), and so do NaN and infinities; text that is no
    Unicode becomes so. Of keys that would read alike (`1` and `"1"`) the later ones are their `repr`.

    Raises:
        InvalidInput: the value is nested too deeply.
    """
    if keys_collide(value):
        return _within_depth(lambda: _walked(value, 0))
    for bytes_mode in _BYTES_MODES:
        try:
            made = to_jsonable_python(value, fallback=_stand_in, bytes_mode=bytes_mode, serialize_unknown=True)
        except ValueError as error:  # bytes or text that are not UTF-8, a cycle, deeper than pydantic goes
            if _NESTED in str(error) or isinstance(error, UnicodeEncodeError):
                return _within_depth(lambda: _walked(value, 0))
        except Exception:  # a serializer that fails
            break
        else:
            return _as_text_where_needed(made)
    return text_of(value)


_NESTED = "serialization depth"
_MOST_BYTES = 1_000_000
"""Of an array whose items are listed; a larger one is what its `str` shows of it."""


def _stand_in(value: Any) -> Any:
    """What stands for a value that pydantic does not know: its items, if it can say them, or else its `str`."""
    try:
        if isinstance(value, memoryview):
            return value.tobytes()
        if callable(getattr(value, "tolist", None)) and getattr(value, "nbytes", 0) <= _MOST_BYTES:
            return value.tolist()
        if isinstance(value, Mapping):
            return dict(cast("Mapping[Any, Any]", value))
        if isinstance(value, (range, KeysView, ValuesView, ItemsView, UserList)):
            return list(cast("Iterable[Any]", value))
    except Exception:
        return text_of(value)
    return text_of(value)


def _within_depth(work: Callable[[], T]) -> T:
    """What `work` returns, where the interpreter's stack is deep enough for it."""
    try:
        return work()
    except RecursionError:
        raise InvalidInput(f"nested too many levels deep; up to {MAX_DEPTH} are written") from None


def _walked(value: Any, depth: int) -> JsonValue:
    """The value, container by container."""
    if depth > MAX_DEPTH:
        raise InvalidInput(f"nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, Mapping):
        return {key: _walked(item, depth + 1) for key, item in items_by_text(cast("Mapping[Any, Any]", value))}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_walked(item, depth + 1) for item in cast("Iterable[Any]", value)]
    if isinstance(value, str):
        return unicode_text(value)
    try:
        return _as_text_where_needed(to_jsonable_python(value, fallback=_stand_in, serialize_unknown=True))
    except Exception:
        return text_of(value)


def _as_text_where_needed(value: Any) -> JsonValue:
    if isinstance(value, dict):
        return {text_of(key): _as_text_where_needed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_text_where_needed(item) for item in value]
    return text_of(value) if _scalar_problem(value) else value


def _write(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(", ", ": "), allow_nan=False)
    except ValueError as error:  # an integer beyond the interpreter's limit of digits
        raise InvalidInput(f"not JSON: {error}") from None


def _scalar_problem(value: Any) -> str:
    if value is None or isinstance(value, (bool, int)):
        return ""
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"{value} is not a JSON number"
    if isinstance(value, str):
        return "" if is_unicode(value) else "the text holds a lone surrogate"
    return f"{type(value).__name__} is not a JSON type"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits} is too large for a number")
    return number


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice = next(key for at, (key, _) in enumerate(pairs) if key in dict(pairs[:at]))
        raise ValueError(f"the key {twice!r} is given twice")
    return made
