"""What bounds the draw of a token, of both samplers alike."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agentform.errors import InvalidRequest
from agentform.runtime.engine import GenerateRequest, ModelInfo, Sampling
from agentform.runtime.llama_cpp.sampling import NumpySampler
from agentform.runtime.torch.sampling import TorchSampler
from agentform.runtime.validation import check_generate

LOGITS = np.array([3.0, 2.9, 2.8, -1.0, -9.0], dtype=np.float32)


def with_torch(sampling):
    sampler = TorchSampler(sampling, torch.device("cpu"))
    return lambda logits: sampler.pick(torch.from_numpy(logits.copy()))


def with_numpy(sampling):
    return NumpySampler(sampling).pick


@pytest.mark.parametrize("made", [with_torch, with_numpy])
@pytest.mark.parametrize(
    ("options", "drawn"),
    [
        ({"top_k": 2}, {0, 1}),
        ({"min_p": 0.85}, {0, 1}),
        ({"top_k": 3, "top_p": 0.5}, {0, 1}),
        ({}, {0, 1, 2}),
    ],
)
def test_only_tokens_within_the_bounds_are_drawn(made, options, drawn):
    pick = made(Sampling(temperature=1.0, seed=1, **options))
    found = {pick(LOGITS) for _ in range(200)}
    assert found - {3} == drawn
    assert 3 not in found or not options


@pytest.mark.parametrize("made", [with_torch, with_numpy])
@pytest.mark.parametrize(
    "options", [{"repetition_penalty": 1.1}, {"frequency_penalty": 0.25}, {"presence_penalty": 0.25}]
)
def test_what_was_written_is_less_probable(made, options):
    pick = made(Sampling(**options))
    assert [pick(LOGITS) for _ in range(3)] == [0, 1, 2]
    assert [made(Sampling())(LOGITS) for _ in range(3)] == [0, 0, 0]


@pytest.mark.parametrize("name", ["temperature", "repetition_penalty", "frequency_penalty", "presence_penalty"])
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_would_make_every_logit_no_number_is_refused_by_its_name(name, number):
    request = GenerateRequest(prompt_ids=(1,), max_tokens=1, sampling=Sampling(**{name: number}))
    with pytest.raises(InvalidRequest, match="must be finite"):
        check_generate(request, ModelInfo(name="m", digest="", context_tokens=10, vocabulary_size=10))
