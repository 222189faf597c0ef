"""One item through `fill` as it ships, and through masked decoding from the very prompt that `fill` scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentform import PriorStore, Scoring, fill
from agentform.decoding.token_context import TokenContext
from agentform.messages import Evidence
from agentform.runtime.engine import ScoreRequest, Tokenizer
from agentform.schema.form import pointer
from agentform.schema.json_text import dumps
from benchmarks.common.items import Item
from studies.forms.engines import BenchEngine
from studies.forms.masked import decode, decode_leaf, decode_tokens
from studies.forms.prompts import questions_of

__all__ = ["WAYS", "Filled", "fill_item"]

WAYS = ("calibrated", "raw", "masked_text", "masked_tokens", "masked_whole")
"""calibrated, raw: `fill` with its defaults and without calibration. masked_text, masked_tokens: each leaf written in
an object of its own under a grammar over text and over tokens. masked_whole: the object in one sequence, over text."""


@dataclass(frozen=True, kw_only=True)
class Filled:
    """Per way the index of the option taken, leaf by leaf, and of the calibrated and raw way how sure it was."""

    item: Item
    taken: dict[str, list[int]]
    probability: dict[str, list[float]]
    legal_mass: list[float]

    def right(self, way: str) -> list[bool]:
        """Whether each leaf is right."""
        return [field.is_right(index) for field, index in zip(self.item.fields, self.taken[way], strict=True)]


async def fill_item(engine: BenchEngine, item: Item, store: PriorStore) -> Filled:
    """Fill the item in every way. Prompts are the same tokens; raises if `fill` wrote a token."""
    engine.scored.clear()
    raw = await _evidence(engine, item, Scoring(calibration=0), store)
    request = engine.scored[0]
    calibrated = await _evidence(engine, item, Scoring(), store)
    taken = {"calibrated": _indices(item, calibrated), "raw": _indices(item, raw)}
    return Filled(
        item=item,
        taken=taken | await _masked(engine, item, request),
        probability={
            "calibrated": [e.probability or 0.0 for e in calibrated],
            "raw": [e.probability or 0.0 for e in raw],
        },
        legal_mass=[e.legal_mass or 0.0 for e in raw],
    )


async def _evidence(engine: BenchEngine, item: Item, scoring: Scoring, store: PriorStore) -> list[Evidence]:
    filled = await fill(engine, item.messages, item.target, scoring=scoring, priors=store)
    assert filled.usage.completion_tokens == 0, "a closed form was not scored alone"
    return [filled[pointer((field.name,))] for field in item.fields]


def _indices(item: Item, evidence: Sequence[Evidence]) -> list[int]:
    return [
        [dumps(option) for option in field.options].index(dumps(found.value))
        for field, found in zip(item.fields, evidence, strict=True)
    ]


async def _masked(engine: BenchEngine, item: Item, request: ScoreRequest) -> dict[str, list[int]]:
    context = TokenContext(ids=request.prompt_ids)
    text, tokens = [], []
    for index, question in enumerate(questions_of(item, "key")):
        before = _before(engine.tokenizer, request, question.lead)
        text.append(await decode_leaf(engine, context, item, index, before=before))
        led = replace(question, lead=before + question.lead)
        tokens.append(await decode_tokens(engine, context, led))
    value, _ = await decode(engine, context, item)
    whole = [[dumps(o) for o in field.options].index(dumps(value[field.name])) for field in item.fields]
    return {"masked_text": text, "masked_tokens": tokens, "masked_whole": whole}


def _before(tokenizer: Tokenizer, request: ScoreRequest, lead: str) -> str:
    """What `fill` put between the prompt and this leaf's JSON: read off the tokens that it scored."""
    for branch in request.branches:
        written = tokenizer.decode((*branch.path, branch.candidates[0]))
        if lead in written:
            return written[: written.index(lead)]
    raise AssertionError(f"{lead!r} was not scored")
