"""`/v1/completions`, `/tokenize` and what describes the server, through the openai package and plain HTTP."""

from __future__ import annotations

import json
from contextlib import aclosing

import httpx
import openai
import pytest

from agentform.testing import Say, ScriptedEngine
from tests.serve.test_openai_client import USER, client
from tests.support.servers import running


def test_a_text_is_gone_on_with_whole_and_as_a_stream():
    engine = ScriptedEngine([Say(" time there was."), Say(" time there was."), Say("One"), Say("Two")])
    with running(engine) as server, client(server) as each:
        options = {"model": "scripted", "prompt": "Once upon a", "max_tokens": 40}
        whole = each.completions.create(**options, stop=" was")
        chunks = list(each.completions.create(**options, stream=True))
        several = each.completions.create(**options | {"prompt": ["a", "b"]})
    assert (whole.choices[0].text, whole.choices[0].finish_reason) == (" time there", "stop")
    assert whole.usage.prompt_tokens == len("Once upon a")
    assert "".join(chunk.choices[0].text for chunk in chunks) == " time there was."
    assert [choice.index for choice in several.choices] == [0, 1]
    assert engine.tokenizer.decode(engine.requests[0].prompt_ids) == "Once upon a"


class Broken(ScriptedEngine):
    """Fails after the first piece of a text."""

    async def generate(self, request):
        async with aclosing(super().generate(request)) as chunks:
            async for chunk in chunks:
                yield chunk
                raise ValueError("nobody foresaw it")


def test_a_fault_in_the_middle_of_a_stream_is_its_last_event():
    with running(Broken([Say("It goes on and on.")])) as server, httpx.Client(base_url=server.url) as each:
        body = {"model": "scripted", "prompt": "Once", "stream": True}
        reply = each.post("/v1/completions", json=body)
    told = [line.removeprefix("data: ") for line in reply.text.splitlines() if line]
    assert (reply.status_code, len(told) > 1, "[DONE]" in told) == (200, True, False)
    assert json.loads(told[0])["choices"][0]["text"]
    error = json.loads(told[-1])["error"]
    assert (error["type"], "foresaw" in error["message"]) == ("server_error", False)


def test_an_echo_with_log_probabilities_has_those_of_the_prompt():
    with running(ScriptedEngine([Say("cd")])) as server, client(server) as each:
        done = each.completions.create(model="scripted", prompt="ab", echo=True, logprobs=2, max_tokens=2)
        scored = each.completions.create(model="scripted", prompt=[97, 98], echo=True, logprobs=0, max_tokens=0)
    told = done.choices[0].logprobs
    assert done.choices[0].text == "abcd" == "".join(told.tokens)
    assert (told.token_logprobs[0], told.top_logprobs[0]) == (None, None)
    assert (told.text_offset, len(told.top_logprobs[1])) == ([0, 1, 2, 3], 2)
    assert all(logprob <= 0 for logprob in told.token_logprobs[1:])
    assert (scored.choices[0].text, len(scored.choices[0].logprobs.tokens)) == ("ab", 2)


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"prompt": ""}, "prompt[0]"),
        ({"prompt": [10**6]}, "prompt[0]"),
        ({"suffix": "x"}, "suffix"),
        ({"prompt": ["a"] * 64, "n": 2}, "n"),
        ({"grammar": "root ::= ("}, "grammar"),
    ],
)
def test_what_is_wrong_is_named(wrong, param, served):
    extra = {key: value for key, value in wrong.items() if key == "grammar"}
    asked = {"model": "scripted", "prompt": "a", **wrong, "extra_body": extra}
    asked.pop("grammar", None)
    with client(served) as each, pytest.raises(openai.BadRequestError) as caught:
        each.completions.create(**asked)
    assert caught.value.param == param


def test_tokens_of_texts_and_messages_and_back(served):
    with httpx.Client(base_url=served.url) as http:
        told = http.post("/tokenize", json={"prompt": "abc", "return_token_strs": True}).json()
        chat = http.post("/tokenize", json={"messages": USER}).json()
        text = http.post("/detokenize", json={"tokens": chat["tokens"]}).json()
        assert http.post("/detokenize", json={"tokens": [10**9]}).status_code == 400
        assert http.post("/tokenize", json={}).status_code == 400
    assert (told["tokens"], told["count"], told["token_strs"]) == ([97, 98, 99], 3, ["a", "b", "c"])
    assert "It is dark in the office." in text["prompt"]


def test_the_server_says_what_is_here(served):
    with httpx.Client(base_url=served.url) as http:
        document = http.get("/openapi.json").json()
        page = http.get("/")
        assert http.get("/v1/models/").json()["data"][0]["id"] == "scripted"
        assert http.get("/models").json() == http.get("/v1/models").json()
    posts = [path for path, methods in document["paths"].items() if "post" in methods]
    assert {"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions", "/tokenize"} <= set(posts)
    references = [str(value) for value in _references(document)]
    known = document["components"]["schemas"]
    assert all(reference.rpartition("/")[2] in known for reference in references)
    assert "/v1/responses" in page.text
    assert page.headers["content-type"].startswith("text/html")


def _references(value):
    if isinstance(value, dict):
        yield from ([value["$ref"]] if isinstance(value.get("$ref"), str) else [])
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _references(item)


@pytest.fixture(scope="module")
def served():
    with running(ScriptedEngine([])) as server:
        yield server
