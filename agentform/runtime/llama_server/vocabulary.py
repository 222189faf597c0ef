"""A model's vocabulary, read from llama.cpp's server, which has no path for it.

::

    POST /completion  n_predict 1, n_probs: all      ──▶ every id with its bytes; those of control tokens are empty
    POST /detokenize  the ids without bytes          ──▶ how control tokens are spelt
    POST /completion  the same, with ignore_eos      ──▶ the ids that are missing now end a completion
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentform.errors import ReplyMalformed
from agentform.runtime.http.transport import Transport

__all__ = ["ServedVocabulary", "read_vocabulary"]

_ALL = 1 << 20
"""More than any vocabulary holds; the server gives as many as there are."""
_BIAS = 200.0
_FLAT = 1e5
"""A temperature at which every token is about as probable as any other."""


@dataclass(frozen=True, kw_only=True)
class ServedVocabulary:
    """Token ids and what they stand for."""

    pieces: tuple[bytes, ...]
    """Bytes by id, control tokens by their spelling; empty for ids that stand for nothing."""
    control: Mapping[int, str]
    """Control tokens by id."""
    ends: frozenset[int]
    """Ids at which the server ends a completion."""
    anchor: int
    """A token of whole characters: of a token that ends inside one, the server tells no probabilities."""


def read_vocabulary(transport: Transport) -> ServedVocabulary:
    """Ask for it, which takes the server about as long as writing three tokens.

    Raises:
        ReplyMalformed: the reply is not llama.cpp's.
        EngineError: the server refuses or is not reached.
    """
    anchor = int(transport.ask_now("POST", "/tokenize", {"content": "a", "add_special": False})["tokens"][-1])
    listed = _listed(transport, {"n_probs": _ALL, "logit_bias": [[anchor, _BIAS]]}, "top_logprobs")
    if not listed:
        raise ReplyMalformed(f"{transport.where} names no tokens; n_probs of /completion is needed")
    pieces = [b""] * (max(int(entry["id"]) for entry in listed) + 1)
    for entry in listed:
        pieces[int(entry["id"])] = bytes(entry["bytes"])
    control = _spelt(transport, [int(entry["id"]) for entry in listed if not entry["bytes"]], pieces)
    for token, text in control.items():
        pieces[token] = text.encode()
    return ServedVocabulary(
        pieces=tuple(pieces), control=control, ends=_ends(transport, sorted(control)), anchor=anchor
    )


def _listed(transport: Transport, body: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    reply = transport.ask_now(
        "POST", "/completion", {"prompt": "a", "n_predict": 1, "temperature": 0.0, "cache_prompt": False, **body}
    )
    return list((reply.get("completion_probabilities") or [{}])[0].get(key) or ())


def _spelt(transport: Transport, ids: Sequence[int], pieces: Sequence[bytes]) -> dict[int, str]:
    """How tokens are spelt that are written as nothing; line breaks keep them apart in one request."""
    if not ids:
        return {}
    line_break = pieces.index(b"\n") if b"\n" in pieces else None
    if line_break is not None:
        joined = [token for i in ids for token in (line_break, i)]
        first, *spelt = _detokenized(transport, joined).split("\n")
        if len(spelt) == len(ids) and not first.strip():
            return {i: text for i, text in zip(ids, spelt, strict=True) if text}
    return {i: text for i in ids if (text := _detokenized(transport, [i]))}


def _detokenized(transport: Transport, ids: Sequence[int]) -> str:
    return str(transport.ask_now("POST", "/detokenize", {"tokens": list(ids)})["content"])


def _ends(transport: Transport, control: Sequence[int]) -> frozenset[int]:
    """The control tokens that `ignore_eos` forbids."""
    if not control:
        return frozenset()
    body = {
        "n_probs": len(control),
        "logit_bias": [[i, _BIAS * _FLAT] for i in control],
        "ignore_eos": True,
        "post_sampling_probs": True,
        "temperature": _FLAT,
        "samplers": ["temperature"],
    }
    allowed = {int(e["id"]) for e in _listed(transport, body, "top_probs") if float(e["prob"]) > 0}
    return frozenset(control) - allowed
