"""A hit must not change what an agent does: the same calls and answers from a warm cache and from none.

`AGENTFORM_CONVERSATIONS=300` holds that many per family instead of 2.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import Annotated, Literal

import anyio
import pytest
import torch
from pydantic import Field

from agentform.agent.agent import Agent
from agentform.agent.conversation import Conversation
from agentform.decoding.limits import Limits
from agentform.errors import CallError
from agentform.forms.scoring import Scoring
from agentform.runtime.torch.engine import TorchEngine
from tests.support.engines import settled
from tests.support.tiny_hybrids import FAMILIES, write_tiny_hybrid
from tests.support.tiny_model import write_tiny_model

CONVERSATIONS = int(os.environ.get("AGENTFORM_CONVERSATIONS", "2"))
AT_ONCE = 2
CONTEXT_TOKENS = 4096
POSITIONS = 450
"""Of the warm cache, beside a few snapshots: more than one conversation needs, less than two leave behind."""
MESSAGES = ("On in the hall!", "And off again.")
LIMITS = Limits(steps=2, reasoning_tokens=3, answer_tokens=6, argument_tokens=8)


def light(room: Literal["hall", "kitchen"], on: bool, note: Annotated[str, Field(pattern="^[a-z]{1,3}$")]) -> str:
    """Switch a light."""
    return f"{room} {on}"


def make_engine(folder, budget, *, reuse=True, host=0):
    return TorchEngine(
        folder,
        dtype=torch.float32,
        kv_budget_bytes=budget,
        host_budget_bytes=host,
        num_slots=4,
        max_batch_tokens=256,
        num_threads=1,
        reuse_prefixes=reuse,
    )


def write(folder, family):
    """A tiny model with room for the prompts of an agent, a token per byte."""
    write_tiny_model(folder) if family == "llama" else write_tiny_hybrid(folder, family)
    place = folder / "config.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"max_position_embeddings": CONTEXT_TOKENS}))


@pytest.mark.parametrize("family", ["llama", *FAMILIES])
def test_an_agent_does_the_same_warm_and_cold(tmp_path, family):
    write(tmp_path, family)
    with closing(make_engine(tmp_path, 1 << 25, reuse=False)) as cold:
        plan = cold.memory_plan
        positions = POSITIONS + 4 * plan.snapshot_positions
        tight = plan.num_slots * plan.slot_bytes + plan.scratch_bytes + positions * plan.position_bytes
        with closing(make_engine(tmp_path, tight, host=1 << 23)) as warm:
            called = False
            for first in range(0, CONVERSATIONS, AT_ONCE):
                names = [f"Customer {number}. " for number in range(first, first + AT_ONCE)]
                did = anyio.run(hold, warm, names)
                assert did == anyio.run(hold, cold, names)
                called |= any(calls for calls, _, _ in did.values())
            statistics = warm.statistics()
    assert called
    assert statistics.hit_tokens > 0.5 * statistics.lookup_tokens
    assert statistics.evicted_tokens + statistics.evicted_snapshots > 0


async def hold(engine, names):
    """What the agent did in conversations that are held at once; without priors such models never call."""
    agent = Agent(engine, tools=[light], limits=LIMITS, scoring=Scoring(calibration=1.0))
    did = {}
    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(_talk, agent, name, did)
    await settled(engine)
    return did


async def _talk(agent, name, did):
    conversation = Conversation()
    for message in MESSAGES:
        try:
            result = await agent.run(name + message, conversation=conversation)
        except CallError as error:
            did[name, message] = ([], repr(error), "error")
            continue
        calls = [(call.name, dict(call.arguments)) for call in result.calls]
        did[name, message] = (calls, result.output, result.finish)
