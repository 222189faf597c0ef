"""Speed of closed forms on a hybrid of random weights: scored in one batch, and the same JSON written.

Two ways of writing: under a grammar, tokens that it forces not sampled, and with every token of the JSON sampled.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import torch
from rich.console import Console
from rich.progress import Progress

from agentform.cli.tables import Table
from agentform.errors import EngineError
from agentform.forms.option_trie import build_trie, option_lines
from agentform.grammar.spec import GrammarSpec
from agentform.messages import Usage
from agentform.runtime.engine import Branch, Engine, GenerateRequest, ScoreRequest
from agentform.runtime.torch.engine import TorchEngine
from agentform.runtime.torch.forward.memory_plan import free_bytes
from benchmarks.common.bootstrap import ratio
from benchmarks.common.models import write_wordy_hybrid

__all__ = ["draw", "measure"]

_FIELDS, _PROMPTS, _ROUNDS = (1, 2, 4, 8, 16, 32), (512, 2048, 8192, 16_384), 5
_BILLION: dict[str, Any] = {
    "vocab_size": 151_936,
    "hidden_size": 1536,
    "intermediate_size": 4608,
    "num_hidden_layers": 24,
    "num_attention_heads": 8,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "max_position_embeddings": 32_768,
}
_TINY: dict[str, Any] = {
    "vocab_size": 1024,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "head_dim": 16,
    "max_position_embeddings": 1024,
}
_MOST_BYTES = 16 << 30
_NAMES = (
    *("category", "priority", "channel", "sentiment", "product", "refund", "warranty", "language"),
    *("customer", "country", "status", "reason", "team", "size", "color", "season", "payment", "shipping"),
    *("device", "account", "plan", "topic", "format", "source", "role", "level", "phase", "region", "market"),
    *("method", "risk", "action"),
)
_OPTIONS = ("billing", "delivery", "repair", "other")
_TEXT = "The kettle that I ordered in March stopped working, and I was told to wait for a reply about the repair. "

_Prompt = tuple[int, ...]
_Case = tuple[int, bool, int]
"""Tokens of the prompt, whether it was read before, fields."""
_Taken = Mapping[str, dict[int, float]]
"""Seconds by way and round."""


def measure(
    folder: Path, *, device: torch.device, quick: bool, left_s: Callable[[], float], console: Console
) -> dict[str, Any]:
    """Figures of all cases that there is time for; the model is written into `folder`."""
    with console.status("making the model"):
        num = write_wordy_hybrid(folder, [_TEXT, _json(_NAMES)], **_TINY if quick else _BILLION)
        budget = min(_MOST_BYTES, (free_bytes(device) or _MOST_BYTES) // 2)
        engine = TorchEngine(
            folder,
            dtype=torch.bfloat16,
            device=device,
            kv_budget_bytes=1 << 26 if quick else budget,
            max_batch_tokens=64 if quick else 2048,
        )
    try:
        rows, note = anyio.run(_measure, engine, quick, left_s, console)
    finally:
        engine.close()
    console.print(_table(rows))
    console.print(note)
    return {"parameters": num, "note": note, "rows": rows}


@dataclass(frozen=True, kw_only=True)
class _Form:
    """Closed fields, as branches to score and as JSON to write."""

    branches: tuple[Branch, ...]
    grammar: GrammarSpec
    num_tokens: int
    """Of the JSON."""

    @classmethod
    def of(cls, engine: Engine, num_fields: int) -> _Form:
        """For scoring each field stands in an object of its own, as independent fields are asked."""
        names = _NAMES[:num_fields]
        lines = [option_lines(engine.tokenizer, f'{{"{name}": "', [f'{o}"' for o in _OPTIONS]) for name in names]
        fields = {name: {"enum": _OPTIONS} for name in names}
        schema = {"type": "object", "properties": fields, "required": names, "additionalProperties": False}
        return cls(
            branches=tuple(branch for each in lines for branch in build_trie(each).branches),
            grammar=GrammarSpec(kind="json_schema", text=json.dumps(schema)),
            num_tokens=len(engine.tokenizer.encode(_json(names))),
        )


def _json(names: tuple[str, ...]) -> str:
    return json.dumps({name: _OPTIONS[number % len(_OPTIONS)] for number, name in enumerate(names)})


async def _score(engine: Engine, prompt: _Prompt, form: _Form) -> Usage:
    return (await engine.score(ScoreRequest(prompt_ids=prompt, branches=form.branches))).usage


async def _write(engine: Engine, prompt: _Prompt, form: _Form) -> Usage:
    request = GenerateRequest(prompt_ids=prompt, max_tokens=4 * form.num_tokens, grammar=form.grammar)
    return await _complete(engine, request, "grammar")


async def _sample(engine: Engine, prompt: _Prompt, form: _Form) -> Usage:
    return await _complete(engine, GenerateRequest(prompt_ids=prompt, max_tokens=form.num_tokens), "length")


async def _complete(engine: Engine, request: GenerateRequest, expected: str) -> Usage:
    usage, finish = Usage(), None
    async for chunk in engine.generate(request):
        usage, finish = chunk.usage or usage, chunk.finish
    if finish != expected:
        raise EngineError(f"a completion ended by {finish}, not by {expected}")
    return usage


_WAYS: dict[str, Callable[[Engine, _Prompt, _Form], Awaitable[Usage]]] = {
    "score": _score,
    "write": _write,
    "sample": _sample,
}
_LABELS = {"score": "scored", "write": "written, forced tokens skipped", "sample": "written, every token sampled"}


async def _measure(
    engine: Engine, quick: bool, left_s: Callable[[], float], console: Console
) -> tuple[list[dict[str, Any]], str]:
    """A row per case, and how many rounds there were; a round goes through all cases, so that time cuts them evenly."""
    prompts, fields, rounds = ((40,), (1, 3), 1) if quick else (_PROMPTS, _FIELDS, _ROUNDS)
    forms = {num: _Form.of(engine, num) for num in fields}
    for form, way in itertools.product(forms.values(), _WAYS.values()):
        await way(engine, _prompt(engine, 32, "before"), form)  # grammars are compiled, kernels loaded
    cases: list[_Case] = list(itertools.product(prompts, (False, True), fields))
    taken: dict[_Case, _Taken] = {case: {way: {} for way in _WAYS} for case in cases}
    cached: dict[_Case, int | None] = {}
    longest, note = 0.0, f"rounds: {rounds}"
    with Progress(console=console) as progress:
        for number, case in progress.track(list(itertools.product(range(rounds), cases)), description="forms"):
            if left_s() < 10 + 2 * longest:
                note = f"no time left in round {number + 1} of {rounds}, from {case} on"
                break
            started = time.monotonic()
            for way in (*_WAYS, *_WAYS)[number % len(_WAYS) :][: len(_WAYS)]:  # another one first each round
                taken[case][way][number], usage = await _timed(engine, case, way, number, forms[case[2]])
                cached[case] = usage.cached_tokens
            longest = max(longest, time.monotonic() - started)
    return [_row(case, taken[case], cached[case]) for case in cases if case in cached], note


async def _timed(engine: Engine, case: _Case, way: str, number: int, form: _Form) -> tuple[float, Usage]:
    tokens, warm, num = case
    prompt = _prompt(engine, tokens, f"{number} {tokens}" if warm else f"{number} {tokens} {num} {way}")
    if warm:
        await engine.score(ScoreRequest(prompt_ids=prompt, branches=(Branch(path=(), candidates=(1,)),)))
    started = time.perf_counter()
    usage = await _WAYS[way](engine, prompt, form)
    return time.perf_counter() - started, usage


def _prompt(engine: Engine, tokens: int, nonce: str) -> _Prompt:
    text = engine.tokenizer.encode(_TEXT)
    return (engine.tokenizer.encode(f"{nonce}. ") + text * (tokens // len(text) + 1))[:tokens]


def _row(case: _Case, taken: _Taken, cached: int | None) -> dict[str, Any]:
    """Median seconds, and how many times scoring's within the round, with 95% intervals."""
    ratios = {way: ratio(taken[way], taken["score"]) for way in _WAYS if way != "score"}
    return {
        **dict(zip(("prompt_tokens", "warm", "fields"), case, strict=True)),
        "cached_tokens": cached,
        "seconds": taken,
        "median_s": {way: statistics.median(each.values()) for way, each in taken.items()},
        "over_score": {way: each.as_dict() for way, each in ratios.items() if each is not None},
    }


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table("prompt", "", "fields", "cached", *(f"{label}, ms" for label in _LABELS.values()))
    for row in rows:
        own = [each * 1e3 for each in row["seconds"]["score"].values()]
        cells = [f"{row['median_s']['score'] * 1e3:.1f} [{min(own):.1f}, {max(own):.1f}]"]
        for way, found in row["over_score"].items():
            times = f"{found['median']:.1f}x [{found['low']:.1f}, {found['high']:.1f}]"
            cells.append(f"{row['median_s'][way] * 1e3:.1f}, {times}")
        state = "warm" if row["warm"] else "cold"
        table.add_row(f"{row['prompt_tokens']:,}", state, str(row["fields"]), str(row["cached_tokens"]), *cells)
    return table


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Seconds by number of fields, a panel per length of the prompt, cold above warm."""
    from matplotlib.figure import Figure

    lengths = sorted({row["prompt_tokens"] for row in rows})
    figure = Figure(figsize=(3.4 * max(1, len(lengths)), 6), layout="constrained")
    for number, (warm, tokens) in enumerate(itertools.product((False, True), lengths)):
        axes = figure.add_subplot(2, len(lengths), number + 1)
        own = [row for row in rows if (row["prompt_tokens"], row["warm"]) == (tokens, warm)]
        for way, label in _LABELS.items():
            axes.loglog([row["fields"] for row in own], [row["median_s"][way] for row in own], marker="o", label=label)
        axes.set(title=f"{tokens:,} tokens, {'warm' if warm else 'cold'}", xlabel="closed fields", ylabel="seconds")
        axes.legend(fontsize="x-small")
    figure.savefig(path, dpi=110)
