from __future__ import annotations

import httpx
import pytest

from agentform.errors import (
    ContextOverflow,
    EngineClosed,
    EngineError,
    EngineUnauthorized,
    EngineUnavailable,
    ModelMismatch,
    ReplyMalformed,
)
from agentform.runtime.engine import Branch, GenerateRequest, ScoreRequest
from agentform.runtime.http.retry_policy import RetryPolicy
from agentform.runtime.llama_server.engine import LlamaServer
from tests.support.engines import complete
from tests.support.fake_llama import FakeLlama

pytestmark = pytest.mark.anyio
URL = "http://llama.test"
PROMPT = tuple(b"abc")
TOO_LONG = "request (600 tokens) exceeds the available context size (512 tokens)"
NONE = RetryPolicy(retries=0)


@pytest.fixture
def fake() -> FakeLlama:
    return FakeLlama()


@pytest.fixture
async def engine(fake):
    async with LlamaServer(URL, retries=NONE, **fake.transports) as made:
        yield made


async def test_the_vocabulary_and_what_ends_a_turn_are_read_from_the_server(engine):
    assert (engine.info.name, engine.info.context_tokens, engine.info.vocabulary_size) == ("fake.gguf", 128, 258)
    assert engine.tokenizer.eos_ids == {257}
    assert engine.tokenizer.control_ids == {256, 257}
    ids = engine.tokenizer.render([{"role": "user", "content": "a</s>"}])
    assert (ids[0], ids.count(257)) == (256, 1)
    assert engine.info.scores
    assert any("llguidance" in lack for lack in engine.info.lacks)


async def test_a_text_is_streamed_to_its_end(engine, fake):
    answer = await complete(engine, PROMPT, 20)
    assert (answer.text, answer.last.finish) == ("hello", "eos")
    assert fake.asked[0][1]["prompt"] == list(PROMPT)


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, {"error": {"message": "Invalid API Key"}}, EngineUnauthorized),
        (429, {"error": {"message": "busy"}}, EngineUnavailable),
        (503, {"error": {"message": "Loading model"}}, EngineUnavailable),
        (500, {"error": {"message": "broken"}}, EngineError),
        (400, {"error": {"message": TOO_LONG}}, ContextOverflow),
    ],
)
async def test_what_the_server_refuses_has_its_own_error(engine, fake, status, body, error):
    fake.fault = lambda path, _: httpx.Response(status, json=body)
    with pytest.raises(error):
        await complete(engine, PROMPT, 4)
    with pytest.raises(error):
        await engine.score(ScoreRequest(prompt_ids=PROMPT, branches=(Branch(path=(), candidates=(5,)),)))


@pytest.mark.parametrize(
    "text",
    ["", "data: [1]\n\n", "data: {oops\n\n", 'data: {"tokens": ["x"]}\n\n', "<html>no</html>"],
)
async def test_garbage_in_a_stream_is_told_as_such(engine, fake, text):
    fake.fault = lambda path, _: httpx.Response(200, text=text)
    with pytest.raises(ReplyMalformed):
        await complete(engine, PROMPT, 4)


@pytest.mark.parametrize("reply", [[], {}, {"completion_probabilities": []}, "no"])
async def test_garbage_in_a_score_is_told_as_such(engine, fake, reply):
    fake.fault = lambda path, _: httpx.Response(200, json=reply)
    with pytest.raises(ReplyMalformed):
        await engine.score(ScoreRequest(prompt_ids=PROMPT, branches=(Branch(path=(), candidates=(5,)),)))


async def test_a_stream_that_breaks_off_is_an_error_and_no_end(engine, fake):
    event = 'data: {"tokens": [104], "content": "h", "tokens_predicted": 1, "stop": false}\n\n'
    fake.fault = lambda path, _: httpx.Response(200, text=event)
    with pytest.raises(EngineUnavailable, match="ended a stream"):
        await complete(engine, PROMPT, 4)


async def test_a_fault_inside_a_stream_is_raised(engine, fake):
    fake.fault = lambda path, _: httpx.Response(200, text='data: {"error": {"message": "no slot", "code": 500}}\n\n')
    with pytest.raises(EngineError, match="no slot"):
        await complete(engine, PROMPT, 4)


async def test_tokens_that_a_stream_went_past_are_asked_for(engine, fake):
    smile = list("🙂".encode())

    def answer(path, body):
        if not body["stream"]:
            num = body["n_predict"]
            return httpx.Response(200, json={"tokens": smile[:num], "tokens_predicted": num})
        if len(body["prompt"]) > len(PROMPT):
            return None
        gone = 'data: {"tokens": [130], "content": "🙂", "tokens_predicted": 4, "stop": false}\n\n'
        return httpx.Response(200, text=gone)

    fake.fault = answer
    answered = await complete(engine, PROMPT, 20)
    assert answered.text == "🙂hello"
    assert answered.token_ids == (*smile, *b"hello")


async def test_salted_requests_use_no_cache(engine, fake):
    async for _ in engine.generate(GenerateRequest(prompt_ids=PROMPT, max_tokens=2, cache_salt="mine")):
        pass
    assert fake.asked[-1][1]["cache_prompt"] is False


async def test_another_model_after_an_outage_is_noticed(fake):
    async with LlamaServer(URL, retries=RetryPolicy(retries=2, first_wait_s=0.0), **fake.transports) as engine:
        fake.props["model_path"] = "/models/another.gguf"
        fake.fault = lambda path, _: httpx.Response(502) if path == "/completion" else None
        with pytest.raises(ModelMismatch):
            await complete(engine, PROMPT, 4)


async def test_a_closed_engine_takes_no_requests(engine):
    await engine.aclose()
    with pytest.raises(EngineClosed):
        await complete(engine, PROMPT, 4)
