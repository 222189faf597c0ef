"""How much a JSON body may hold, found before anything is built from it.

A body within its limit of bytes may still hold millions of values, each of which takes fifty times its bytes once it
is parsed, and one error message per value where the field is of another type.
"""

from __future__ import annotations

from typing import Any, cast

from agentform.serve.problems import bad_request

__all__ = ["check_amount", "check_objects"]

_MOST_VALUES = 200_000
"""Values, keys not counted; 512 tools with 250 enumerated values each are within it."""
_MOST_KEYS = 4_096
"""Keys of one object: a field that is not known is one error each."""
_MOST_PARTS = 16_000
"""Objects outside of schemas: each becomes a typed object, and nothing else of the process runs while they are made."""
_SCHEMAS = ("tools", "response_format")
_OPENERS = (b",", b"[", b"{")


def check_amount(body: bytes) -> None:
    """Raise Refused if the JSON text holds more values than any request needs; what is no JSON passes.

    Counts separators, of which values have at least one each, but for the first: in the whole body, and only if that
    is too much, outside of its strings.
    """
    if _separators(body) <= _MOST_VALUES:
        return
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")  # from here on each quote begins or ends a string
    if bare.count(b'"') <= 4 * _MOST_VALUES and _separators(b"".join(bare.split(b'"')[::2])) <= _MOST_VALUES:
        return
    raise bad_request(f"the body holds more than {_MOST_VALUES:,} values", param=None, code="request_too_complex")


def check_objects(data: Any) -> None:
    """Raise Refused if an object in parsed JSON has more keys than any request needs, or there are too many objects."""
    if isinstance(data, dict):
        _check_keys(cast("dict[str, Any]", data))
        entries = cast("dict[str, Any]", data)
        _check_inside([value for key, value in entries.items() if key in _SCHEMAS], most=_MOST_VALUES)
        _check_inside([value for key, value in entries.items() if key not in _SCHEMAS], most=_MOST_PARTS)


def _check_inside(values: list[Any], *, most: int) -> None:
    left, num = [value for value in values if isinstance(value, dict | list)], 0
    while left:
        value = left.pop()
        if isinstance(value, dict):
            num += 1
            _check_keys(cast("dict[str, Any]", value))
        items = cast("Any", value).values() if isinstance(value, dict) else cast("list[Any]", value)
        left.extend(item for item in items if isinstance(item, dict | list))
    if num > most:
        message = f"the body holds more than {most:,} messages, parts, calls, questions and options together"
        raise bad_request(message, param=None, code="request_too_complex")


def _check_keys(entries: dict[str, Any]) -> None:
    if len(entries) > _MOST_KEYS:
        message = f"an object in the body has more than {_MOST_KEYS:,} keys"
        raise bad_request(message, param=None, code="request_too_complex")


def _separators(text: bytes) -> int:
    return sum(text.count(mark) for mark in _OPENERS)
