from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentform.runtime.engine import Branch, GenerateRequest, Sampling, ScoreRequest
from agentform.runtime.sglang.wire.requests import (
    generate_body,
    in_batches,
    path_candidates,
    plan_score,
    score_body,
    warm_body,
)

PATHS = st.lists(st.integers(0, 5), max_size=3).map(tuple)
BRANCHES = st.lists(st.builds(lambda p, c: Branch(path=p, candidates=tuple(c)), PATHS, st.lists(st.integers(0, 9))))


def test_a_completion_in_sglangs_words():
    request = GenerateRequest(
        prompt_ids=(5, 6), max_tokens=9, stop=("", "end"), sampling=Sampling(temperature=0.5, top_p=0.9, seed=3)
    )
    body = generate_body(request, eos_ids={7, 2}, grammar={"ebnf": "start: /a/"}, max_new_tokens=12)
    assert body == {
        "input_ids": [5, 6],
        "stream": True,
        "sampling_params": {
            "max_new_tokens": 12,
            "temperature": 0.5,
            "top_p": 0.9,
            "sampling_seed": 3,
            "stop_token_ids": [2, 7],
            "stop": ["end"],
            "ebnf": "start: /a/",
        },
    }


def test_a_score_samples_nothing_and_asks_for_each_path_its_own_candidates():
    branches = (
        Branch(path=(), candidates=(1,)),
        Branch(path=(8,), candidates=(2, 3)),
        Branch(path=(), candidates=(4,)),
    )
    request = ScoreRequest(prompt_ids=(5,), branches=branches)
    body = score_body(request, path_candidates(request))
    assert body["input_ids"] == [[5], [5, 8]]
    assert body["token_ids_logprob"] == [[1, 4], [2, 3]]
    assert body["sampling_params"]["max_new_tokens"] == warm_body(request)["sampling_params"]["max_new_tokens"] == 0


def test_a_salt_is_the_key_under_which_sglang_keeps_a_prefix():
    score = ScoreRequest(prompt_ids=(5,), branches=(Branch(path=(), candidates=(1,)),), cache_salt="s")
    generate = GenerateRequest(prompt_ids=(5,), max_tokens=1, cache_salt="s")
    for body in (
        warm_body(score),
        score_body(score, path_candidates(score)),
        generate_body(generate, eos_ids=(), grammar={}, max_new_tokens=1),
    ):
        assert body["extra_key"] == "s"


@given(BRANCHES, st.integers(1, 4))
def test_batches_hold_every_question_once_and_in_order(branches, most):
    questions = path_candidates(ScoreRequest(prompt_ids=(1,), branches=tuple(branches)))
    batches = in_batches(questions, most)
    assert [question for batch in batches for question in batch] == list(questions)
    assert all(1 <= len(batch) <= most for batch in batches)
    asked = {(question.path, token) for question in questions for token in question.candidates}
    assert asked == {(branch.path, token) for branch in branches for token in branch.candidates}
    assert len({question.path for question in questions}) == len(questions)


@given(BRANCHES, st.integers(1, 4))
def test_a_plan_reads_the_prompt_before_any_batch(branches, most):
    plan = plan_score(ScoreRequest(prompt_ids=(1,), branches=tuple(branches)), most)
    asked = [question.path for batch in plan.batches for question in batch]
    assert sorted(asked) == sorted({branch.path for branch in branches})
    if len(asked) > 1:
        assert plan.warm or list(plan.batches[0]) == [question for question in plan.batches[0] if not question.path]
    assert plan.warm == (() not in asked and len(asked) != 1)
