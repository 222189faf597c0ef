"""The same on the real engine: conversations come one after the other, and then all of them once more.

Seconds are the process's CPU seconds: the machine may be shared, and the engine runs in one thread here.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agentform.runtime.engine import Branch, ScoreRequest
from agentform.runtime.snapshots.plan import Precision, PrecisionPlan
from agentform.runtime.torch.engine import TorchEngine
from studies.recall.tasks import ASK, VALUES, Batch, draw
from studies.snapshots.lab import Lab
from studies.snapshots.ways import ranked

__all__ = ["WAYS", "measure", "one_conversation"]

WAYS = ("exact", "drop", "int8", "both")

_SHARE = 0.38
_NEW = 16
"""Tokens that a conversation adds when it comes again."""


def measure(
    folder: Path, *, conversations: int, tokens: int, slots: int, seed: int, names: Sequence[str] = WAYS
) -> dict[str, Any]:
    """Second passes with as many bytes as `slots` exact conversations take, in the ways named."""
    lab = Lab(folder, most_tokens=64)
    budget = _budget(folder, tokens, slots)
    batch = draw(
        np.random.default_rng([seed, 2]), batch=conversations, tokens=tokens + _NEW, pairs=4, questions=1, tail=_NEW
    )
    plans: dict[str, str | PrecisionPlan] = {
        "exact": "exact",
        "drop": ranked(lab, _SHARE, Precision.EXACT),
        "int8": ranked(lab, 1.0, Precision.INT8),
        "both": ranked(lab, _SHARE, Precision.INT8),
    }
    return {
        "conversations": conversations,
        "tokens": tokens,
        "slots": slots,
        "budget_bytes": budget,
        "ways": {name: asyncio.run(_two_passes(folder, plans[name], budget, batch)) for name in names},
    }


def one_conversation(folder: Path, *, tokens: int, num: int, seed: int) -> dict[str, float]:
    """Medians of what one conversation costs when it is found and when it is not; A B A B, after a warm-up."""
    batch = draw(np.random.default_rng([seed, 3]), batch=2 * num, tokens=tokens + _NEW, pairs=4, questions=1, tail=_NEW)
    return asyncio.run(_hit_and_miss(folder, batch))


async def _hit_and_miss(folder: Path, batch: Batch) -> dict[str, float]:
    lab = Lab(folder, most_tokens=64)
    times: dict[str, list[float]] = {"miss_s": [], "hit_s": []}
    async with TorchEngine(
        folder, snapshots=ranked(lab, _SHARE, Precision.INT8), dtype=torch.float32, num_slots=1
    ) as engine:
        for row in range(0, len(batch.context), 2):
            found, missed, _ = await _turn(engine, batch, row, again=False)
            await _turn(engine, batch, row + 1, again=False)  # takes the only live slot
            restored, hit, _ = await _turn(engine, batch, row, again=True)
            assert not found, "a new conversation that was found"
            assert restored, "a known conversation that was not found"
            times["miss_s"].append(missed)
            times["hit_s"].append(hit)
    medians = {name: statistics.median(each) for name, each in times.items()}
    return {**medians, "ratio": statistics.median(m / h for m, h in zip(*times.values(), strict=True))}


async def _two_passes(folder: Path, plan: str | PrecisionPlan, budget: int, batch: Batch) -> dict[str, Any]:
    engine = TorchEngine(
        folder, snapshots=plan, kv_budget_bytes=budget, dtype=torch.float32, num_slots=1, num_threads=1
    )
    async with engine:
        for row in range(len(batch.context)):
            await _turn(engine, batch, row, again=False)
        started = time.process_time()
        turns = [await _turn(engine, batch, row, again=True) for row in range(len(batch.context))]
        seconds = time.process_time() - started
        facts = engine.memory_plan
    return {
        "snapshot_bytes": facts.snapshot_positions * facts.position_bytes,
        "conversations_found": sum(found > 0 for found, _, _ in turns) / len(turns),
        "second_pass_s": seconds,
        "recall": sum(right for _, _, right in turns) / len(turns),
    }


async def _turn(engine: TorchEngine, batch: Batch, row: int, *, again: bool) -> tuple[int, float, bool]:
    """Tokens found, CPU seconds, and whether the answer is right."""
    context = batch.context[row] if again else batch.context[row, :-_NEW]
    request = ScoreRequest(
        prompt_ids=tuple(context.tolist()),
        branches=(Branch(path=(ASK, int(batch.asked[row, 0])), candidates=tuple(VALUES)),),
    )
    started = time.process_time()
    result = await engine.score(request)
    best = int(np.argmax(result.logprobs[0]))
    return result.usage.cached_tokens or 0, time.process_time() - started, VALUES[best] == batch.answers[row, 0]


def _budget(folder: Path, tokens: int, slots: int) -> int:
    """Bytes for `slots` conversations with exact snapshots, beside what the engine needs to run."""
    engine = TorchEngine(folder, dtype=torch.float32, num_slots=1, kv_budget_bytes=1 << 26)
    facts = engine.memory_plan
    engine.close()
    fixed = facts.scratch_bytes + facts.num_slots * facts.slot_bytes
    return fixed + (slots * (tokens + facts.snapshot_positions) + _NEW + 4) * facts.position_bytes
