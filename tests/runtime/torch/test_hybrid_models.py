"""Models with recurrent layers against transformers' own forward, and what their snapshots save."""

from __future__ import annotations

from contextlib import closing

import anyio
import pytest
import torch
from torch import nn

from agentform.errors import CacheBudgetExceeded, EngineError
from agentform.runtime.engine import Branch, ScoreRequest
from agentform.runtime.scheduling.snapshot_placement import LEAST_GAP_TOKENS
from agentform.runtime.torch.engine import TorchEngine
from agentform.runtime.torch.forward.step import ForwardStep
from agentform.runtime.torch.forward.transformers_adapter import prepare
from tests.support.engines import complete, settled
from tests.support.tiny_hybrids import FAMILIES, write_tiny_hybrid
from tests.support.tiny_model import greedy, logprobs

PROMPT = tuple(range(20, 60))
BRANCHES = (
    Branch(path=(), candidates=(5, 6, 7)),
    Branch(path=(5,), candidates=(9, 9, 10)),
    Branch(path=(5, 8, 8), candidates=(1,)),
    Branch(path=(5, 8), candidates=(2, 3)),
    Branch(path=(7, 8), candidates=(2, 3)),
)


@pytest.fixture(scope="session")
def hybrids(tmp_path_factory):
    """Folder and transformers' model of a family, written once."""
    made = {}

    def get(family):
        if family not in made:
            folder = tmp_path_factory.mktemp(family)
            made[family] = folder, write_tiny_hybrid(folder, family)
        return made[family]

    return get


@pytest.fixture
def make_hybrid(hybrids):
    """Engines in float32 with room for `positions` beside slots and scratch."""
    made: list[TorchEngine] = []

    def make(family="qwen3_next", *, positions=4096, **options) -> TorchEngine:
        folder, _ = hybrids(family)
        options = {"num_threads": 1, "num_slots": 4} | options

        def engine(budget):
            return TorchEngine(folder, dtype=torch.float32, kv_budget_bytes=budget, **options)

        with closing(engine(1 << 24)) as roomy:
            plan = roomy.memory_plan
        fixed = plan.num_slots * plan.slot_bytes + plan.scratch_bytes
        made.append(engine(fixed + positions * plan.position_bytes))
        return made[-1]

    yield make
    for each in made:
        each.close()


def score(engine, prompt, branches=BRANCHES, **options):
    return engine.score(ScoreRequest(prompt_ids=tuple(prompt), branches=tuple(branches), **options))


def assert_as_transformers(reference, prompt, branches, result):
    for branch, got in zip(branches, result.logprobs, strict=True):
        row = logprobs(reference, (*prompt, *branch.path))
        assert got == pytest.approx([float(row[c]) for c in branch.candidates], abs=1e-4)


@pytest.mark.anyio
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("max_batch_tokens", [512, 7])
async def test_scores_equal_one_full_forward_per_branch(make_hybrid, hybrids, family, max_batch_tokens):
    engine = make_hybrid(family, max_batch_tokens=max_batch_tokens)
    for cached in (0, len(PROMPT) - 1):
        result = await score(engine, PROMPT)
        assert_as_transformers(hybrids(family)[1], PROMPT, BRANCHES, result)
        assert (result.usage.cached_tokens, result.usage.restored_tokens) == (cached, cached)
    await settled(engine)


@pytest.mark.anyio
@pytest.mark.parametrize("family", FAMILIES)
async def test_completions_equal_transformers(make_hybrid, hybrids, family):
    """Several at once, so that decode steps are batched, and again from their snapshots."""
    engine = make_hybrid(family, max_batch_tokens=24)
    prompts = [PROMPT, (*PROMPT[:30], 7, 7), tuple(range(90, 115))]
    answers = {}

    async def run(index):
        answers[index] = (await complete(engine, prompts[index], 10)).token_ids

    for _ in ("cold", "warm"):
        async with anyio.create_task_group() as group:
            for index in range(len(prompts)):
                group.start_soon(run, index)
        for index, prompt in enumerate(prompts):
            assert answers[index] == greedy(hybrids(family)[1], prompt, 10)
    await settled(engine)


@pytest.mark.anyio
async def test_the_next_turn_starts_behind_the_last_answer(make_hybrid):
    engine = make_hybrid()
    first = await complete(engine, PROMPT, 24)
    said = (*PROMPT, *first.token_ids)
    usage = (await complete(engine, (*said, 7, 8, 9), 2)).usage
    # The last sampled token was never computed, unless one that ended the answer came after it.
    assert usage.cached_tokens is not None
    assert usage.cached_tokens >= len(said) - 1
    assert (usage.restored_tokens, usage.replayed_tokens) == (usage.cached_tokens, 0)
    assert usage.miss is not None
    assert usage.miss.startswith("new")


@pytest.mark.anyio
async def test_a_boundary_is_where_another_conversation_restarts(make_hybrid, hybrids):
    engine = make_hybrid()
    system = PROMPT[:25]
    await score(engine, PROMPT, boundaries=(25,))
    other = (*system, *range(100, 140))
    result = await score(engine, other)
    assert (result.usage.cached_tokens, result.usage.replayed_tokens) == (25, 0)
    assert_as_transformers(hybrids("qwen3_next")[1], other, BRANCHES, result)


@pytest.mark.anyio
async def test_a_branch_point_is_replayed_once(make_hybrid, hybrids):
    """Nobody said where the shared beginning ends; the second conversation shows it, the third profits."""
    engine = make_hybrid()
    usages = []
    for first in (100, 101, 102):
        prompt = (*PROMPT[:30], *range(first, first + 20))
        result = await score(engine, prompt)
        assert_as_transformers(hybrids("qwen3_next")[1], prompt, BRANCHES, result)
        usages.append(result.usage)
    assert [usage.cached_tokens for usage in usages] == [0, 0, 30]
    assert [usage.replayed_tokens for usage in usages] == [0, 30, 0]
    assert usages[1].miss == "no snapshot at or below token 30"
    statistics = engine.statistics()
    assert statistics.misses == {"cold": 1, "no snapshot": 1, "diverged": 1}
    assert (statistics.replayed_tokens, statistics.restored_tokens, statistics.matched_tokens) == (30, 30, 60)


@pytest.mark.anyio
async def test_no_room_for_a_snapshot_is_no_error(make_hybrid, hybrids):
    engine = make_hybrid(positions=70)  # a snapshot takes 48 of them, the request 45
    assert engine.memory_plan.snapshot_positions == 48
    for _ in range(2):
        result = await score(engine, PROMPT)
        assert_as_transformers(hybrids("qwen3_next")[1], PROMPT, BRANCHES, result)
    await settled(engine)
    assert engine.statistics().declined_snapshots > 0


@pytest.mark.anyio
async def test_more_requests_than_slots_wait_for_one(make_hybrid, hybrids):
    engine = make_hybrid(num_slots=2)
    wanted = {first: greedy(hybrids("qwen3_next")[1], (*PROMPT, first), 5) for first in range(100, 107)}
    got = {}

    async def run(first):
        got[first] = (await complete(engine, (*PROMPT, first), 5)).token_ids

    async with anyio.create_task_group() as group:
        for first in wanted:
            group.start_soon(run, first)
    assert got == wanted
    await settled(engine)


@pytest.mark.anyio
async def test_cancelling_keeps_the_live_state_and_frees_the_slot(make_hybrid, gate):
    engine = make_hybrid(num_slots=1)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(complete, engine, PROMPT, 200)
            await gate.reached(12)
            scope.cancel()
    await settled(engine)
    assert engine.statistics().resident_snapshots >= 1
    usage = (await complete(engine, (*PROMPT, 7), 4)).usage
    assert usage.cached_tokens == len(PROMPT) - 1


@pytest.mark.anyio
async def test_a_step_that_fails_for_one_spares_the_state_of_the_others(make_hybrid, hybrids, gate, monkeypatch):
    """Steps fail in the attention layer, when recurrent layers have moved on; the others run again from the start."""
    engine = make_hybrid(max_batch_tokens=64)
    attend, failed = ForwardStep.attend, []

    def broken(step, *args):
        if 104 in step.input_ids:
            failed.append(step.num_tokens)
            raise RuntimeError("broken step")
        return attend(step, *args)

    monkeypatch.setattr(ForwardStep, "attend", broken)
    reference = hybrids("qwen3_next")[1]
    outcomes = {}

    async def run(name, prompt):
        try:
            outcomes[name] = (await complete(engine, prompt, 6)).token_ids
        except EngineError as error:
            outcomes[name] = error

    gate.shut()
    async with anyio.create_task_group() as group:
        group.start_soon(run, "good", PROMPT)
        await gate.reached(1)
        group.start_soon(run, "bad", tuple(range(100, 123)))
        group.start_soon(run, "small", (7, 8, 9))
        await anyio.wait_all_tasks_blocked()
        gate.open()
    assert isinstance(outcomes["bad"], EngineError)
    assert isinstance(outcomes["bad"].__cause__, RuntimeError)
    assert outcomes["good"] == greedy(reference, PROMPT, 6)
    assert outcomes["small"] == greedy(reference, (7, 8, 9), 6)
    assert max(failed) > 23  # the others were in that step
    await settled(engine)


def test_a_budget_below_slots_and_one_snapshot_is_refused_with_the_numbers(hybrids):
    folder, _ = hybrids("qwen3_next")
    with pytest.raises(CacheBudgetExceeded, match=r"budget of 100,000 bytes .* 8 slots of 6,144 bytes .* would do"):
        TorchEngine(folder, dtype=torch.float32, kv_budget_bytes=100_000, num_threads=1)


@pytest.mark.anyio
async def test_branches_of_a_score_run_in_bounded_scratch(make_hybrid, hybrids, gate):
    paths = [(3 + i % 17, 3 + i // 17 % 19, 3 + i % 2) for i in range(300)]
    branches = [Branch(path=path, candidates=(1, 2)) for path in paths]
    engine = make_hybrid()
    result = await score(engine, PROMPT, branches)
    assert max(gate.steps[1:]) <= 32
    sampled = [(branches[i], result.logprobs[i]) for i in range(0, 300, 37)]
    for branch, got in sampled:
        row = logprobs(hybrids("qwen3_next")[1], (*PROMPT, *branch.path))
        assert got == pytest.approx([float(row[1]), float(row[2])], abs=1e-4)
    await settled(engine)


@pytest.mark.anyio
@pytest.mark.parametrize("family", ["qwen3_next", "mamba2"])
async def test_forty_turns_cost_no_more_than_their_new_messages(make_hybrid, family):
    engine = make_hybrid(family)
    said = PROMPT
    for turn in range(40):
        said = (*said, *range(30 + turn, 36 + turn))
        answer = await complete(engine, said, 3, conversation="long")
        if turn:
            assert answer.usage.computed_tokens is not None
            # Six new tokens, three written, and what lies behind the last snapshot.
            assert answer.usage.computed_tokens <= 6 + 3 + LEAST_GAP_TOKENS
        said = (*said, *answer.token_ids)
    await settled(engine)
    one = engine.statistics().conversations["long"]
    assert one.requests == 40
    assert set(one.misses) <= {"cold", "new", "no snapshot"}


class OlderLayer(nn.Module):
    """As recurrent layers were before transformers 5.24."""

    def __init__(self):
        super().__init__()
        self.layer_idx = 0
        self.conv1d = nn.Conv1d(1, 1, 1)

    def forward(self, hidden_states, cache_params=None, **kwargs):
        return hidden_states


def test_recurrent_layers_of_an_older_transformers_are_refused(tmp_path):
    model = write_tiny_hybrid(tmp_path, "lfm2")
    model.add_module("older", OlderLayer())
    with pytest.raises(EngineError, match=r"OlderLayer of transformers .* need transformers 5\.24 or newer"):
        prepare(model)
