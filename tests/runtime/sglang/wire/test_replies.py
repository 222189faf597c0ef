from __future__ import annotations

import pytest

from agentform.errors import CacheBudgetExceeded, EngineError, GrammarError, InvalidRequest
from agentform.runtime.engine import Branch, ScoreRequest
from agentform.runtime.sglang.wire.replies import ScoreReading, error_of, raise_if_aborted
from agentform.runtime.sglang.wire.requests import path_candidates

REQUEST = ScoreRequest(
    prompt_ids=(5, 6, 7), branches=(Branch(path=(), candidates=(1, 2, 1)), Branch(path=(8, 9), candidates=(3,)))
)


def reply(logprobs=None, cached=None, **meta):
    if logprobs is not None:
        meta["output_token_ids_logprobs"] = [[[value, token, None] for token, value in logprobs.items()]]
    return {"meta_info": {"cached_tokens": cached, "finish_reason": {"type": "length"}, **meta}}


def read(first, second, warm=None):
    reading = ScoreReading(REQUEST)
    if warm is not None:
        reading.warmed(warm)
    reading.answered(path_candidates(REQUEST), [first, second])
    return reading.result()


def test_scores_come_back_in_the_order_asked():
    result = read(reply({2: -2.0, 1: -1.0}, 0), reply({3: -3.0}, 3))
    assert result.logprobs == ((-1.0, -2.0, -1.0), (-3.0,))


def test_usage_counts_the_prompt_once_and_all_that_was_computed():
    usage = read(reply({1: -1.0, 2: -2.0}, 2), reply({3: -3.0}, 3), warm=reply(cached=1)).usage
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (3, 1, 0)
    assert usage.computed_tokens == (3 - 1) + (3 - 2) + (5 - 3)


def test_what_sglang_does_not_say_is_unknown():
    usage = read(reply({1: -1.0, 2: -2.0}), reply({3: -3.0}, 3)).usage
    assert (usage.cached_tokens, usage.computed_tokens) == (None, None)
    assert (usage.restored_tokens, usage.replayed_tokens, usage.miss) == (None, None, None)


def test_a_missing_candidate_is_an_error_and_never_a_guess():
    with pytest.raises(EngineError, match=r"no log probability for token ids \[2\]"):
        read(reply({1: -1.0}, 0), reply({3: -3.0}, 0))


@pytest.mark.parametrize(
    ("message", "status", "kind"),
    [
        ("Failed to compile ebnf grammar: Expected ')'", 400, GrammarError),
        ("Input length (9000) exceeds the maximum allowed length (4091).", 400, CacheBudgetExceeded),
        ("top_p must be in (0, 1], got 2.", 400, InvalidRequest),
        ("The request is aborted.", None, EngineError),
        ("out of memory", 500, EngineError),
    ],
)
def test_errors_are_typed_and_keep_what_was_said(message, status, kind):
    reason = {"type": "abort", "message": message, "status_code": status}
    with pytest.raises(kind) as caught:
        raise_if_aborted({"meta_info": {"finish_reason": reason}})
    assert type(caught.value) is kind
    assert message in str(caught.value)


def test_long_messages_are_cut():
    assert len(str(error_of("x " * 10_000))) < 2100
