"""What is known of one form while it is filled, and what can be read from that: its JSON text and its evidence.

A form's whole way is one `FormState` that grows: answers to closed questions, texts of free leaves, and how leaves
came by a value that were not simply scored or generated. It never changes in place; every step returns the next one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from agentform.forms.answer import MEMBER, Answer, Answers, QuestionKey, QuestionKind, member_key
from agentform.messages import Evidence, How, JsonValue
from agentform.schema.form import Choice, Field, Fixed, Free, Node, Path, Record, Repeat, Subset, Union, pointer
from agentform.schema.json_text import dumps, loads

__all__ = ["FormPiece", "FormState"]

FormPiece: TypeAlias = str | Free


@dataclass(frozen=True, kw_only=True)
class FormState:
    """A form, filled as far as it is: at first nothing is known, in the end it may still be invalid."""

    root: Node
    answers: Answers = field(default_factory=dict[QuestionKey, Answer])
    """To closed questions."""
    texts: Mapping[Path, str] = field(default_factory=dict[Path, str])
    """JSON text of the free leaves that are written."""
    how: Mapping[Path, How] = field(default_factory=dict[Path, How])
    """Leaves that were decided otherwise than scored or generated."""
    gap: float | None = None
    """Log probability that a joint solution gave up."""
    shortened: frozenset[Path] = frozenset()
    """Free leaves that were generated again with less room, since they had repeated themselves."""

    @property
    def json_text(self) -> str:
        """The form's JSON text. Every choice in it is decided and every free leaf written; else KeyError."""
        return "".join(piece if isinstance(piece, str) else self.texts[piece.path] for piece in self.pieces())

    @property
    def value(self) -> JsonValue:
        """The form's value."""
        return loads(self.json_text)

    def index(self, path: Path, kind: QuestionKind) -> int | None:
        """The answer taken to a question; `None` while it is open."""
        answer = self.answers.get((path, kind))
        return None if answer is None else answer.index

    def with_answers(self, answers: Answers) -> FormState:
        """These answers beside, or instead of, those there are."""
        return replace(self, answers={**self.answers, **answers})

    def with_text(self, path: Path, text: str, *, again: bool = False, cut: bool = False) -> FormState:
        """One more free leaf written; `again`, with less room, or `cut` where its last word began."""
        how = {where: method for where, method in self.how.items() if where != path or method != "shortened"}
        return replace(
            self,
            texts={**self.texts, path: text},
            shortened=self.shortened | {path} if again else self.shortened,
            how={**how, path: "shortened"} if cut else how,
        )

    def pieces(self) -> list[FormPiece]:
        """The form as literal text and free leaves in written order; literals are never adjacent.

        Raises:
            KeyError: a choice on the way is not decided.
        """
        return _merged(_pieces(self.root, self))

    def text_of(self, node: Node) -> str | None:
        """The JSON text of a node of the form, or `None` while a choice or a free leaf in it is open."""
        try:
            return replace(self, root=node).json_text
        except KeyError:
            return None

    def evidence(self) -> tuple[Evidence, ...]:
        """How each leaf got its value, in written order; free leaves that are not written yet are left out."""
        return tuple(_evidence(self.root, self))


def _merged(pieces: list[FormPiece]) -> list[FormPiece]:
    merged: list[FormPiece] = []
    for piece in pieces:
        if merged and isinstance(piece, str) and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    return merged


def _pieces(node: Node, state: FormState) -> list[FormPiece]:
    match node:
        case Free():
            return [node]
        case Fixed():
            return [dumps(node.value)]
        case Choice():
            return [dumps(node.options[state.answers[node.path, "value"].index])]
        case Union():
            return _pieces(node.arms[state.answers[node.path, "arm"].index], state)
        case Record():
            return _record_pieces(node, state)
        case Subset():
            members = [option for option, answer in _members(node, state) if answer.index == MEMBER]
            return [dumps(members)]
        case Repeat():
            return _repeat_pieces(node, state)


def _record_pieces(node: Record, state: FormState) -> list[FormPiece]:
    written: list[FormPiece] = []
    for member in node.fields:
        if member.required or state.answers[(*node.path, member.name), "presence"].index:
            written += [", " if written else "", f"{dumps(member.name)}: ", *_pieces(member.node, state)]
    return ["{", *written, "}"]


def _repeat_pieces(node: Repeat, state: FormState) -> list[FormPiece]:
    written: list[FormPiece] = []
    for item in node.items[: node.min_items + state.answers[node.path, "count"].index]:
        written += [", " if written else "", *_pieces(item, state)]
    return ["[", *written, "]"]


def _members(node: Subset, state: FormState) -> list[tuple[JsonValue, Answer]]:
    """Each option of a list, with the answer whether it is in it."""
    return [(option, state.answers[member_key(node, at)]) for at, option in enumerate(node.options)]


def _evidence(node: Node, state: FormState) -> list[Evidence]:
    match node:
        case Fixed():
            return [Evidence(pointer=pointer(node.path), value=node.value, how="fixed")]
        case Choice():
            how = state.how.get(node.path)
            gap = state.gap if how == "joint" else None
            return [state.answers[node.path, "value"].evidence(how=how, gap=gap)]
        case Free():
            return _free_evidence(node, state)
        case Record():
            return [item for member in node.fields for item in _field_evidence(node, member, state)]
        case Union():
            return _union_evidence(node, state)
        case Subset():
            return [_subset_evidence(node, state)]
        case Repeat():
            count = state.answers[node.path, "count"]
            items = node.items[: node.min_items + count.index]
            return [count.evidence(), *(leaf for item in items for leaf in _evidence(item, state))]


def _free_evidence(node: Free, state: FormState) -> list[Evidence]:
    if node.path not in state.texts:
        return []
    how = state.how.get(node.path, "repaired" if node.path in state.shortened else "generated")
    return [Evidence(pointer=pointer(node.path), value=loads(state.texts[node.path]), how=how)]


def _field_evidence(record: Record, member: Field, state: FormState) -> list[Evidence]:
    if member.required:
        return _evidence(member.node, state)
    presence = state.answers[(*record.path, member.name), "presence"]
    return _evidence(member.node, state) if presence.index else [replace(presence.evidence(), value=None)]


def _union_evidence(node: Union, state: FormState) -> list[Evidence]:
    """A scored or fixed arm is one leaf, decided as the arm; below any other arm there are leaves of its own."""
    answer = state.answers[node.path, "arm"]
    arm = node.arms[answer.index]
    match arm:
        case Fixed():
            return [replace(answer.evidence(), value=arm.value)]
        case Free():
            written = _free_evidence(arm, state)
            return [replace(answer.evidence(), value=item.value, how=item.how) for item in written]
        case Record():
            return [answer.evidence(), *_evidence(arm, state)]
        case _:
            return _evidence(arm, state)


def _subset_evidence(node: Subset, state: FormState) -> Evidence:
    """The list as one leaf: the probability of its members and of the others' absence together."""
    members = _members(node, state)
    answers = [answer for _, answer in members]
    masses = [answer.legal_mass for answer in answers]
    return Evidence(
        pointer=pointer(node.path),
        value=[option for option, answer in members if answer.index == MEMBER],
        how=state.how.get(node.path, "scored"),
        probability=math.prod(answer.probabilities[answer.index] for answer in answers),
        raw_probability=math.prod(answer.raw_probabilities[answer.index] for answer in answers),
        legal_mass=None if None in masses else min(mass for mass in masses if mass is not None),
        by=answers[0].by if len({answer.by for answer in answers}) == 1 else "",
    )
