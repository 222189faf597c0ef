"""Guessed tokens change how many steps a completion takes, never what is written."""

from __future__ import annotations

import random
from contextlib import closing

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.grammar.spec import GrammarSpec
from agentform.runtime.engine import GenerateRequest, Sampling
from agentform.runtime.scheduling.generation import GenerateJob
from agentform.runtime.scheduling.prompt_lookup import PromptLookup
from agentform.runtime.torch.engine import TorchEngine
from tests.support.tiny_hybrids import write_tiny_hybrid

GRAMMAR = GrammarSpec(
    kind="json_schema", text='{"type": "array", "items": {"enum": ["true", "false", 12, 125]}}', follow="}"
)


async def run(engine, request):
    chunks = [chunk async for chunk in engine.generate(request)]
    ids = tuple(i for chunk in chunks for i in chunk.token_ids)
    return ids, "".join(chunk.text for chunk in chunks), chunks[-1].finish, chunks[-1].stop, chunks[-1].usage


class Steps:
    """Counts the segments of completions, and the guessed tokens in them."""

    def __init__(self, monkeypatch):
        self.num = self.num_guessed = 0
        ask = GenerateJob.next_segment

        def next_segment(job, *given, **named):
            segment = ask(job, *given, **named)
            self.num += segment is not None
            self.num_guessed += len(job._guess)
            return segment

        monkeypatch.setattr(GenerateJob, "next_segment", next_segment)


@pytest.mark.parametrize("limits", [{}, {"temperature": 0.7, "seed": 3}, {"stop": ("e",)}, {"grammar": GRAMMAR}])
def test_completions_are_those_of_an_engine_that_does_not_guess(make_engine, limits):
    fast, plain = make_engine(), make_engine(guess_tokens=False)
    draw = random.Random(5)
    sampling = Sampling(temperature=limits.get("temperature", 0.0), seed=limits.get("seed", 0))
    rest = {key: value for key, value in limits.items() if key in ("stop", "grammar")}
    for _ in range(12):
        prompt = tuple(draw.choice((20, 21, 22, 23, 30)) for _ in range(draw.randrange(2, 40)))
        request = GenerateRequest(prompt_ids=prompt, max_tokens=draw.randrange(1, 50), sampling=sampling, **rest)
        expected, found = anyio.run(run, plain, request), anyio.run(run, fast, request)
        assert found[:4] == expected[:4]
        assert found[4].completion_tokens == expected[4].completion_tokens
        fast.integrity()


def test_what_repeats_takes_fewer_steps_and_the_cache_serves_it_on(make_engine, monkeypatch):
    fast, plain = make_engine(), make_engine(guess_tokens=False)
    few = GrammarSpec(kind="regex", text="[ab]{40}")  # so few choices that a random model comes to repeat itself
    request = GenerateRequest(prompt_ids=(20, 21, 22) * 8, max_tokens=60, grammar=few)
    with monkeypatch.context() as patch:
        steps = Steps(patch)
        written = anyio.run(run, plain, request)
        num_plain = steps.num
    steps = Steps(monkeypatch)
    found = anyio.run(run, fast, request)
    assert found[0] == written[0]
    assert steps.num < num_plain
    assert steps.num_guessed > 0
    assert found[4].computed_tokens == written[4].computed_tokens  # wrong guesses are nobody's tokens
    longer = GenerateRequest(prompt_ids=request.prompt_ids + found[0], max_tokens=8)
    again, cold = anyio.run(run, fast, longer), anyio.run(run, make_engine(guess_tokens=False), longer)
    assert again[0] == cold[0]
    assert again[4].cached_tokens >= len(longer.prompt_ids) - 2
    fast.integrity()


def test_conversations_at_once_do_not_mix_their_guesses(make_engine):
    fast, plain = make_engine(), make_engine(guess_tokens=False)
    requests = [GenerateRequest(prompt_ids=(20 + at, 21, 22) * (4 + at), max_tokens=30) for at in range(5)]

    async def all_at_once(engine):
        found = {}

        async def one(at):
            found[at] = (await run(engine, requests[at]))[0]

        async with anyio.create_task_group() as group:
            for at in range(len(requests)):
                group.start_soon(one, at)
        return found

    assert anyio.run(all_at_once, fast) == anyio.run(all_at_once, plain)
    fast.integrity()


def test_recurrent_models_do_not_guess(tmp_path, monkeypatch):
    write_tiny_hybrid(tmp_path, "qwen3_next")
    steps = Steps(monkeypatch)
    with closing(TorchEngine(tmp_path, kv_budget_bytes=1 << 22)) as engine:
        anyio.run(run, engine, GenerateRequest(prompt_ids=(20, 21, 22) * 8, max_tokens=12))
    assert steps.num == 12
    assert steps.num_guessed == 0


@given(
    ids=st.lists(st.integers(0, 3) | st.integers(250, 70_000), min_size=1, max_size=40),
    limit=st.integers(0, 9),
    longest=st.sampled_from([3, 7]),
)
def test_a_guess_is_what_followed_the_longest_match(ids, limit, longest):
    lookup = PromptLookup(shortest_match=1)
    lookup.guess(ids[: len(ids) // 2], 0)
    if longest == 7:
        lookup.count(3, 3)  # the first guess was right to its end
    guess = lookup.guess(ids, limit)
    assert len(guess) <= limit
    for size in (3, 2, 1):
        ends = [at + size for at in range(len(ids) - size) if ids[at : at + size] == ids[-size:]]
        if ends and size < len(ids):
            assert guess == ids[ends[-1] :][: min(limit, longest, 1 + 2 * size)]
            return
    assert guess == []


def test_guesses_that_do_not_pay_are_given_up():
    lookup = PromptLookup(shortest_match=1)
    ids = [1, 2, 1]
    while lookup.guess(ids, 4):
        lookup.count(4, 0)
        ids += [2, 1]
        assert len(ids) < 40
    paying = PromptLookup(shortest_match=1)
    for _ in range(20):
        assert paying.guess(ids, 4)
        paying.count(4, 2)


def test_a_guess_is_long_only_after_one_that_was_right_to_its_end():
    lookup, ids = PromptLookup(shortest_match=2), [*range(20), 0, 1, 2]
    assert lookup.guess(ids, 7) == [3, 4, 5]
    lookup.count(3, 3)
    ids += [3, 4, 5, 6]
    assert lookup.guess(ids, 7) == [7, 8, 9, 10, 11, 12, 13]
    lookup.count(7, 2)
    ids += [7, 8, 0, 1, 2]
    assert len(lookup.guess(ids, 7)) == 3
