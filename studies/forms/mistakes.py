"""Three public mistakes in scoring options, built on purpose beside the right way, to show what each costs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.progress import Progress

from agentform.decoding.token_context import TokenContext
from agentform.forms.answer import Question
from agentform.forms.label_prior import CONTENT_FREE
from agentform.forms.option_trie import option_lines
from agentform.runtime.engine import Branch, Engine, ScoreRequest
from benchmarks.common.bootstrap import difference
from benchmarks.common.datasets import SINGLE
from benchmarks.common.harness import Context
from benchmarks.common.items import Item
from studies.forms.accuracy import SEED, splits
from studies.forms.engines import BenchEngine
from studies.forms.lean import Row, best, corrected, prior_of
from studies.forms.metrics import accuracy
from studies.forms.prompts import questions_of
from studies.forms.scores import LogScores, ask

__all__ = ["WAYS", "measure_mistakes"]

_NUM_ITEMS = 40
_Scores = list[LogScores]
_Way = Callable[[Engine, Item, Sequence[dict[str, str]] | None], Awaitable[_Scores]]


async def right(engine: Engine, item: Item, said: Sequence[dict[str, str]] | None) -> _Scores:
    """The chat template, one line before the JSON, products over decision nodes."""
    return await ask(engine, _context(engine, item, said), questions_of(item, "described"))


async def no_template(engine: Engine, item: Item, said: Sequence[dict[str, str]] | None) -> _Scores:
    """The messages as bare text: no beginning-of-sequence token, no roles."""
    text = "\n".join(message["content"] for message in said or _messages(item))
    # A prompt needs one token that stays as it is; the line break before the JSON is none of the text's tokens.
    context = TokenContext(ids=engine.tokenizer.encode(text + "\n\n"))
    return await ask(engine, context, questions_of(item, "described"))


async def many_lines(engine: Engine, item: Item, said: Sequence[dict[str, str]] | None) -> _Scores:
    """The description as a paragraph of several lines where the lead-in has one line."""
    questions = [_paragraph(question) for question in questions_of(item, "key")]
    return await ask(engine, _context(engine, item, said), questions)


async def whole_sequence(engine: Engine, item: Item, said: Sequence[dict[str, str]] | None) -> _Scores:
    """The likelihood of every token of the option, forced ones included: long options lose."""
    return [tuple(map(sum, tokens)) for tokens in await _token_scores(engine, item, said)]


async def mean_of_sequence(engine: Engine, item: Item, said: Sequence[dict[str, str]] | None) -> _Scores:
    """The same per token: long options win."""
    return [tuple(sum(own) / len(own) for own in tokens) for tokens in await _token_scores(engine, item, said)]


WAYS: Mapping[str, _Way] = {
    "right": right,
    "no_template": no_template,
    "many_lines": many_lines,
    "whole_sequence": whole_sequence,
    "mean_of_sequence": mean_of_sequence,
}
"""Log scores per leaf and option; the last argument replaces the item's messages."""


def _messages(item: Item) -> list[dict[str, str]]:
    return [{"role": m.role, "content": m.content} for m in item.messages]


def _context(engine: Engine, item: Item, said: Sequence[dict[str, str]] | None) -> TokenContext:
    return TokenContext(ids=engine.tokenizer.render(said or _messages(item)))


def _paragraph(question: Question) -> Question:
    options = "\n".join(f"- {answer}" for answer in question.answers)
    lines = f"{question.description}\n\nThe value must be one of:\n{options}\n\nAnswer:\n"
    return replace(question, lead=lines + question.lead)


async def _token_scores(engine: Engine, item: Item, said: Sequence[dict[str, str]] | None) -> list[list[list[float]]]:
    """Per leaf and option the log probability of every token after what all options share."""
    context = _context(engine, item, said)
    found: list[list[list[float]]] = []
    for question in questions_of(item, "described"):
        lines = option_lines(engine.tokenizer, question.lead, question.texts)
        start = _shared(lines)
        branches = [Branch(path=line[:at], candidates=(line[at],)) for line in lines for at in range(start, len(line))]
        result = await engine.score(ScoreRequest(prompt_ids=context.ids, branches=tuple(branches)))
        scores = iter(result.logprobs)
        found.append([[next(scores)[0] for _ in range(start, len(line))] for line in lines])
    return found


def _shared(lines: Sequence[tuple[int, ...]]) -> int:
    depth = 0
    while len({line[depth] for line in lines}) == 1:
        depth += 1
    return depth


async def measure_mistakes(engine: BenchEngine, context: Context, progress: Progress) -> list[dict[str, Any]]:
    """One row per set and way: accuracy raw and with the prior taken out, and what the way costs against the right."""
    rows: list[dict[str, Any]] = []
    for name in SINGLE if context.data is not None else ("shipped",):
        items = [item for item in splits(context, name)[1] if len(item.fields) == 1][:_NUM_ITEMS]
        right: dict[str, dict[str, list[list[bool]]]] = {}
        task = progress.add_task(f"{name}: mistakes", total=len(WAYS))
        for way, ask_so in WAYS.items():
            right[way] = await _answers(engine, items, ask_so)
            progress.advance(task)
        rows += [_row(name, way, right) for way in WAYS]
    return rows


async def _answers(engine: Engine, items: Sequence[Item], ask_so: _Way) -> dict[str, list[list[bool]]]:
    priors: dict[str, Row] = {}
    right: dict[str, list[list[bool]]] = {"raw": [], "calibrated": []}
    for item in items:
        if item.form not in priors:
            runs = [await ask_so(engine, item, [{"role": "user", "content": text}]) for text in CONTENT_FREE]
            priors[item.form] = prior_of([run[0] for run in runs])
        [scores] = await ask_so(engine, item, None)
        for kind, strength in (("raw", 0.0), ("calibrated", 1.0)):
            right[kind].append([item.fields[0].is_right(best(corrected(scores, priors[item.form], strength)))])
    return right


def _row(name: str, way: str, right: Mapping[str, Mapping[str, list[list[bool]]]]) -> dict[str, Any]:
    cost = {
        kind: difference(right[way][kind], right["right"][kind], seed=SEED).as_dict() for kind in ("raw", "calibrated")
    }
    return {
        "set": name,
        "way": way,
        "items": len(right[way]["raw"]),
        "accuracy": {kind: accuracy(rows) for kind, rows in right[way].items()},
        "against_right": cost,
    }
