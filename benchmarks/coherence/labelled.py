"""Decisions whose right answer is known: fields of the public sets as System One's questions."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentform import OneOf, YesNo
from agentform.forms.asked import Asked, Decision
from agentform.forms.elsewhere import state_of
from agentform.messages import JsonValue
from agentform.schema.json_text import dumps, text_or_json
from benchmarks.coherence.asking import Asking, at_temperature
from benchmarks.common.datasets import SINGLE, load_items, sampled
from benchmarks.common.harness import Context
from benchmarks.common.items import ClosedField, Item

__all__ = ["KINDS", "SEED", "Labelled", "Score", "ask", "fitted_temperature", "load", "scored"]

SEED = 0
KINDS = {"single": SINGLE, "sgd": ("sgd",), "bfcl": ("bfcl",), "clinc150": ("clinc150",), "banking77": ("banking77",)}
"""By the name they are shown under, the sets."""
YES_NO = "yes or no"
"""Made of the one-field sets: is it this label? As often the right one as another."""
_LONG, _FEWER = ("clinc150", "banking77"), 4
"""Kinds whose questions have very many options, and by how much fewer of those are asked."""
_LEAST = 1e-9
TEMPERATURES = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """One question about one text."""

    text: str
    asked: Asked
    gold: tuple[JsonValue, ...]


@dataclass(frozen=True, kw_only=True)
class Score:
    """How right and how sure the answers were."""

    decisions: int
    right: int
    log_loss: float
    """Mean of -log of the probability of the right answers, in nats."""
    answers: tuple[bool, ...]
    """Whether each was right, in order: for paired tests."""


def load(context: Context, count: int) -> dict[str, list[Labelled]]:
    """About `count` questions of every kind, fewer of those with many options; the same ones at every run."""
    found: dict[str, list[Labelled]] = {}
    for kind, names in KINDS.items():
        wanted = math.ceil(count / _FEWER) if kind in _LONG else count
        share = math.ceil(wanted / len(names))
        items = [item for name in names for item in sampled(load_items(context, name), share, SEED)]
        found[kind] = [row for item in items for row in _rows(item)][: max(wanted, len(names))]
        if kind == "single":
            found[YES_NO] = list(_yes_no(items))
    return {kind: rows for kind, rows in found.items() if rows}


def _rows(item: Item) -> Iterator[Labelled]:
    text = _text(item)
    for field in item.fields:
        yield Labelled(text=text, asked=OneOf(_question(field), field.options), gold=field.gold)


def _yes_no(items: Sequence[Item]) -> Iterator[Labelled]:
    draw = random.Random(SEED)
    for item in items:
        [field] = item.fields
        right = draw.random() < 0.5
        wrong = [option for at, option in enumerate(field.options) if not field.is_right(at)]
        option = field.gold[0] if right else draw.choice(wrong)
        yield Labelled(
            text=_text(item), asked=YesNo(f"{_question(field)}: is it {text_or_json(option)}?"), gold=(right,)
        )


def _text(item: Item) -> str:
    return "\n\n".join(filter(None, (item.about, state_of(item.messages))))


def _question(field: ClosedField) -> str:
    return field.description or field.name


def ask(asking: Asking, rows: Sequence[Labelled]) -> list[Decision]:
    """Every question, asked."""
    return [asking.decide(row.text, {"it": row.asked})["it"] for row in rows]


def scored(rows: Sequence[Labelled], decided: Sequence[Decision]) -> Score:
    """How right the decisions are."""
    right = [_is_gold(row, decision.value) for row, decision in zip(rows, decided, strict=True)]
    losses = [-math.log(max(_of_gold(row, d), _LEAST)) for row, d in zip(rows, decided, strict=True)]
    return Score(
        decisions=len(rows), right=sum(right), log_loss=round(sum(losses) / len(losses), 4), answers=tuple(right)
    )


def fitted_temperature(rows: Sequence[Labelled], decided: Sequence[Decision]) -> float:
    """Of `TEMPERATURES`, the one at which the right answers are the most probable."""
    losses = {t: scored(rows, [at_temperature(one, t) for one in decided]).log_loss for t in TEMPERATURES}
    return min(losses, key=losses.__getitem__)


def _is_gold(row: Labelled, value: JsonValue) -> bool:
    return dumps(value) in {dumps(gold) for gold in row.gold}


def _of_gold(row: Labelled, decision: Decision) -> float:
    return sum(p for value, p in decision.probabilities if _is_gold(row, value))
