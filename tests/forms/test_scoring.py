"""Questions answered in one batch, and the limits below which no answer is given."""

from __future__ import annotations

import math

import pytest

from agentform.decoding.insertion_point import unframed
from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.decoding.token_context import TokenContext
from agentform.errors import Abstained
from agentform.forms.answer import Answer, Question
from agentform.forms.scoring import Scoring, choose, require_confidence
from tests.support.recording_engine import RecordingEngine


def question(texts, groups, answers, path=("a",)):
    return Question(path=path, kind="value", lead="", texts=tuple(texts), groups=tuple(groups), answers=tuple(answers))


def by_byte(weights):
    return lambda prompt, branch: tuple(math.log(weights[chr(c)]) for c in branch.candidates)


@pytest.mark.anyio
async def test_all_questions_go_out_in_one_request_and_texts_of_one_answer_add_up():
    engine = RecordingEngine(score_branch=by_byte({"x": 0.3, "y": 0.2, "z": 0.2, "p": 0.1, "q": 0.5}))
    session = Session(engine, limits=Limits())
    asked = [question("xyz", [0, 1, 1], ["X", "YZ"]), question("pq", [0, 1], [None, 2], path=("b", "c/d"))]
    first, second = await choose(
        session, unframed(TokenContext(ids=(65,), tail="t")), asked, scoring=Scoring(), priors=None
    )
    assert len(engine.scored) == 1
    assert bytes(engine.scored[0].prompt_ids) == b"At"  # what all have in common is prompt, and stays in the cache
    assert [b.path for b in engine.scored[0].branches] == [(), ()]
    assert (first.value, second.value) == ("YZ", 2)
    assert first.probabilities == pytest.approx((3 / 7, 4 / 7))
    assert first.legal_mass == pytest.approx(0.7)
    evidence = second.evidence()
    assert (evidence.pointer, evidence.value, evidence.how) == ("/b/c~1d", 2, "scored")
    assert evidence.probability == pytest.approx(5 / 6)
    assert [(a.value, round(a.probability, 6)) for a in evidence.alternatives] == [(None, round(1 / 6, 6))]


def test_evidence_names_the_three_best_others_in_order():
    answer = Answer(
        question=question("abcde", range(5), "abcde"),
        index=1,
        probabilities=(0.1, 0.2, 0.4, 0.25, 0.05),
        raw_probabilities=(0.2,) * 5,
        legal_mass=0.5,
    )
    assert [a.value for a in answer.evidence().alternatives] == ["c", "d", "a"]


def answered(probability, legal_mass):
    return Answer(
        question=question("ab", [0, 1], "ab"),
        index=0,
        probabilities=(probability, 1 - probability),
        raw_probabilities=(probability, 1 - probability),
        legal_mass=legal_mass,
    )


@pytest.mark.parametrize(
    ("limits", "what"),
    [(Limits(min_probability=0.7), "probability 0.6"), (Limits(min_legal_mass=0.4), "legal mass 0.3")],
)
def test_an_answer_below_a_limit_is_an_abstention_with_the_evidence_of_all(limits, what):
    answers = [answered(0.9, 0.9), answered(0.6, 0.3)]
    with pytest.raises(Abstained, match=rf"'/a': {what} is below") as caught:
        require_confidence(answers, limits)
    assert [e.probability for e in caught.value.evidence] == [0.9, 0.6]


def test_an_answer_at_the_limit_passes():
    require_confidence([answered(0.6, 0.3)], Limits(min_probability=0.6, min_legal_mass=0.3))
    require_confidence([answered(0.01, 0.01)], Limits())
