from __future__ import annotations

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentform.errors import CacheBudgetExceeded, ContextOverflow, InvalidRequest
from agentform.runtime.engine import Branch, ScoreRequest
from tests.support.engines import complete, settled
from tests.support.tiny_model import CONTEXT_TOKENS, logprobs

PROMPT = tuple(range(20, 60))
BRANCHES = (
    Branch(path=(), candidates=(5, 6, 7)),
    Branch(path=(5,), candidates=(9, 9, 10)),
    Branch(path=(5, 8, 8), candidates=(1,)),
    Branch(path=(5, 8), candidates=(2, 3)),
    Branch(path=(7, 8), candidates=(2, 3)),
    Branch(path=(5,), candidates=(11,)),
)


def score(engine, prompt, branches, **options):
    return engine.score(ScoreRequest(prompt_ids=tuple(prompt), branches=tuple(branches), **options))


def assert_as_transformers(tiny, prompt, branches, result):
    assert len(result.logprobs) == len(branches)
    for branch, got in zip(branches, result.logprobs, strict=True):
        row = logprobs(tiny.reference, (*prompt, *branch.path))
        assert got == pytest.approx([float(row[c]) for c in branch.candidates], abs=1e-4)


@pytest.mark.anyio
@pytest.mark.parametrize("max_batch_tokens", [512, 41, 5, 1])
async def test_scores_equal_one_full_forward_per_branch(make_engine, tiny, max_batch_tokens):
    engine = make_engine(max_batch_tokens=max_batch_tokens)
    for _ in ("cold", "warm"):
        result = await score(engine, PROMPT, BRANCHES)
        assert_as_transformers(tiny, PROMPT, BRANCHES, result)
        assert result.usage.completion_tokens == 0
    await settled(engine)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    prompt=st.lists(st.integers(3, 6), min_size=1, max_size=8),
    paths=st.lists(st.lists(st.integers(3, 5), max_size=4), min_size=1, max_size=8),
)
def test_any_prompt_and_any_paths(small_engine, tiny, prompt, paths):
    branches = [Branch(path=tuple(path), candidates=(3, 4, 5)) for path in paths]
    for _ in range(2):
        result = anyio.run(score, small_engine, prompt, branches)
        assert_as_transformers(tiny, tuple(prompt), branches, result)
    small_engine.integrity()


@pytest.fixture
def small_engine(make_engine):
    """Holds little more than one of the requests below, so that they evict each other's prompts."""
    return make_engine(positions=30, max_batch_tokens=6)


@pytest.mark.anyio
async def test_usage_counts_shared_beginnings_once(engine):
    cold = (await score(engine, PROMPT, BRANCHES)).usage
    assert (cold.prompt_tokens, cold.cached_tokens, cold.computed_tokens) == (40, 0, 40 + 5)
    warm = (await score(engine, PROMPT, BRANCHES)).usage
    # The last prompt token runs again, for the branch with an empty path.
    assert (warm.cached_tokens, warm.computed_tokens, warm.miss) == (39, 1 + 5, None)
    paths_only = (await score(engine, PROMPT, BRANCHES[1:])).usage
    assert (paths_only.cached_tokens, paths_only.computed_tokens, paths_only.miss) == (40, 5, None)


@pytest.mark.anyio
async def test_branches_leave_nothing_behind(engine):
    await score(engine, PROMPT, BRANCHES)
    await settled(engine)
    assert engine.statistics().resident_tokens == len(PROMPT)


@pytest.mark.anyio
async def test_a_score_takes_one_step_when_it_fits(make_engine, gate):
    await score(make_engine(), PROMPT, BRANCHES)
    assert gate.steps == [45]


@pytest.mark.anyio
async def test_thousands_of_options_in_bounded_memory(make_engine, gate, tiny):
    """5,000 paths of up to four tokens, in a pool that holds the prompt and one step's tree."""
    paths = [(3 + i % 17, 3 + i // 17 % 19, 3 + i // 323 % 23, 3 + i % 2) for i in range(5000)]
    branches = [Branch(path=path, candidates=(1, 2)) for path in paths]
    engine = make_engine(positions=len(PROMPT) + 256, max_batch_tokens=256)
    result = await score(engine, PROMPT, branches)
    assert max(gate.steps) <= 256
    sample = range(0, 5000, 977)
    sampled = [branches[i] for i in sample]
    for branch, got in zip(sampled, [result.logprobs[i] for i in sample], strict=True):
        row = logprobs(tiny.reference, (*PROMPT, *branch.path))
        assert got == pytest.approx([float(row[1]), float(row[2])], abs=1e-4)
    await settled(engine)


@pytest.mark.anyio
async def test_scores_beside_completions(make_engine, tiny):
    """A score in the same steps as decodes and prefills changes neither."""
    engine = make_engine(max_batch_tokens=24)
    alone = (await complete(engine, PROMPT, 20)).token_ids
    results = {}

    async def run_score(index):
        results[index] = await score(engine, (*PROMPT, 9, index), BRANCHES)

    async def run_completion():
        results["completion"] = (await complete(engine, PROMPT, 20)).token_ids

    async with anyio.create_task_group() as group:
        group.start_soon(run_completion)
        for index in range(3, 9):
            group.start_soon(run_score, index)
    assert results.pop("completion") == alone
    for index, result in results.items():
        assert_as_transformers(tiny, (*PROMPT, 9, index), BRANCHES, result)
    await settled(engine)


@pytest.mark.anyio
async def test_no_branches_only_warms_the_cache(engine):
    for cached in (0, 40):
        result = await score(engine, PROMPT, ())
        assert (result.logprobs, result.usage.cached_tokens) == ((), cached)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("prompt", "branch", "error"),
    [
        ((), Branch(path=(), candidates=(1,)), InvalidRequest),
        ((1,), Branch(path=(10**6,), candidates=(1,)), InvalidRequest),
        ((1,), Branch(path=(), candidates=(-1,)), InvalidRequest),
        ((1,), Branch(path=(), candidates=()), InvalidRequest),
        ((1,) * 250, Branch(path=(1,) * 7, candidates=(1,)), ContextOverflow),
    ],
)
async def test_malformed_requests_are_refused(engine, prompt, branch, error):
    with pytest.raises(error):
        await score(engine, prompt, [branch])


@pytest.mark.anyio
async def test_the_whole_context_can_be_scored(engine, tiny):
    branch = Branch(path=(4,) * 6, candidates=(1,))
    prompt = (5,) * (CONTEXT_TOKENS - 6)
    assert_as_transformers(tiny, prompt, [branch], await score(engine, prompt, [branch]))


@pytest.mark.anyio
async def test_branches_larger_than_the_budget_are_refused(make_engine):
    with pytest.raises(CacheBudgetExceeded, match="holds 42"):
        await score(make_engine(positions=42), PROMPT, BRANCHES)
