"""Forms filled by the demo model: probabilities are those that transformers alone gives."""

from __future__ import annotations

import itertools
import math
from typing import Literal

import pytest
import torch
from pydantic import BaseModel, Field

from agentform.decoding.limits import Limits
from agentform.errors import ModelNotFound
from agentform.forms.fill import fill
from agentform.forms.label_prior import PriorStore
from agentform.forms.scoring import Scoring
from agentform.runtime.load import load_engine
from agentform.runtime.torch.engine import TorchEngine
from tests.support.watched_engine import WatchedEngine

pytestmark = [pytest.mark.anyio, pytest.mark.model]
LIMITS = Limits(argument_tokens=24)
COMPLAINT = "My name is Ada. I ordered two lamps and both are broken. I am furious!"


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Ticket(BaseModel):
    """What a customer writes."""

    mood: Literal["furious", "fine", "fine, I guess"] = Field(description="How the customer feels.")
    command: Literal["get", "get_all", "get_all_now", "名古屋", 'say "hi"']
    broken: bool
    name: str = Field(max_length=20)
    version: Literal[1]


@pytest.fixture(scope="module")
def reference(weights_folder):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(weights_folder, dtype=torch.float32, attn_implementation="eager")
    return model.eval(), AutoTokenizer.from_pretrained(weights_folder)


def expected(reference, prompt_ids, options) -> tuple[list[float], float]:
    """Probability of each option's text after the prompt, renormalised, and their sum before that.

    One full forward pass per option; only tokens at which another option goes elsewhere count.
    """
    model, tokenizer = reference
    lines = [tokenizer(option, add_special_tokens=False)["input_ids"] for option in options]
    products = []
    for line in lines:
        with torch.no_grad():
            rows = model(torch.tensor([[*prompt_ids, *line]])).logits[0].float().log_softmax(dim=-1)
        total = 0.0
        for depth, token in enumerate(line):
            rivals = {other[depth] for other in lines if other[:depth] == line[:depth] and len(other) > depth}
            if len(rivals) > 1:
                total += rows[len(prompt_ids) + depth - 1, token].item()
        products.append(math.exp(total))
    return [p / sum(products) for p in products], sum(products)


async def test_a_mixed_form_is_filled(demo_engine):
    filled = await fill(demo_engine, COMPLAINT, Ticket, limits=LIMITS)
    assert isinstance(filled.value, Ticket)
    assert Ticket.model_validate_json(filled.json_text) == filled.value
    hows = [filled[p].how for p in ("/mood", "/command", "/broken", "/name", "/version")]
    assert hows == ["scored", "scored", "scored", "generated", "fixed"]
    assert filled.value.mood == "furious"
    assert 0 < filled["/mood"].legal_mass <= 1


@pytest.mark.parametrize(
    ("pointer", "texts"),
    [
        ("/mood", ['{"mood": "furious"}', '{"mood": "fine"}', '{"mood": "fine, I guess"}']),
        (
            "/command",
            [
                '{"command": "get"}',
                '{"command": "get_all"}',
                '{"command": "get_all_now"}',
                '{"command": "名古屋"}',
                r'{"command": "say \"hi\""}',
            ],
        ),
        ("/broken", ['{"broken": true}', '{"broken": false}']),
    ],
)
async def test_probabilities_are_those_of_full_forward_passes(demo_engine, reference, pointer, texts):
    watched = WatchedEngine(demo_engine)
    filled = await fill(watched, COMPLAINT, Ticket, limits=LIMITS, scoring=Scoring(calibration=0))
    [request] = watched.scored
    probabilities, mass = expected(reference, request.prompt_ids, texts)
    options = {
        "/mood": ["furious", "fine", "fine, I guess"],
        "/command": ["get", "get_all", "get_all_now", "名古屋", 'say "hi"'],
        "/broken": [True, False],
    }[pointer]
    evidence = filled[pointer]
    assert evidence.legal_mass == pytest.approx(mass, abs=1e-3)
    assert evidence.raw_probability == pytest.approx(max(probabilities), abs=1e-3)
    assert evidence.value == options[probabilities.index(max(probabilities))]
    assert evidence.probability == pytest.approx(evidence.raw_probability, abs=1e-6)
    by_value = dict(zip(map(str, options), probabilities, strict=True))
    for alternative in evidence.alternatives:
        assert alternative.probability == pytest.approx(by_value[str(alternative.value)], abs=1e-3)


def assert_same_evidence(one, other):
    assert [e.pointer for e in one] == [e.pointer for e in other]
    for a, b in zip(one, other, strict=True):
        assert (a.value, a.how) == (b.value, b.how)
        for x, y in (
            (a.probability, b.probability),
            (a.raw_probability, b.raw_probability),
            (a.legal_mass, b.legal_mass),
        ):
            assert (x is None) == (y is None)
            assert x is None or x == pytest.approx(y, abs=1e-3)


async def test_a_warm_cache_changes_nothing(weights_folder):
    async with TorchEngine(weights_folder, dtype=torch.float32) as fresh:
        cold = await fill(fresh, COMPLAINT, Ticket, limits=LIMITS, priors=PriorStore())
        warm = await fill(fresh, COMPLAINT, Ticket, limits=LIMITS, priors=PriorStore())
    assert warm.usage.cached_tokens > cold.usage.cached_tokens
    assert warm.usage.computed_tokens < cold.usage.computed_tokens / 2
    assert warm.json_text == cold.json_text
    assert_same_evidence(cold.evidence, warm.evidence)


async def test_the_second_form_on_an_engine_measures_no_priors(weights_folder):
    async with TorchEngine(weights_folder, dtype=torch.float32) as fresh:
        first = await fill(fresh, COMPLAINT, Ticket, limits=LIMITS)
        second = await fill(fresh, COMPLAINT, Ticket, limits=LIMITS)
    assert second.usage.prompt_tokens < first.usage.prompt_tokens / 2
    assert second.usage.computed_tokens < first.usage.computed_tokens / 2
    assert second.json_text == first.json_text
    assert_same_evidence(first.evidence, second.evidence)


async def test_what_follows_a_prior_is_the_same_form_again(demo_engine):
    """The prior moves probability, never the legal mass."""
    raw = await fill(demo_engine, COMPLAINT, Ticket, limits=LIMITS, scoring=Scoring(calibration=0))
    calibrated = await fill(demo_engine, COMPLAINT, Ticket, limits=LIMITS, scoring=Scoring(calibration=1))
    moved = [
        abs(a.probability - b.probability)
        for a, b in itertools.zip_longest(raw.evidence, calibrated.evidence)
        if a.probability is not None
    ]
    assert max(moved) > 0.01
    for a, b in zip(raw.evidence, calibrated.evidence, strict=True):
        assert a.legal_mass is None or a.legal_mass == pytest.approx(b.legal_mass, abs=1e-4)


def test_an_unknown_model_is_named():
    with pytest.raises(ModelNotFound, match="no-such-model"):
        load_engine("no-such-model")
