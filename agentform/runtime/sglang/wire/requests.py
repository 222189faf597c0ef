"""Requests of the engine seam in SGLang's words: bodies for its `generate`, the same in process and over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agentform.grammar.spec import GrammarSpec
from agentform.runtime.engine import GenerateRequest, Sampling, ScoreRequest

__all__ = [
    "MOST_BRANCHES",
    "Body",
    "PathCandidates",
    "ScorePlan",
    "generate_body",
    "in_batches",
    "most_new_tokens",
    "path_candidates",
    "plan_score",
    "score_body",
    "warm_body",
]

Body: TypeAlias = dict[str, Any]
"""Keyword arguments of SGLang's `GenerateReqInput`, and as JSON the body of `POST /generate`."""

MOST_BRANCHES = 64
"""Paths in one batch, unless a server allows fewer: what one message holds, and what one cancellation has to name."""


@dataclass(frozen=True, kw_only=True)
class PathCandidates:
    """The candidates that are asked for at the end of one path."""

    path: tuple[int, ...]
    candidates: tuple[int, ...]


def most_new_tokens(
    request: GenerateRequest, spec: GrammarSpec | None, encode: Callable[[str], Sequence[int]], context_tokens: int
) -> int:
    """What SGLang may sample: what surrounds a grammar's value is sampled too, and is not what `max_tokens` bounds."""
    if not request.max_tokens:
        return 0
    around = 0 if spec is None else sum(len(encode(text)) for text in (spec.lead, spec.follow))
    return min(request.max_tokens + around, context_tokens - len(request.prompt_ids))


def generate_body(
    request: GenerateRequest, *, eos_ids: Collection[int], grammar: Mapping[str, str], max_new_tokens: int
) -> Body:
    """A streamed completion. `grammar` is what `agentform.runtime.sglang.wire.grammars` made of the request's own.

    Stop strings travel too, so that SGLang ends by itself; where the text ends is decided here, by `Completion`.
    """
    sampling = request.sampling
    params: dict[str, Any] = {
        "max_new_tokens": max_new_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "sampling_seed": sampling.seed,
        "stop_token_ids": sorted(eos_ids),
        **_further(sampling),
        **grammar,
    }
    if request.stop:
        params["stop"] = [stop for stop in request.stop if stop]
    return {"input_ids": list(request.prompt_ids), "sampling_params": params, "stream": True, **_apart(request)}


def _further(sampling: Sampling) -> dict[str, Any]:
    """What is not as it is where nothing is said."""
    plain = Sampling()
    names = ("top_k", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty")
    return {name: getattr(sampling, name) for name in names if getattr(sampling, name) != getattr(plain, name)}


def warm_body(request: ScoreRequest) -> Body:
    """Read the prompt into the cache: a batch shares only what is there before it starts."""
    return {"input_ids": list(request.prompt_ids), "sampling_params": _read_only(), **_apart(request)}


def score_body(request: ScoreRequest, questions: Sequence[PathCandidates]) -> Body:
    """One batch of questions; each prompt goes on with its path, and the log p of its candidates comes back."""
    return {
        **_apart(request),
        "input_ids": [[*request.prompt_ids, *question.path] for question in questions],
        "sampling_params": _read_only(),
        "return_logprob": True,
        "token_ids_logprob": [list(question.candidates) for question in questions],
    }


def path_candidates(request: ScoreRequest) -> tuple[PathCandidates, ...]:
    """Every path once, in the order asked, with all candidates that any branch asks for there."""
    wanted: dict[tuple[int, ...], dict[int, None]] = {}
    for branch in request.branches:
        wanted.setdefault(branch.path, {}).update(dict.fromkeys(branch.candidates))
    return tuple(PathCandidates(path=path, candidates=tuple(ids)) for path, ids in wanted.items())


@dataclass(frozen=True, kw_only=True)
class ScorePlan:
    """How a score is asked: read the prompt first, if `warm`, then the batches one after the other."""

    warm: bool
    batches: tuple[Sequence[PathCandidates], ...]


def plan_score(request: ScoreRequest, most: int = MOST_BRANCHES) -> ScorePlan:
    """The prompt is read once: by the question at its own end where there is one, else before the batches.

    A single question needs neither.
    """
    questions = path_candidates(request)
    at_end = [question for question in questions if not question.path]
    others = [question for question in questions if question.path]
    batches = [batch for batch in (at_end, *in_batches(others, most)) if batch]
    return ScorePlan(warm=not at_end and len(others) != 1, batches=tuple(batches))


def in_batches(questions: Sequence[PathCandidates], most: int = MOST_BRANCHES) -> list[Sequence[PathCandidates]]:
    """Cut into batches of at most `most`."""
    return [questions[start : start + most] for start in range(0, len(questions), most)]


def _apart(request: GenerateRequest | ScoreRequest) -> dict[str, Any]:
    """SGLang finds a prefix only under the key that it was kept under."""
    return {"extra_key": request.cache_salt} if request.cache_salt else {}


def _read_only() -> dict[str, Any]:
    # At temperature 0 SGLang divides by nothing, so that log p is the full softmax's own.
    return {"max_new_tokens": 0, "temperature": 0.0}
