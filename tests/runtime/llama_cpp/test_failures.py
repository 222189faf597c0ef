"""What fails inside llama.cpp fails one request: sequences and cells are afterwards as the cache thinks."""

from __future__ import annotations

import random

import pytest

from agentform.errors import EngineError
from agentform.runtime.llama_cpp.context import LlamaContext
from agentform.runtime.llama_cpp.engine import LlamaCppEngine
from tests.support.engines import complete, settled
from tests.support.gguf_zoo import KINDS, write_tiny_gguf

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=KINDS)
def gguf(request, tmp_path_factory):
    return write_tiny_gguf(request.param, tmp_path_factory.mktemp("gguf") / f"{request.param}.gguf")


def ids(num, seed):
    return tuple(random.Random(seed).choices(range(3, 250), k=num))


@pytest.fixture
def engine(gguf):
    engine = LlamaCppEngine(gguf, kv_budget_bytes=4 << 20, num_threads=1)
    yield engine
    engine.close()


async def test_a_batch_that_fails_in_its_middle_leaves_nothing_behind(engine, monkeypatch):
    known, prompt = ids(30, 3), (*ids(30, 3), *ids(40, 4))
    whole, failures = LlamaContext.decode, iter([True])

    def halfway(context, tokens):
        if next(failures, False):
            whole(context, tokens[: len(tokens) // 2])
            raise EngineError("llama.cpp could not compute the rest")
        return whole(context, tokens)

    await complete(engine, known, 2)
    monkeypatch.setattr(LlamaContext, "decode", halfway)
    with pytest.raises(EngineError, match="the rest"):
        await complete(engine, prompt, 3)
    again = await complete(engine, prompt, 3)
    assert again.usage.completion_tokens == 3
    await settled(engine)
    engine.integrity()
