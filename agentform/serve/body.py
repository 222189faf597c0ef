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
    """Raise Refused if any object within parsed JSON has more keys than any request needs."""
    left = [data]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if len(entries := cast("dict[str, Any]", value)) > _MOST_KEYS:
                message = f"an object in the body has more than {_MOST_KEYS:,} keys"
                raise bad_request(message, param=None, code="request_too_complex")
            left.extend(item for item in entries.values() if isinstance(item, dict | list))
        else:
            left.extend(item for item in value if isinstance(item, dict | list))


def _separators(text: bytes) -> int:
    return sum(text.count(mark) for mark in _OPENERS)
