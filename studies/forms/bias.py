"""Lean towards options: their order, labels against letters, and whether probabilities mean what they say."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from rich.progress import Progress

from agentform.decoding.token_context import TokenContext
from agentform.forms.answer import Question
from agentform.forms.label_prior import CONTENT_FREE
from agentform.messages import JsonValue, Message
from agentform.runtime.engine import Engine
from agentform.schema.json_text import dumps
from benchmarks.common.datasets import SINGLE
from benchmarks.common.harness import Context
from benchmarks.common.items import Item
from studies.forms.accuracy import splits
from studies.forms.calibration import errors_by_temperature
from studies.forms.engines import BenchEngine
from studies.forms.lean import Row, best, corrected, prior_of
from studies.forms.prompts import context_of, questions_of
from studies.forms.scores import LogScores, ask

__all__ = ["measure_bias"]

Answers = Literal["labels", "letters"]
_NUM_ITEMS, _NUM_ORDERS = 40, 3


async def measure_bias(engine: BenchEngine, context: Context, progress: Progress) -> list[dict[str, Any]]:
    """One row per set and kind of answers. Options are listed in the prompt, in as many orders as are looked at."""
    rows: list[dict[str, Any]] = []
    for name in SINGLE if context.data is not None else ("shipped",):
        items = [item for item in splits(context, name)[1] if len(item.fields) == 1][:_NUM_ITEMS]
        task = progress.add_task(f"{name}: bias", total=2 * len(items))
        for answers in ("labels", "letters"):
            orders = []
            for item in items:
                orders.append(await _orders(engine, item, answers))
                progress.advance(task)
            priors = {i.form: await _priors(engine, i, answers) for i in {i.form: i for i in items}.values()}
            rows.append({"set": name, "answers": answers, "items": len(items), **_figures(items, orders, priors)})
    return rows


async def _orders(engine: Engine, item: Item, answers: Answers) -> list[LogScores]:
    """Log scores of the item's one leaf for each order of its options, put back into the order of the item."""
    return [await _turned_scores(engine, item, shift, answers, item.messages) for shift in range(_NUM_ORDERS)]


async def _priors(engine: Engine, item: Item, answers: Answers) -> list[Row]:
    """The prior for each order."""
    found: list[Row] = []
    for shift in range(_NUM_ORDERS):
        inputs = [(Message(role="user", content=text),) for text in CONTENT_FREE]
        found.append(prior_of([await _turned_scores(engine, item, shift, answers, said) for said in inputs]))
    return found


async def _turned_scores(
    engine: Engine, item: Item, shift: int, answers: Answers, messages: Sequence[Message]
) -> LogScores:
    field = item.fields[0]
    turned = replace(item, fields=(replace(field, options=_turned(field.options, shift)),))
    if answers == "labels":
        context, [question] = context_of(engine.tokenizer, turned, "options", messages), questions_of(turned, "key")
    else:
        context, question = _lettered(engine, turned, messages)
    [leaf] = await ask(engine, context, [question])
    size = len(leaf)
    return tuple(leaf[(index - shift) % size] for index in range(size))


def _turned(options: tuple[JsonValue, ...], shift: int) -> tuple[JsonValue, ...]:
    at = shift % len(options)
    return options[at:] + options[:at]


def _lettered(engine: Engine, item: Item, messages: Sequence[Message]) -> tuple[TokenContext, Question]:
    """A listing that gives each option a letter, and the letters as the values."""
    field = item.fields[0]
    marks = string.ascii_uppercase[: len(field.options)]
    listing = "\n".join(f"{mark}. {dumps(option)}" for mark, option in zip(marks, field.options, strict=True))
    said = [{"role": "system", "content": f"{field.description}:\n{listing}\nAnswer with JSON and the letter."}]
    said += [{"role": m.role, "content": m.content} for m in messages]
    [question] = questions_of(item, "key")
    lettered = replace(question, texts=tuple(f' "{mark}"}}' for mark in marks))
    return TokenContext(ids=engine.tokenizer.render(said)), lettered


def _figures(
    items: Sequence[Item], orders: Sequence[Sequence[LogScores]], priors: Mapping[str, Sequence[Row]]
) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for kind, strength in (("raw", 0.0), ("calibrated", 1.0)):
        scores = [
            [corrected(row, prior, strength) for row, prior in zip(rows, priors[item.form], strict=True)]
            for item, rows in zip(items, orders, strict=True)
        ]
        figures[kind] = _kind_figures(items, scores)
    return figures


def _kind_figures(items: Sequence[Item], scores: Sequence[Sequence[Row]]) -> dict[str, Any]:
    """How often the order decides, what is taken how often, and the calibration error with and without temperature."""
    taken = [[best(row) for row in rows] for rows in scores]
    averaged = [best(np.mean(rows, axis=0)) for rows in scores]
    hits = [[item.fields[0].is_right(i) for i in row] for item, row in zip(items, taken, strict=True)]
    return {
        "accuracy": float(np.mean(hits)),
        "accuracy_by_order": [float(np.mean([row[order] for row in hits])) for order in range(_NUM_ORDERS)],
        "accuracy_over_orders": float(
            np.mean([item.fields[0].is_right(i) for item, i in zip(items, averaged, strict=True)])
        ),
        "changed_by_order": float(np.mean([len(set(row)) > 1 for row in taken])),
        "most_taken": float(max(np.bincount([i for row in taken for i in row])) / (len(taken) * _NUM_ORDERS)),
        "calibration": errors_by_temperature(items, [rows[0] for rows in scores]),
    }
