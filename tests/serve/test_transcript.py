"""What the openai client and the server say to one another, byte for byte but for ids and times.

AGENTFORM_UPDATE_GOLDEN=1 writes the file anew; read the difference before you keep it.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Literal

import httpx
import openai
from pydantic import BaseModel

from agentform.testing import Call, Fill, Say, ScriptedEngine
from tests.support.servers import running

GOLDEN = Path(__file__).parent / "transcript.json"
VARYING = ((re.compile(r"(chatcmpl-|call_|req_)[0-9a-f]{12,}"), r"\1ID"), (re.compile(r'"created":\d+'), '"created":0'))


class Ticket(BaseModel):
    """What a customer wants."""

    category: Literal["billing", "delivery"]
    summary: str


STEPS = [
    Say("Hello there."),
    Call("order_status", {"order": "A-1"}, text="I look it up."),
    Say("It is on its way."),
    Call("order_status", {"order": "A-1"}, text="I look it up."),
    Fill("parcel", {"category": "delivery", "summary": "no parcel"}),
]
PARAMETERS = {
    "type": "object",
    "properties": {"order": {"enum": ["A-1", "A-2"], "description": "The order's number."}},
    "required": ["order"],
    "additionalProperties": False,
}
STATUS = {
    "type": "function",
    "function": {"name": "order_status", "description": "Where is it?", "parameters": PARAMETERS},
}
USER = {"role": "user", "content": "Where is my parcel, order A-1?"}


class Recorded:
    """An HTTP client for the openai client that keeps what is exchanged."""

    def __init__(self) -> None:
        self.exchanges: list[dict] = []
        self.client = httpx.Client(event_hooks={"response": [self._keep]})

    def _keep(self, response: httpx.Response) -> None:
        response.read()
        request = response.request
        self.exchanges.append(
            {
                "path": request.url.path,
                "sent": json.loads(request.content) if request.content else None,
                "status": response.status_code,
                "type": response.headers["content-type"],
                "received": _readable(response.text),
            }
        )


def _readable(text: str) -> object:
    for pattern, stands_for in VARYING:
        text = pattern.sub(stands_for, text)
    if not text.startswith("data: "):
        return json.loads(text)
    data = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in data]


def talk(client: openai.OpenAI) -> None:
    chat = {"model": "scripted"}
    client.models.list()
    client.chat.completions.create(messages=[USER], **chat)
    first = client.chat.completions.create(messages=[USER], tools=[STATUS], **chat).choices[0].message
    result = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "In Rome."}
    client.chat.completions.create(messages=[USER, first, result], tools=[STATUS], **chat)
    options = {"stream": True, "stream_options": {"include_usage": True}}
    list(client.chat.completions.create(messages=[USER], tools=[STATUS], tool_choice="required", **options, **chat))
    client.chat.completions.parse(messages=[USER], response_format=Ticket, **chat)
    questions = [{"type": "choice", "name": "category", "instructions": "About what?", "choices": CHOICES}]
    client.decisions.create(model="scripted", input="No parcel!", questions=questions)
    for wrong in ({"n": 99}, {"messages": [{"role": "user"}]}, {"model": "gpt"}):
        try:
            client.chat.completions.create(**{"messages": [USER], **chat, **wrong})
        except openai.APIStatusError:
            continue
        raise AssertionError("not refused")


CHOICES = [{"value": "billing"}, {"value": "delivery", "description": "parcels"}]


def test_the_transcript_is_the_one_that_was_read_and_found_right():
    recorded = Recorded()
    with running(ScriptedEngine(STEPS)) as server, recorded.client as http:
        talk(openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, http_client=http))
    text = json.dumps(recorded.exchanges, indent=1, ensure_ascii=False) + "\n"
    text = VARYING[0][0].sub(r"\1ID", text)
    if os.environ.get("AGENTFORM_UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
