"""The Jinja environment that chat templates are written for: what transformers 5.24 gives them, without importing it.

Templates come with a model's weights and are code from elsewhere, so they run in Jinja's immutable sandbox and see
plain data only (`template_data`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, NoReturn, cast

from jinja2 import Template, TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import CallBlock, Node
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from agentform.runtime.tokenizer.template_growth import bounded_filters, check_binary, check_method
from agentform.runtime.tokenizer.template_limits import Bounded

__all__ = ["compile_template"]

_MOST_EXPONENT = 64
_LIST_CHANGES = frozenset({"append", "extend", "insert", "pop"})


def compile_template(source: str) -> Template:
    """A template as transformers compiles it.

    Raises:
        jinja2.TemplateSyntaxError: the template cannot be parsed.
    """
    environment = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols, Bounded])
    environment.filters["tojson"] = _to_json
    environment.filters = bounded_filters(environment.filters)
    environment.globals |= {
        "raise_exception": _raise_exception,
        "strftime_now": _strftime_now,
        "dict": _Dict(),
        "namespace": _Namespace,
    }
    return environment.from_string(source)


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's immutable sandbox, in which a template may still fill lists that it made itself, within bounds."""

    intercepted_binops = frozenset({"*", "**", "+", "%"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" and isinstance(right, int) and right > _MOST_EXPONENT:
            raise SecurityError("the template computes with numbers larger than a prompt has use for")
        check_binary(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # names as Jinja's
        return super().call(__context, __obj, *check_method(__obj, args, kwargs), **kwargs)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        bounded = next(each for each in self.extensions.values() if isinstance(each, Bounded))
        return bounded.watch(super()._parse(source, name, filename))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        own = type(obj) is list and attr in _LIST_CHANGES
        return own or super().is_safe_attribute(obj, attr, value)


class _Generation(Extension):
    """`{% generation %}` marks what training counts as the model's words; what it sets stays inside it."""

    tags = {"generation"}  # noqa: RUF012  # as Jinja declares it

    def parse(self, parser: Parser) -> Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


class _Dict:
    """What templates may use of `dict`: the class itself would lead to its methods."""

    def __call__(self, *args: Any, **entries: Any) -> dict[Any, Any]:
        return dict(*args, **entries)

    def fromkeys(self, keys: Iterable[Any], value: Any = None) -> dict[Any, Any]:
        return dict.fromkeys(keys, value)


class _Namespace(Namespace):
    """Jinja's namespace without names that begin as Python's internals do."""

    def __init__(*args: Any, **attributes: Any) -> None:  # an attribute may be called "self"
        given = dict(*args[1:], **attributes)
        for name in given:
            _check_public(name)
        Namespace.__init__(args[0], given)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_public(name)
        super().__setitem__(name, value)


def _check_public(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace holds no names that begin with an underscore, such as {name!r}")


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Unlike Jinja's own, it leaves HTML's characters as they are."""
    if isinstance(value, Iterator):  # what `map` and `select` give
        value = list(cast("Iterator[Any]", value))
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _strftime_now(format: str) -> str:
    return datetime.now().strftime(format)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)
