"""Function-calling questions with their tools and accepted answers: BFCL from `--data`, else a few invented ones."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentform.messages import Message
from benchmarks.common.harness import Context
from benchmarks.schemas.functions import as_json_schema

__all__ = ["Question", "load_questions"]

FIXTURE = Path(__file__).with_name("questions.json")
_PARTS = ("simple_python", "multiple", "live_simple")
_SEED = 7


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question that one call answers."""

    id: str
    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...]
    """{"name", "description", "parameters"} in JSON Schema's words, every object closed."""
    accepted: Mapping[str, Mapping[str, Sequence[Any]]]
    """By tool, by parameter: the values that count; "" among them when it may be left out."""
    declared: Mapping[str, Mapping[str, Any]]
    """The tools' parameters in the data's own words, by name."""


def load_questions(context: Context, count: int) -> list[Question]:
    """At most `count` questions, a third of each part, drawn with a fixed seed; the shipped ones without data."""
    if context.data is None:
        return [_question(row, row["ground_truth"]) for row in json.loads(FIXTURE.read_text(encoding="utf-8"))][:count]
    drawn: list[list[Question]] = []
    for part in _PARTS:
        answers = {row["id"]: row["ground_truth"] for row in _lines(context, "possible_answer", part)}
        questions = [_question(row, answers[row["id"]]) for row in _lines(context, "", part) if row["id"] in answers]
        random.Random(_SEED).shuffle(questions)
        drawn.append(questions)
    mixed = [question for three in zip(*drawn, strict=False) for question in three]
    return mixed[:count]


def _question(row: Mapping[str, Any], truth: Sequence[Mapping[str, Any]]) -> Question:
    tools = [
        {
            "name": _name(said["name"]),
            "description": said["description"],
            "parameters": _closed(as_json_schema(said["parameters"])),
        }
        for said in row["function"]
    ]
    return Question(
        id=row["id"],
        messages=tuple(Message(role=said["role"], content=said["content"]) for said in row["question"][0]),
        tools=tuple(tools),
        accepted={_name(name): given for call in truth for name, given in call.items()},
        declared={_name(said["name"]): said["parameters"] for said in row["function"]},
    )


def _name(given: str) -> str:
    """Without dots, which many systems do not take; BFCL itself replaces them for those."""
    return given.replace(".", "_")


def _closed(schema: Any) -> Any:
    """Every object with named properties takes no others: how a grammar reads an open one differs by peer."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {
        key: {name: _closed(item) for name, item in value.items()} if key == "properties" else _closed(value)
        for key, value in schema.items()
        if key not in ("default", "optional")
    }
    return {**made, "additionalProperties": False} if "properties" in made else made


def _lines(context: Context, folder: str, part: str) -> Iterator[Any]:
    parts = ["bfcl", *([folder] if folder else []), f"BFCL_v4_{part}.jsonl.gz"]
    with gzip.open(context.need(*parts), "rt", encoding="utf-8") as file:
        yield from (json.loads(line) for line in file)
