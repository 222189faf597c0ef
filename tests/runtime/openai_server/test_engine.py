from __future__ import annotations

import httpx
import pytest

from agentform.errors import (
    CannotScore,
    ContextOverflow,
    EngineClosed,
    EngineError,
    EngineUnauthorized,
    EngineUnavailable,
    GrammarError,
    InvalidRequest,
    ModelMismatch,
    ReplyMalformed,
)
from agentform.grammar.spec import GrammarSpec
from agentform.runtime.engine import Branch, Engine, ScoreRequest
from agentform.runtime.http.retry_policy import RetryPolicy
from agentform.runtime.openai_server.engine import OpenAIServer
from agentform.runtime.openai_server.transcript import read_transcript
from agentform.runtime.scripted.byte_tokenizer import ByteTokenizer
from tests.support.engines import complete
from tests.support.fake_openai import FakeOpenAI, schema_in

pytestmark = pytest.mark.anyio
URL = "http://openai.test/v1"
NONE = RetryPolicy(retries=0)
TALK = [{"role": "system", "content": "Be <|im_end|> brief."}, {"role": "user", "content": "Grüße"}]
PROMPT = ByteTokenizer().render(TALK)


def server(fake: FakeOpenAI, **options) -> OpenAIServer:
    return OpenAIServer(URL, retries=NONE, **fake.transports, **options)


def begun(text: str) -> tuple[int, ...]:
    return PROMPT + tuple(text.encode())


def test_a_prompt_is_read_back_as_the_messages_that_it_was_made_of():
    read = read_transcript(begun("Next step:"))
    assert read.messages == (("system", "Be <|im_end|> brief."), ("user", "Grüße"))
    assert read.begun == "Next step:"
    assert read_transcript(tuple(b"as it is")).messages == (("user", "as it is"),)


@pytest.mark.parametrize("way", ["response_format", "structured_outputs", "guided_json", "text"])
async def test_how_a_schema_is_taken_is_found_by_trying(way):
    async with server(FakeOpenAI(follows=way)) as engine:
        assert isinstance(engine, Engine)
        assert engine.schema_way == way
        assert not engine.info.scores
        assert any("No scores" in lack for lack in engine.info.lacks)
        assert any("follows no JSON Schema" in lack for lack in engine.info.lacks) == (way == "text")


async def test_messages_go_out_as_they_came_in_and_text_streams_to_its_end():
    fake = FakeOpenAI("Grüße zurück")
    async with server(fake) as engine:
        answer = await complete(engine, PROMPT, 20)
    assert (answer.text, answer.last.finish) == ("Grüße zurück", "eos")
    assert bytes(answer.token_ids).decode() == answer.text
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.cached_tokens) == (7, 5, None)
    assert fake.asked[0]["messages"] == TALK
    assert not fake.asked[0].keys() & {"top_k", "min_p", "stop", "response_format"}


async def test_a_stop_ends_the_text_here():
    async with server(FakeOpenAI("one two <tool_call> three")) as engine:
        answer = await complete(engine, PROMPT, 20, stop=("<tool_call>",))
    assert (answer.text, answer.last.finish, answer.last.stop) == ("one two ", "stop", "<tool_call>")


@pytest.mark.parametrize(
    ("schema", "said", "text"),
    [
        ('{"type": "object", "properties": {"a": {"type": "integer"}}}', '{"a": 1}', '{"a": 1}'),
        ('{"enum": ["x", "y"]}', ' {"value": "y"} ', '"y"'),
        ('{"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}', '{"value": {"value": 1}}', '{"value": 1}'),
    ],
)
async def test_a_value_is_written_by_its_schema_in_an_object_if_it_is_none(schema, said, text):
    fake = FakeOpenAI(said)
    async with server(fake) as engine:
        grammar = GrammarSpec(kind="json_schema", text=schema, lead="", follow="\n")
        answer = await complete(engine, begun("Next step: "), 20, grammar=grammar)
    assert (answer.text, answer.last.finish) == (f"{text}\n", "grammar")
    assert schema_in(fake.asked[0])["type"] == "object"
    roles = [message["role"] for message in fake.asked[0]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]


async def test_references_into_a_schema_find_it_where_it_was_put():
    fake = FakeOpenAI('{"value": [[]]}')
    async with server(fake) as engine:
        text = '{"type": "array", "items": {"$ref": "#"}, "examples": [{"$ref": "#"}]}'
        answer = await complete(engine, PROMPT, 20, grammar=GrammarSpec(kind="json_schema", text=text))
    inner = schema_in(fake.asked[0])["properties"]["value"]
    assert (inner["items"], inner["examples"]) == ({"$ref": "#/properties/value"}, [{"$ref": "#"}])
    assert answer.text == "[[]]"


async def test_a_value_that_is_cut_off_is_told_as_far_as_it_is_written():
    fake = FakeOpenAI('{"value": "one tw')
    fake.finish = "length"
    async with server(fake) as engine:
        grammar = GrammarSpec(kind="json_schema", text='{"type": "string"}')
        answer = await complete(engine, PROMPT, 20, grammar=grammar)
    assert (answer.text, answer.last.finish) == ('"one tw', "length")


async def test_without_a_schema_that_is_followed_the_value_is_taken_out_of_its_block():
    fake = FakeOpenAI('Sure:\n```json\n{"a": 1}\n```\nDone.', follows="text")
    async with server(fake) as engine:
        grammar = GrammarSpec(kind="json_schema", text='{"type": "object"}')
        answer = await complete(engine, PROMPT, 20, grammar=grammar)
    assert answer.text == '{"a": 1}'
    assert "JSON Schema" in fake.asked[0]["messages"][-1]["content"]


async def test_what_it_cannot_do_is_told():
    async with server(FakeOpenAI()) as engine:
        with pytest.raises(CannotScore, match=r"load_decider.*llama\.cpp"):
            await engine.score(ScoreRequest(prompt_ids=PROMPT, branches=(Branch(path=(), candidates=(1, 2)),)))
        with pytest.raises(GrammarError, match="'regex'"):
            await complete(engine, PROMPT, 5, grammar=GrammarSpec(kind="regex", text="a"))


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, {"error": {"message": "Invalid API Key"}}, EngineUnauthorized),
        (429, {"error": {"message": "busy"}}, EngineUnavailable),
        (500, {"error": {"message": "CUDA"}}, EngineError),
        (400, {"error": {"message": "temperature must be positive"}}, InvalidRequest),
        (400, {"error": {"message": "Grammar error: unimplemented keys in schema"}}, GrammarError),
        (
            400,
            {"message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"},
            ContextOverflow,
        ),
    ],
)
async def test_refusals_have_their_types(status, body, error):
    fake = FakeOpenAI()
    fake.fault = lambda path, sent: httpx.Response(status, json=body)
    async with server(fake) as engine:
        with pytest.raises(error):
            await complete(engine, PROMPT, 5)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("data: [1]\n\n", ReplyMalformed),
        ('data: {"choices": [{"delta": {"content": 5}}]}\n\n', ReplyMalformed),
        ('data: {"choices": [{"delta": {"content": "a"}}]}\n\n', EngineUnavailable),
        ("", ReplyMalformed),
    ],
)
async def test_a_stream_that_is_none_is_never_taken_for_an_answer(text, error):
    fake = FakeOpenAI()
    fake.fault = lambda path, sent: httpx.Response(200, text=text)
    async with server(fake) as engine:
        with pytest.raises(error):
            await complete(engine, PROMPT, 5)


async def test_another_model_after_an_outage_is_noticed_and_a_closed_engine_refuses():
    fake = FakeOpenAI()
    engine = server(fake)
    fake.models = ["other"]
    with pytest.raises(ModelMismatch, match="no longer serves fake"):
        await engine.check_health()
    await engine.aclose()
    with pytest.raises(EngineClosed):
        await complete(engine, PROMPT, 5)


async def test_of_several_models_one_is_named():
    fake = FakeOpenAI(models=("a", "b"))
    with pytest.raises(InvalidRequest, match=r"2 models \(a, b\): name one"):
        server(fake)
    with pytest.raises(InvalidRequest, match="no model 'c'; it has a, b"):
        server(fake, model="c")
    async with server(fake, model="b") as engine:
        assert engine.info.name == "b"
