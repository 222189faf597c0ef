"""Function-calling data: every function compiles, and its accepted answers pass validation and grammar."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from agentform.errors import AgentformError, GrammarError
from agentform.grammar.compile import Compiler
from agentform.grammar.spec import GrammarSpec
from agentform.schema.json_text import dumps
from agentform.schema.refs import Document
from agentform.schema.target import Target, load
from benchmarks.common.harness import Context
from benchmarks.schemas.cases import tokenizer_json, vocabulary_of

__all__ = ["as_json_schema", "run_functions", "show"]

_PARTS = ("simple_python", "multiple", "live_simple", "irrelevance")
_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
"""The data's words for types; `any` is no constraint."""
_OMITTED = ""
"""Among the accepted values of a parameter: it may be left out."""


def run_functions(context: Context) -> dict[str, Any]:
    """Compile every function; build each accepted answer and try it."""
    vocabulary = vocabulary_of(tokenizer_json(context))
    compiler = Compiler(vocabulary, keep=1)
    counts: Counter[str] = Counter()
    faults: list[str] = []
    for part in _PARTS:
        accepted = _accepted(context, part)
        for item in _lines(context, f"BFCL_v4_{part}.jsonl.gz"):
            for function in item["function"]:
                counts["functions"] += 1
                try:
                    target = load(as_json_schema(function["parameters"]), name=function["name"], lenient=True)
                    grammar = compiler.compile(GrammarSpec(kind="json_schema", text=_text(target)))
                except AgentformError as error:
                    faults.append(f"{item['id']} does not compile: {error}")
                    continue
                counts["compiled"] += 1
                for given in accepted.get(item["id"], {}).get(function["name"], ()):
                    answer = _without_defaults(given, function["parameters"])
                    counts["answers"] += 1
                    violations = target.validator.check(answer)
                    counts["validated"] += not violations
                    if violations:
                        faults.append(f"{item['id']}: {violations[0].pointer}: {violations[0].reason[:100]}")
                        continue
                    taken = _takes(
                        grammar.matcher(), vocabulary.tokenize(dumps(_ordered(answer, function["parameters"])).encode())
                    )
                    counts["accepted_by_grammar"] += taken
                    if not taken:
                        faults.append(f"{item['id']}: the grammar does not take {dumps(answer)[:200]}")
    return {**counts, "faults": faults}


def show(context: Context, figures: Mapping[str, Any]) -> None:
    """Print the counts and the first faults."""
    context.console.print(
        f"functions: {figures['compiled']:,} of {figures['functions']:,} compile; of {figures['answers']:,} accepted "
        f"answers {figures['validated']:,} validate, of these {figures['accepted_by_grammar']:,} pass the grammar"
    )
    for fault in figures["faults"][:5]:
        context.console.print(f"  {fault}", markup=False)


def _text(target: Target) -> str:
    return dumps(Document(dict(target.form.schema), "2020-12").closed({"$ref": "#"}))


def _takes(matcher: Any, ids: list[int]) -> bool:
    try:
        matcher.accept(*ids)
    except GrammarError:
        return False
    return matcher.is_complete()


def _without_defaults(answer: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Without optional parameters at their declared default: leaving them out means the same."""
    declared, required = parameters["properties"], parameters.get("required", ())
    return {
        name: value
        for name, value in answer.items()
        if name in required or "default" not in declared.get(name, {}) or declared[name]["default"] != value
    }


def _ordered(value: Any, schema: Any) -> Any:
    """Keys in the order in which they are declared, as agentform writes them."""
    if isinstance(value, list):
        return [_ordered(item, schema.get("items", {})) for item in value]
    if not isinstance(value, dict):
        return value
    declared = schema.get("properties", {})
    names = [*(name for name in declared if name in value), *(name for name in value if name not in declared)]
    return {name: _ordered(value[name], declared.get(name, {})) for name in names}


def _lines(context: Context, *parts: str) -> Iterator[Any]:
    with gzip.open(context.need("bfcl", *parts), "rt", encoding="utf-8") as file:
        yield from (json.loads(line) for line in file)


def _accepted(context: Context, part: str) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """By question and function: answers that vary one parameter at a time over its accepted values."""
    if part == "irrelevance":
        return {}
    return {
        item["id"]: {name: _answers(values) for call in item["ground_truth"] for name, values in call.items()}
        for item in _lines(context, "possible_answer", f"BFCL_v4_{part}.jsonl.gz")
    }


def _answers(values: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    options = {name: [_plain(value) for value in given if value != _OMITTED] for name, given in values.items()}
    first = {name: given[0] for name, given in options.items() if given}
    varied = [{**first, name: value} for name, given in options.items() for value in given[1:]]
    return [first, *varied]


def _plain(value: Any) -> Any:
    """An object among accepted values gives the accepted values of its own keys; the first of each is taken."""
    if isinstance(value, dict):
        given = {name: [item for item in items if item != _OMITTED] for name, items in value.items()}
        return {name: _plain(items[0]) for name, items in given.items() if items}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def as_json_schema(said: Any) -> Any:
    """The parameters in JSON Schema's words."""
    if isinstance(said, list):
        return [as_json_schema(item) for item in said]
    if not isinstance(said, dict):
        return said
    made = {key: _named(item) if key == "properties" else as_json_schema(item) for key, item in said.items()}
    if made.get("type") == "any":
        del made["type"]
    elif isinstance(made.get("type"), str):
        made["type"] = _TYPES.get(made["type"], made["type"])
    if made.get("type") == "array" and not any(isinstance(item, list) for item in made.get("enum", [[]])):
        made["items"] = {**made.get("items", {}), "enum": made.pop("enum")}  # the data lists items there
    return made


def _named(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {name: as_json_schema(item) for name, item in properties.items()}
