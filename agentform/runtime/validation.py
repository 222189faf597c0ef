"""What a request must be before the worker sees it."""

from __future__ import annotations

import math

from agentform.errors import ContextOverflow, InvalidRequest
from agentform.runtime.engine import GenerateRequest, ModelInfo, ScoreRequest

__all__ = ["check_generate", "check_score"]


def check_generate(request: GenerateRequest, info: ModelInfo) -> None:
    """Refuse a completion that cannot be served.

    Raises:
        InvalidRequest: the request is malformed, such as a token id outside the vocabulary.
        ContextOverflow: prompt and completion together do not fit the model's context.
    """
    _check_ids(request.prompt_ids, "prompt", info)
    if request.max_tokens < 0:
        raise InvalidRequest(f"max_tokens is {request.max_tokens}")
    if request.sampling.temperature < 0 or not 0 < request.sampling.top_p <= 1:
        raise InvalidRequest(f"temperature must be at least 0 and top_p in (0, 1]: {request.sampling}")
    if request.sampling.top_k < 0 or not 0 <= request.sampling.min_p <= 1 or request.sampling.repetition_penalty <= 0:
        raise InvalidRequest(f"top_k at least 0, min_p in [0, 1], repetition_penalty above 0: {request.sampling}")
    sampling = request.sampling
    drawn_by = (
        sampling.temperature,
        sampling.repetition_penalty,
        sampling.frequency_penalty,
        sampling.presence_penalty,
    )
    if not all(map(math.isfinite, drawn_by)):
        raise InvalidRequest(f"temperature and penalties must be finite: {sampling}")
    if len(request.prompt_ids) >= info.context_tokens:
        raise ContextOverflow(prompt_tokens=len(request.prompt_ids), context_tokens=info.context_tokens)


def check_score(request: ScoreRequest, info: ModelInfo) -> None:
    """Refuse a score that cannot be served.

    Raises:
        InvalidRequest: the request is malformed, such as a token id outside the vocabulary.
        ContextOverflow: prompt and completion together do not fit the model's context.
    """
    _check_ids(request.prompt_ids, "prompt", info)
    longest = 0
    for branch in request.branches:
        longest = max(longest, len(branch.path))
        if branch.path:
            _check_ids(branch.path, "branch", info)
        _check_ids(branch.candidates, "candidates", info)
    if len(request.prompt_ids) + longest > info.context_tokens:
        raise ContextOverflow(
            prompt_tokens=len(request.prompt_ids), completion_tokens=longest, context_tokens=info.context_tokens
        )


def _check_ids(ids: tuple[int, ...], what: str, info: ModelInfo) -> None:
    if not ids:
        raise InvalidRequest(f"empty {what}")
    if min(ids) < 0 or max(ids) >= info.vocabulary_size:
        raise InvalidRequest(f"{what} has token ids outside [0, {info.vocabulary_size})")
