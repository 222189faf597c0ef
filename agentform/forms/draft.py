"""Fills one form: waves of scored choices, then the JSON with free leaves generated in place, then the true schema."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agentform.decoding.insertion_point import Place
from agentform.decoding.session import Session
from agentform.errors import Violation
from agentform.forms.beam_search import Answers, Decided, decide, indices
from agentform.forms.generate import Written, write
from agentform.forms.json_pieces import MEMBER, Kind, member_key, pieces
from agentform.forms.progress import Watch
from agentform.forms.scoring import Priors, Scoring
from agentform.messages import Evidence, How, JsonValue
from agentform.schema.dependencies import in_order
from agentform.schema.form import Choice, Field, Fixed, Free, Node, Path, Record, Repeat, Subset, Union, pointer
from agentform.schema.json_text import loads
from agentform.schema.target import Target

__all__ = ["Draft", "Filling", "RetryPlace", "draft_in_sequence", "evidence_of", "first_draft", "write_draft"]

RetryPlace = Callable[[str, Sequence[Violation]], Awaitable[Place]]
"""Makes a place from which a refused form can be filled again, the refused JSON and its faults in view."""


@dataclass(frozen=True, kw_only=True)
class Filling:
    """Everything that filling one form needs."""

    target: Target
    place: Place
    """Where the form's JSON begins."""
    closing: str = ""
    """Text that follows the form's JSON."""
    priors: Priors | None = None
    scoring: Scoring = field(default_factory=Scoring)
    retry: RetryPlace
    watch: Watch | None = None


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A filled form that may still be invalid."""

    answers: Answers
    written: Written
    how: Mapping[Path, How] = field(default_factory=dict[Path, How])
    """Leaves that were decided otherwise than scored or generated."""
    gap: float | None = None
    """Log probability that the joint solution gave up."""

    @property
    def value(self) -> JsonValue:
        """The form's value."""
        return loads(self.written.text)


async def first_draft(session: Session, filling: Filling) -> Draft:
    """The form as the model fills it when it is first asked.

    Raises what `decide` and `write` raise.
    """
    root, place = filling.target.form.root, filling.place
    decided = await decide(session, place, root, scoring=filling.scoring, priors=filling.priors, watch=filling.watch)
    return await _write_decided(session, filling, decided, place)


async def draft_in_sequence(
    session: Session, filling: Filling, place: Place, *, answers: Answers, texts: Mapping[Path, str]
) -> Draft:
    """The form with all that `answers` and `texts` do not hold decided leaf by leaf, each with those before it in view.

    Raises what `decide` and `write` raise.
    """
    root = in_sequence(filling.target.form.root)
    decided = await decide(
        session,
        place,
        root,
        scoring=filling.scoring,
        priors=filling.priors,
        answers=answers,
        texts=texts,
        watch=filling.watch,
    )
    return await _write_decided(session, filling, decided, place)


async def _write_decided(session: Session, filling: Filling, decided: Decided, place: Place) -> Draft:
    await _tell_choices(filling, decided)
    draft = await write_draft(session, filling, decided.answers, place=place, known=decided.texts)
    return replace(draft, how=dict(draft.how) | _repaired(decided.cut_short))


async def write_draft(
    session: Session,
    filling: Filling,
    answers: Answers,
    *,
    place: Place | None = None,
    known: Mapping[Path, str] | None = None,
) -> Draft:
    """Write the form with its answers; free leaves in `known` keep that JSON text.

    Raises:
        ArgumentsTruncated: a free leaf was not complete within its token limit.
    """
    parts = pieces(filling.target.form.root, indices(answers))
    context = (place or filling.place).json()
    written = await write(session, context, parts, closing=filling.closing, known=known, watch=filling.watch)
    return Draft(answers=answers, written=written, how=_repaired(written.cut_short))


def _repaired(paths: Iterable[Path]) -> dict[Path, How]:
    return dict.fromkeys(paths, "repaired")


def in_sequence(node: Node) -> Node:
    """The same form with every field depending on all that are decided before it."""
    match node:
        case Record():
            order = in_order({field.name: field.depends_on for field in node.fields})
            before = {name: tuple(order[:at]) for at, name in enumerate(order)}
            fields = [replace(f, node=in_sequence(f.node), depends_on=before[f.name]) for f in node.fields]
            return replace(node, fields=tuple(fields))
        case Union():
            return replace(node, arms=tuple(map(in_sequence, node.arms)))
        case Repeat():
            return replace(node, items=tuple(map(in_sequence, node.items)))
        case _:
            return node


async def _tell_choices(filling: Filling, decided: Decided) -> None:
    if filling.watch:
        draft = Draft(answers=decided.answers, written=Written(text="", free={}))
        await filling.watch.chosen(evidence_of(filling.target.form.root, draft))


def evidence_of(root: Node, draft: Draft) -> tuple[Evidence, ...]:
    """How each leaf got its value, in written order; free leaves that are not written yet are left out."""
    return tuple(_evidence(root, draft))


def _evidence(node: Node, draft: Draft) -> list[Evidence]:
    match node:
        case Fixed():
            return [Evidence(pointer=pointer(node.path), value=node.value, how="fixed")]
        case Choice():
            return [_scored(draft, node.path, "value")]
        case Free() if node.path not in draft.written.free:
            return []
        case Free():
            value = loads(draft.written.free[node.path])
            how = draft.how.get(node.path, "generated")
            return [Evidence(pointer=pointer(node.path), value=value, how=how)]
        case Record():
            return [item for field in node.fields for item in _field_evidence(node, field, draft)]
        case Union():
            return _union_evidence(node, draft)
        case Subset():
            return [_subset_evidence(node, draft)]
        case Repeat():
            count = draft.answers[node.path, "count"]
            items = node.items[: node.min_items + count.index]
            return [count.evidence(), *(found for item in items for found in _evidence(item, draft))]


def _field_evidence(record: Record, item: Field, draft: Draft) -> list[Evidence]:
    path = (*record.path, item.name)
    if item.required:
        return _evidence(item.node, draft)
    presence = draft.answers[path, "presence"]
    return _evidence(item.node, draft) if presence.index else [replace(presence.evidence(), value=None)]


def _union_evidence(node: Union, draft: Draft) -> list[Evidence]:
    """A scored or fixed arm is one leaf, decided as the arm; below any other arm there are leaves of its own."""
    answer = draft.answers[node.path, "arm"]
    arm = node.arms[answer.index]
    match arm:
        case Fixed():
            return [replace(answer.evidence(), value=arm.value)]
        case Free():
            written = _evidence(arm, draft)
            return [replace(answer.evidence(), value=item.value, how=item.how) for item in written]
        case Record():
            return [answer.evidence(), *_evidence(arm, draft)]
        case _:
            return _evidence(arm, draft)


def _subset_evidence(node: Subset, draft: Draft) -> Evidence:
    """The list as one leaf: the probability of its members and of the others' absence together."""
    found = [draft.answers[member_key(node, at)] for at in range(len(node.options))]
    return Evidence(
        pointer=pointer(node.path),
        value=[option for option, answer in zip(node.options, found, strict=True) if answer.index == MEMBER],
        how=draft.how.get(node.path, "scored"),
        probability=math.prod(answer.probabilities[answer.index] for answer in found),
        raw_probability=math.prod(answer.raw_probabilities[answer.index] for answer in found),
        legal_mass=min(answer.legal_mass for answer in found),
    )


def _scored(draft: Draft, path: Path, kind: Kind) -> Evidence:
    how = draft.how.get(path)
    return draft.answers[path, kind].evidence(how=how, gap=draft.gap if how == "joint" else None)
