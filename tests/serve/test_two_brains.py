"""`/v1/decisions` and `/v1/systemone` are answered by the decision model, and by the engine's own where it fails."""

from __future__ import annotations

import anyio
import httpx
import pytest

from agentform import EngineDecisions
from agentform.errors import EngineUnavailable
from agentform.forms.decider import Decider
from agentform.serve.app import Service
from agentform.serve.settings import ServerSettings
from agentform.testing import Fill, ScriptedEngine

NOUL = {"state": "It is night.", "questions": {"dark": {"type": "noul", "instructions": "Is it dark?"}}}
PREDICATE = {
    "input": "It is night.",
    "questions": [{"type": "predicate", "name": "dark", "instructions": "Is it dark?"}],
}


def scripted(answer):
    return ScriptedEngine([Fill("Is it dark", {"answer": answer, "dark": answer})] * 4, probability=0.8)


class Gone:
    name = "gone"

    async def decide(self, state, questions):
        raise EngineUnavailable("nobody answers there")


def post(path, body, decider, answer=False):
    service = Service(engine=scripted(answer), settings=ServerSettings(served_name="m"), decider=decider)

    async def ask():
        transport = httpx.ASGITransport(app=service.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            return await client.post(path, json={"model": "m", **body}, timeout=None)

    reply = anyio.run(ask)
    return reply, service.engine.requests


def yes(reply):
    answers = reply.json()["answers"]
    found = answers["dark"]["noul"] if isinstance(answers, dict) else answers[0]["probability"]
    return found > 0.5


PATHS = [("/v1/systemone", NOUL), ("/v1/decisions", PREDICATE)]


@pytest.mark.parametrize(("path", "body"), PATHS)
def test_the_decision_model_answers_and_the_reply_says_so(path, body):
    reply, asked = post(path, body, EngineDecisions(scripted(True)))
    assert reply.status_code == 200, reply.text
    assert yes(reply)
    assert list(reply.json()["decided_by"]) == ["dark"]
    assert not asked  # the engine's own model saw nothing of it


@pytest.mark.parametrize(("path", "body"), PATHS)
def test_the_engine_answers_for_a_decision_model_that_is_gone(path, body):
    reply, asked = post(path, body, Decider(model=Gone()), answer=True)
    assert reply.status_code == 200, reply.text
    assert yes(reply)
    assert "decided_by" not in reply.json()
    assert asked


@pytest.mark.parametrize(("path", "body"), PATHS)
def test_without_a_fallback_the_failure_is_told(path, body):
    reply, asked = post(path, body, Decider(model=Gone(), fallback=False))
    assert reply.status_code >= 500
    assert "nobody answers there" in reply.text
    assert not asked


@pytest.mark.parametrize(("path", "body"), PATHS)
def test_without_a_decision_model_all_is_as_before(path, body):
    reply, asked = post(path, body, None, answer=True)
    assert yes(reply)
    assert "decided_by" not in reply.json()
    assert asked
