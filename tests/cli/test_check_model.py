"""`agentform models check` tells what was learned of a template, from a file, a folder or a model."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from agentform.cli.app import app
from agentform.errors import ModelNotFound
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
