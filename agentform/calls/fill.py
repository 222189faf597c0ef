"""Fills one form: waves of scored choices, then the JSON with free leaves generated in place, then the true schema."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agentform.calls.choose import Priors, Scoring
from agentform.calls.decide import Answers, decide, indices
from agentform.calls.session import Session
from agentform.calls.text import Kind, pieces
from agentform.calls.transcript import Context
from agentform.calls.writer import Written, write
from agentform.errors import Violation
from agentform.messages import Evidence, How, JsonValue
from agentform.schema.depends import in_order
from agentform.schema.form import Choice, Field, Fixed, Free, Node, Path, Record, Union, pointer
from agentform.schema.json_text import loads
from agentform.schema.load import Target

__all__ = ["Draft", "Filling", "RetryContext", "draft_in_sequence", "evidence_of", "first_draft", "write_draft"]

RetryContext = Callable[[str, Sequence[Violation]], Awaitable[Context]]
"""Makes a place from which a refused form can be filled again, the refused JSON and its faults in view."""


@dataclass(frozen=True, kw_only=True)
class Filling:
    """Everything that filling one form needs."""

    target: Target
    context: Context
    """Where the form's JSON begins."""
    closing: str = ""
    """Text that follows the form's JSON."""
    priors: Priors | None = None
    scoring: Scoring = field(default_factory=Scoring)
    retry: RetryContext


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
    root, context = filling.target.form.root, filling.context
    decided = await decide(session, context, root, scoring=filling.scoring, priors=filling.priors)
    return await write_draft(session, filling, decided.answers, known=decided.texts)


async def draft_in_sequence(
    session: Session, filling: Filling, context: Context, *, answers: Answers, texts: Mapping[Path, str]
) -> Draft:
    """The form with all that `answers` and `texts` do not hold decided leaf by leaf, each with those before it in view.

    Raises what `decide` and `write` raise.
    """
    root = in_sequence(filling.target.form.root)
    decided = await decide(
        session, context, root, scoring=filling.scoring, priors=filling.priors, answers=answers, texts=texts
    )
    return await write_draft(session, filling, decided.answers, context=context, known=decided.texts)


async def write_draft(
    session: Session,
    filling: Filling,
    answers: Answers,
    *,
    context: Context | None = None,
    known: Mapping[Path, str] | None = None,
) -> Draft:
    """Write the form with its answers; free leaves in `known` keep that JSON text.

    Raises:
        ArgumentsTruncated: a free leaf was not complete within its token limit.
    """
    parts = pieces(filling.target.form.root, indices(answers))
    written = await write(session, context or filling.context, parts, closing=filling.closing, known=known)
    return Draft(answers=answers, written=written)


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
        case _:
            return node


def evidence_of(root: Node, draft: Draft) -> tuple[Evidence, ...]:
    """How each leaf that was written got its value, in written order."""
    return tuple(_evidence(root, draft))


def _evidence(node: Node, draft: Draft) -> list[Evidence]:
    match node:
        case Fixed():
            return [Evidence(pointer=pointer(node.path), value=node.value, how="fixed")]
        case Choice():
            return [_scored(draft, node.path, "value")]
        case Free():
            value = loads(draft.written.free[node.path])
            how = draft.how.get(node.path, "generated")
            return [Evidence(pointer=pointer(node.path), value=value, how=how)]
        case Record():
            return [item for field in node.fields for item in _field_evidence(node, field, draft)]
        case Union():
            return _union_evidence(node, draft)


def _field_evidence(record: Record, item: Field, draft: Draft) -> list[Evidence]:
    path = (*record.path, item.name)
    if item.required:
        return _evidence(item.node, draft)
    presence = draft.answers[path, "presence"]
    return _evidence(item.node, draft) if presence.index else [presence.evidence()]


def _union_evidence(node: Union, draft: Draft) -> list[Evidence]:
    answer = draft.answers[node.path, "arm"]
    arm = node.arms[answer.index]
    if isinstance(arm, Fixed):
        # The arm is its value: one leaf, scored as the arm.
        return [replace(answer.evidence(), value=arm.value)]
    return [answer.evidence(), *_evidence(arm, draft)]


def _scored(draft: Draft, path: Path, kind: Kind) -> Evidence:
    how = draft.how.get(path)
    return draft.answers[path, kind].evidence(how=how, gap=draft.gap if how == "joint" else None)
