from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from agentform import load_engine
from agentform.runtime.engine import Branch, ScoreRequest
from agentform.runtime.torch.snapshots.model_horizons import horizons_of_folder
from studies.recall.evaluate import horizons, recall
from studies.recall.forward import forward
from studies.recall.models import MODELS, folder_of, make, save
from studies.recall.tasks import ASK, BOS, KEYS, NOISE, VALUES, draw, needle
from studies.recall.train import Stage, train


def ids(*shape):
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, shape))


@given(
    seed=st.integers(0, 2**32 - 1),
    tokens=st.integers(40, 120),
    pairs=st.integers(1, 12),
    tail=st.integers(0, 12),
)
def test_every_question_has_its_one_answer_in_the_context(seed, tokens, pairs, tail):
    batch = draw(np.random.default_rng(seed), batch=3, tokens=tokens, pairs=pairs, questions=pairs, tail=tail)
    assert batch.context.shape == (3, tokens)
    assert (batch.context[:, 0] == BOS).all()
    for context, asked, answers, depths in zip(batch.context, batch.asked, batch.answers, batch.depths, strict=True):
        assert len(set(asked)) == pairs
        followers = {(key, value) for key, value in itertools.pairwise(context) if value in VALUES}
        assert {(k, v) for k, v in followers if k in KEYS} == set(zip(asked, answers, strict=True))
        assert (context[depths] == answers).all()
        assert (context[depths - 1] == asked).all()
        assert depths.max() < tokens - tail


def test_questions_stand_behind_the_context_and_the_answers_behind_them():
    batch = draw(np.random.default_rng(1), batch=2, tokens=50, pairs=5, questions=3)
    sequences, places = batch.sequences(), batch.answer_places()
    assert sequences.shape == (2, 50 + 3 * 3)
    assert (sequences[:, places - 1] == ASK).all()
    assert (sequences[:, places] == batch.asked).all()
    assert (sequences[:, places + 1] == batch.answers).all()


@pytest.mark.parametrize(("depth", "place"), [(0.0, 2), (0.5, 50), (1.0, 99)])
def test_a_needle_lies_where_it_is_told(depth, place):
    batch = needle(np.random.default_rng(2), batch=4, tokens=100, depth=depth)
    assert (batch.depths == place).all()


def test_noise_keeps_to_few_words_for_a_while():
    context = draw(np.random.default_rng(3), batch=1, tokens=2000, pairs=1, questions=1).context[0]
    windows = [{token for token in context[start : start + 20] if token in NOISE} for start in range(0, 2000, 20)]
    assert np.mean([len(window) for window in windows]) < 14  # of 20; drawn from all 120 it would be 18


@pytest.mark.parametrize("name", MODELS)
def test_the_training_forward_is_transformers_own(name):
    model = make(name, seed=1).eval()
    batch = ids(2, 75)
    with torch.no_grad():
        ours = forward(model, batch, torch.arange(75))
        theirs = model.model(input_ids=batch, use_cache=False).last_hidden_state
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_training_is_told_apart_by_its_seed_alone():
    stage = Stage(steps=20, batch=2, tokens=24, most_pairs=2, rate=3e-3)
    losses = []
    for seed in (0, 0, 1):
        model, (point,) = train("gdn", seed=seed, stages=(stage,), tell=lambda _: None)
        losses.append(point["answer_loss"])
    assert losses[0] == losses[1] != losses[2]
    (row,) = recall(model, grid=((24, 1),), seed=5)
    assert row["answers"] == 32


def test_what_is_saved_loads_again_rounded(tmp_path):
    model = make("hybrid", seed=2).eval()
    save(model, tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    for (name, before), (_, after) in zip(model.named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(before.bfloat16().float(), after), name


@pytest.mark.parametrize("name", MODELS)
def test_the_committed_weights_recall_and_their_horizons_are_spread(name):
    model = AutoModelForCausalLM.from_pretrained(folder_of(name), dtype=torch.float32).eval()
    (row,) = recall(model, grid=((512, 16),), seed=11)
    assert row["recall"] > 0.98
    tokens = horizons_of_folder(folder_of(name)).tokens
    assert tokens[-1] / tokens[0] > 50
    static = sorted(each["static"] for each in horizons(model, seed=0, tokens=256))
    assert static == pytest.approx(tokens)


@pytest.mark.anyio
async def test_the_committed_weights_answer_in_the_engine():
    batch = draw(np.random.default_rng(9), batch=1, tokens=300, pairs=6, questions=6)
    branches = tuple(Branch(path=(ASK, int(key)), candidates=tuple(VALUES)) for key in batch.asked[0])
    engine = load_engine(str(folder_of("hybrid")), dtype=torch.float32, kv_budget_bytes=1 << 24, num_threads=1)
    async with engine:
        result = await engine.score(ScoreRequest(prompt_ids=tuple(batch.context[0].tolist()), branches=branches))
    best = [VALUES[int(np.argmax(each))] for each in result.logprobs]
    assert np.mean(best == batch.answers[0]) > 0.8
