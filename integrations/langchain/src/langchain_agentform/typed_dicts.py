"""TypedDicts in LangChain's dialect, made into ones that say the same to pydantic."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, Required, Union, get_args, get_origin, get_type_hints

from pydantic import Field
from typing_extensions import ReadOnly, TypedDict, is_typeddict

__all__ = ["as_pydantic_reads"]


def as_pydantic_reads(kind: Any) -> Any:
    """The type with every TypedDict in it rebuilt.

    LangChain writes ``Annotated[str, default, "description"]``, with ``...`` for a key that must be there; pydantic
    would pass over both. It also refuses `typing.TypedDict` before Python 3.12. A TypedDict inside itself stays as
    it was.
    """
    return _rebuilt(kind, {})


def _rebuilt(kind: Any, seen: dict[Any, Any]) -> Any:
    if is_typeddict(kind):
        return _typed_dict(kind, seen)
    origin, args = get_origin(kind), get_args(kind)
    if not args or origin is None:
        return kind
    if origin is Annotated:
        return Annotated[(_rebuilt(args[0], seen), *args[1:])]
    made = tuple(_rebuilt(item, seen) for item in args)
    if made == args:
        return kind
    return Union[made] if origin in (Union, types.UnionType) else origin[made]  # noqa: UP007


def _typed_dict(kind: Any, seen: dict[Any, Any]) -> Any:
    if kind in seen:
        return seen[kind]
    seen[kind] = kind
    hints = get_type_hints(kind, include_extras=True)
    fields = {name: _field(kind, name, hint, seen) for name, hint in hints.items()}
    made: Any = TypedDict(kind.__name__, fields)  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType]
    made.__doc__, made.__module__ = kind.__doc__, kind.__module__
    made.__pydantic_config__ = getattr(kind, "__pydantic_config__", {})
    seen[kind] = made
    return made


def _field(kind: Any, name: str, hint: Any, seen: dict[Any, Any]) -> Any:
    required = name in kind.__required_keys__
    while get_origin(hint) in (Required, NotRequired, ReadOnly):
        required = required if get_origin(hint) is ReadOnly else get_origin(hint) is Required
        hint = get_args(hint)[0]
    extras: Mapping[str, Any] = {}
    if get_origin(hint) is Annotated:
        hint, extras = _without_dialect(hint)
        required = required and "default" not in extras
    made = _rebuilt(hint, seen)
    if extras.get("description"):
        made = Annotated[made, Field(description=extras["description"])]
    return made if required else NotRequired[made]


def _without_dialect(hint: Any) -> tuple[Any, Mapping[str, Any]]:
    """The annotation with default and description taken out, where they are in LangChain's order."""
    inner, *metadata = get_args(hint)
    if metadata == [...]:
        return inner, {}
    if len(metadata) < 2 or not isinstance(metadata[1], str):
        return hint, {}
    rest = metadata[2:]
    inner = Annotated[(inner, *rest)] if rest else inner
    given = {} if metadata[0] is ... else {"default": metadata[0]}
    return inner, {"description": metadata[1], **given}
