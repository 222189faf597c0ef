"""Schemas with valid and invalid instances: the public collection below `--data`, or a handful that are shipped."""

from __future__ import annotations

import json
import random
import tarfile
from dataclasses import dataclass
from typing import Any

from agentform.errors import InvalidInput
from agentform.grammar.vocabulary import Vocabulary
from benchmarks.common.harness import Context

__all__ = ["QUICK_CASES", "SEED", "Case", "cases", "tokenizer_json", "vocabulary_of"]

SEED = 0
QUICK_CASES = 200
_ENDS = ("<|im_end|>", "<|endoftext|>")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One schema and its instances, each with whether the collection calls it valid."""

    name: str
    schema: Any
    instances: tuple[tuple[Any, bool], ...]


def cases(context: Context) -> list[Case]:
    """All cases in a fixed order that mixes the parts of the collection, or the first of them."""
    if context.data is None:
        return list(_SHIPPED)
    found = _read(context)
    random.Random(SEED).shuffle(found)
    return found[:QUICK_CASES] if context.quick else found


def tokenizer_json(context: Context) -> str:
    """The tokenizer that masks are made for."""
    if context.data is not None:
        return context.need("tokenizers", "qwen3", "tokenizer.json").read_text(encoding="utf-8")
    from agentform.runtime.models.catalogue import CATALOGUE
    from agentform.runtime.models.resolve import ensure_weights

    return (ensure_weights(CATALOGUE["smollm2-135m"]) / "tokenizer.json").read_text(encoding="utf-8")


def vocabulary_of(tokenizer_json: str) -> Vocabulary:
    """The vocabulary of a tokenizer file, ended by its ChatML tokens."""
    added = json.loads(tokenizer_json)["added_tokens"]
    words = json.loads(tokenizer_json)["model"]["vocab"]
    size = max([item["id"] for item in added] + list(words.values())) + 1
    ends = [item["id"] for item in added if item["content"] in _ENDS]
    return Vocabulary(tokenizer_json, size=size, eos_ids=ends)


def _read(context: Context) -> list[Case]:
    found: list[Case] = []
    with tarfile.open(context.need("schemas", "maskbench.dev.tar.gz")) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() and member.name.endswith(".json") else None
            if file is not None:
                found.append(_case(member.name, json.load(file)))
    if not found:
        raise InvalidInput("the collection of schemas is empty")
    return sorted(found, key=lambda case: case.name)


def _case(name: str, said: Any) -> Case:
    instances = tuple((item["data"], bool(item["valid"])) for item in said["tests"])
    return Case(name=name.rpartition("/")[2].removesuffix(".json"), schema=said["schema"], instances=instances)


_PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["new", "vip"]}, "uniqueItems": True},
    },
    "required": ["name"],
    "additionalProperties": False,
}
_TREE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["v", "kids"],
}
_SHIPPED = (
    Case(
        name="person",
        schema=_PERSON,
        instances=(
            ({"name": "Ada", "age": 36}, True),
            ({"name": "", "age": 36}, False),
            ({"name": "Ada", "x": 1}, False),
        ),
    ),
    Case(
        name="tree",
        schema=_TREE,
        instances=(({"v": 1, "kids": [{"v": 2, "kids": []}]}, True), ({"v": 1, "kids": [2]}, False)),
    ),
    Case(name="unique", schema=_PERSON, instances=(({"name": "Ada", "tags": ["new", "new"]}, False),)),
    Case(name="pattern", schema={"type": "string", "pattern": "^(?!a)b+$"}, instances=(("bb", True), ("ab", False))),
)
