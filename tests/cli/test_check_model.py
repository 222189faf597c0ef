"""`agentform models check` tells what was learned of a template, from a file, a folder or a model."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from agentform.cli.app import app
from agentform.errors import ModelNotFound
from agentform.runtime.models.tuned_scoring import write_scoring
from tests.support.call_templates import CALL_TEMPLATES, THINKING_TEMPLATES
from tests.support.tiny_tokenizer import CHATML, write_tiny_tokenizer


def check(*arguments):
    result = CliRunner().invoke(app, ["models", "check", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


@pytest.mark.parametrize("name", CALL_TEMPLATES)
def test_a_template_file_is_enough(tmp_path, name):
    path = tmp_path / "model.jinja"
    path.write_text(CALL_TEMPLATES[name], encoding="utf-8")
    data = json.loads(check(path, "--json"))
    assert data["calls"]["native"] is True
    assert "get_weather" in data["calls"]["format"]["example"]
    assert {"reasoning", "rules", "control", "warnings"} < data.keys()
    assert check(path).startswith("calls: native")


def test_a_folder_with_a_template_alone_is_enough(tmp_path):
    (tmp_path / "chat_template.jinja").write_text(THINKING_TEMPLATES["a thought that the prompt opens"])
    data = json.loads(check(tmp_path, "--json"))
    assert data["reasoning"]["opened"] is True
    assert data["reasoning"]["switches"] == ["enable_thinking"]


def test_with_a_tokenizer_it_says_which_marks_are_control_tokens(tmp_path):
    folder = write_tiny_tokenizer(tmp_path, template=CALL_TEMPLATES["a JSON object between marks"])
    data = json.loads(check(folder, "--json"))
    assert {"text": "<tool_call>", "is_control": True} in data["control"]
    plain = json.loads(check(write_tiny_tokenizer(tmp_path / "plain", template=CHATML), "--json"))
    assert plain["calls"]["native"] is False
    assert "knows no tools" in plain["calls"]["reason"]
    assert any("default format" in warning for warning in plain["warnings"])


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(ModelNotFound, match="no file"):
        check(tmp_path / "nothing.jinja")
    with pytest.raises(ModelNotFound, match="no chat template"):
        check(tmp_path)


def test_how_a_model_is_scored_is_told_with_where_that_is_from(monkeypatch, tmp_path):
    monkeypatch.setattr("agentform.runtime.models.tuned_scoring.cache_home", lambda: tmp_path)
    monkeypatch.setattr("agentform.runtime.model_facts.digest_of_file", lambda name: "m")
    folder = write_tiny_tokenizer(tmp_path / "model", template=CHATML)
    assert json.loads(check(folder, "--json"))["scoring"]["source"] == "defaults"
    assert "scoring: the defaults (nothing was measured" in check(folder)
    facts = {"examples": 32, "held_out": 0.75, "held_out_default": 0.5}
    write_scoring("m", {"calibration": 0.5, "lead_in": "key"}, measured=facts)
    shown = check(folder)
    assert "scoring: calibration=0.5 (measured by" in shown
    assert "half of 32 examples that was held out: 0.75, with the defaults 0.50" in shown
    write_scoring("m", {"calibration": 0.7})
    assert "scoring: calibration=0.7 (found by" in check(folder)


def test_of_a_model_that_would_have_to_be_loaded_it_is_not_told_how_it_is_scored(tmp_path):
    folder = write_tiny_tokenizer(tmp_path, template=CHATML)
    assert json.loads(check(folder, "--json"))["scoring"] is None
    assert "scoring:" not in check(folder)
