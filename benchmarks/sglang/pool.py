"""Conversations that come back to SGLang: its own int8 pool against the snapshot pool, at the same bytes.

Conversations are begun one after the other, then each goes on: in the same order, and others in a random one. A hit
is a prompt whose beginning was restored from its snapshot. Runs in an environment with SGLang (`make test-sglang` makes
one); without a GPU SGLang's kernels are stand-ins in plain torch, so times say nothing and are not taken.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from agentform.cli.tables import Table
from agentform.runtime.engine import Branch, ScoreRequest
from agentform.runtime.sglang.embedded.engine import SGLangEngine
from agentform.runtime.sglang.plugin.settings import SnapshotSettings
from benchmarks.common.bootstrap import quantiles
from benchmarks.common.harness import Context
from benchmarks.common.models import write_hybrid

__all__ = ["int8_slot_bytes", "run"]

MODEL: dict[str, Any] = {
    "num_hidden_layers": 4,
    "linear_num_value_heads": 8,
    "linear_num_key_heads": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
}
"""Heads of the sizes that Qwen3-Next has; three recurrent layers of four."""
INT8_SLOTS = 32
NUM_CONVERSATIONS = 32
NUM_TOKENS = 96
NUM_MORE = 4
CANDIDATES = tuple(range(3, 1000, 50))
SERVER = {"max_total_tokens": 32_768, "max_running_requests": 2, "max_mamba_cache_size": 16}
SEED = 0

Prompt = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to keep snapshots; its policy may name a share of the int8 slot's bytes."""

    name: str
    snapshots: str | float | None


WAYS = (
    Way(name="SGLang, int8", snapshots=None),
    Way(name="exact", snapshots="exact"),
    Way(name="int8", snapshots="int8"),
    Way(name="small: below 64 tokens dropped", snapshots="small"),
    Way(name="best for half the bytes", snapshots=0.5),
    Way(name="best for a quarter of the bytes", snapshots=0.25),
)


def run(context: Context) -> None:
    """See the module docstring."""
    num = 8 if context.quick else NUM_CONVERSATIONS
    slots = 8 if context.quick else INT8_SLOTS
    with TemporaryDirectory() as folder:
        write_hybrid(Path(folder), **MODEL)
        each = int8_slot_bytes()
        passes = (_Pass.draw(num, SEED, shuffled=False), _Pass.draw(num, SEED + 1, shuffled=True))
        cold = _cold(Path(folder), [whole for one in passes for whole in one.whole])
        rows = [_measure(Path(folder), way, passes, cold, slots, each) for way in WAYS]
    context.console.print(_table(rows))
    figures = {"model": MODEL, "conversations": num, "tokens": NUM_TOKENS, "pool_bytes": slots * each, "ways": rows}
    context.write(figures, seeds=[SEED, SEED + 1])


def int8_slot_bytes() -> int:
    """Bytes of one state in SGLang's int8 pool: values, a float32 scale per head and key channel, convolution."""
    heads, key, value = (MODEL[f"linear_{name}"] for name in ("num_value_heads", "key_head_dim", "value_head_dim"))
    channels = heads * value + 2 * MODEL["linear_num_key_heads"] * key
    layers = MODEL["num_hidden_layers"] * 3 // 4
    return layers * (heads * key * value + heads * key * 4 + channels * 3 * 2)


@dataclass(frozen=True, kw_only=True)
class _Pass:
    """Beginnings in the order in which they come first, and whole prompts in the order in which they come back."""

    begun: list[Prompt]
    whole: list[Prompt]

    @classmethod
    def draw(cls, num: int, seed: int, *, shuffled: bool) -> _Pass:
        draw = random.Random(seed)
        whole = [tuple(draw.choices(range(3, 49_000), k=NUM_TOKENS + NUM_MORE)) for _ in range(num)]
        begun = [each[:NUM_TOKENS] for each in whole]
        return cls(begun=begun, whole=draw.sample(whole, num) if shuffled else whole)


def _cold(folder: Path, prompts: list[Prompt]) -> dict[Prompt, Sequence[float]]:
    engine = SGLangEngine(folder, **SERVER, disable_radix_cache=True)
    try:
        return {each: anyio.run(_score, engine, each)[0] for each in prompts}
    finally:
        engine.close()


def _measure(
    folder: Path,
    way: Way,
    passes: Sequence[_Pass],
    cold: Mapping[Prompt, Sequence[float]],
    slots: int,
    slot_bytes: int,
) -> dict[str, Any]:
    engine = SGLangEngine(folder, **SERVER, **_arguments(way, slots, slot_bytes))
    try:
        found = [anyio.run(_come_back, engine, each) for each in passes]
        said = engine.statistics()
    finally:
        engine.close()
    errors = [
        mean(abs(a - b) for a, b in zip(warm, cold[prompt], strict=True))
        for hits in found
        for prompt, warm in hits.items()
    ]
    return {
        "way": way.name,
        "slot_bytes": said.snapshot_bytes or slot_bytes,
        "slots": slots * slot_bytes // (said.snapshot_bytes or slot_bytes),
        "hit_rates": [len(hits) / len(each.whole) for hits, each in zip(found, passes, strict=True)],
        "logprob_error": quantiles(errors, 4) if errors else None,
    }


def _arguments(way: Way, slots: int, slot_bytes: int) -> dict[str, Any]:
    if way.snapshots is None:
        return {"enable_int8_mamba_checkpoint": True, "int8_mamba_ckpt_size": slots}
    policy = way.snapshots if isinstance(way.snapshots, str) else str(int(way.snapshots * slot_bytes))
    return {"snapshots": SnapshotSettings(snapshots=policy, pool_bytes=slots * slot_bytes)}


async def _come_back(engine: SGLangEngine, given: _Pass) -> dict[Prompt, Sequence[float]]:
    """Log p by prompt, of the prompts whose beginning was found."""
    for begun in given.begun:
        await _score(engine, begun)
    found = {whole: await _score(engine, whole) for whole in given.whole}
    return {whole: logprobs for whole, (logprobs, cached) in found.items() if cached >= NUM_TOKENS}


async def _score(engine: SGLangEngine, prompt: Prompt) -> tuple[Sequence[float], int]:
    request = ScoreRequest(prompt_ids=prompt, branches=(Branch(path=(), candidates=CANDIDATES),))
    result = await engine.score(request)
    return result.logprobs[0], result.usage.cached_tokens or 0


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("snapshots", "bytes each", "in the pool", "found, in order", "found, shuffled", "log p off (median)")
    for row in rows:
        rates = [f"{rate:.0%}" for rate in row["hit_rates"]]
        error = "" if row["logprob_error"] is None else f"{row['logprob_error'][2]:.4f}"
        table.add_row(row["way"], f"{row['slot_bytes']:,}", str(row["slots"]), *rates, error)
    return table
