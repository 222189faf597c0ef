"""The command line, as a user runs it."""

import io
import json
import subprocess
import sys

import pytest
from rich.console import Console

from agentform.cli.app import main
from agentform.cli.demo.script import default_script, read_script
from agentform.cli.demo.view import Cost, cost_table
from agentform.errors import InvalidInput
from agentform.messages import Usage


def run(*arguments: str, cwd=None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agentform", *arguments], capture_output=True, text=True, timeout=580, cwd=cwd
    )


def test_plan_of_a_function_says_how_each_leaf_is_filled_and_why(tmp_path):
    (tmp_path / "shop.py").write_text(
        "from typing import Literal\n"
        "def order(size: Literal['S', 'M'], gift: bool, note: str | None = None) -> str:\n"
        "    'Order a shirt.'\n"
        "    return ''\n"
    )
    done = run("plan", "shop:order", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "/size" in done.stdout
    assert '"S" | "M"' in done.stdout
    assert "enum of 2" in done.stdout
    assert "choice of arm" in done.stdout
    assert "free" in done.stdout


def test_plan_of_a_schema_file_lists_what_is_left_to_validation(tmp_path):
    schema = {
        "type": "object",
        "properties": {"a": {"type": "boolean"}, "b": {"const": 3}},
        "required": ["a", "b"],
        "dependentRequired": {"a": ["b"]},
    }
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    done = run("plan", "schema.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "fixed" in done.stdout
    assert "left to validation" in done.stdout


def test_plan_says_what_the_grammar_leaves_to_validation_and_lint_what_to_write_instead(tmp_path):
    schema = {
        "type": "object",
        "properties": {"code": {"type": "string", "pattern": "^(?=a)[a-z]+$"}, "tags": {"type": "array"}},
        "required": ["code", "tags"],
        "additionalProperties": False,
    }
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    done = run("plan", "schema.json", "--lint", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "not in the grammar, left to validation: /code" in done.stdout
    assert "nothing is needlessly open" not in done.stdout
    assert "/tags: " in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("plan", "no_such_module:f"), "cannot import 'no_such_module'"),
        (("plan", "json:no_such"), "has no attribute 'no_such'"),
        (("plan", "missing.json"), "cannot read missing.json"),
        (("models", "fetch", "no-such-model"), "smollm2-135m"),
        (("demo", "--input", "missing.txt"), "cannot read messages from missing.txt"),
    ],
)
def test_bad_input_is_one_line_on_stderr_and_a_failing_status(arguments, said, tmp_path):
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_models_list_names_the_demo_model():
    done = run("models", "list")
    assert done.returncode == 0, done.stderr
    assert "smollm2-135m" in done.stdout


def test_script_blocks_are_customers_and_comments_are_left_out(tmp_path):
    file = tmp_path / "messages.txt"
    file.write_text("# a comment\n\nfirst\nsecond\n\n\n  third  \n")
    assert read_script(file) == [["first", "second"], ["third"]]


def test_script_that_comes_with_the_demo_has_at_least_ten_messages():
    assert sum(map(len, read_script(default_script()))) >= 10


@pytest.mark.parametrize("content", [b"", b"# only a comment\n", b"\xff\xfe"])
def test_script_without_a_message_is_refused(content, tmp_path):
    file = tmp_path / "messages.txt"
    file.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"messages\.txt"):
        read_script(file)


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_table_of_costs_shows_every_number_whole(width):
    usage = Usage(computed_tokens=12_345, cached_tokens=None, completion_tokens=6_789, reasoning_tokens=42)
    costs = [Cost(message="Where is my order? " * 20, usage=usage, seconds=21.5)]
    console = Console(width=width, file=io.StringIO())
    console.print(cost_table(costs, load_s=1.0, width=width))
    lines = console.file.getvalue().splitlines()
    [row] = [line for line in lines if "Where" in line]
    assert [cell.strip() for cell in row.strip("│ ").split("│")][1:] == ["12,345", "?", "6,789", "42", "21.50"]
    assert max(map(len, lines)) <= width


@pytest.mark.model
def test_demo_decides_every_call_and_accounts_for_it(weights_folder, tmp_path):
    file = tmp_path / "messages.txt"
    file.write_text("Where is my order AB-1042?\n\nPlease call me tomorrow at 10.\n")
    done = run("demo", "--input", str(file), "--model", str(weights_folder))
    assert done.returncode == 0, done.stderr
    assert "→ " in done.stdout
    assert "legal mass" in done.stdout
    assert "What it cost" in done.stdout
    assert "Where is my order AB-1042?" in done.stdout


def test_doctor_and_version_say_what_is_here(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("AGENTFORM_HOME", str(tmp_path))
    for arguments, shown in ((["--version"], ["agentform 0."]), (["doctor"], ["cores", "[mcp]", "not fetched: "])):
        monkeypatch.setattr("sys.argv", ["agentform", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out = capsys.readouterr().out
        assert not ended.value.code
        assert all(text in out for text in shown), out
