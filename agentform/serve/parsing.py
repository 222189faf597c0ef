"""Request bodies into typed fields; whatever is wrong is one error that names the field and what would be right."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError, from_json

from agentform.serve.body import check_amount, check_objects
from agentform.serve.problems import Refused, bad_request

__all__ = ["Fields", "Ignored", "NoEffect", "OpenFields", "Unsupported", "at_most", "only", "parse", "unsupported"]

M = TypeVar("M", bound="Fields")

_LONGEST_KEY = 100
"""Characters of a client's own key that an answer repeats."""


class Fields(BaseModel):
    """Fields of a JSON object; others are refused, and values are taken as they are, `"1"` for no number."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class OpenFields(Fields):
    """Fields of a JSON object that others may add to; what is not known is kept apart, in `model_extra`."""

    model_config = ConfigDict(extra="allow")


def at_most(num: int, *, at_least: int = 0) -> Any:
    """A bound on how many items a list has, of which the first that is wrong ends the reading: one error, not one each.

    Every list of a request's fields has it.
    """
    return Field(min_length=at_least, max_length=num, fail_fast=True)


def only(*allowed: Any) -> AfterValidator:
    """A field that exists for what others' servers do, of which we do only this."""

    def check(value: Any) -> Any:
        if value is not None and value not in allowed:
            said = " or ".join(map(repr, allowed))
            raise PydanticCustomError("unsupported_value", "only {said} is supported", {"said": said})
        return value

    return AfterValidator(check)


def unsupported(hint: str = "") -> AfterValidator:
    """A field that is known and refused, unless it is null."""

    def check(value: Any) -> Any:
        if value is not None:
            raise PydanticCustomError("unsupported_parameter", "this field is not supported{hint}", {"hint": hint})
        return value

    return AfterValidator(check)


@dataclass(frozen=True)
class NoEffect:
    """Marks a field that is taken and changes nothing; whoever sends another value than the usual one is told."""

    usual: Any = None


Unsupported = Annotated[Any, unsupported()]
Ignored = Any
"""A field that is taken and changes nothing."""


def parse(fields: type[M], body: bytes) -> M:
    """The fields of a JSON body.

    Raises:
        Refused: for anything that is not as it should be; the message of the first fault that matters.
    """
    check_amount(body)
    try:
        data: Any = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise bad_request(f"the body is not JSON: {error}", param=None, code="invalid_json") from None
    if not isinstance(data, dict):
        raise bad_request("the body must be a JSON object", param=None, code="invalid_json")
    check_objects(cast("Any", data))
    try:
        return fields.model_validate_json(body)
    except ValidationError as error:
        raise _refused(fields, data, error.errors(include_url=False, include_input=False)) from None


def _refused(fields: type[Fields], data: Any, errors: Sequence[ErrorDetails]) -> Refused:
    """The fault that lies deepest: where a value may be one of several things, the others say nothing."""
    placed = [(_place(data, error["loc"], error["type"] == "missing"), error) for error in errors]
    deepest = max(len(place) for place, _ in placed)
    place = next(place for place, _ in placed if len(place) == deepest)
    there = [error for found, error in placed if found == place]
    kind, param = there[0]["type"], _param(place)
    if kind == "extra_forbidden":
        known = difflib.get_close_matches(str(place[-1]), fields.model_fields, n=1) if len(place) == 1 else []
        hint = f"; did you mean {known[0]!r}?" if known else ""
        return bad_request(f"unknown field {param!r}{hint}", param=param, code="unknown_parameter", place=place)
    said = " or ".join(dict.fromkeys(error["msg"] for error in there))
    code = "missing_required_parameter" if kind == "missing" else _CODES.get(kind, "invalid_value")
    return bad_request(f"{param}: {said}", param=param, code=code, place=place)


_CODES: Mapping[str, str] = {
    "unsupported_value": "unsupported_value",
    "unsupported_parameter": "unsupported_parameter",
    "literal_error": "invalid_value",
    "string_type": "invalid_type",
    "int_type": "invalid_type",
    "float_type": "invalid_type",
    "bool_type": "invalid_type",
    "list_type": "invalid_type",
    "dict_type": "invalid_type",
    "model_type": "invalid_type",
}


def _place(data: Any, loc: Sequence[int | str], is_missing: bool) -> tuple[int | str, ...]:
    """The keys and indices among an error's location, which also names the variants that were tried."""
    place: list[int | str] = []
    for at, step in enumerate(loc):
        if _has(data, step):
            place.append(step)
            data = data[step]
        elif is_missing and at + 1 == len(loc) and isinstance(data, dict):
            place.append(step)
    return tuple(place)


def _has(data: Any, step: int | str) -> bool:
    if isinstance(data, dict):
        return step in data
    return isinstance(data, list) and isinstance(step, int) and step < len(cast("list[Any]", data))


def _param(place: Sequence[int | str]) -> str:
    text = ""
    for step in place:
        text += f"[{step}]" if isinstance(step, int) else f".{_short(step)}" if text else _short(step)
    return text


def _short(key: str) -> str:
    return key if len(key) <= _LONGEST_KEY else key[:_LONGEST_KEY] + "…"
