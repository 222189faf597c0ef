"""How a model is loaded is said in the same words to every command that loads one."""

from __future__ import annotations

import json

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from agentform.cli.app import app
from agentform.cli.engine_settings import EngineSettings, size_in_bytes
from agentform.errors import InvalidRequest

FLAGS = {
    "--engine": ("engine", "torch"),
    "--device": ("device", "cpu"),
    "--dtype": ("dtype", "float32"),
    "--kv-budget": ("kv_budget_bytes", 1 << 29),
    "--host-budget": ("host_budget_bytes", 2_000_000),
    "--kv-bits": ("kv_bits", 8),
    "--snapshots": ("snapshots", "balanced"),
    "--num-threads": ("num_threads", 1),
}
AS_WRITTEN = {"--kv-budget": "0.5GiB", "--host-budget": "2 MB"}


@pytest.fixture
def shown_options(tmp_path, monkeypatch):
    """The model's name; an engine of this name is refused with what it was given."""
    (tmp_path / "refusing.py").write_text(
        "import json\n"
        "from agentform.errors import InvalidRequest\n"
        "def engine(**options):\n"
        "    raise InvalidRequest(json.dumps(options, default=str))\n"
        "def form(size: bool) -> None:\n"
        "    'A form.'\n"
    )
    (tmp_path / "text.txt").write_text("a text")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "refusing:engine"


@pytest.mark.parametrize(
    "command",
    [("fill", "refusing:form", "--text", "text.txt"), ("chat",), ("serve", "--port", "0"), ("mcp",)],
    ids=lambda command: command[0],
)
def test_every_command_hands_all_of_it_to_the_engine(command, shown_options):
    said = [each for flag, (_, value) in FLAGS.items() for each in (flag, AS_WRITTEN.get(flag, str(value)))]
    arguments = [*command, "--model", shown_options, "--cache-dir", "kept", *said]
    with pytest.raises(InvalidRequest) as refused:
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert json.loads(str(refused.value)) == {"cache_dir": "kept", **dict(FLAGS.values())}


@pytest.mark.parametrize(
    ("text", "num"),
    [("1000", 1000), ("0.5GiB", 1 << 29), ("8 gib", 8 << 30), ("500MB", 500_000_000), ("3k", 3000), ("7B", 7)],
)
def test_sizes_are_written_as_people_do(text, num):
    assert size_in_bytes(text) == num


@given(st.text(max_size=8))
def test_what_is_no_size_is_refused_with_one_that_is(text):
    try:
        assert size_in_bytes(text) >= 0
    except typer.BadParameter as error:
        assert "8GiB" in str(error)  # noqa: PT017 - most texts are none


def test_only_what_was_said_is_given():
    assert EngineSettings(kv_bits=8).given() == {"kv_bits": 8}
    assert EngineSettings().given() == {}
