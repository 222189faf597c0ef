"""What a server answered, as Berkeley's checker takes it, and the run over a checker and servers that stand in."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest
from rich.console import Console

from agentform.errors import InvalidInput
from benchmarks.bfcl import report
from benchmarks.bfcl.asking import Answer, answer_of
from benchmarks.common.harness import Context

TOOL = {
    "type": "function",
    "function": {
        "name": "area",
        "parameters": {"type": "object", "properties": {"side": {"type": "integer"}}, "required": ["side"]},
    },
}


def reply(*calls, text=None):
    made = [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]
    message = {"role": "assistant", "content": text, "tool_calls": made or None}
    return {"choices": [{"message": message}], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}


@pytest.mark.parametrize(
    ("calls", "read", "invalid"),
    [
        ([], [], 0),
        ([("area", '{"side": 3}')], [{"area": {"side": 3}}], 0),
        ([("area", '{"side": 3}'), ("area", '{"side": 4}')], [{"area": {"side": 3}}, {"area": {"side": 4}}], 0),
        ([("area", '{"side": "3"}')], [{"area": {"side": "3"}}], 1),
        ([("volume", '{"side": 3}')], [{"volume": {"side": 3}}], 1),
        ([("area", '{"side": ')], [{"area": {}}], 1),
    ],
)
def test_calls_are_read_and_those_that_no_tool_takes_are_counted(calls, read, invalid):
    answer = answer_of(reply(*calls), [TOOL], seconds=1.0)
    assert (answer.calls, answer.invalid) == (read, invalid)
    assert (answer.prompt_tokens, answer.completion_tokens) == (9, 4)


class Checker:
    """Takes what calls `area`, and of irrelevance what calls nothing."""

    def tasks(self, categories, *, items):
        return [
            {"id": f"{category}_{number}", "category": category, "messages": [], "tools": [TOOL]}
            for category in categories
            for number in range(items)
        ]

    def score(self, answers):
        return {
            item: {"valid": bool(calls) != ("irrelevance" in category)}
            for category, each in answers.items()
            for item, calls in each.items()
        }


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs the benchmark in a folder; agentform calls always, llama.cpp never and fails once a run."""
    asked: list[tuple[str, str]] = []

    @contextmanager
    def served(name, gguf, *, threads, log):
        yield name

    def ask(address, task):
        asked.append((address, task["id"]))
        error = "busy" if address == "llama_cpp" and task["id"] == "simple_python_0" else ""
        calls = [{"area": {"side": 3}}] if address == "agentform" else []
        return Answer(calls=calls, invalid=0, seconds=1.0, prompt_tokens=9, completion_tokens=4, error=error)

    monkeypatch.setattr(report, "served", served)
    monkeypatch.setattr(report, "ask", ask)
    monkeypatch.setattr(report, "Scorer", Checker)
    monkeypatch.setattr(report, "catalogue_gguf", lambda entry: tmp_path / "model.gguf")
    monkeypatch.setattr(report, "cache_home", lambda: tmp_path / "cache")

    def play(**options):
        given = {"model": "qwen2.5-coder-0.5b", "items": 3, "threads": 1, "only": None, **options}
        console = Console(quiet=True)
        context = Context(name="bfcl", data=None, quick=False, options=given, console=console, results=tmp_path)
        asked.clear()
        report.run(context)
        return json.loads((tmp_path / "bfcl.json").read_text())["figures"], list(asked)

    return play


def test_both_are_asked_everything_once_and_a_run_that_was_interrupted_goes_on(run):
    figures, asked = run(only=["simple_python", "irrelevance"])
    assert len(asked) == len(set(asked)) == 12
    simple, irrelevance = figures["categories"]
    assert (simple["right"], irrelevance["right"]) == (
        {"agentform": 3, "llama_cpp": 0},
        {"agentform": 0, "llama_cpp": 3},
    )
    assert simple["errors"] == {"agentform": 0, "llama_cpp": 1}
    assert figures["all"]["difference"]["mean"] == 0
    again, asked = run(only=["simple_python", "irrelevance"], items=4)
    assert asked[0] == ("llama_cpp", "simple_python_0")  # it failed, and is asked again
    assert {item for _, item in asked[1:]} == {"simple_python_3", "irrelevance_3"}
    assert again["all"]["items"] == 8


@pytest.mark.parametrize(
    ("options", "said"), [({"only": ["simple_cobol"]}, "simple_python"), ({"model": "m"}, "qwen2.5")]
)
def test_what_is_not_there_is_named(run, options, said):
    with pytest.raises(InvalidInput, match=said):
        run(**options)
