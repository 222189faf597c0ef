"""Lead-ins: the text that puts the model at the point of choosing. Which is best differs from model to model."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Literal, get_args

from agentform.calls.place import Place
from agentform.calls.questions import Question
from agentform.calls.transcript import Context
from agentform.schema.json_text import dumps

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

    context: Context
    lead: str
    texts: tuple[str, ...]


def pose(question: Question, place: Place, lead_in: LeadIn) -> Posed:
    """The question put at `place`.

    A next step is always asked for where it stands, and options that are too many for letters are described.
    """
    if question.kind == "action" or lead_in == "key":
        return Posed(context=place.json(), lead=question.lead, texts=question.texts)
    if lead_in == "letters" and len(question.answers) <= len(string.ascii_uppercase):
        return _lettered(question, place)
    line = "Answer:" if lead_in == "anchored" else f"{_about(question)}:"
    return Posed(context=place.json(line), lead=question.lead, texts=question.texts)


def _lettered(question: Question, place: Place) -> Posed:
    letters = string.ascii_uppercase[: len(question.answers)]
    options = [f"{letter}. {_said(answer)}" for letter, answer in zip(letters, question.answers, strict=True)]
    context = place.text("\n".join([f"{_about(question)}:", *options, "Answer:"]))
    # Several texts may stand for one answer; its letter stands for it once.
    return Posed(context=context, lead="", texts=tuple(f" {letter}\n" for letter in letters))


def _about(question: Question) -> str:
    # One line: a description of several misleads more than none.
    return " ".join(question.description.split()).rstrip(".:") or (question.path[-1] if question.path else "Answer")


def _said(answer: object) -> str:
    return answer if isinstance(answer, str) else dumps(answer)  # pyright: ignore[reportArgumentType]
