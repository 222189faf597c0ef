"""Lead-ins: the text that puts the model at the point of choosing. Which is best differs from model to model."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Literal, get_args

from agentform.decoding.insertion_point import InsertionPoint
from agentform.decoding.token_context import TokenContext
from agentform.forms.answer import Question
from agentform.schema.json_text import text_or_json

__all__ = ["LEAD_INS", "LeadIn", "Posed", "pose"]

LeadIn = Literal["key", "anchored", "described", "letters"]
"""How a question is put.

`key`: the JSON key alone, where the answer would be written. `anchored`: the same after a line ``Answer:``.
`described`: the same after one line with the field's description. `letters`: the description, the options under
letters, and ``Answer:``; the letters are scored instead of the options.
"""
LEAD_INS: tuple[LeadIn, ...] = get_args(LeadIn)


@dataclass(frozen=True, kw_only=True)
class Posed:
    """A question as text: a context, what leads to the options from there, and the options."""

    context: TokenContext
    lead: str
    texts: tuple[str, ...]
    groups: tuple[int, ...]
    """The answer that each text stands for."""


def pose(question: Question, point: InsertionPoint, lead_in: LeadIn, *, rotations: int = 1) -> list[Posed]:
    """The question put at `point`, in as many ways as there are rotations of its letters.

    A next step is always asked for where it stands, and options that are too many for letters are described.
    """
    if lead_in == "letters" and question.kind != "action" and len(question.answers) <= len(string.ascii_uppercase):
        shifts = range(min(rotations, len(question.answers)))
        return [_lettered(question, point, shift) for shift in shifts]
    line = "" if lead_in == "key" or question.kind == "action" else f"{_about(question)}:"
    context = point.json("Answer:" if line and lead_in == "anchored" else line)
    return [Posed(context=context, lead=question.lead, texts=question.texts, groups=question.groups)]


def _lettered(question: Question, point: InsertionPoint, shift: int) -> Posed:
    """Letters for the options, the first of them for option `shift`; each stands for its answer once."""
    order = [(at + shift) % len(question.answers) for at in range(len(question.answers))]
    letters = string.ascii_uppercase[: len(order)]
    options = [f"{letter}. {text_or_json(question.answers[at])}" for letter, at in zip(letters, order, strict=True)]
    context = point.text("\n".join([f"{_about(question)}:", *options, "Answer:"]))
    return Posed(context=context, lead="", texts=tuple(f" {letter}\n" for letter in letters), groups=tuple(order))


def _about(question: Question) -> str:
    # One line: a description of several misleads more than none.
    return " ".join(question.description.split()).rstrip(".:") or (question.path[-1] if question.path else "Answer")
