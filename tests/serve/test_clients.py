"""Holders of different keys learn nothing of each other."""

from __future__ import annotations

import httpx
import pytest
import torch

from agentform.runtime.torch.engine import TorchEngine
from agentform.testing import Fill, Say, ScriptedEngine
from tests.serve.test_guards import CHAT, KEY
from tests.support.servers import running
from tests.support.tiny_model import write_tiny_model

OTHER = "another-key-of-some-length"
SECRET = "The number of the safe is 482913, and nobody else may know it, ever, whatever they ask for. "


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tiny_model")
    write_tiny_model(made)
    return made


@pytest.fixture
def engine(folder):
    made = TorchEngine(folder, dtype=torch.float32, kv_budget_bytes=8 << 20, num_threads=1)
    yield made
    made.close()


def cached(server, key, content, path=CHAT) -> int:
    headers = {"authorization": f"Bearer {key}"}
    body = {"model": server.service.model, "messages": [{"role": "user", "content": content}], "max_tokens": 1}
    if path != CHAT:
        question = {"type": "predicate", "instructions": "Is it a number?"}
        body = {"model": server.service.model, "input": content, "questions": [question]}
    usage = httpx.post(server.url + path, json=body, headers=headers, timeout=60).json()["usage"]
    return usage.get("prompt_tokens_details", usage.get("input_tokens_details"))["cached_tokens"]


@pytest.mark.parametrize("path", [CHAT, "/v1/decisions"])
def test_cached_tokens_tell_of_ones_own_prompts_only(engine, path):
    with running(engine, api_keys=(KEY, OTHER)) as server:
        assert cached(server, KEY, SECRET, path) == 0
        assert cached(server, OTHER, SECRET, path) == 0
        assert cached(server, KEY, SECRET, path) > 0


def test_an_operator_may_share_the_cache(engine):
    with running(engine, api_keys=(KEY, OTHER), share_cache=True) as server:
        cached(server, KEY, SECRET)
        assert cached(server, OTHER, SECRET) > 0


@pytest.mark.parametrize("share_cache", [False, True])
def test_names_of_conversations_belong_to_their_key(share_cache):
    engine = ScriptedEngine([Say("a"), Say("b"), Say("c")])
    body = {"model": "scripted", "messages": [{"role": "user", "content": "Hi."}], "prompt_cache_key": "mine"}
    with running(engine, api_keys=(KEY, OTHER), share_cache=share_cache) as server:
        for key in (KEY, OTHER, KEY):
            httpx.post(server.url + CHAT, json=body, headers={"authorization": f"Bearer {key}"})
    first, second, third = (request.conversation for request in engine.requests)
    assert first == third != second
    assert KEY not in first


def test_a_user_is_no_conversation():
    engine = ScriptedEngine([Say("a")])
    body = {"model": "scripted", "messages": [{"role": "user", "content": "Hi."}], "user": "u"}
    with running(engine) as server:
        httpx.post(server.url + CHAT, json=body)
    assert engine.requests[0].conversation is None


@pytest.mark.parametrize(("share_cache", "num_owners"), [(False, 2), (True, 1)])
def test_compiled_grammars_belong_to_their_key(share_cache, num_owners):
    engine = ScriptedEngine([Say(""), Fill("Hi", {"note": "x"}), Say(""), Fill("Hi", {"note": "x"})])
    form = {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}
    body = {"model": "scripted", "messages": [{"role": "user", "content": "Hi."}], "guided_json": form}
    with running(engine, api_keys=(KEY, OTHER), share_cache=share_cache) as server:
        for key in (KEY, OTHER):
            headers = {"authorization": f"Bearer {key}"}
            assert httpx.post(server.url + CHAT, json=body, headers=headers, timeout=60).status_code == 200
    grammars = [request.grammar for request in engine.requests if request.grammar is not None]
    assert len({grammar.owner for grammar in grammars}) == num_owners
