from __future__ import annotations

from typer.testing import CliRunner

from agentform.cli.app import app
from agentform.runtime.model_facts import facts_of
from tests.support.extras import needs_llama_cpp
from tests.support.gguf_zoo import write_tiny_gguf

pytestmark = needs_llama_cpp


def test_a_file_is_told_of_in_lines(tmp_path):
    file = write_tiny_gguf("window", tmp_path / "tiny.gguf")
    facts = dict(facts_of(str(file)))
    assert facts["engine"] == "llama_cpp"
    assert facts["context"] == "512 tokens"
    assert facts["layers"] == "some with a window of 24 tokens"
    assert facts["chat template"] == "yes"
    assert "bfloat16" in facts["machine"]


def test_layers_with_a_state_are_told_of(tmp_path):
    assert "snapshots" in dict(facts_of(str(write_tiny_gguf("mamba2", tmp_path / "tiny.gguf"))))["layers"]


def test_the_command_prints_them_or_what_is_wrong(tmp_path):
    file = write_tiny_gguf("attention", tmp_path / "tiny.gguf")
    said = CliRunner().invoke(app, ["models", "engine", str(file)])
    assert said.exit_code == 0
    assert "engine\tllama_cpp" in said.stdout
    assert CliRunner().invoke(app, ["models", "engine", str(file), "--engine", "torch"]).exit_code != 0
