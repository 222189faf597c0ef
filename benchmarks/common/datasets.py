"""The public sets as items, read from the folder that `--data` names, and the few invented forms that are shipped."""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentform.messages import Message, Role
from benchmarks.common.harness import Context
from benchmarks.common.items import ClosedField, Item

__all__ = ["SETS", "SINGLE", "load_items", "sampled"]

SINGLE = ("ag_news", "sst2", "sms_spam", "snips", "trec")
"""The one-field sets."""
FIXTURE = Path(__file__).with_name("fixture.json")


def load_items(context: Context, name: str) -> list[Item]:
    """All items of one set in file order; of the shipped forms when no data folder was given.

    Raises InvalidInput when the data folder does not hold the set.
    """
    if context.data is None:
        return [item for item in _shipped() if item.set == name]
    return list(SETS[name](context))


def sampled(items: Sequence[Item], count: int, seed: int) -> list[Item]:
    """At most `count` items drawn without replacement, in a random order."""
    drawn = list(items)
    random.Random(seed).shuffle(drawn)
    return drawn[:count]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def _user(text: str) -> tuple[Message, ...]:
    return (Message(role="user", content=text),)


def _single(name: str) -> Callable[[Context], Iterator[Item]]:
    def read(context: Context) -> Iterator[Item]:
        for number, row in enumerate(_lines(context.need("forms", "single", f"{name}.dev.jsonl.gz"))):
            field = ClosedField(
                name=row["field"],
                description=row["description"],
                options=tuple(row["options"]),
                gold=(row["gold"],),
            )
            yield Item(
                id=f"{name}_{number}",
                set=name,
                form=name,
                about="",
                messages=_user(row["text"]),
                fields=(field,),
            )

    return read


def _sgd(context: Context) -> Iterator[Item]:
    roles: dict[str, Role] = {"USER": "user", "SYSTEM": "assistant"}
    for row in _lines(context.need("forms", "sgd.jsonl.gz")):
        fields = (
            ClosedField(name=f["name"], description=f["description"], options=tuple(f["options"]), gold=(f["gold"],))
            for f in row["fields"]
        )
        yield Item(
            id=row["id"],
            set="sgd",
            form=row["service"],
            about=row["service_description"],
            messages=tuple(Message(role=roles[who], content=text) for who, text in row["history"]),
            fields=tuple(fields),
        )


def _bfcl(context: Context) -> Iterator[Item]:
    for row in _lines(context.need("forms", "bfcl_closed_fields.jsonl.gz")):
        fields = tuple(
            ClosedField(
                name=f["name"],
                description=f["description"],
                options=tuple(f["options"]),
                gold=tuple(f["gold"]),
            )
            for f in row["closed_fields"]
            if len(f["options"]) > 1
        )
        if fields:
            tool = row["gold_tool"]
            yield Item(
                id=row["id"],
                set="bfcl",
                form=tool,
                about=row["tool_descriptions"].get(tool, ""),
                messages=tuple(Message(role=m["role"], content=m["content"]) for m in row["question"][0]),
                fields=fields,
            )


def _clinc(context: Context) -> Iterator[Item]:
    domains: Mapping[str, list[str]] = json.loads(context.need("forms", "clinc150", "domains.json").read_text())
    intents = tuple(intent for members in domains.values() for intent in members)
    rows = json.loads(context.need("forms", "clinc150", "test.dev.json").read_text())["test"]
    for number, (text, intent) in enumerate(rows):
        field = ClosedField(name="intent", description="What the user wants", options=intents, gold=(intent,))
        yield Item(
            id=f"clinc150_{number}",
            set="clinc150",
            form="clinc150",
            about="",
            messages=_user(text),
            fields=(field,),
        )


def _banking(context: Context) -> Iterator[Item]:
    names = tuple(json.loads(context.need("forms", "banking77", "categories.json").read_text()))
    with context.need("forms", "banking77", "test.csv").open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.DictReader(file)):
            field = ClosedField(
                name="intent",
                description="What the customer is asking about",
                options=names,
                gold=(row["category"],),
            )
            yield Item(
                id=f"banking77_{number}",
                set="banking77",
                form="banking77",
                about="",
                messages=_user(row["text"]),
                fields=(field,),
            )


def _shipped() -> Iterator[Item]:
    for row in json.loads(FIXTURE.read_text(encoding="utf-8")):
        yield Item(
            id=row["id"],
            set=row["set"],
            form=row["form"],
            about=row["about"],
            messages=tuple(Message(role=role, content=text) for role, text in row["messages"]),
            fields=tuple(
                ClosedField(
                    name=f["name"], description=f["description"], options=tuple(f["options"]), gold=(f["gold"],)
                )
                for f in row["fields"]
            ),
        )


SETS: Mapping[str, Callable[[Context], Iterator[Item]]] = {
    **{name: _single(name) for name in SINGLE},
    "sgd": _sgd,
    "bfcl": _bfcl,
    "clinc150": _clinc,
    "banking77": _banking,
}
"""Readers by set name."""
