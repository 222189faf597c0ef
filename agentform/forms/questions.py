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

from agentform.forms.answer import Question, member_key
from agentform.forms.state import FormState
from agentform.forms.value_prefixes import openers_of
from agentform.schema.form import Choice, Field, Fixed, Free, Node, Path, Record, Repeat, Subset, Union
from agentform.schema.json_text import dumps, text_or_json

__all__ = ["EarlyLeaf", "early_free_leaves", "open_questions"]


@dataclass(frozen=True, kw_only=True)
class EarlyLeaf:
    """A free leaf that is written ahead of its turn, since what depends on it, or it on others, stands elsewhere."""

    leaf: Free
    lead: str


def open_questions(state: FormState) -> list[Question]:
    """The questions that can be asked now: the next wave."""
    return [item for item in _walk(state.root, state, _Lead()) if isinstance(item, Question)]


def early_free_leaves(state: FormState) -> list[EarlyLeaf]:
    """The free leaves that are to be written now, ahead of the whole; each has what it depends on in its lead."""
    return [item for item in _walk(state.root, state, _Lead()) if isinstance(item, EarlyLeaf)]


_Item: TypeAlias = Question | EarlyLeaf


@dataclass(frozen=True, kw_only=True)
class _Lead:
    """The text that leads to a value, and the text that closes what was opened."""

    before: str = ""
    after: str = ""
    alone: str = ""
    """`before` without the values of fields that were depended on."""
    early: bool = False
    """Whether a free leaf here is written ahead of its turn."""

    def enter(self, name: str, *, tag: str = "", beside: str = "", early: bool = False) -> _Lead:
        """Inside an object, after a key. `tag` is a union's discriminator, `beside` the fields depended on."""
        return _Lead(
            before=f"{_spaced(self.before)}{{{tag}{beside}{dumps(name)}:",
            after="}" + self.after,
            alone=f"{_spaced(self.alone)}{{{tag}{dumps(name)}:",
            early=early or self.early,
        )

    def item(self, before: Sequence[str]) -> _Lead:
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


def _walk(node: Node, state: FormState, lead: _Lead, tag: str = "") -> Iterator[_Item]:
    match node:
        case Fixed():
            return
        case Free():
            if lead.early and node.path not in state.texts:
                yield EarlyLeaf(leaf=node, lead=lead.before)
        case Choice():
            if state.index(node.path, "value") is None:
                yield _value_question(node, lead)
        case Record():
            for field in node.fields:
                yield from _walk_field(node, field, state, lead, tag)
        case Union():
            yield from _walk_union(node, state, lead)
        case Subset():
            yield from _member_questions(node, state, lead)
        case Repeat():
            yield from _walk_repeat(node, state, lead)


def _walk_repeat(node: Repeat, state: FormState, lead: _Lead) -> Iterator[_Item]:
    count = state.index(node.path, "count")
    if count is None:
        yield _count_question(node, lead)
        return
    before: list[str] = []
    for item in node.items[: node.min_items + count]:
        yield from _walk(item, state, lead.item(before))
        text = state.text_of(item)
        if text is None:
            return
        before.append(text)


def _walk_field(record: Record, field: Field, state: FormState, outer: _Lead, tag: str) -> Iterator[_Item]:
    beside = _written_before(record, field, state)
    if beside is None:
        return
    lead = outer.enter(field.name, tag=tag, beside=beside, early=_is_early(record, field))
    path = (*record.path, field.name)
    if not field.required:
        present = state.index(path, "presence")
        if present is None:
            yield _presence_question(path, field, lead)
        if not present:
            return
    yield from _walk(field.node, state, lead)


def _written_before(record: Record, field: Field, state: FormState) -> str | None:
    """The fields that `field` depends on, as text before its key; `None` while one of them is open."""
    written: list[str] = []
    for parent in (other for other in record.fields if other.name in field.depends_on):
        present = parent.required or state.index((*record.path, parent.name), "presence")
        if present is None:
            return None
        if present:
            text = state.text_of(parent.node)
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


def _walk_union(node: Union, state: FormState, lead: _Lead) -> Iterator[_Item]:
    arm = state.index(node.path, "arm")
    if arm is None:
        yield _arm_question(node, lead)
        return
    tag = f"{dumps(node.discriminator)}: {dumps(node.labels[arm])}, " if node.discriminator else ""
    yield from _walk(node.arms[arm], state, lead, tag)


def _value_question(node: Choice, lead: _Lead) -> Question:
    texts = tuple(lead.option(text) + (lead.after or _end(text)) for text in map(dumps, node.options))
    return Question(
        path=node.path,
        kind="value",
        lead=lead.before,
        texts=texts,
        groups=tuple(range(len(texts))),
        answers=node.options,
        description=node.description,
        alone=_unless(lead.before, lead.alone),
        nothing=next((at for at, option in enumerate(node.options) if option is None), None),
    )


def _unless(lead: str, alone: str) -> str | None:
    return None if alone == lead else alone


def _end(text: str) -> str:
    """What ends a value at the root: without it, 1 could not be told from 12."""
    return "\n" if text[-1].isdigit() else ""


def _member_questions(node: Subset, state: FormState, lead: _Lead) -> Iterator[Question]:
    """Each option is asked for as a key of its own: ``{"tags": {"red": true`` or `false`."""
    for at, option in enumerate(node.options):
        path, kind = member_key(node, at)
        if (path, kind) in state.answers:
            continue
        inner = lead.enter(text_or_json(option))
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


def _count_question(node: Repeat, lead: _Lead) -> Question:
    """How many items: asked beside the list's own key, since a list does not begin with its length."""
    counts = range(node.min_items, len(node.items) + 1)
    before, alone = _beside_key(lead.before, "count"), _beside_key(lead.alone, "count")
    return Question(
        path=node.path,
        kind="count",
        lead=before,
        texts=tuple(f" {count}{lead.after or '}'}" for count in counts),
        groups=tuple(range(len(counts))),
        answers=tuple(counts),
        description=node.description,
        alone=_unless(before, alone),
    )


def _presence_question(path: Path, field: Field, lead: _Lead) -> Question:
    # An absent property is asked for as null: the one way to say "nothing" in the place of the value.
    openers = [opener for opener in openers_of(field.node) if opener != "null"]
    texts = [lead.option("null") + lead.after, *(lead.option(opener) for opener in openers)]
    return Question(
        path=path,
        kind="presence",
        lead=lead.before,
        texts=tuple(texts),
        groups=(0, *(1 for _ in openers)),
        answers=(False, True),
        description=field.node.description,
        alone=_unless(lead.before, lead.alone),
        nothing=0,
    )


def _arm_question(node: Union, lead: _Lead) -> Question:
    groups = list(range(len(node.arms)))
    if node.discriminator is not None:
        inner = lead.enter(node.discriminator)
        texts = [inner.option(dumps(label)) + inner.after for label in node.labels]
        return _arm(node, inner.before, inner.alone, texts, groups)
    openers = [openers_of(arm) for arm in node.arms]
    firsts = [opener[0] for arm in openers for opener in arm]
    if len(set(firsts)) == len(firsts):
        texts = [lead.option(opener) for arm in openers for opener in arm]
        return _arm(node, lead.before, lead.alone, texts, [i for i, arm in enumerate(openers) for _ in arm])
    after = lead.after if lead.before else "}"
    texts = [f" {dumps(label)}{after}" for label in node.labels]
    # Arms that begin alike are told apart by name.
    return _arm(node, _beside_key(lead.before, "type"), _beside_key(lead.alone, "type"), texts, groups)


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
