"""What a server has: as an OpenAPI document, and as a page to look at."""

from __future__ import annotations

import html
from typing import Any

from pydantic import BaseModel

from agentform.serve.chat_fields import ChatFields
from agentform.serve.completions_fields import CompletionFields, DetokenizeFields, TokenizeFields
from agentform.serve.decision_fields import DecisionFields
from agentform.serve.messages_fields import MessagesFields
from agentform.serve.responses_fields import ResponsesFields
from agentform.serve.systemone_fields import SystemOneFields

__all__ = ["landing_page", "openapi_document"]

_POSTS: dict[str, tuple[str, type[BaseModel]]] = {
    "/v1/chat/completions": ("One turn, as in OpenAI's chat completions", ChatFields),
    "/v1/responses": ("One turn, as in OpenAI's Responses", ResponsesFields),
    "/v1/messages": ("One turn, as in Anthropic's messages", MessagesFields),
    "/v1/messages/count_tokens": ("The length of a prompt, as in Anthropic's messages", MessagesFields),
    "/v1/completions": ("A text is gone on with", CompletionFields),
    "/v1/decisions": ("Typed questions, as in OpenAI's decisions", DecisionFields),
    "/v1/systemone": ("Typed questions, as in System One", SystemOneFields),
    "/tokenize": ("The tokens of a text or of messages", TokenizeFields),
    "/detokenize": ("The text of tokens", DetokenizeFields),
}
_GETS = {
    "/v1/models": "The model that is served",
    "/v1/responses/{id}": "An answer that was kept",
    "/health": "Whether it serves",
    "/metrics": "Counts and times, for Prometheus",
    "/openapi.json": "This document",
}


def openapi_document(version: str) -> dict[str, Any]:
    """The paths, with the fields that each takes."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for path, (summary, fields) in _POSTS.items():
        schema = fields.model_json_schema(by_alias=True, ref_template="#/components/schemas/{model}")
        schemas |= schema.pop("$defs", {})
        schemas[fields.__name__] = schema
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{fields.__name__}"}}}
        paths[path] = {"post": _operation(summary) | {"requestBody": {"required": True, "content": content}}}
    for path, summary in _GETS.items():
        paths[path] = {"get": _operation(summary)}
        if "{id}" in path:
            where = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
            paths[path]["get"]["parameters"] = [where]
    info = {"title": "agentform", "version": version}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _operation(summary: str) -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": {"description": "The answer"}}}


def landing_page(model: str, *, with_page: bool = False) -> str:
    """What is here, for whoever opens the address in a browser."""
    rows = [("POST", path, summary) for path, (summary, _) in _POSTS.items()]
    rows += [("GET", path, summary) for path, summary in _GETS.items()]
    shown = '<p><a href="page">A page that shows turns as they happen</a></p>' if with_page else ""
    lines = [f"<tr><td>{method}</td><td><code>{path}</code></td><td>{said}</td></tr>" for method, path, said in rows]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>agentform</title>'
        "<style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;"
        "padding:0 1rem}td{padding:.2rem 1rem .2rem 0;vertical-align:top}</style></head><body><main>"
        f"<h1>agentform serves {html.escape(model)}</h1><p>Clients of these APIs work with it when they are told this "
        f"address.</p>{shown}<table><thead><tr><th>Method</th><th>Path</th><th>What</th></tr></thead><tbody>"
        f"{''.join(lines)}</tbody></table></main></body></html>"
    )
