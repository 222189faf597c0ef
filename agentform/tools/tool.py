"""Tools: functions that a model may call, with arguments that are checked before they arrive."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import Parameter
from types import UnionType
from typing import Annotated, Any, Generic, Union, cast, get_args, get_origin, overload

from typing_extensions import ParamSpec, TypeVar

from agentform._util.threads import TOOLS, Place
from agentform.errors import (
    Attempt,
    CallRejected,
    InvalidToolName,
    ToolError,
    UnsupportedSchema,
    UnsupportedSignature,
    Violation,
)
from agentform.messages import JsonValue
from agentform.schema.json_text import plain
from agentform.schema.target import Target
from agentform.schema.validate import Validator
from agentform.tools.calling import called
from agentform.tools.context import RunContext
from agentform.tools.docstring import documentation
from agentform.tools.injected import is_injected
from agentform.tools.object_schema import load_arguments
from agentform.tools.pickling import FoundFunction, found_function
from agentform.tools.policy import OnToolError, ToolPolicy
from agentform.tools.signature import (
    annotation_of,
    bind_arguments,
    load_signature,
    parameters_of,
    underlying,
)

__all__ = ["Tool", "tool"]

P = ParamSpec("P", default=...)
R = TypeVar("R", default=Any)

_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")


@dataclass(frozen=True, kw_only=True)
class Tool(Generic[P, R]):
    """A function with a name, a description and a target for its arguments; calling it calls the function.

    It can be pickled where its function, or its `call`, can be found by its module and name.

    Raises:
        InvalidToolName: unless the name is 1 to 128 of the characters a-z, A-Z, 0-9, `_`, `-`, `.` and `/`.
    """

    name: str
    description: str
    target: Target
    fn: Callable[P, R]
    policy: ToolPolicy = field(default_factory=ToolPolicy)
    context_parameter: str | None = None
    """The parameter that takes the `RunContext`, if there is one."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            said = "1 to 128 letters, digits, '_', '-', '.' and '/' can"
            raise InvalidToolName(f"{self.name[:200]!r} cannot name a tool: {said}")

    @classmethod
    def from_schema(
        cls,
        schema: Any,
        *,
        name: str,
        description: str = "",
        call: Callable[[Mapping[str, JsonValue]], Any] | None = None,
        lenient: bool = False,
    ) -> Tool[..., Any]:
        """A tool whose arguments are a pydantic model, another type that stands for an object, or a JSON Schema.

        `call(arguments)`, plain or async, runs the tool with the JSON arguments as they are; without it, running the
        tool is a `ToolError`. The description is by default the schema's own. `lenient` is as in `load`.

        Raises:
            UnsupportedSchema: the schema uses something that agentform does not implement, or stands for no object.
            InvalidToolName: the name is not 1 to 128 of the characters a-z, A-Z, 0-9, `_`, `-`, `.` and `/`.
        """
        try:
            target = load_arguments(schema, name=name, lenient=lenient)
        except UnsupportedSchema as error:
            raise UnsupportedSchema(f"tool {name!r}: {error.reason}", pointer=error.pointer) from error
        shown = target.form.schema
        if isinstance(shown, bool) or shown.get("type", "object") not in ("object", ["object"]):
            raise UnsupportedSchema(f"tool {name!r}: its arguments are not an object")
        description = description or target.description
        target = replace(target, description=description, validator=_Unconverted(target.validator))
        return Tool(name=name, description=description, target=target, fn=Remote(name, schema, call, lenient))

    def __copy__(self) -> Tool[P, R]:
        return self

    def __deepcopy__(self, memo: object) -> Tool[P, R]:
        return self

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        made_from = getattr(self.fn, "made_from", None)
        source = found_function(self.name, self.fn) if made_from is None else made_from
        return _restored, (source, self.name, self.description, self.policy)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.fn(*args, **kwargs)

    async def run(self, arguments: Mapping[str, JsonValue], *, context: RunContext[Any] | None = None) -> Any:
        """What the function returns for JSON arguments; it gets them converted to the types that it declares.

        An attempt that is too slow or fails is handled as `policy` says; `context` goes to the function if it has a
        parameter for it. An async function is cancelled where it waits. A plain function runs in a worker thread; on
        cancellation the caller goes on and the thread is left to end by itself, its outcome dropped. What a generator
        yields, plain or async, is returned as a list.

        Raises:
            CallRejected: the schema refuses the arguments.
            ToolError: the function needs a context and gets none.
            ToolTimeout: the function did not end within `timeout_s`.
            ToolAborted: the function raised `SystemExit`, `CancelledError` or the like.
            Exception: whatever else the function raises, as it is.
        """
        parameters = inspect.signature(self.fn).parameters
        if context is None and self.context_parameter and parameters[self.context_parameter].default is Parameter.empty:
            raise ToolError(f"{self.name!r} needs a RunContext: run it by an agent, or give it one")
        violations = self.target.validator.check(arguments)
        if violations:
            raise CallRejected(self.name, [Attempt(arguments=arguments, violations=violations)])

        async def attempt(number: int, place: Place | None) -> Any:
            # Built anew for each attempt: a function may change what it is given.
            given = dict(self.target.validator.build(arguments))
            if self.context_parameter and context is not None:
                given[self.context_parameter] = replace(context, attempt=number)
            return await self._call(given, place)

        return await self.policy.run(self.name, attempt, threads=None if self._is_async else TOOLS)

    @property
    def is_runnable(self) -> bool:
        """Whether there is anything to run; a tool may be its description alone."""
        return not (isinstance(self.fn, Remote) and self.fn.call is None)

    @property
    def _is_async(self) -> bool:
        own = underlying(self.fn.call if isinstance(self.fn, Remote) and self.fn.call is not None else self.fn)
        return inspect.iscoroutinefunction(own) or inspect.isasyncgenfunction(own)

    async def _call(self, given: Mapping[str, Any], place: Place | None) -> Any:
        args, kwargs = bind_arguments(inspect.signature(self.fn).parameters, given)
        return await called(self.name, partial(self.fn, *args, **kwargs), place=place)

    def definition(self) -> dict[str, Any]:
        """The tool as chat templates and OpenAI-style servers take it."""
        function = {"name": self.name, "description": self.description, "parameters": self.target.form.schema}
        return {"type": "function", "function": function}


@overload
def tool(fn: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    strict_docs: bool = False,
    timeout_s: float | None = None,
    retries: int = 0,
    backoff_s: float = 0.5,
    retry_on: Sequence[type[Exception]] = (Exception,),
    on_error: OnToolError | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    strict_docs: bool = False,
    timeout_s: float | None = None,
    retries: int = 0,
    backoff_s: float = 0.5,
    retry_on: Sequence[type[Exception]] = (Exception,),
    on_error: OnToolError | None = None,
) -> Any:
    """Make a tool of a function, as `@tool` or `@tool(name=...)`; what is a tool already stays one, with what is given.

    Name and description come from the function unless given; the docstring may be in Google, NumPy or Sphinx style.
    With `strict_docs`, every parameter must be described, and nothing else be described. A parameter that is annotated
    with `RunContext` is given by the agent and is not in the schema.

    An attempt of a call takes at most `timeout_s` seconds. One that fails with an error in `retry_on` is tried again
    up to `retries` times, after `backoff_s` seconds and twice as long each further time. `on_error` says for this tool
    what the agent's `on_tool_error` says for all.

    Raises:
        UnsupportedSignature: the function's signature cannot become a tool's arguments.
        InvalidToolName: the name is not 1 to 128 of the characters a-z, A-Z, 0-9, `_`, `-`, `.` and `/`.
        ValueError: a limit is negative.
    """
    policy = ToolPolicy(
        timeout_s=timeout_s, retries=retries, backoff_s=backoff_s, retry_on=tuple(retry_on), on_error=on_error
    )
    make = partial(_make, name=name, description=description, strict_docs=strict_docs, policy=policy)
    return make if fn is None else make(fn)


class Remote:
    """Calls a function with all arguments as one mapping, whatever their names are."""

    def __init__(
        self, name: str, schema: Any, call: Callable[[Mapping[str, JsonValue]], Any] | None, lenient: bool
    ) -> None:
        self._name = name
        self.call = call
        self.made_from = (schema, call, lenient)

    def __call__(self, /, **arguments: JsonValue) -> Any:
        if self.call is None:
            raise ToolError(f"{self._name!r} was made without a `call` and cannot be run")
        return self.call(arguments)


@dataclass(frozen=True)
class _Unconverted:
    """Checks as another validator does and builds nothing: what runs gets the JSON value itself."""

    validator: Validator

    def check(self, value: JsonValue) -> tuple[Violation, ...]:
        return self.validator.check(value)

    def build(self, value: JsonValue) -> Any:
        self.validator.build(value)
        return plain(value)


def _make(
    fn: Callable[..., Any], *, name: str | None, description: str | None, strict_docs: bool, policy: ToolPolicy
) -> Tool[..., Any]:
    if isinstance(fn, Tool):
        known = cast("Tool[..., Any]", fn)
        kept = known.policy if policy == ToolPolicy() else policy
        return replace(known, name=name or known.name, description=description or known.description, policy=kept)
    name = _name_of(fn) if name is None else name
    said, parameters = documentation(fn)
    context = _context_parameter(name, fn)
    given = {context} if context else set[str]()
    given |= _hidden(name, fn)
    if strict_docs:
        described = {key for key, text in parameters.items() if text}
        _compare_docs(name, set(parameters_of(fn)) - given, described - given)
    said = said if description is None else description
    target = load_signature(fn, name=name, description=said, descriptions=parameters, without=given)
    return Tool(name=name, description=said, target=target, fn=fn, policy=policy, context_parameter=context)


def _hidden(name: str, fn: Callable[..., Any]) -> set[str]:
    """The parameters that LangChain would fill in; here they keep their defaults."""
    found = {key: parameter for key, parameter in parameters_of(fn).items() if is_injected(annotation_of(fn, key))}
    for key, parameter in found.items():
        if parameter.default is Parameter.empty:
            raise UnsupportedSignature(
                f"{name}: {key!r} is filled in by LangChain, and no model may write it; take a RunContext instead, "
                "give the parameter a default, or bind the tool to a ChatAgentform"
            )
    return set(found)


def _context_parameter(name: str, fn: Callable[..., Any]) -> str | None:
    found = [key for key in parameters_of(fn) if _is_context(annotation_of(fn, key))]
    if len(found) > 1:
        raise UnsupportedSignature(f"{name}: {' and '.join(found)} are both a RunContext; one is enough")
    return found[0] if found else None


def _is_context(annotation: Any) -> bool:
    """Whether it is a RunContext, plain or of something, described, or optional."""
    if get_origin(annotation) is Annotated:
        return _is_context(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return any(map(_is_context, get_args(annotation)))
    return RunContext in (annotation, get_origin(annotation))


def _restored(
    source: FoundFunction | tuple[Any, Any, bool], name: str, description: str, policy: ToolPolicy
) -> Tool[..., Any]:
    """A tool that was pickled, made again from its function, or from its schema and what calls it."""
    if isinstance(source, FoundFunction):
        made: Tool[..., Any] = tool(name=name, description=description)(source.load())
    else:
        schema, call, lenient = source
        made = Tool.from_schema(schema, name=name, description=description, call=call, lenient=lenient)
    return replace(made, policy=policy)


def _name_of(fn: Callable[..., Any]) -> str:
    while isinstance(fn, partial):
        fn = fn.func
    return getattr(fn, "__name__", type(fn).__name__)


def _compare_docs(name: str, parameters: set[str], described: set[str]) -> None:
    if missing := sorted(parameters - described):
        raise UnsupportedSignature(f"{name}: the docstring does not describe {', '.join(missing)}")
    if surplus := sorted(described - parameters):
        raise UnsupportedSignature(f"{name}: the docstring describes {', '.join(surplus)}, which it does not take")
