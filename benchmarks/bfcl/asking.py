"""One question to a server as any client asks it, and what came back: calls, whether they are valid, time, tokens."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator

__all__ = ["Answer", "answer_of", "ask"]

_LIMIT_S = 600.0
_MOST_TOKENS = 512


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a server made of a question."""

    calls: list[dict[str, Any]]
    """As Berkeley's checker takes them: `{name: arguments}` each; those whose arguments are no JSON have none."""
    invalid: int
    """Calls that no such tool takes, by name or by the schema of its arguments."""
    seconds: float
    prompt_tokens: int
    completion_tokens: int
    error: str = ""
    """What the server answered in place of an answer."""


def ask(address: str, task: Mapping[str, Any]) -> Answer:
    """Ask greedily for at most 512 tokens."""
    body = {
        "model": "served",
        "messages": task["messages"],
        "tools": [{"type": "function", "function": tool} for tool in _plain(task["tools"])],
        "temperature": 0,
        "max_tokens": _MOST_TOKENS,
    }
    request = urllib.request.Request(
        f"{address}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    started = time.perf_counter()
    try:
        with urllib.request.urlopen(request, timeout=_LIMIT_S) as answered:
            reply = json.load(answered)
    except urllib.error.HTTPError as error:
        return _failed(error.read().decode(errors="replace")[:300], time.perf_counter() - started)
    except OSError as error:
        return _failed(str(error), time.perf_counter() - started)
    return answer_of(reply, task["tools"], seconds=time.perf_counter() - started)


def answer_of(reply: Mapping[str, Any], tools: Sequence[Mapping[str, Any]], *, seconds: float) -> Answer:
    """Read a reply of OpenAI's interface."""
    schemas = {tool["name"]: tool["parameters"] for tool in _plain(tools)}
    calls: list[dict[str, Any]] = []
    invalid = 0
    for call in reply["choices"][0]["message"].get("tool_calls") or ():
        name, arguments = call["function"]["name"], _arguments(call["function"]["arguments"])
        invalid += not _is_valid(schemas.get(name), arguments)
        calls.append({name: arguments if isinstance(arguments, dict) else {}})
    usage = reply.get("usage") or {}
    return Answer(
        calls=calls,
        invalid=invalid,
        seconds=seconds,
        prompt_tokens=usage.get("prompt_tokens", 0),
        completion_tokens=usage.get("completion_tokens", 0),
    )


def _plain(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tool documents come bare or under "function"."""
    return [dict(tool.get("function", tool)) for tool in tools]


def _arguments(text: object) -> object:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return None


def _is_valid(schema: Mapping[str, Any] | None, arguments: object) -> bool:
    return schema is not None and isinstance(arguments, dict) and Draft202012Validator(schema).is_valid(arguments)


def _failed(error: str, seconds: float) -> Answer:
    return Answer(calls=[], invalid=0, seconds=seconds, prompt_tokens=0, completion_tokens=0, error=error)
