"""The demo model through the engine, against transformers alone."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM

from agentform.grammar.spec import GrammarSpec
from agentform.runtime.engine import Branch, ScoreRequest
from agentform.runtime.torch.engine import TorchEngine
from tests.support.engines import complete, settled
from tests.support.tiny_model import logprobs

pytestmark = [pytest.mark.anyio, pytest.mark.model]


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def reference(weights_folder):
    return AutoModelForCausalLM.from_pretrained(weights_folder, dtype=torch.float32, attn_implementation="eager").eval()


@pytest.fixture(scope="module")
def demo(weights_folder):
    engine = TorchEngine(weights_folder, dtype=torch.float32, kv_budget_bytes=1 << 27)
    yield engine
    engine.close()


@pytest.fixture
def prompt(demo):
    return demo.tokenizer.render([{"role": "user", "content": "Name three colours and say why you like them."}])


async def test_greedy_is_what_transformers_gives(demo, reference, prompt):
    answer = await complete(demo, prompt, 40)
    with torch.no_grad():
        expected = reference.generate(torch.tensor([prompt]), max_new_tokens=40, do_sample=False)
    ids = tuple(expected[0, len(prompt) :].tolist())
    assert len(answer.token_ids) >= 30
    assert answer.token_ids == ids[: len(answer.token_ids)]
    await settled(demo)


async def test_scores_are_what_transformers_gives(demo, reference, prompt):
    paths = [demo.tokenizer.encode(text) for text in ("", "I like", "I like red", "The sky is", '{"colour": "')]
    branches = tuple(Branch(path=path, candidates=(260, 1000, 20000)) for path in paths)
    for _ in ("cold", "warm"):
        result = await demo.score(ScoreRequest(prompt_ids=prompt, branches=branches))
        for branch, got in zip(branches, result.logprobs, strict=True):
            row = logprobs(reference, (*prompt, *branch.path))
            assert got == pytest.approx([float(row[c]) for c in branch.candidates], abs=1e-3)


async def test_bfloat16_stays_near_float32(weights_folder, demo, prompt):
    request = ScoreRequest(prompt_ids=prompt, branches=(Branch(path=(), candidates=tuple(range(1000, 1050))),))
    exact = (await demo.score(request)).logprobs[0]
    async with TorchEngine(weights_folder, dtype=torch.bfloat16, kv_budget_bytes=1 << 26) as half:
        near = (await half.score(request)).logprobs[0]
    assert max(abs(a - b) for a, b in zip(exact, near, strict=True)) < 1.0


async def test_a_field_is_written_under_its_grammar(demo, prompt):
    ids = (*prompt, *demo.tokenizer.encode('{"colour":'))
    spec = GrammarSpec(kind="json_schema", text='{"enum": ["red", "green"]}', lead=" ", follow=', "why": "')
    answer = await complete(demo, ids, 20, grammar=spec)
    assert answer.last.finish == "grammar"
    assert answer.text in (' "red", "why": "', ' "green", "why": "')
    assert answer.usage.completion_tokens <= 3
