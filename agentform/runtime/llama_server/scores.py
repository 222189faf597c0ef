"""Scores from llama.cpp's server: the most probable tokens by their log p, all others weighed against one of these.

::

    n_probs: 512 ──▶ log p under the full softmax, of the most probable tokens
    logit_bias   ──▶ p of the other candidates beside a token whose log p is known

Tokens outside the most probable ones are told only as they are after the server's samplers. Lifted alike above all
others, the candidates keep their proportions to a token whose log p is known, and so have its scale. What is written
meanwhile is always a token of whole characters: the server tells nothing of one that ends inside a character.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from agentform.errors import ReplyMalformed
from agentform.messages import Usage
from agentform.runtime.engine import ScoreRequest, ScoreResult
from agentform.runtime.http.failures import understood
from agentform.runtime.http.transport import Transport
from agentform.runtime.llama_server.bodies import AHEAD, listing_body, read_body, weighing_body
from agentform.runtime.llama_server.served import LLAMA_CPP
from agentform.runtime.llama_server.vocabulary import ServedVocabulary

__all__ = ["LlamaScores", "listed_logprobs"]

_LISTED = 512
_LEAST = -103.0
"""Log of about the least float; what is less probable beside the most probable token is given as this less."""


class LlamaScores:
    """How one server is asked for scores, one path after the other: a slot's cache holds one sequence."""

    def __init__(self, transport: Transport, vocabulary: ServedVocabulary) -> None:
        self._transport = transport
        self._vocabulary = vocabulary

    async def ask(self, request: ScoreRequest) -> ScoreResult:
        """Every branch's log probabilities. Paths are asked in the order of their tree, so that each finds most cached.

        Raises:
            AgentformError: what `Transport.ask` raises.
            ReplyMalformed: the reply is not what was asked for.
        """
        wanted: dict[tuple[int, ...], dict[int, None]] = {}
        for branch in request.branches:
            wanted.setdefault(branch.path, {}).update(dict.fromkeys(branch.candidates))
        timings: list[Mapping[str, Any]] = []
        found: dict[tuple[int, ...], Mapping[int, float]] = {}
        if not wanted:
            await self._reply(read_body(request), timings)
        for path in sorted(wanted):
            found[path] = await self.at(request, path, tuple(wanted[path]), timings)
        logprobs = tuple(tuple(found[branch.path][token] for token in branch.candidates) for branch in request.branches)
        return ScoreResult(logprobs=logprobs, usage=_usage(len(request.prompt_ids), timings))

    async def at(
        self, request: Any, path: Sequence[int], candidates: Sequence[int], timings: list[Mapping[str, Any]]
    ) -> dict[int, float]:
        """log p of each candidate after the prompt and `path`; what it took is added to `timings`.

        Raises:
            AgentformError: what `ask` raises.
        """
        body = listing_body(request, path, _LISTED, anchor=self._vocabulary.anchor)
        reply = await self._reply(body, timings)
        with understood(self._transport.where, LLAMA_CPP):
            listed = listed_logprobs(reply)
            beside = max(filter(self._is_whole, listed), key=listed.__getitem__)
        missing = [token for token in candidates if token not in listed]
        if missing:
            weighed = await self._reply(weighing_body(request, path, missing, beside=beside), timings)
            with understood(self._transport.where, LLAMA_CPP):
                listed |= _scaled(weighed, beside, listed[beside], missing)
        return {token: listed[token] for token in candidates}

    def _is_whole(self, token: int) -> bool:
        """Whether a token ends no character halfway."""
        return self._vocabulary.pieces[token].isascii()

    async def _reply(self, body: Mapping[str, Any], timings: list[Mapping[str, Any]]) -> dict[str, Any]:
        reply = await self._transport.ask("/completion", body)
        if not isinstance(reply, dict):
            raise ReplyMalformed(f"{self._transport.where} sent a completion that is no object: {str(reply)[:80]}")
        timings.append(reply.get("timings") or {})
        return reply


def listed_logprobs(reply: Mapping[str, Any]) -> dict[int, float]:
    """The log probabilities that a reply, or an event of a stream, lists for its first token."""
    listed = reply["completion_probabilities"][0]["top_logprobs"]
    return {int(entry["id"]): float(entry["logprob"]) for entry in listed}


def _scaled(reply: Mapping[str, Any], beside: int, scale: float, missing: Sequence[int]) -> dict[int, float]:
    listed = reply["completion_probabilities"][0]["top_probs"]
    weights = {int(entry["id"]): float(entry["prob"]) for entry in listed}
    base = math.log(weights[beside]) - AHEAD
    return {
        token: scale + (math.log(weight) - base if (weight := weights.get(token, 0.0)) > 0 else _LEAST)
        for token in missing
    }


def _usage(prompt_tokens: int, timings: Sequence[Mapping[str, Any]]) -> Usage:
    cached = timings[0].get("cache_n") if timings else None
    read = [timing.get("prompt_n") for timing in timings]
    return Usage(
        prompt_tokens=prompt_tokens,
        cached_tokens=None if cached is None else min(int(cached), prompt_tokens),
        restored_tokens=None,
        replayed_tokens=None,
        computed_tokens=None if None in read else sum(int(num or 0) for num in read),
    )
