"""Tuned settings in the user's cache folder."""

import pytest

from agentform import Scoring
from agentform.errors import InvalidInput
from agentform.runtime.models import tuned_scoring
from agentform.runtime.models.tuned_scoring import known_scoring, read_scoring, scoring_file, write_scoring
from tests.support.recording_engine import RecordingEngine


def test_settings_survive_and_belong_to_one_model(tmp_path):
    write_scoring("a:bf16", {"calibration": 0.5}, home=tmp_path)
    assert read_scoring("a:bf16", home=tmp_path) == {"calibration": 0.5}
    assert read_scoring("a:f32", home=tmp_path) == {}


def test_what_was_measured_gives_way_to_what_the_user_tuned_and_to_a_newer_measurement(tmp_path, monkeypatch):
    assert known_scoring("m", home=tmp_path).source == "defaults"
    facts = {"examples": 32, "held_out": 0.8, "held_out_default": 0.7}
    measured = write_scoring("m", {"calibration": 0.5}, measured=facts, home=tmp_path)
    known = known_scoring("m", home=tmp_path)
    assert (known.source, known.file, known.facts, known.settings) == (
        "measured",
        measured,
        facts,
        {"calibration": 0.5},
    )
    tuned = write_scoring("m", {"calibration": 0.7}, home=tmp_path)
    assert tuned != measured
    assert (known_scoring("m", home=tmp_path).source, read_scoring("m", home=tmp_path)) == (
        "tuned",
        {"calibration": 0.7},
    )
    tuned.unlink()
    monkeypatch.setattr(tuned_scoring, "MEASUREMENT", tuned_scoring.MEASUREMENT + 1)
    assert read_scoring("m", home=tmp_path) == {}


@pytest.mark.parametrize("damage", ["{", "[1]", '{"version": 1, "scoring": 3}'])
def test_a_damaged_measurement_is_named_too(damage, tmp_path):
    write_scoring("m", {}, measured={}, home=tmp_path).write_text(damage)
    with pytest.raises(InvalidInput, match=r"\.measured\.json is damaged .*delete it"):
        read_scoring("m", home=tmp_path)


@pytest.mark.parametrize("damage", ["", "{", "[1]"])
def test_a_damaged_file_is_named_not_ignored(damage, tmp_path):
    write_scoring("m", {"calibration": 0.5}, home=tmp_path)
    scoring_file("m", home=tmp_path).write_text(damage)
    with pytest.raises(InvalidInput, match=r"is damaged .*delete it"):
        read_scoring("m", home=tmp_path)


def test_settings_become_the_defaults_for_their_model():
    engine = RecordingEngine()
    assert Scoring.of(engine) == Scoring()
    engine.info.scoring.update(lead_in="described", calibration=0.5)
    assert Scoring.of(engine) == Scoring(lead_in="described", calibration=0.5)
    engine.info.scoring.update(colour="red")
    with pytest.raises(InvalidInput, match="colour"):
        Scoring.of(engine)
