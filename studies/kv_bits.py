"""What keys and values in 8 bits cost: choices, recall, logprobs, time and memory beside those as computed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any

import anyio
import numpy as np
from rich.progress import track

from agentform import fill, load_engine
from agentform.cli.tables import Table
from agentform.forms.probe_items import PROBE_EXAMPLES
from agentform.forms.tuning import Example
from agentform.runtime.engine import Branch, Engine, GenerateRequest, ScoreRequest
from benchmarks.common.harness import Context
from studies.recall.models import folder_of
from studies.recall.tasks import VALUES, needle

__all__ = ["run"]

_BUDGET_BYTES = 1 << 28
_MODELS = (("smollm2-135m", "torch"), ("smollm2-135m", "llama_cpp"), ("qwen2.5-coder-0.5b", "llama_cpp"))
_NEEDLE_TOKENS, _NEEDLES = 4096, 16
_TIMED_TOKENS, _TIMED_ROUNDS, _WRITTEN = 768, 3, 32


def run(context: Context) -> None:
    """Both by turns on each model, then needles in the trained hybrid."""
    examples = PROBE_EXAMPLES[:4] if context.quick else PROBE_EXAMPLES
    rows = [_of_model(context, *each, examples) for each in (_MODELS[:1] if context.quick else _MODELS)]
    recall = _recall(context, 4 if context.quick else _NEEDLES)
    table = Table(
        "model", "bytes", "right", "choices\nchanged", "largest change\nof a probability", "prompt", "a token"
    )
    for row in rows:
        table.add_row(
            f"{row['model']}, {row['engine']}",
            f"{row['bytes']:.2f}",
            f"{row['right'][1]} of {row['items']}, was {row['right'][0]}",
            str(row["changed"]),
            f"{row['largest_change']:.3f}",
            f"{row['prompt_time']:.2f}",
            f"{row['token_time']:.2f}",
        )
    context.console.print(table)
    context.console.print(f"needles at {_NEEDLE_TOKENS} tokens, found: {recall['found']} of {recall['asked']}")
    context.write({"models": rows, "needles": recall})


def _of_model(context: Context, name: str, engine: str, examples: Sequence[Example]) -> dict[str, Any]:
    with ExitStack() as stack:
        pair = [
            _opened(name, engine=engine, kv_budget_bytes=_BUDGET_BYTES, kv_bits=bits, num_threads=1)
            for bits in (None, 8)
        ]
        for each in pair:
            stack.enter_context(closing(each))
        answers = [
            [anyio.run(_answer, each, example) for each in pair]
            for example in track(examples, f"{name} on {engine}", console=context.console)
        ]
        prompts, tokens = zip(*(anyio.run(_seconds, pair, number) for number in range(_TIMED_ROUNDS)), strict=True)
        sizes = [each.memory_plan.position_bytes for each in pair]
    right = [
        sum(each[index][0] == example.gold for each, example in zip(answers, examples, strict=True)) for index in (0, 1)
    ]
    return {
        "model": name,
        "engine": engine,
        "items": len(examples),
        "bytes": sizes[1] / sizes[0],
        "right": right,
        "changed": sum(exact[0] != rounded[0] for exact, rounded in answers),
        "largest_change": max(abs(exact[1] - rounded[1]) for exact, rounded in answers if exact[0] == rounded[0]),
        "prompt_time": statistics.median(prompts),
        "token_time": statistics.median(tokens),
    }


def _opened(name: str, **options: Any) -> Any:
    return load_engine(name, **options)


async def _answer(engine: Engine, example: Example) -> tuple[Any, float]:
    """The option that is chosen, and its probability."""
    leaf = {"enum": list(example.options), "description": example.description}
    form = {"type": "object", "properties": {example.field: leaf}, "required": [example.field]}
    [evidence] = (await fill(engine, example.text, form)).evidence
    return evidence.value, evidence.probability or 0.0


async def _seconds(pair: Sequence[Engine], number: int) -> tuple[float, float]:
    """Ratios of time for a prompt and for a token, in 8 bits to as computed, on a text that neither has read."""
    taken: list[tuple[float, float]] = []
    for engine in pair:
        text = engine.tokenizer.encode(f"{number}. " + "The harbour master wrote down every ship that came in. " * 80)
        started, first, last = time.perf_counter(), 0.0, 0.0
        request = GenerateRequest(prompt_ids=text[:_TIMED_TOKENS], max_tokens=_WRITTEN)
        async for _ in engine.generate(request):
            last = time.perf_counter()
            first = first or last
        taken.append((first - started, last - first))
    (prompt, writing), (prompt_in_8, writing_in_8) = taken
    return prompt_in_8 / prompt, writing_in_8 / writing


def _recall(context: Context, num: int) -> dict[str, Any]:
    """How many of the keys' values the trained hybrid finds, as computed and in 8 bits."""
    found: list[int] = []
    for bits in (None, 8):
        engine = _opened(
            str(folder_of("hybrid")), engine="torch", dtype="float32", kv_budget_bytes=_BUDGET_BYTES, kv_bits=bits
        )
        with closing(engine):
            asked = track(range(num), f"needles, kv_bits={bits}", console=context.console)
            found.append(sum(anyio.run(_finds, engine, number) for number in asked))
    return {"asked": num, "found": found, "tokens": _NEEDLE_TOKENS}


async def _finds(engine: Engine, number: int) -> bool:
    rng = np.random.default_rng([7, number])
    batch = needle(rng, batch=1, tokens=_NEEDLE_TOKENS, depth=float(rng.random()))
    prompt = tuple(int(token) for token in batch.sequences()[0][: int(batch.answer_places()[0]) + 1])
    scored = await engine.score(ScoreRequest(prompt_ids=prompt, branches=(Branch(path=(), candidates=tuple(VALUES)),)))
    return VALUES[int(np.argmax(scored.logprobs[0]))] == int(batch.answers[0][0])
