"""The same floods at every path that takes a body: large lists, deep nesting, huge strings, numbers that are none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.attack.asking import user
from benchmarks.attack.target import Target

__all__ = ["floods_everywhere"]

_LARGE = 3_800_000


def floods_everywhere(target: Target) -> None:
    """Every field of every path, filled with what is small in bytes and large in work."""
    for at, (path, whole) in enumerate(_bodies(target).items()):
        assert target.post(path, whole).status_code in (200, 400, 422), path
        for field, value in _floods(whole, target, at):
            reply = target.post(path, content=_filled(whole, field, value))
            assert reply.status_code in (200, 400, 404, 413, 422), (
                path,
                field,
                value[:40],
                reply.status_code,
                reply.text[:300],
            )
            assert len(reply.content) < 4_000_000, (path, field)
        assert target.is_healthy(), path


def _bodies(target: Target) -> dict[str, dict[str, Any]]:
    """A good body for each."""
    model = {"model": target.model()}
    asks = {"type": "choice", "instructions": "Which?", "choices": [{"value": "x"}, {"value": "y"}]}
    chosen = {"q": {"type": "choice", "criteria": ["x", "y"]}}
    return {
        "/v1/chat/completions": model | {"messages": user("Hi."), "max_tokens": 1},
        "/v1/responses": model | {"input": "Hi.", "max_output_tokens": 1},
        "/v1/messages": model | {"messages": user("Hi."), "max_tokens": 1},
        "/v1/messages/count_tokens": model | {"messages": user("Hi.")},
        "/v1/completions": model | {"prompt": "Hi.", "max_tokens": 1},
        "/v1/decisions": model | {"input": "Hi.", "questions": [asks]},
        "/v1/systemone": model | {"state": "Hi.", "questions": chosen},
        "/tokenize": {"prompt": "Hi."},
        "/detokenize": {"tokens": [1, 2]},
    }


_FURTHER = (
    "tools",
    "stop",
    "metadata",
    "system",
    "response_format",
    "guided_json",
    "chat_template_kwargs",
    "logit_bias",
)


def _floods(whole: dict[str, Any], target: Target, at: int) -> Iterator[tuple[str, bytes]]:
    """In short form a few of them, others at each path."""
    fields = [name for name in whole if name not in ("model", "max_tokens", "max_output_tokens")]
    values = [
        b"[" + b"{}," * (_LARGE // 3) + b"{}]",
        b"[" + b"0," * (_LARGE // 2) + b"0]",
        b'["' + b"x" * _LARGE + b'"]',
        b'"' + b"word " * (_LARGE // 5) + b'"',
        b'"' + b"\\ud83d" * (_LARGE // 6) + b'"',
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 400 + b"1" + b"}" * 400,
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        b"{" + b",".join(b'"k%d":0' % at for at in range(200_000)) + b"}",
        b"NaN",
        b"-Infinity",
        b"1e999",
        b"[" + b"9" * 5000 + b"]",
        b"1" + b"0" * 3_000_000,
        b"-1",
        b"null",
        b'"\\u0000"',
        b"[[[]]]",
        b"\xff\xfe",
        b"",
    ]
    every = [(field, value) for field in fields for value in values]
    every += [(field, value) for field in _FURTHER for value in (values[0], values[3], values[6], values[8])]
    yield from every[at % 9 :: 9] if target.is_short else every


def _filled(whole: dict[str, Any], field: str, value: bytes) -> bytes:
    rest = {name: inner for name, inner in whole.items() if name != field}
    head = json.dumps(rest).encode()[:-1]
    return head + (b", " if rest else b"") + json.dumps(field).encode() + b": " + value + b"}"
