"""`agentform plan`: how each leaf of a schema will be filled, and why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from agentform.cli.engine_spec import load_attribute
from agentform.cli.safe_text import SafeText
from agentform.cli.tables import Table
from agentform.errors import InvalidInput
from agentform.grammar.prepare import grammar_relaxations
from agentform.messages import JsonValue
from agentform.schema.form import Choice, Fixed, Free, Node, Record, Repeat, Subset, Union, leaves, pointer
from agentform.schema.json_text import dumps
from agentform.schema.lint import lint
from agentform.schema.target import Target, load
from agentform.tools.tool import Tool, tool

__all__ = ["load_target", "show_hints", "show_plan"]

_SHOWN_OPTIONS = 6


def load_target(source: str, *, lenient: bool = False) -> Target:
    """The target named by `module:attribute` (a tool, function, model or type) or by a JSON Schema file.

    Raises:
        InvalidInput: there is no such module, attribute or file, or the file is not JSON.
        SchemaError: what is there cannot be compiled.
    """
    module, separator, attribute = source.partition(":")
    if separator and not Path(source).exists():
        return _from_python(module, attribute, lenient)
    return _from_file(Path(source), lenient)


def _from_file(file: Path, lenient: bool) -> Target:
    try:
        schema = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        wanted = "give module:attribute or a JSON Schema file"
        raise InvalidInput(f"cannot read {file}: {error.strerror}; {wanted}") from error
    except ValueError as error:
        raise InvalidInput(f"{file} is not JSON: {error}") from error
    return load(schema, name=file.stem, lenient=lenient)


def _from_python(module: str, attribute: str, lenient: bool) -> Target:
    found = load_attribute(module, attribute)
    if isinstance(found, Tool):
        return found.target
    if isinstance(found, type) or not callable(found):
        return load(found, lenient=lenient)
    return tool(found).target


def show_plan(console: Console, target: Target) -> None:
    """Print one row per leaf, and what is left to validation."""
    table = Table("leaf", "filled", "why", "options or value", title=target.name, caption=_summary(target.form.root))
    _add_rows(table, target.form.root, condition="")
    console.print(table)
    for item in target.form.relaxed:
        console.print(SafeText(f"left to validation: schema at {item.pointer or '(whole)'}: {item.what}"))
    for leaf in leaves(target.form.root):
        for item in grammar_relaxations(leaf.schema) if isinstance(leaf, Free) else ():
            where = f"{pointer(leaf.path) or '(whole)'}, schema at {item.pointer or '(whole)'}"
            console.print(SafeText(f"not in the grammar, left to validation: {where}: {item.what}"))


def show_hints(console: Console, target: Target) -> None:
    """Print where the schema is needlessly open, and what to write instead."""
    hints = lint(target.form)
    for hint in hints:
        console.print(SafeText(f"{hint.pointer or '(whole)'}: {hint.problem}\n    {hint.change}"))
    if not hints:
        console.print("nothing is needlessly open")


def _add_rows(table: Table, node: Node, condition: str) -> None:
    place = (pointer(node.path) or "(whole)") + condition
    match node:
        case Fixed():
            table.add_row(SafeText(place), "fixed", SafeText(node.why), SafeText(dumps(node.value)))
        case Choice():
            table.add_row(SafeText(place), "choice", SafeText(node.why), SafeText(_options(node.options)))
        case Free():
            table.add_row(SafeText(place), "free", SafeText(node.why), "")
        case Record():
            for field in node.fields:
                _add_rows(table, field.node, condition if field.required else f"{condition} (optional)")
        case Union():
            table.add_row(SafeText(place), "choice of arm", SafeText(node.why), SafeText(" | ".join(node.labels)))
            for arm, label in zip(node.arms, node.labels, strict=True):
                _add_rows(table, arm, f"{condition} if {label}")
        case Subset():
            table.add_row(SafeText(place), "yes or no each", SafeText(node.why), SafeText(_options(node.options)))
        case Repeat():
            table.add_row(SafeText(place), "how many, then each", SafeText(node.why), "")
            _add_rows(table, node.items[0], condition)


def _options(options: Sequence[JsonValue]) -> str:
    shown = [dumps(option) for option in options[:_SHOWN_OPTIONS]]
    more = len(options) - len(shown)
    return " | ".join(shown) + (f" | … {more} more" if more else "")


def _summary(root: Node) -> str:
    counts = {"fixed": 0, "choice": 0, "free": 0}
    _count(root, counts)
    return f"{counts['fixed']} fixed, {counts['choice']} scored, {counts['free']} generated"


def _count(node: Node, counts: dict[str, int]) -> None:
    match node:
        case Fixed():
            counts["fixed"] += 1
        case Choice():
            counts["choice"] += 1
        case Free():
            counts["free"] += 1
        case Record():
            for field in node.fields:
                counts["choice"] += not field.required
                _count(field.node, counts)
        case Union():
            counts["choice"] += 1
            for arm in node.arms:
                _count(arm, counts)
        case Subset():
            counts["choice"] += len(node.options)
        case Repeat():
            counts["choice"] += 1
            _count(node.items[0], counts)
