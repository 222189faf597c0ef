"""What looks like a server of OpenAI's interface, with faults and answers of a test's choosing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import httpx

__all__ = ["FakeOpenAI", "schema_in"]

_FIELDS = ("response_format", "structured_outputs", "guided_json")


def schema_in(body: dict[str, Any]) -> Any:
    """The JSON Schema that a request carries, in whichever field."""
    if "response_format" in body:
        return body["response_format"]["json_schema"]["schema"]
    return body["structured_outputs"]["json"] if "structured_outputs" in body else body.get("guided_json")


class FakeOpenAI:
    """`transports` are arguments of `OpenAIServer`; it follows schemas in the field `follows` and no other.

    `say` gives the text of each reply of a running engine, `fault` a reply in its place.
    """

    def __init__(self, *said: str, follows: str = "response_format", models: Iterable[str] = ("fake",)) -> None:
        self.said = list(said)
        self.follows = follows
        self.models = list(models)
        self.fault: Callable[[str, Any], httpx.Response | None] = lambda path, body: None
        self.finish = "stop"
        self.asked: list[dict[str, Any]] = []

    @property
    def transports(self) -> dict[str, Any]:
        return {"transport": httpx.MockTransport(self._answer), "async_transport": httpx.MockTransport(self._faulty)}

    def _faulty(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        if (fault := self.fault(request.url.path, body)) is not None:
            return fault
        if request.url.path == "/v1/chat/completions":
            assert body is not None
            self.asked.append(body)
            return httpx.Response(200, text="".join(f"data: {e}\n\n" for e in self._events(self.said.pop(0))))
        return self._answer(request)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/models":
            return httpx.Response(200, json={"data": [{"id": name} for name in self.models]})
        if request.url.path != "/v1/chat/completions":
            return httpx.Response(404, json={"error": {"message": "not found"}})
        body = json.loads(request.content)
        if unknown := [field for field in _FIELDS if field in body and field != self.follows]:
            return httpx.Response(400, json={"error": {"message": f"unknown field {unknown[0]}"}})
        schema = schema_in(body)
        said = "Hello!" if schema is None else json.dumps({k: v["enum"][0] for k, v in schema["properties"].items()})
        return httpx.Response(200, json={"choices": [{"message": {"content": said}}]})

    def _events(self, said: str) -> Iterable[str]:
        for at in range(0, len(said), 3):
            yield json.dumps({"choices": [{"delta": {"content": said[at : at + 3]}}]})
        yield json.dumps({"choices": [{"delta": {}, "finish_reason": self.finish}]})
        yield json.dumps({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}})
        yield "[DONE]"
