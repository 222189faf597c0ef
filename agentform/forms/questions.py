"""What a form still needs to be asked: choices of values, of union arms, and of whether a property is there.

A question is scored where its answer would be written: after its own key, in an object that holds nothing else but
the keys above it. That makes questions independent of one another, so that one batch answers them all. What depends
on an answer is asked in a later wave: an arm's leaves, the value of an optional property (or ahead, with its
presence), and a field that depends on others, which is scored with their values written before its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from agentform.forms.json_pieces import Decisions, Kind, Texts, member_key, text_of
from agentform.forms.value_prefixes import openers_of
from agentform.messages import JsonValue
from agentform.schema.form import Choice, Field, Fixed, Free, Node, Path, Record, Repeat, Subset, Union
from agentform.schema.json_text import dumps

__all__ = ["FreePlace", "Question", "early_free_leaves", "open_questions"]


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
    alone: str | None = None
    """`lead` without the values of other fields, where it holds some: the label prior is measured there."""

    nothing: int | None = None
    """The answer that stands for "nothing is said": null, a null arm, absence."""

    @property
    def key(self) -> tuple[Path, Kind]:
        """Where in `Decisions` the answer goes."""
        return (self.path, self.kind)

    @property
    def place(self) -> tuple[str, ...]:
        """What tells the questions of a form apart; the same question may be asked after several leads."""
        return (self.kind, self.lead, *self.path)

    @property
    def for_prior(self) -> Question:
        """The same question where its label prior is measured."""
        return self if self.alone is None else replace(self, lead=self.alone, alone=None)


@dataclass(frozen=True, kw_only=True)
class FreePlace:
    """A free leaf that is written ahead of its turn, since what depends on it, or it on others, stands elsewhere."""

    leaf: Free
    lead: str


def open_questions(root: Node, decisions: Decisions, texts: Texts | None = None) -> list[Question]:
    """The questions that can be asked now: the next wave."""
    return [item for item in _walk(root, _Known(decisions, texts or {}), _Place()) if isinstance(item, Question)]


def early_free_leaves(root: Node, decisions: Decisions, texts: Texts) -> list[FreePlace]:
    """The free leaves that are to be written now, ahead of the whole; each has what it depends on in its lead."""
    return [item for item in _walk(root, _Known(decisions, texts), _Place()) if isinstance(item, FreePlace)]


_Item: TypeAlias = Question | FreePlace


@dataclass(frozen=True)
class _Known:
    decisions: Decisions
    texts: Texts


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where a value would be written: the text up to it, and the text that closes what was opened."""

    before: str = ""
    after: str = ""
    alone: str = ""
    """`before` without the values of fields that were depended on."""
    early: bool = False
    """Whether a free leaf here is written ahead of its turn."""

    def enter(self, name: str, *, tag: str = "", beside: str = "", early: bool = False) -> _Place:
        """Inside an object, after a key. `tag` is a union's discriminator, `beside` the fields depended on."""
        return _Place(
            before=f"{_spaced(self.before)}{{{tag}{beside}{dumps(name)}:",
            after="}" + self.after,
            alone=f"{_spaced(self.alone)}{{{tag}{dumps(name)}:",
            early=early or self.early,
        )

    def item(self, before: Sequence[str]) -> _Place:
        """Inside a list, after the items before."""
        items = ", ".join(before) + ("," if before else "")
        return replace(
            self,
            before=f"{_spaced(self.before)}[{items}",
            after="]" + self.after,
            alone=f"{_spaced(self.alone)}[",
        )

    def option(self, text: str) -> str:
        """The text of an option here."""
        return _spaced(self.before)[len(self.before) :] + text


def _spaced(before: str) -> str:
    """The text before a value, with the space that sets it off; none at the root and before a list's first item."""
    return before if before[-1:] in ("", "[") else before + " "


def _walk(node: Node, known: _Known, place: _Place, tag: str = "") -> Iterator[_Item]:
    match node:
        case Fixed():
            return
        case Free():
            if place.early and node.path not in known.texts:
                yield FreePlace(leaf=node, lead=place.before)
        case Choice():
            if (node.path, "value") not in known.decisions:
                yield _value_question(node, place)
        case Record():
            for field in node.fields:
                yield from _walk_field(node, field, known, place, tag)
        case Union():
            yield from _walk_union(node, known, place)
        case Subset():
            yield from _member_questions(node, known, place)
        case Repeat():
            yield from _walk_repeat(node, known, place)


def _walk_repeat(node: Repeat, known: _Known, place: _Place) -> Iterator[_Item]:
    count = known.decisions.get((node.path, "count"))
    if count is None:
        yield _count_question(node, place)
        return
    before: list[str] = []
    for item in node.items[: node.min_items + count]:
        yield from _walk(item, known, place.item(before))
        text = text_of(item, known.decisions, known.texts)
        if text is None:
            return
        before.append(text)


def _walk_field(record: Record, field: Field, known: _Known, outer: _Place, tag: str) -> Iterator[_Item]:
    beside = _written_before(record, field, known)
    if beside is None:
        return
    place = outer.enter(field.name, tag=tag, beside=beside, early=_is_early(record, field))
    path = (*record.path, field.name)
    if not field.required:
        present = known.decisions.get((path, "presence"))
        if present is None:
            yield _presence_question(path, field, place)
        if not present:
            return
    yield from _walk(field.node, known, place)


def _written_before(record: Record, field: Field, known: _Known) -> str | None:
    """The fields that `field` depends on, as text before its key; `None` while one of them is open."""
    written: list[str] = []
    for parent in (other for other in record.fields if other.name in field.depends_on):
        present = parent.required or known.decisions.get(((*record.path, parent.name), "presence"))
        if present is None:
            return None
        if present:
            text = text_of(parent.node, known.decisions, known.texts)
            if text is None:
                return None
            written.append(f"{dumps(parent.name)}: {text}, ")
    return "".join(written)


def _is_early(record: Record, field: Field) -> bool:
    """Whether a free leaf in the field cannot wait for its turn: another field waits for it, or it for a later one."""
    names = [other.name for other in record.fields]
    later = names[names.index(field.name) + 1 :]
    return any(field.name in other.depends_on for other in record.fields) or any(
        parent in later for parent in field.depends_on
    )


def _walk_union(node: Union, known: _Known, place: _Place) -> Iterator[_Item]:
    arm = known.decisions.get((node.path, "arm"))
    if arm is None:
        yield _arm_question(node, place)
        return
    tag = f"{dumps(node.discriminator)}: {dumps(node.labels[arm])}, " if node.discriminator else ""
    yield from _walk(node.arms[arm], known, place, tag)


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
        alone=_unless(place.before, place.alone),
        nothing=next((at for at, option in enumerate(node.options) if option is None), None),
    )


def _unless(lead: str, alone: str) -> str | None:
    return None if alone == lead else alone


def _end(text: str) -> str:
    """What ends a value at the root: without it, 1 could not be told from 12."""
    return "\n" if text[-1].isdigit() else ""


def _member_questions(node: Subset, known: _Known, place: _Place) -> Iterator[Question]:
    """Each option is asked for as a key of its own: ``{"tags": {"red": true`` or `false`."""
    for at, option in enumerate(node.options):
        path, kind = member_key(node, at)
        if (path, kind) in known.decisions:
            continue
        inner = place.enter(option if isinstance(option, str) else dumps(option))
        yield Question(
            path=path,
            kind=kind,
            lead=inner.before,
            texts=tuple(inner.option(text) + inner.after for text in ("true", "false")),
            groups=(0, 1),
            answers=(True, False),
            description=node.description,
            alone=_unless(inner.before, inner.alone),
        )


def _count_question(node: Repeat, place: _Place) -> Question:
    """How many items: asked beside the list's own key, since a list does not begin with its length."""
    counts = range(node.min_items, len(node.items) + 1)
    lead, alone = _beside_key(place.before, "count"), _beside_key(place.alone, "count")
    return Question(
        path=node.path,
        kind="count",
        lead=lead,
        texts=tuple(f" {count}{place.after or '}'}" for count in counts),
        groups=tuple(range(len(counts))),
        answers=tuple(counts),
        description=node.description,
        alone=_unless(lead, alone),
    )


def _presence_question(path: Path, field: Field, place: _Place) -> Question:
    # An absent property is asked for as null: the one way to say "nothing" in the place of the value.
    openers = [opener for opener in openers_of(field.node) if opener != "null"]
    texts = [place.option("null") + place.after, *(place.option(opener) for opener in openers)]
    return Question(
        path=path,
        kind="presence",
        lead=place.before,
        texts=tuple(texts),
        groups=(0, *(1 for _ in openers)),
        answers=(False, True),
        description=field.node.description,
        alone=_unless(place.before, place.alone),
        nothing=0,
    )


def _arm_question(node: Union, place: _Place) -> Question:
    groups = list(range(len(node.arms)))
    if node.discriminator is not None:
        inner = place.enter(node.discriminator)
        texts = [inner.option(dumps(label)) + inner.after for label in node.labels]
        return _arm(node, inner.before, inner.alone, texts, groups)
    openers = [openers_of(arm) for arm in node.arms]
    firsts = [opener[0] for arm in openers for opener in arm]
    if len(set(firsts)) == len(firsts):
        texts = [place.option(opener) for arm in openers for opener in arm]
        return _arm(node, place.before, place.alone, texts, [i for i, arm in enumerate(openers) for _ in arm])
    after = place.after if place.before else "}"
    texts = [f" {dumps(label)}{after}" for label in node.labels]
    # Arms that begin alike are told apart by name.
    return _arm(node, _beside_key(place.before, "type"), _beside_key(place.alone, "type"), texts, groups)


def _beside_key(before: str, what: str) -> str:
    """The lead in which `what` of the value is asked for in its place: ``"pet":`` becomes ``"pet type":``."""
    key = '":'
    return f"{before.removesuffix(key)} {what}{key}" if before.endswith(key) else f'{before}{{"{what}":'


def _arm(node: Union, lead: str, alone: str, texts: list[str], groups: list[int]) -> Question:
    return Question(
        path=node.path,
        kind="arm",
        lead=lead,
        texts=tuple(texts),
        groups=tuple(groups),
        answers=node.labels,
        description=node.description,
        alone=_unless(lead, alone),
        nothing=next((i for i, arm in enumerate(node.arms) if isinstance(arm, Fixed) and arm.value is None), None),
    )
