"""What a form still needs to be asked: choices of values, of union arms, and of whether a property is there.

A question is scored where its answer would be written: after its own key, in an object that holds nothing else but
the keys above it. That makes questions independent of one another, so that one batch answers them all; what depends
on an answer (an arm's leaves, the value of an optional property) is asked in the next wave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agentform.messages import JsonValue
from agentform.schema.form import Choice, Field, Fixed, Free, Node, Path, Record, Union
from agentform.schema.json_text import dumps

__all__ = ["Decisions", "Kind", "Question", "open_questions"]

Kind = Literal["value", "arm", "presence", "action"]
Decisions: TypeAlias = Mapping[tuple[Path, Kind], int]
"""Index of the answer taken, per place and kind of question."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """One choice, as text in context."""

    path: Path
    kind: Kind
    lead: str
    """What is written between the opening of the arguments and the options."""
    texts: tuple[str, ...]
    """Option texts, each with the text that follows it."""
    groups: tuple[int, ...]
    """The answer that each text stands for; several texts may stand for one answer."""
    answers: tuple[JsonValue, ...]
    """What each answer means: a value, an arm's label, or whether the property is present."""
    description: str = ""

    @property
    def key(self) -> tuple[Path, Kind]:
        """Where in `Decisions` the answer goes."""
        return (self.path, self.kind)


def open_questions(root: Node, decisions: Decisions) -> list[Question]:
    """The questions that can be asked now: the next wave. Empty when every choice is made."""
    return list(_walk(root, decisions, _Place()))


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where a value would be written: the text up to it, and the text that closes what was opened."""

    before: str = ""
    after: str = ""

    def enter(self, name: str, *, beside: str = "") -> _Place:
        start = f"{self.before}{{" if not self.before else f"{self.before} {{"
        return _Place(before=f"{start}{beside}{dumps(name)}:", after="}" + self.after)

    def option(self, text: str) -> str:
        # A value is set off by a space from its key; at the root nothing stands before it.
        return (" " if self.before else "") + text


def _walk(node: Node, decisions: Decisions, place: _Place, beside: str = "") -> Iterator[Question]:
    match node:
        case Fixed() | Free():
            return
        case Choice():
            if (node.path, "value") not in decisions:
                yield _value_question(node, place)
        case Record():
            for field in node.fields:
                yield from _walk_field(node, field, decisions, place.enter(field.name, beside=beside))
        case Union():
            yield from _walk_union(node, decisions, place)


def _walk_field(record: Record, field: Field, decisions: Decisions, place: _Place) -> Iterator[Question]:
    path = (*record.path, field.name)
    if not field.required:
        present = decisions.get((path, "presence"))
        if present is None:
            yield _presence_question(path, field, place)
        if not present:
            return
    yield from _walk(field.node, decisions, place)


def _walk_union(node: Union, decisions: Decisions, place: _Place) -> Iterator[Question]:
    arm = decisions.get((node.path, "arm"))
    if arm is None:
        yield _arm_question(node, place)
        return
    beside = f"{dumps(node.discriminator)}: {dumps(node.labels[arm])}, " if node.discriminator else ""
    yield from _walk(node.arms[arm], decisions, place, beside)


def _value_question(node: Choice, place: _Place) -> Question:
    texts = tuple(place.option(text) + (place.after or _end(text)) for text in map(dumps, node.options))
    return Question(
        path=node.path,
        kind="value",
        lead=place.before,
        texts=texts,
        groups=tuple(range(len(texts))),
        answers=node.options,
        description=node.description,
    )


def _end(text: str) -> str:
    """What ends a value at the root: without it, 1 could not be told from 12."""
    return "\n" if text[-1].isdigit() else ""


def _presence_question(path: Path, field: Field, place: _Place) -> Question:
    # An absent property is asked for as null: the one way to say "nothing" in the place of the value.
    openers = [opener for opener in _openers(field.node) if opener != "null"]
    texts = [place.option("null") + place.after, *(place.option(opener) for opener in openers)]
    return Question(
        path=path,
        kind="presence",
        lead=place.before,
        texts=tuple(texts),
        groups=(0, *(1 for _ in openers)),
        answers=(False, True),
        description=field.node.description,
    )


def _arm_question(node: Union, place: _Place) -> Question:
    if node.discriminator is not None:
        inner = place.enter(node.discriminator)
        texts, groups = (
            [inner.option(dumps(label)) + inner.after for label in node.labels],
            range(len(node.arms)),
        )
        return _arm(node, inner.before, texts, groups)
    openers = [_openers(arm) for arm in node.arms]
    firsts = [opener[0] for arm in openers for opener in arm]
    if len(set(firsts)) == len(firsts):
        texts = [place.option(opener) for arm in openers for opener in arm]
        return _arm(node, place.before, texts, [i for i, arm in enumerate(openers) for _ in arm])
    # Arms that begin alike are told apart by name, asked beside the value's own key.
    lead = place.before.removesuffix(":").removesuffix('"') + ' type":' if place.before else '{"type":'
    after = place.after if place.before else "}"
    return _arm(node, lead, [f" {dumps(label)}{after}" for label in node.labels], range(len(node.arms)))


def _arm(node: Union, lead: str, texts: list[str], groups: range | list[int]) -> Question:
    return Question(
        path=node.path,
        kind="arm",
        lead=lead,
        texts=tuple(texts),
        groups=tuple(groups),
        answers=node.labels,
        description=node.description,
    )


_BY_TYPE: Mapping[str, tuple[str, ...]] = {
    "string": ('"',),
    "number": ("-", *"0123456789"),
    "integer": ("-", *"0123456789"),
    "boolean": ("true", "false"),
    "array": ("[",),
    "object": ("{",),
    "null": ("null",),
}
_ANYTHING = ('"', "-", *"0123456789", "true", "false", "[", "{", "null")


def _openers(node: Node) -> tuple[str, ...]:
    """Texts with which a value of this node can begin, pairwise not prefixes of one another."""
    match node:
        case Fixed():
            return (_opener(node.value),)
        case Choice():
            return tuple(dict.fromkeys(_opener(option) for option in node.options))
        case Free():
            return _free_openers(node)
        case Record():
            return ("{",)
        case Union():
            return tuple(dict.fromkeys(opener for arm in node.arms for opener in _openers(arm)))


def _opener(value: JsonValue) -> str:
    text = dumps(value)
    return text[0] if text[0] in '"[{' or text[0].isdigit() or text[0] == "-" else text


def _free_openers(node: Free) -> tuple[str, ...]:
    if isinstance(node.schema, bool):
        return _ANYTHING
    declared = node.schema.get("type")
    types = [declared] if isinstance(declared, str) else declared
    if not isinstance(types, list):
        return _ANYTHING
    return tuple(dict.fromkeys(opener for name in types for opener in _BY_TYPE.get(str(name), _ANYTHING)))
