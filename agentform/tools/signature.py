"""A function's signature as a target: its parameters are the properties of one object."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from inspect import Parameter
from typing import Annotated, Any

from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, TypeAdapter, create_model
from pydantic import Field as PydanticField
from pydantic.fields import FieldInfo

from agentform.errors import UnsupportedSchema, UnsupportedSignature, Violation
from agentform.messages import JsonValue
from agentform.schema.target import Target, load_adapter
from agentform.schema.validate import Validator
from agentform.tools.annotations import local_names, mentions_self, unwritable, with_default

__all__ = ["annotation_of", "bind_arguments", "load_signature", "parameters_of", "underlying"]

_VARIADIC = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}


def load_signature(
    fn: Callable[..., Any],
    *,
    name: str,
    description: str,
    descriptions: Mapping[str, str],
    without: Collection[str] = (),
) -> Target:
    """The target whose value is the function's arguments as an object that allows nothing else.

    Parameters in `without` are no part of it.

    `descriptions` holds a parameter's text by its name; a text inside `Annotated` goes before it. What the target's
    validator builds is a `dict` of converted Python values, holding the parameters that were given.

    Raises:
        UnsupportedSignature: for `*args`, `**kwargs`, parameters without annotation, annotations that cannot be
            resolved, and types without a JSON Schema.
    """
    parameters = {key: parameter for key, parameter in parameters_of(fn).items() if key not in without}
    annotations = {
        key: with_default(annotation, parameters[key]) for key, annotation in _annotations(fn, parameters).items()
    }
    published = _published(name, annotations)
    fields: dict[str, Any] = {}
    for at, (key, annotation) in enumerate(annotations.items()):
        described = _described(annotation, descriptions.get(key, ""))
        fields[f"parameter_{at}"] = (
            Annotated[described, PydanticField(alias=published[key])],
            _default(parameters[key]),
        )
    try:
        model = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
        target = load_adapter(TypeAdapter(model), name=name, description=description, titles=False)
    except UnsupportedSchema as error:
        raise UnsupportedSignature(
            f"{name}: {unwritable(annotations) or _culprit(annotations) + str(error)}"
        ) from error
    except Exception as error:  # pydantic raises many things for what is not a type
        reason = unwritable(annotations) or _culprit(annotations) + str(error).strip().splitlines()[0]
        raise UnsupportedSignature(f"{name}: {reason}") from error
    return replace(target, validator=_ArgumentsValidator(target.validator, parameters))


def _culprit(annotations: Mapping[str, Any]) -> str:
    """The parameter whose type alone cannot be loaded."""
    for key, annotation in annotations.items():
        try:
            load_adapter(TypeAdapter(annotation), name=key)
        except Exception:  # as above
            return f"parameter {key!r}: "
    return ""


class _ArgumentsValidator:
    """Builds a dict by parameter name from the model that pydantic validates into."""

    def __init__(self, inner: Validator, parameters: Mapping[str, Parameter]) -> None:
        self._inner = inner
        self._names = {f"parameter_{at}": name for at, name in enumerate(parameters)}
        # the function itself cannot fill in a default that is wrapped in pydantic's Field
        self._wrapped = {field for field, name in self._names.items() if _is_wrapped(parameters[name])}

    def check(self, value: JsonValue) -> tuple[Violation, ...]:
        return self._inner.check(value)

    def build(self, value: JsonValue) -> dict[str, Any]:
        model: BaseModel = self._inner.build(value)
        given = model.model_fields_set | self._wrapped
        return {name: getattr(model, field) for field, name in self._names.items() if field in given}


def parameters_of(fn: Callable[..., Any]) -> dict[str, Parameter]:
    """The parameters that a caller gives, by name; those that a `partial` has bound are left out.

    Raises:
        UnsupportedSignature: for `*args`, `**kwargs` and for what has no signature.
    """
    if isinstance(fn, classmethod | property):
        raise UnsupportedSignature(
            f"a {type(fn).__name__} is bound where its class is finished: make the tool there, as in tool(Class.method)"
        )
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError) as error:
        raise UnsupportedSignature(f"{fn!r} has no signature that can be read: {error}") from None
    for parameter in parameters.values():
        if star := _VARIADIC.get(parameter.kind):
            raise UnsupportedSignature(
                f"{_say(fn)} takes {star}{parameter.name}: a tool's arguments are named one by one"
            )
    bound: Mapping[str, Any] = fn.keywords if isinstance(fn, functools.partial) else {}
    return {name: parameter for name, parameter in parameters.items() if name not in bound}


def bind_arguments(parameters: Mapping[str, Parameter], given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments that call the function with the values given by name."""
    by_place = [p for p in parameters.values() if p.kind is Parameter.POSITIONAL_ONLY]
    last = max((at for at, parameter in enumerate(by_place) if parameter.name in given), default=-1)
    positional = [given.get(parameter.name, parameter.default) for parameter in by_place[: last + 1]]
    names = {parameter.name for parameter in by_place}
    return positional, {name: value for name, value in given.items() if name not in names}


def underlying(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function that has the docstring and annotations of a partial, a method or a callable object."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if inspect.isroutine(fn) or inspect.isclass(fn):
        return fn
    return type(fn).__call__


def _annotations(fn: Callable[..., Any], parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    for at, parameter in enumerate(parameters.values()):
        if parameter.annotation is Parameter.empty:
            raise UnsupportedSignature(f"{_say(fn)}: {_unannotated(fn, at, parameter.name)}")
    return {name: _resolved(fn, name, parameter.annotation) for name, parameter in parameters.items()}


def _unannotated(fn: Callable[..., Any], at: int, name: str) -> str:
    """What is wrong with a parameter without annotation, and what would be right."""
    holder, _, method = _say(fn).rpartition(".")
    if at == 0 and name in ("self", "cls") and holder and not holder.endswith("<locals>"):
        kind = holder.rpartition(".")[2]
        return (
            f"{name!r} is not known yet where the class is made: a method becomes a tool when it belongs to an object, "
            f"as in tool({kind}(...).{method}); without `{name}`, it can be a function or a @staticmethod"
        )
    return f"parameter {name!r} has no annotation"


def annotation_of(fn: Callable[..., Any], name: str) -> Any:
    """The annotation of a parameter, text resolved; `None` when there is none or it names what is not there."""
    annotation = parameters_of(fn)[name].annotation
    if annotation is Parameter.empty:
        return None
    try:
        return _resolved(fn, name, annotation)
    except UnsupportedSignature:
        return None


def _resolved(fn: Callable[..., Any], name: str, annotation: Any) -> Any:
    inner = inspect.unwrap(underlying(fn))
    if mentions_self(annotation):
        raise UnsupportedSignature(
            f"{_say(fn)}: the annotation of {name!r} names Self, the class of a method, which no function has: "
            "name the class itself"
        )
    spaces: dict[str, Any] = getattr(inner, "__globals__", {})
    closure = inspect.getclosurevars(inner).nonlocals if inspect.isfunction(inner) or inspect.ismethod(inner) else {}
    holder = types.SimpleNamespace(__annotations__={name: annotation})
    try:
        return typing.get_type_hints(holder, globalns=spaces, localns=dict(closure), include_extras=True)[name]
    except NameError as error:
        return _of_local_type(fn, name, annotation, error)
    except Exception as error:
        raise UnsupportedSignature(f"{_say(fn)}: the annotation of {name!r} cannot be resolved: {error}") from error


def _of_local_type(fn: Callable[..., Any], name: str, annotation: Any, error: NameError) -> Any:
    """The annotation by the names of the function inside of which `fn` is being made, if it still runs."""
    inner = inspect.unwrap(underlying(fn))
    holder = types.SimpleNamespace(__annotations__={name: annotation})
    for names in local_names(inner):
        with contextlib.suppress(Exception):
            return typing.get_type_hints(holder, globalns=inner.__globals__, localns=names, include_extras=True)[name]
    raise UnsupportedSignature(
        f"{_say(fn)}: the annotation of {name!r} cannot be resolved: {error}; a type that is defined inside a function "
        "is known while that function runs: make the tool there (as @tool), or define the type at the top of its module"
    ) from error


def _published(name: str, annotations: Mapping[str, Any]) -> dict[str, str]:
    """The key of each parameter in the arguments: its own name, or an alias in its annotation."""
    found = {key: _alias(annotation) or key for key, annotation in annotations.items()}
    if len(set(found.values())) < len(found):
        twice = next(key for key, alias in found.items() if list(found.values()).count(alias) > 1)
        raise UnsupportedSignature(f"{name}: parameter {twice!r} and another one are both named {found[twice]!r}")
    return found


def _alias(annotation: Any) -> str | None:
    """What pydantic reads a field of this annotation from; the last one that is given counts, as it does there."""
    named: str | None = None
    for item in getattr(annotation, "__metadata__", ()):
        if isinstance(item, FieldInfo):
            named = next(filter(None, map(_alias_text, (item.validation_alias, item.alias))), named)
    return named


def _alias_text(alias: str | AliasChoices | AliasPath | None) -> str | None:
    """An alias as one key; of several the first, and of a path the first step when it is all."""
    if isinstance(alias, AliasChoices):
        return next(filter(None, map(_alias_text, alias.choices)), None)
    if isinstance(alias, AliasPath):
        first = alias.path[0]
        return first if len(alias.path) == 1 and isinstance(first, str) else None
    return alias


def _described(annotation: Any, documented: str) -> Any:
    """The annotation with a description from its own metadata, or else from the docstring."""
    metadata: tuple[Any, ...] = getattr(annotation, "__metadata__", ())
    if any(isinstance(item, FieldInfo) and item.description for item in metadata):
        return annotation
    text = next((item for item in metadata if isinstance(item, str)), documented)
    return Annotated[annotation, PydanticField(description=text)] if text else annotation


def _default(parameter: Parameter) -> Any:
    return ... if parameter.default is Parameter.empty else parameter.default


def _is_wrapped(parameter: Parameter) -> bool:
    return isinstance(parameter.default, FieldInfo)


def _say(fn: Callable[..., Any]) -> str:
    return getattr(underlying(fn), "__qualname__", repr(fn))
