"""What an answer has to be, as OpenAI, vLLM, SGLang and llama.cpp let it be asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from llguidance.gbnf_to_lark import any_to_lark

from agentform.errors import AgentformError
from agentform.grammar.spec import GrammarSpec
from agentform.schema.json_text import loads
from agentform.schema.target import Target, load
from agentform.serve.chat_fields import ChatFields, SchemaAnswer
from agentform.serve.problems import Refused, bad_request, problem_of

__all__ = ["AnswerFormat", "answer_format", "grammar_of", "schema_format"]

_MOST_CHOICES = 10_000
_OBJECT: Mapping[str, Any] = {"type": "object"}


@dataclass(frozen=True, kw_only=True)
class AnswerFormat:
    """A form, a grammar, or neither."""

    output: Target | None = None
    grammar: GrammarSpec | None = None
    is_choice: bool = False
    """Whether the form is one of given texts, told as it is and not as JSON."""


def answer_format(fields: ChatFields) -> AnswerFormat:
    """The first that a chat request asks for.

    Raises:
        Refused: it is none that can be held to.
    """
    wanted = fields.response_format
    if isinstance(wanted, SchemaAnswer):
        said = wanted.json_schema
        param = "response_format.json_schema.schema"
        return schema_format(said.schema_, said.name, said.description, strict=bool(said.strict), param=param)
    if wanted is not None and wanted.type == "json_object":
        return schema_format(wanted.schema_ or _OBJECT, "answer", param="response_format.schema")
    return next((_guided(kind, said, param) for kind, said, param in _asked(fields)), AnswerFormat())


def schema_format(
    schema: Mapping[str, Any] | str, name: str, description: str | None = None, *, strict: bool = False, param: str
) -> AnswerFormat:
    """An answer that satisfies a JSON Schema.

    Raises:
        Refused: it is no schema that can be used; `param` is where it stands.
    """
    try:
        said: Any = loads(schema) if isinstance(schema, str) else schema
        if description is not None:
            said = {**said, "description": description}
        return AnswerFormat(output=load(said, name=name, lenient=not strict))
    except AgentformError as error:
        raise Refused(problem_of(error, param=param)) from error


def grammar_of(fields: Any) -> GrammarSpec | None:
    """What a text has to match, of any of the formats; a choice is written here.

    Raises:
        Refused: it is none that can be held to.
    """
    for kind, said, param in _asked(fields):
        found = _guided(kind, said, param)
        if kind == "choice":
            return GrammarSpec(kind="regex", text="|".join(map(re.escape, dict.fromkeys(said))))
        if kind == "json":
            return GrammarSpec(kind="json_schema", text=said if isinstance(said, str) else json.dumps(said))
        return found.grammar
    return None


def _asked(fields: Any) -> Iterator[tuple[str, Any, str]]:
    """Kind, value and place of each format that other servers know and a request asks for."""
    outputs = fields.structured_outputs or {}
    for kind in ("json", "choice", "regex", "grammar"):
        name = f"guided_{kind}"
        if (said := getattr(fields, name)) is not None:
            yield kind, said, name
        if (said := outputs.get(kind)) is not None:
            yield kind, said, f"structured_outputs.{kind}"
    for name, kind in (("json_schema", "json"), ("regex", "regex"), ("ebnf", "grammar"), ("grammar", "grammar")):
        if (said := getattr(fields, name)) is not None:
            yield kind, said, name
    if outputs.get("json_object") is True:
        yield "json", _OBJECT, "structured_outputs.json_object"


def _guided(kind: str, said: Any, param: str) -> AnswerFormat:
    if kind == "json":
        if not isinstance(said, str | dict):
            raise bad_request(f"{param}: a JSON Schema is an object, or its text", param=param)
        return schema_format(said, "answer", param=param)
    if kind == "choice":
        return _choice(said, param)
    if not isinstance(said, str) or not said:
        raise bad_request(f"{param} must be a text that is not empty", param=param)
    if kind == "regex":
        return AnswerFormat(grammar=GrammarSpec(kind="regex", text=said))
    return AnswerFormat(grammar=GrammarSpec(kind="lark", text=_lark(said, param)))


def _choice(said: Any, param: str) -> AnswerFormat:
    if not (isinstance(said, list) and 0 < len(said) <= _MOST_CHOICES and all(isinstance(x, str) for x in said)):
        raise bad_request(f"{param} must be a list of texts, at most {_MOST_CHOICES:,}", param=param)
    formed = schema_format({"enum": list(dict.fromkeys(said))}, "answer", param=param)
    return AnswerFormat(output=formed.output, is_choice=True)


def _lark(said: str, param: str) -> str:
    """Of llama.cpp's notation, or a Lark grammar as it is."""
    try:
        return any_to_lark(said)
    except Exception as error:  # it raises what its parts raise
        message = f"{param} is no grammar that can be read: {type(error).__name__}: {error}"[:500]
        raise bad_request(message, param=param, code="unsupported_schema") from None
