from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from agentform.errors import ContextOverflow, DeadlineExceeded, InvalidRequest
from agentform.runtime.engine import Branch, ScoreRequest
from tests.seam.conftest import SEEN, fresh_prompt
from tests.support.engines import complete
from tests.support.tiny_model import logprobs

pytestmark = pytest.mark.anyio
CANDIDATES = (3, 50, 299, 7)
PATHS = ((), (9,), (9, 30), (200, 3, 3), (9, 31))
BRANCHES = tuple(Branch(path=path, candidates=CANDIDATES) for path in PATHS)


def off_by(result, reference, prompt, branches=BRANCHES):
    """The largest difference from what transformers says."""
    differences = []
    for branch, found in zip(branches, result.logprobs, strict=True):
        expected = logprobs(reference, prompt + branch.path)[list(branch.candidates)].tolist()
        differences += [abs(a - b) for a, b in zip(found, expected, strict=True)]
    return max(differences)


async def test_scores_are_those_of_transformers(engine, seam_model):
    prompt = fresh_prompt()
    result = await engine.score(ScoreRequest(prompt_ids=prompt, branches=BRANCHES))
    assert off_by(result, seam_model.reference, prompt) < 0.02


async def test_a_warm_score_is_the_cold_one(engine, seam_model):
    request = ScoreRequest(prompt_ids=fresh_prompt(90), branches=BRANCHES)
    cold, warm = await engine.score(request), await engine.score(request)
    assert cold.usage.cached_tokens <= SEEN
    assert warm.usage.cached_tokens >= 89
    assert off_by(warm, seam_model.reference, request.prompt_ids) < 0.02
    together = zip(sum(cold.logprobs, ()), sum(warm.logprobs, ()), strict=True)
    assert max(abs(a - b) for a, b in together) < 0.02


async def test_usage_counts_what_was_read_and_nothing_sampled(engine):
    request = ScoreRequest(prompt_ids=fresh_prompt(), branches=BRANCHES)
    usage = (await engine.score(request)).usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (40, 0)
    # The prompt once, and at least every node of the tree of paths.
    read = 40 - usage.cached_tokens
    assert 40 - SEEN <= read <= 40
    assert read + 6 <= usage.computed_tokens <= read + sum(len(path) + 1 for path in PATHS)


async def test_what_was_generated_is_cached_for_a_score(engine):
    prompt = fresh_prompt()
    answer = await complete(engine, prompt, 8)
    whole = prompt + answer.token_ids
    usage = (await engine.score(ScoreRequest(prompt_ids=(*whole, 5), branches=BRANCHES))).usage
    assert usage.cached_tokens >= len(whole) - 1


@pytest.mark.parametrize("branches", [BRANCHES[:1], BRANCHES[3:4], BRANCHES[1:3]], ids=["empty", "one", "nested"])
async def test_few_branches(engine, seam_model, branches):
    prompt = fresh_prompt()
    result = await engine.score(ScoreRequest(prompt_ids=prompt, branches=branches))
    assert off_by(result, seam_model.reference, prompt, branches) < 0.02
    assert result.usage.prompt_tokens == len(prompt)


async def test_the_same_path_twice_and_a_candidate_twice(engine):
    branches = (
        Branch(path=(9,), candidates=(3, 3)),
        Branch(path=(8,), candidates=(4,)),
        Branch(path=(9,), candidates=(3,)),
    )
    result = await engine.score(ScoreRequest(prompt_ids=fresh_prompt(), branches=branches))
    assert result.logprobs[0] == (result.logprobs[2][0],) * 2


async def test_more_branches_than_one_batch_holds(engine, seam_model):
    branches = tuple(Branch(path=(token,), candidates=(token + 1,)) for token in range(3, 93))
    prompt = fresh_prompt(20)
    result = await engine.score(ScoreRequest(prompt_ids=prompt, branches=branches))
    assert len(result.logprobs) == 90
    some = slice(0, 90, 15)
    assert off_by(replace(result, logprobs=result.logprobs[some]), seam_model.reference, prompt, branches[some]) < 0.02


async def test_no_branches_only_warm_the_cache(engine):
    request = ScoreRequest(prompt_ids=fresh_prompt(), branches=())
    cold, warm = await engine.score(request), await engine.score(request)
    assert cold.logprobs == ()
    assert cold.usage.cached_tokens <= SEEN
    assert warm.usage.cached_tokens >= 39


async def test_scores_and_completions_at_once(engine, seam_model):
    found = {}

    async def score(prompt):
        found[prompt] = await engine.score(ScoreRequest(prompt_ids=prompt, branches=BRANCHES))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(score, fresh_prompt())
            group.start_soon(complete, engine, fresh_prompt(), 12)
    assert max(off_by(result, seam_model.reference, prompt) for prompt, result in found.items()) < 0.02
    assert len(found) == 3


async def test_a_deadline_is_an_error_and_frees_the_request(served):
    with pytest.raises(DeadlineExceeded):
        await served.engine.score(ScoreRequest(prompt_ids=fresh_prompt(), branches=BRANCHES, deadline_s=0.0))
    await served.settled()


@pytest.mark.parametrize(
    ("prompt", "branches", "error"),
    [
        ((), BRANCHES, InvalidRequest),
        ((5, 10**6), BRANCHES, InvalidRequest),
        ((5,), (Branch(path=(-1,), candidates=(3,)),), InvalidRequest),
        ((5,), (Branch(path=(), candidates=()),), InvalidRequest),
        ((5,), (Branch(path=(), candidates=(10**6,)),), InvalidRequest),
        ((5,) * 500, (Branch(path=(6,) * 20, candidates=(3,)),), ContextOverflow),
    ],
)
async def test_malformed_requests_are_refused(engine, prompt, branches, error):
    with pytest.raises(error):
        await engine.score(ScoreRequest(prompt_ids=prompt, branches=branches))
