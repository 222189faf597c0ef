"""Requests of the engine seam in the words of llama.cpp's server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agentform.runtime.engine import GenerateRequest, Sampling

__all__ = ["AHEAD", "LISTED", "completion_body", "listing_body", "most_tokens", "read_body", "weighing_body"]

AHEAD = 12.0
"""How much further the token is lifted that candidates are weighed against, so that it is the one that is drawn."""

LISTED = 64
"""Most probable tokens that are told beside each token that is followed by a grammar here."""
_BIAS = 200.0
"""Lifts candidates above all other tokens; further up, a float's digits would not tell them apart."""
_SEEDS = 1 << 31


def completion_body(
    request: GenerateRequest,
    *,
    written: Sequence[int],
    left: int,
    grammar: str = "",
    listed: int = 0,
    nth: int = 0,
    stream: bool = True,
) -> dict[str, Any]:
    """What goes on after `written`; `nth` requests of this completion went before.

    Stop strings stay here: the server would keep back the tokens that spell them.
    """
    body = {
        **_prompt(request, (*request.prompt_ids, *written)),
        "n_predict": left,
        "stream": stream,
        "timings_per_token": True,
        **_drawn_by(request.sampling, nth, left + len(written)),
    }
    if grammar:
        body["grammar"] = f"%llguidance {{}}\n{grammar}"
    return {**body, "n_probs": listed} if listed else body


def read_body(request: Any) -> dict[str, Any]:
    """Read the prompt into the cache."""
    return {**_prompt(request, request.prompt_ids), "n_predict": 0}


def listing_body(request: Any, path: Sequence[int], num: int, *, anchor: int) -> dict[str, Any]:
    """The `num` most probable tokens after `path`, under the full softmax; the bias moves what is written only."""
    return {
        **_prompt(request, (*request.prompt_ids, *path)),
        "n_predict": 1,
        "n_probs": num,
        "temperature": 0.0,
        "logit_bias": [[anchor, _BIAS]],
    }


def weighing_body(request: Any, path: Sequence[int], candidates: Sequence[int], *, beside: int) -> dict[str, Any]:
    """How probable the candidates are beside one token: all others are left far behind."""
    return {
        **_prompt(request, (*request.prompt_ids, *path)),
        "n_predict": 1,
        "n_probs": len(candidates) + 1,
        "post_sampling_probs": True,
        "temperature": 1.0,
        "samplers": ["temperature"],
        "logit_bias": [[beside, _BIAS + AHEAD], *([token, _BIAS] for token in candidates)],
    }


def most_tokens(request: GenerateRequest, encode: Callable[[str], Sequence[int]], context_tokens: int) -> int:
    """What the server may write: what surrounds a grammar's value is written too, and not what `max_tokens` bounds."""
    spec = request.grammar
    around = 0 if spec is None else sum(len(encode(text)) for text in (spec.lead, spec.follow))
    return min(request.max_tokens + around, context_tokens - len(request.prompt_ids))


def _prompt(request: Any, ids: Sequence[int]) -> dict[str, Any]:
    """Salted requests use no cache: the server has one for all."""
    return {"prompt": list(ids), "cache_prompt": not request.cache_salt, "return_tokens": True}


def _drawn_by(sampling: Sampling, nth: int, window: int) -> dict[str, Any]:
    """Every sampler that the server has by default and that was not asked for is off."""
    return {
        "samplers": ["penalties", "top_k", "top_p", "min_p", "temperature"],
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "repeat_penalty": sampling.repetition_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "presence_penalty": sampling.presence_penalty,
        "repeat_last_n": window if sampling.penalises else 0,
        "seed": (sampling.seed + nth * 7919) % _SEEDS,
    }
