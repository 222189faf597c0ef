"""Every example runs on the real model, in a short form, and shows what it is there to show."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
RUNS = {
    "agent_with_tools.py": ([], ["Usage("]),
    "fill_a_form.py": ([], ["/category scored", "tokens written"]),
    "forms_from_documents.py": (
        ["--limit", "1"],
        ["/address/street", "/items/0/product", "1 orders, all valid"],
    ),
    "coding_agent/agent.py": ([], ["tokens written"]),
    "langchain_agent.py": ([], ["tool: The light in the office is on.", "cache_read"]),
    "many_conversations.py": (
        ["--conversations", "3", "--turns", "2", "--pause", "0.3", "--out", "page.html"],
        ["visitor-3", "prompt tokens reused"],
    ),
    "schema_evaluation/evaluate.py": (["--texts", "1"], ["/status: its description lists values", "shift in bits"]),
}
"""Arguments of each example, and what it must print."""
IN_SGLANGS_ENVIRONMENT = {"agent_on_sglang.py", "scale_out/talk.py"}
"""Run by tests/sglang/test_shown.py and tests/sglang/test_scale_out.py."""


def run(name: str, arguments: list[str], monkeypatch, capsys) -> str:
    """Run as `python NAME ARGUMENTS` would, in this process: torch is imported once for all."""
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    monkeypatch.syspath_prepend((EXAMPLES / name).parent)
    monkeypatch.setenv("COLUMNS", "160")
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def test_every_example_is_run():
    scripts = {
        path.relative_to(EXAMPLES).as_posix()
        for path in EXAMPLES.rglob("*.py")
        if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
    }
    assert scripts == set(RUNS) | IN_SGLANGS_ENVIRONMENT


@pytest.mark.model
@pytest.mark.parametrize("name", RUNS)
def test_example_runs(name, weights_folder, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    arguments, expected = RUNS[name]
    out = run(name, arguments, monkeypatch, capsys)
    for text in expected:
        assert text in out


def test_the_coding_agent_follows_its_script_to_an_edit(monkeypatch, capsys):
    out = run("coding_agent/agent.py", ["--scripted"], monkeypatch, capsys)
    assert "-        return self._items.pop(0)" in out
    assert "+        return self._items.pop()" in out
    assert "stack.py is written." in out
    assert "pop(0)" in (EXAMPLES / "coding_agent" / "project" / "stack.py").read_text()


@pytest.mark.parametrize(("said", "written"), [("y", True), ("n", False)])
def test_the_coding_agent_asks_before_it_writes(said, written, monkeypatch, capsys, tmp_path):
    from rich.console import Console

    from agentform.testing import Call, Say, ScriptedEngine

    (tmp_path / "a.txt").write_text("one")
    script = [Call("edit_file", {"path": "a.txt", "old": "one", "new": "two"}), Say("Done.")]
    monkeypatch.setattr("agentform.load_engine", lambda name: ScriptedEngine(script))
    monkeypatch.setattr(Console, "input", lambda self, prompt: said)
    out = run("coding_agent/agent.py", ["Change it.", "--folder", str(tmp_path)], monkeypatch, capsys)
    assert "+two" in out
    assert (tmp_path / "a.txt").read_text() == ("two" if written else "one")
    assert ("does not want this change" in out) is not written
