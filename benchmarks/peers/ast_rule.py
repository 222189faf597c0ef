"""BFCL's own rule for one call against its accepted answers (AST accuracy), written anew from its description.

Berkeley Function-Calling Leaderboard, `ast_checker`: the right function; every required parameter; no parameter that
is not declared; every value of the declared type and among the accepted ones, strings compared without case, spaces
and the characters ``,./-_*^``; a parameter is left out only where that is accepted. An integer passes for a float.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["is_accepted"]

_IGNORED = re.compile(r"[ ,./\-_*^]")
_OMITTED = ""
_TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "float": float,
    "number": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "object": dict,
    "any": str,
}


def is_accepted(
    call: Any, accepted: Mapping[str, Mapping[str, Any]], declared: Mapping[str, Mapping[str, Any]]
) -> bool:
    """Whether `call`, {"name", "arguments"}, is right; `declared` are the tools' parameters in BFCL's words."""
    name, arguments = (call.get("name"), call.get("arguments")) if isinstance(call, dict) else (None, None)
    if name not in list(accepted) or not isinstance(arguments, dict):
        return False
    answers, parameters = accepted[name], declared[name]
    if any(required not in arguments for required in parameters.get("required", ())):
        return False
    details = parameters["properties"]
    return all(
        parameter in details and parameter in answers and _is_right(value, answers[parameter], details[parameter])
        for parameter, value in arguments.items()
    ) and all(parameter in arguments or _OMITTED in given for parameter, given in answers.items())


def _is_right(value: Any, given: Sequence[Any], detail: Mapping[str, Any]) -> bool:
    wanted = _TYPES[detail["type"]]
    if wanted is float and type(value) is int:
        value = float(value)
    told = next((type(answer) for answer in given if answer != _OMITTED), None)
    # Where the answers are of another type than declared, they name a variable, and that type is right too.
    if type(value) is not wanted and not (told is not None and type(value) is told):
        return False
    if not _items_have_type(value, detail):
        return told is not wanted
    if isinstance(value, dict):
        return any(_same_object(value, answer) for answer in given if answer != _OMITTED)
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return any(_same_objects(value, answer) for answer in given if answer != _OMITTED)
    return any(_same(value, answer) for answer in given)


def _items_have_type(value: Any, detail: Mapping[str, Any]) -> bool:
    item = detail.get("items", {}).get("type")
    if not isinstance(value, list) or item is None:
        return True
    wanted = _TYPES[item]
    return all(type(one) is wanted or (wanted is float and type(one) is int) for one in value)


def _same(value: Any, answer: Any) -> bool:
    if isinstance(value, list) and isinstance(answer, list):
        return len(value) == len(answer) and all(_same(a, b) for a, b in zip(value, answer, strict=True))
    if isinstance(value, bool) or isinstance(answer, bool):
        return value is answer
    return _standard(value) == _standard(answer)


def _same_object(value: Mapping[str, Any], answer: Any) -> bool:
    """An accepted object gives the accepted values of each of its keys."""
    if not isinstance(answer, Mapping) or any(key not in answer for key in value):
        return False
    return all(
        any(_same(value[key], one) for one in _listed(given)) if key in value else _OMITTED in _listed(given)
        for key, given in answer.items()
    )


def _same_objects(values: Sequence[Mapping[str, Any]], answers: Any) -> bool:
    return (
        isinstance(answers, Sequence)
        and len(values) == len(answers)
        and all(_same_object(value, answer) for value, answer in zip(values, answers, strict=True))
    )


def _listed(given: Any) -> Sequence[Any]:
    return given if isinstance(given, list) else [given]


def _standard(value: Any) -> Any:
    return _IGNORED.sub("", value).lower().replace("'", '"') if isinstance(value, str) else value
