"""A hit must not change the answer: random conversations, a cache that is far too small, and none at all.

`AGENTFORM_CONVERSATIONS=300` plays that many per family instead of 30.
"""

from __future__ import annotations

import functools
import os
from contextlib import closing

import anyio
import pytest
import torch

from agentform.runtime.torch.engine import TorchEngine
from tests.support.engines import complete, settled
from tests.support.random_talk import play, talks
from tests.support.tiny_hybrids import FAMILIES, write_tiny_hybrid
from tests.support.tiny_model import write_tiny_model

CONVERSATIONS = int(os.environ.get("AGENTFORM_CONVERSATIONS", "30"))
AT_ONCE = 3
LENGTH = 160
ALPHABET = range(20, 32)


def make_engine(folder, budget, *, reuse=True, host=0):
    return TorchEngine(
        folder,
        dtype=torch.float32,
        kv_budget_bytes=budget,
        num_slots=4,
        max_batch_tokens=48,
        num_threads=1,
        reuse_prefixes=reuse,
        host_budget_bytes=host,
    )


def tight_budget(plan):
    """Enough for the conversations that run at once, and a few snapshots."""
    positions = AT_ONCE * LENGTH + 4 * plan.snapshot_positions
    return plan.num_slots * plan.slot_bytes + plan.scratch_bytes + positions * plan.position_bytes


def write(folder, family):
    return write_tiny_model(folder) if family == "llama" else write_tiny_hybrid(folder, family)


@pytest.mark.timeout(1500)  # minutes on a core that others keep busy
@pytest.mark.parametrize(
    ("family", "host"),
    [*((family, 0) for family in ("llama", *FAMILIES)), *((family, 1 << 18) for family in ("llama", "qwen3_next"))],
)
def test_warm_equals_cold(tmp_path, family, host):
    write(tmp_path, family)
    with closing(make_engine(tmp_path, 1 << 23, reuse=False)) as cold:
        with closing(make_engine(tmp_path, tight_budget(cold.memory_plan), host=host)) as warm:
            anyio.run(functools.partial(compare, warm, cold, returns=host > 0))
            statistics = warm.statistics()
    assert statistics.hit_tokens > 0.2 * statistics.lookup_tokens
    assert statistics.evicted_tokens + statistics.evicted_snapshots > 0
    assert statistics.restored_tokens == (0 if family == "llama" else statistics.hit_tokens)
    assert not host or statistics.tiers["host"].hits > 0
    assert cold.statistics().hit_tokens == 0


async def compare(warm, cold, *, returns):
    """`returns`: after each round of conversations an older one is held once more, and at the end each goes on."""
    wanted = {}
    for seed in range(CONVERSATIONS // AT_ONCE):
        wanted[seed] = await play(cold, talks(seed, AT_ONCE, alphabet=ALPHABET, length=LENGTH))
        for each in (seed, seed // 2) if returns else (seed,):
            got = await play(warm, talks(each, AT_ONCE, alphabet=ALPHABET, length=LENGTH))
            check(got, wanted[each])
            await settled(warm)
    for answers in wanted.values() if returns else ():
        ends = {name: answers.prompts[name, turn] for name, turn in sorted(answers.prompts)}
        for prompt in ends.values():
            asked = [await complete(engine, (*prompt, 19), 2) for engine in (warm, cold)]
            assert asked[0].token_ids == asked[1].token_ids


def check(got, wanted):
    assert got.prompts == wanted.prompts
    assert got.tokens == wanted.tokens
    assert got.logprobs.keys() == wanted.logprobs.keys()
    for key, values in got.logprobs.items():
        assert values == pytest.approx(wanted.logprobs[key], abs=1e-4), key
