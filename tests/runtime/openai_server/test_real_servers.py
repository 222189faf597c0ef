"""Against servers that speak OpenAI's interface in earnest: our own, and llama.cpp's, taken for no more than that."""

from __future__ import annotations

from copy import deepcopy
from importlib.util import find_spec
from typing import Literal

import anyio
import pytest
import torch
from pydantic import BaseModel

from agentform import fill
from agentform.runtime.load import load_engine
from agentform.runtime.openai_server.engine import OpenAIServer
from agentform.runtime.torch.engine import TorchEngine
from tests.support.engines import complete
from tests.support.gguf_of_model import write_gguf_of
from tests.support.llama_server import llama_server
from tests.support.servers import running
from tests.support.tiny_model import write_tiny_model
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio
KINDS = ["agentform", *(["llama.cpp"] if find_spec("xllamacpp") is not None else [])]
CONTEXT_TOKENS = 2048


class Ticket(BaseModel):
    category: Literal["billing", "delivery"]
    urgent: bool


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("openai_model")
    return folder, write_tiny_model(folder, endless=True, max_position_embeddings=CONTEXT_TOKENS)


@pytest.fixture(scope="module", params=KINDS)
def url(request, model, tmp_path_factory):
    folder, reference = model
    if request.param == "agentform":
        engine = TorchEngine(folder, dtype=torch.float32, kv_budget_bytes=4 << 20, num_threads=1)
        with running(engine) as server:
            yield server.url
        engine.close()
        return
    gguf = write_gguf_of(deepcopy(reference), tmp_path_factory.mktemp("openai_gguf") / "tiny.gguf")
    with llama_server(gguf, context_tokens=CONTEXT_TOKENS, num_slots=2) as address:
        yield address


@pytest.fixture
async def engine(url):
    made = load_engine(url, engine="openai")
    assert isinstance(made, OpenAIServer)
    async with made:
        yield made


async def test_a_form_is_written_under_its_schema(engine):
    assert engine.schema_way == "response_format"
    filled = await fill(engine, "Where is my parcel?", Ticket)
    assert {item.pointer: item.how for item in filled.evidence} == {"/category": "written", "/urgent": "written"}
    assert filled.usage.completion_tokens > 0


async def test_a_form_that_is_no_object_is_written_too(engine):
    filled = await fill(engine, "Where is my parcel?", Literal["billing", "delivery"])
    assert filled.value in ("billing", "delivery")


async def test_text_streams_and_a_stream_that_is_left_leaves_the_server_free(engine):
    prompt = engine.tokenizer.render([{"role": "user", "content": "Hello"}])
    answer = await complete(engine, prompt, 8)
    assert (answer.last.finish, answer.usage.completion_tokens) == ("length", 8)
    with anyio.move_on_after(0.05):
        await complete(engine, prompt, 500)
    with anyio.fail_after(PATIENCE_S):
        assert (await complete(engine, prompt, 8)).text == answer.text


async def test_a_deadline_ends_a_completion(engine):
    prompt = engine.tokenizer.render([{"role": "user", "content": "Hello"}])
    answer = await complete(engine, prompt, 1500, deadline_s=0.05)
    assert answer.last.finish == "deadline"


def test_a_server_that_speaks_openais_interface_alone_is_found_to_be_one(model):
    folder, _ = model
    engine = TorchEngine(folder, dtype=torch.float32, kv_budget_bytes=4 << 20, num_threads=1)
    with running(engine) as server:
        made = load_engine(server.url + "/v1")
        assert isinstance(made, OpenAIServer)
        anyio.run(made.aclose)
    engine.close()
