"""Deciders behind System One's wire: our own server, and servers that misbehave."""

from __future__ import annotations

import json
import sys
from typing import Literal

import anyio
import httpx
import pytest
from pydantic import BaseModel

from agentform import OneOf, Score, YesNo, decide, fill, load_decider
from agentform.errors import (
    EngineError,
    EngineUnauthorized,
    EngineUnavailable,
    InvalidInput,
    InvalidRequest,
    MissingDependency,
    ReplyMalformed,
)
from agentform.testing import Fill, ScriptedEngine
from tests.support.servers import running

pytestmark = pytest.mark.anyio
KEY = "a-key-that-is-long-enough"
QUESTIONS = {"late": YesNo("Late?"), "who": OneOf("Who?", ["post", 1, "1"]), "bad": Score("Bad?", 1, 3)}
GOOD = {
    "late": {"type": "noul", "noul": 0.75},
    "who": {"type": "choice", "choice": "1", "probabilities": {"post": 0.2, "1": 0.5, '"1"': 0.299}, "confidence": 0.5},
    "bad": {"type": "score", "score": 1.0, "probabilities": {"0": 0.2, "1": 0.6, "2": 0.2}, "confidence": 0.6},
}


class Order(BaseModel):
    goods: Literal["lamps", "bulbs"]
    express: bool
    to: str


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # uvicorn's
async def test_our_own_server_decides_and_the_engine_writes():
    """Over a real connection, with a key, and the server's only model found by itself."""
    there = ScriptedEngine([Fill("goods", {"answer": "bulbs"}), Fill("express", {"answer": True})], probability=0.8)
    here = ScriptedEngine([Fill("", {"goods": "lamps", "express": False, "to": "Ada"})])
    with running(there, api_keys=(KEY,), served_name="org/small") as server:
        decider = load_decider(f"{server.url}/v1/systemone", api_key=KEY, fallback=False)
        filled = await fill(here, "Bulbs for Ada, at once.", Order, decider=decider)
        await decider.model.aclose()
        unknown = load_decider(server.url, api_key="another-key-of-that-length", fallback=False)
        with pytest.raises(EngineUnauthorized):
            await fill(here, "Bulbs for Ada, at once.", Order, decider=unknown)
        await unknown.model.aclose()
    assert filled.value == Order(goods="bulbs", express=True, to="Ada")
    assert [item.by for item in filled.evidence] == ["org/small", "org/small", ""]
    prompts = [there.tokenizer.decode(request.prompt_ids) for request in there.requests]
    assert any("Bulbs for Ada" in prompt and "- lamps" in prompt for prompt in prompts)


def served(answer, **options):
    """A decider of a server that gives `answer` to whatever it is asked."""

    async def handle(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"models": [{"name": "org/m"}]})
        return await answer(json.loads(request.content)) if callable(answer) else answer

    transport = httpx.MockTransport(handle)
    return load_decider("http://there/v1", async_transport=transport, **{"timeout_s": 5.0, **options})


def replied(answers) -> httpx.Response:
    return httpx.Response(200, json={"model": "org/m", "answers": answers})


async def test_an_answer_is_read_by_its_question_and_what_was_rounded_away_is_put_back():
    found = await decide(served(replied(GOOD)), "x", QUESTIONS)
    assert {name: each.value for name, each in found.items()} == {"late": True, "who": 1, "bad": 2}
    assert sum(p for _, p in found["who"].probabilities) == pytest.approx(1)
    assert [option for option, _ in found["who"].probabilities] == ["post", 1, "1"]
    assert (found["bad"].expected, found["late"].by) == (pytest.approx(2.0), "org/m")


async def test_many_questions_are_asked_in_requests_that_the_wire_takes():
    sizes = []

    async def answer(body):
        sizes.append(len(body["questions"]))
        return replied(dict.fromkeys(body["questions"], GOOD["late"]))

    found = await decide(served(answer), "x", {str(at): YesNo("Late?") for at in range(401)})
    assert (sizes, len(found)) == ([400, 1], 401)


async def silent(body):
    await anyio.sleep_forever()


def wrong(name, **changes):
    return replied(GOOD | {name: GOOD[name] | changes})


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (silent, EngineUnavailable, "did not decide within"),
        (httpx.Response(500, text="<html>oh"), EngineError, "answered 500"),
        (httpx.Response(503, json={"error": {"message": "full"}}), EngineUnavailable, "full; tried 2 times"),
        (httpx.Response(401, json={"error": {"message": "no"}}), EngineUnauthorized, "no"),
        (httpx.Response(422, json={"error": {"message": "state: too odd"}}), InvalidRequest, "too odd"),
        (httpx.Response(200, text="{"), ReplyMalformed, "no JSON"),
        (httpx.Response(200, json=[]), ReplyMalformed, "without answers"),
        (replied({}), ReplyMalformed, "without an answer: late"),
        (replied(dict.fromkeys(GOOD, 3)), ReplyMalformed, "late"),
        (wrong("late", type="choice"), ReplyMalformed, "must be a noul"),
        (wrong("late", noul=1.5), ReplyMalformed, "probability that is none"),
        (wrong("late", noul=True), ReplyMalformed, "probability that is none"),
        (wrong("who", choice="money"), ReplyMalformed, "no option"),
        (wrong("who", choice="post"), ReplyMalformed, "not the most probable"),
        (wrong("who", probabilities={"post": 0.2, "1": 0.5, '"1"': 0.5}), ReplyMalformed, "sum to 1.2"),
        (wrong("who", probabilities={"post": 0.5, "1": 0.5}), ReplyMalformed, "other options"),
        (wrong("bad", probabilities={"0": 0.2, "1": 0.8}), ReplyMalformed, "other options"),
        (wrong("bad", probabilities=None), ReplyMalformed, "bad"),
    ],
)
async def test_a_server_that_misbehaves_is_a_typed_error_and_the_engine_answers_for_it(answer, error, said):
    slow = {"timeout_s": 0.05 if answer is silent else 5.0}
    with pytest.raises(error, match=said):
        await decide(served(answer, **slow), "x", QUESTIONS)
    here = ScriptedEngine([Fill("", {"goods": "lamps", "express": False, "to": "Ada"})])
    filled = await fill(here, "Lamps.", Order, decider=served(answer, **slow))
    assert (filled.value.goods, {item.by for item in filled.evidence}) == ("lamps", {""})


async def test_a_server_with_several_models_has_to_be_told_which():
    listed = httpx.Response(200, json={"data": [{"id": "a"}, {"id": "b"}]})
    decider = load_decider("http://there", async_transport=httpx.MockTransport(lambda request: listed))
    with pytest.raises(InvalidRequest, match="2 models"):
        await decide(decider, "x", QUESTIONS)
    assert load_decider("http://there#b").name == "b"


async def test_an_address_that_is_none_is_refused_and_httpx_is_named_where_it_is_missing(monkeypatch):
    with pytest.raises(InvalidRequest, match="http"):
        load_decider("ftp://there/v1/systemone")
    with pytest.raises(InvalidInput, match="got None"):
        load_decider(None)
    for library in ("httpx", "httpx2"):
        monkeypatch.setitem(sys.modules, library, None)
    http = "agentform.runtime.http"
    for name in ("agentform.deciders.system_one", f"{http}.library", f"{http}.connection"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(MissingDependency, match=r"\[client\]"):
        load_decider("http://there")
