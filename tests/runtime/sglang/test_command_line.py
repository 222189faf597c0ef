"""The command line takes a server's address where it takes a model's name."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from agentform.cli.app import app

SERVER = pytest.mark.parametrize("fake", ["server"], indirect=True)
FORM = {"type": "object", "properties": {"urgent": {"type": "boolean"}}, "required": ["urgent"]}


@pytest.fixture
def files(tmp_path):
    (tmp_path / "form.json").write_text(json.dumps(FORM))
    (tmp_path / "mail.txt").write_text("hello")
    return tmp_path


@SERVER
def test_fill_takes_an_address(listening, files, fake):
    arguments = ["fill", str(files / "form.json"), "--text", str(files / "mail.txt"), "--json"]
    done = CliRunner().invoke(app, [*arguments, "--model", f"{listening.url}#{fake.folder}"], catch_exceptions=False)
    assert done.exit_code == 0
    assert json.loads(done.stdout.splitlines()[-1])["value"].keys() == {"urgent"}
    assert fake.requests_of()


@SERVER
def test_chat_takes_an_address(listening):
    done = CliRunner().invoke(app, ["chat", "--model", listening.url], input="hello\n", catch_exceptions=False)
    assert done.exit_code == 0
