"""The coherence benchmark, without a model."""

import math
import sys

import pytest

from agentform import Scoring, YesNo
from agentform.errors import MissingDependency
from agentform.testing import Fill, ScriptedEngine
from benchmarks.coherence.asking import Asking
from benchmarks.coherence.labelled import Labelled, ask, fitted_temperature, scored
from benchmarks.coherence.trials import measure as measure_trials

BODIES = {"late": {"type": "noul", "instructions": "Is it late?"}}


def asking(*, again: bool = False) -> Asking:
    return Asking(engine=ScriptedEngine([Fill("late", {"answer": True})]), scoring=Scoring(), again=again)


def test_a_question_is_asked_once_unless_it_is_to_be_asked_again():
    for again, decisions in ((False, 1), (True, 2)):
        own = asking(again=again)
        first = own.answers({"hour": 22}, BODIES)
        assert own.answers({"hour": 22}, {"other": BODIES["late"]}) == {"other": first["late"]}
        assert first["late"]["noul"] > 0.5
        assert own.decisions == decisions


def test_without_jevbench_the_trials_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jevbench", None)
    with pytest.raises(MissingDependency, match="pip install jevbench"):
        measure_trials(asking().answers, name="x", num_cases=1)


def test_right_answers_and_their_probabilities_are_counted():
    rows = [Labelled(text="It is ten.", asked=YesNo("Is it late?"), gold=(gold,)) for gold in (True, False)]
    engine = ScriptedEngine([Fill("late", {"answer": True})], probability=0.9)
    decided = ask(Asking(engine=engine, scoring=Scoring(calibration=0)), rows)
    score = scored(rows, decided)
    assert (score.right, score.answers) == (1, (True, False))
    assert score.log_loss == pytest.approx(-(math.log(0.9) + math.log(0.1)) / 2, abs=0.01)
    assert fitted_temperature(rows[:1], decided[:1]) < 1 < fitted_temperature(rows, decided)


def test_answers_are_replayed_at_another_temperature_without_the_model():
    own = asking()
    sure, hot = (one.answers("x", BODIES)["late"]["noul"] for one in (own, own.replayed(4.0)))
    assert own.decisions == 1
    assert 0.5 < hot < sure
