"""Replies of SGLang in the words of the engine seam: usage, scores and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentform.errors import CacheBudgetExceeded, EngineError, GrammarError, InvalidRequest
from agentform.messages import Usage
from agentform.runtime.engine import ScoreRequest, ScoreResult
from agentform.runtime.sglang.wire.requests import PathCandidates

__all__ = ["ScoreReading", "completion_usage", "error_of", "raise_if_aborted"]

_GRAMMAR_FAULTS = ("Failed to compile", "Grammar preprocessing", "Grammar-based generation", "Grammar compilation")
_TOO_LONG = ("Input length", "exceeds the maximum allowed length", "max_req_input_len")


def completion_usage(prompt_tokens: int, meta: Mapping[str, Any] | None, *, num_sampled: int) -> Usage:
    """What a completion cost so far, from the `meta_info` of its last reply; unknown before the first one.

    SGLang does not say through which state a prefix was restored, what was replayed, nor why it missed.
    """
    cached = _count(meta, "cached_tokens")
    read = None if cached is None else prompt_tokens - cached
    return Usage(
        prompt_tokens=prompt_tokens,
        cached_tokens=cached,
        restored_tokens=None,
        replayed_tokens=None,
        computed_tokens=None if read is None else read + max(num_sampled - 1, 0),
        completion_tokens=num_sampled,
    )


class ScoreReading:
    """Collects the replies to one score; the first one says how much of the prompt was cached."""

    def __init__(self, request: ScoreRequest) -> None:
        self._request = request
        self._logprobs: dict[tuple[int, ...], dict[int, float]] = {}
        self._cached: int | None = None
        self._computed: int | None = 0
        self._num_replies = 0

    def warmed(self, reply: Mapping[str, Any]) -> None:
        """The prompt was read.

        Raises:
            AgentformError: what `raise_if_aborted` raises.
        """
        raise_if_aborted(reply)
        self._count(reply, len(self._request.prompt_ids))

    def answered(self, questions: Sequence[PathCandidates], replies: Sequence[Mapping[str, Any]]) -> None:
        """A batch came back, in the order asked.

        Raises:
            EngineError: for a reply that lacks what was asked.
        """
        for question, reply in zip(questions, replies, strict=True):
            raise_if_aborted(reply)
            self._count(reply, len(self._request.prompt_ids) + len(question.path))
            self._logprobs[question.path] = _logprobs(question, reply)

    def result(self) -> ScoreResult:
        """The answer, when every question was."""
        return ScoreResult(
            logprobs=tuple(
                tuple(self._logprobs[branch.path][token] for token in branch.candidates)
                for branch in self._request.branches
            ),
            usage=self._usage(),
        )

    def _usage(self) -> Usage:
        return Usage(
            prompt_tokens=len(self._request.prompt_ids),
            cached_tokens=self._cached,
            restored_tokens=None,
            replayed_tokens=None,
            computed_tokens=self._computed,
        )

    def _count(self, reply: Mapping[str, Any], num_tokens: int) -> None:
        cached = _count(reply.get("meta_info"), "cached_tokens")
        if self._num_replies == 0 and cached is not None:
            self._cached = min(cached, len(self._request.prompt_ids))
        if self._computed is not None:
            self._computed = None if cached is None else self._computed + num_tokens - cached
        self._num_replies += 1


def raise_if_aborted(reply: Mapping[str, Any]) -> None:
    """Look at the reason why a reply ended.

    Raises:
        GrammarError: SGLang gave the request up.
        InvalidRequest: SGLang gave the request up.
        CacheBudgetExceeded: SGLang gave the request up.
        EngineError: SGLang gave the request up.
    """
    reason = (reply.get("meta_info") or {}).get("finish_reason")
    if isinstance(reason, Mapping) and reason.get("type") == "abort":
        status = reason.get("status_code")
        raise error_of(str(reason.get("message") or "aborted"), status=int(status) if status else None)


def error_of(message: str, *, status: int | None = None) -> EngineError | GrammarError:
    """The typed error for what SGLang said, with its HTTP status where there was one."""
    said = " ".join(message.split())[:2000]
    if any(fault in said for fault in _GRAMMAR_FAULTS):
        return GrammarError(f"SGLang: {said}")
    if any(fault in said for fault in _TOO_LONG):
        return CacheBudgetExceeded(f"SGLang: {said}")
    return InvalidRequest(f"SGLang: {said}") if status == 400 else EngineError(f"SGLang: {said}")


def _logprobs(question: PathCandidates, reply: Mapping[str, Any]) -> dict[int, float]:
    """log p by token id; SGLang gives `[log p, id, text]` for each, at each position that was sampled at."""
    rows = (reply.get("meta_info") or {}).get("output_token_ids_logprobs") or [[]]
    found = {int(entry[1]): float(entry[0]) for entry in rows[0] or ()}
    missing = [token for token in question.candidates if token not in found]
    if missing:
        raise EngineError(f"SGLang gave no log probability for token ids {missing[:8]}")
    return found


def _count(meta: Mapping[str, Any] | None, key: str) -> int | None:
    value = (meta or {}).get(key)
    return int(value) if value is not None else None
