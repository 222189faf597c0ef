"""What a turn may come to is said in any API's words at every endpoint."""

from __future__ import annotations

import anyio
import httpx
import pytest

from agentform.serve.app import Service
from agentform.serve.settings import ServerSettings
from agentform.testing import Call, ScriptedEngine

EMPTY = {"type": "object", "properties": {}}
NAMES = ("note", "light")
SAID = [{"role": "user", "content": "hi"}]
ENDPOINTS = {
    "/v1/chat/completions": {
        "messages": SAID,
        "tools": [{"type": "function", "function": {"name": name, "parameters": EMPTY}} for name in NAMES],
    },
    "/v1/responses": {
        "input": "hi",
        "tools": [{"type": "function", "name": name, "parameters": EMPTY} for name in NAMES],
    },
    "/v1/messages": {
        "max_tokens": 99,
        "messages": SAID,
        "tools": [{"name": name, "input_schema": EMPTY} for name in NAMES],
    },
}
LISTED = [{"type": "function", "function": {"name": "light"}}]


def post(path, choice):
    """The reply of a model that would rather answer."""
    service = Service(
        engine=ScriptedEngine([Call("light", {}, text="I would not.")]), settings=ServerSettings(served_name="m")
    )

    async def ask():
        transport = httpx.ASGITransport(app=service.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            body = {"model": "m", "tool_choice": choice, **ENDPOINTS[path]}
            return await client.post(path, json=body, timeout=None)

    return anyio.run(ask)


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ("any", "required"),
        ("required", "required"),
        ({"type": "any"}, "required"),
        ({"type": "tool", "name": "light"}, {"type": "function", "name": "light"}),
        ({"type": "function", "name": "light"}, {"type": "function", "name": "light"}),
        ({"function": {"name": "light"}}, {"type": "function", "name": "light"}),
        ({"type": "allowed_tools", "mode": "any", "tools": LISTED}, "allowed"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": LISTED}}, "allowed"),
    ],
)
def test_every_spelling_of_a_required_call_requires_it(path, choice, told):
    reply = post(path, choice)
    assert reply.status_code == 200, reply.text
    assert '"light"' in reply.text
    if path == "/v1/responses":
        allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "light"}]}
        assert reply.json()["tool_choice"] == (allowed if told == "allowed" else told)


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize(
    "choice",
    [
        {"type": "tool", "name": "dim"},
        {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "dim"}]},
        {"type": "allowed_tools", "mode": "required", "tools": []},
        {"type": "function", "name": "light", "function": {"name": "note"}},
        {"type": "file_search"},
        ["light"],
    ],
)
def test_a_choice_of_nothing_is_refused_by_its_field(path, choice):
    reply = post(path, choice)
    assert (reply.status_code, "tool_choice" in reply.json()["error"]["message"]) == (400, True)
