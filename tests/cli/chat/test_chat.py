"""`agentform chat` and `agentform fill` as a user runs them, with a scripted engine."""

from __future__ import annotations

import importlib
import io
import json
import subprocess
import sys
from dataclasses import dataclass

import pytest

from agentform.cli.app import main

DESK = '''
import os
import signal
from typing import Literal
from agentform import Toolbox, tool
from agentform.testing import Call, Fill, Say, ScriptedEngine

@tool
def light(room: Literal["kitchen", "office"], on: bool) -> str:
    """Switch the light in a room."""
    return f"The light in the {room} is {'on' if on else 'off'}."

def note(text: str) -> str:
    """Keep a note."""
    return "noted"

SWITCH = Call("light", {"room": "office", "on": True}, text="I switch it on.")
both = [light, note]
box = Toolbox(both)
number = 5
def talk():
    return ScriptedEngine([SWITCH, Say("It is on."), Say("Good bye.")])
def hello():
    return ScriptedEngine([Say("Hello.")])
class Interrupted(ScriptedEngine):
    def generate(self, request):
        if not self.requests:
            os.kill(os.getpid(), signal.SIGINT)
        return super().generate(request)
def interrupted():
    # A test run in the background of a shell passes on that interrupts are ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return Interrupted([Say("Late.", delay_s=60), Say("Back again.")])
def lookup():
    return ScriptedEngine([Call("look_up", {"order": "A-1"}), Say("It is in Rome.")])
def form():
    return ScriptedEngine([Fill("one", {"mood": "good", "why": "sun"}), Fill("two", {"mood": "bad", "why": "x" * 500})])
class Mood:
    pass
schema = {
    "type": "object",
    "properties": {"mood": {"enum": ["good", "bad"]}, "why": {"type": "string"}},
    "required": ["mood", "why"],
}
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "desk.py").write_text(DESK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.delitem(sys.modules, "desk", raising=False)
    monkeypatch.setenv("AGENTFORM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


@dataclass(frozen=True)
class Done:
    """How the program ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """Runs the program on a command line, with what is piped in."""

    def run(*arguments: str, said: str = "") -> Done:
        monkeypatch.setattr(sys, "argv", ["agentform", *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(said))
        importlib.invalidate_caches()  # the module is younger than what the import system has seen of its folder
        with pytest.raises(SystemExit) as ended:
            main()
        monkeypatch.delitem(sys.modules, "desk", raising=False)
        return Done(int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.mark.parametrize("tools", [["desk:both"], ["desk:box"], ["desk:light", "desk:note"]])
def test_a_chat_shows_reasoning_evidence_results_and_cache(run, tools):
    given = [word for spec in tools for word in ("--tools", spec)]
    done = run("chat", "--model", "desk:talk", *given, said="It is dark.\n\nThank you.\n/cache\n")
    assert done.returncode == 0, done.stderr
    for shown in (
        "scripted, 2 tools",
        "> It is dark.",
        "I switch it on.",
        "→ call light  (scored, p 0.9",
        "/room",
        '"office"',
        "← The light in the office is on.",
        "It is on.",
        "Good bye.",
        "tokens: 0 cached,",
        "requests;",
    ):
        assert shown in done.stdout
    assert done.stdout.index("/room") < done.stdout.index("← The light") < done.stdout.index("It is on.")


def test_commands_explain_themselves_and_end_the_program(run):
    said = "/help\n/tools\n/nothing\n/reset\n/quit\nnever read\n"
    done = run("chat", "--model", "desk:hello", "--tools", "desk:light", said=said)
    assert done.returncode == 0, done.stderr
    for shown in ("Ctrl-C ends a turn", "light: Switch the light", '"kitchen"', "no command /nothing", "forgotten"):
        assert shown in done.stdout
    assert "never read" not in done.stdout


def test_tools_of_a_description_file_are_played_by_the_user(folder, run):
    listed = [{"name": "look_up", "description": "Where?", "inputSchema": {"properties": {"order": {"enum": ["A-1"]}}}}]
    (folder / "tools.json").write_text(json.dumps({"result": {"tools": listed}}))
    done = run("chat", "--model", "desk:lookup", "--tools", "tools.json", said="Where?\nIn Rome.\n")
    assert done.returncode == 0, done.stderr
    assert 'look_up {"order": "A-1"}' in done.stdout
    assert "look_up returns: In Rome." in done.stdout
    assert "← In Rome." in done.stdout
    assert "It is in Rome." in done.stdout


def test_a_named_conversation_goes_on_where_it_ended(run):
    arguments = ("chat", "--model", "desk:hello", "--conversation", "mine")
    assert "messages so far" not in run(*arguments, said="Hi\n").stdout
    assert "2 messages so far" in run(*arguments, said="/reset\n").stdout
    assert "messages so far" not in run(*arguments).stdout


def test_an_interrupt_ends_the_turn_and_not_the_program(folder):
    done = subprocess.run(
        [sys.executable, "-m", "agentform", "chat", "--model", "desk:interrupted"],
        input="Hi\nHi again\n",
        capture_output=True,
        text=True,
        timeout=240,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("cancelled") < done.stdout.index("> Hi again") < done.stdout.index("Back again.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("chat", "--model", "desk:hello", "--tools", "desk:number"), "is no tool"),
        (("chat", "--model", "desk:hello", "--tools", "missing.json"), "cannot read missing.json"),
        (("chat", "--model", "desk:number"), "is no engine"),
        (("chat", "--model", "desk:gone"), "has no attribute 'gone'"),
        (("fill", "desk:schema", "--model", "desk:form", "--text", "missing.txt"), "cannot read the text missing.txt"),
        (("fill", "desk:schema", "--text", "one.txt", "--column", "body"), "--column: of rows"),
        (("fill", "desk:schema", "--in", "a.csv", "--out", "b.csv", "--json"), "--json is of texts"),
        (("fill", "desk:schema", "--text", "one.txt", "--top-k", "3"), "--top-k has no effect without --temperature"),
        (("chat", "--reasoning-effort", "none", "--reasoning-tokens", "9"), "--reasoning-tokens has no effect"),
        (("chat", "--port", "8000"), "--port is of the page"),
        (
            ("chat", "--page", "--conversation", "mine", "--hide-reasoning"),
            "--conversation, --hide-reasoning would have",
        ),
        (("plan", "desk:schema", "--num-threads", "1"), "are of --probe"),
        (("serve", "--host", "0.0.0.0"), "an API key is needed"),
        (("serve", "--api-key-file", "missing"), "cannot read API keys"),
    ],
)
def test_bad_input_is_one_line_on_stderr(run, arguments, said):
    done = run(*arguments)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert said in done.stderr


def test_fill_shows_how_each_value_came_and_what_failed(folder, run):
    (folder / "one.txt").write_text("one")
    (folder / "two.txt").write_text("two")
    arguments = ("fill", "desk:schema", "--model", "desk:form", "--text", "one.txt")
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    for shown in ("one.txt", "/mood", '"good"', "scored", "0.900", "generated", "prompt tokens from the cache"):
        assert shown in done.stdout
    failed = run(*arguments, "--text", "two.txt")
    assert failed.returncode == 3
    assert '"good"' in failed.stdout
    assert "two.txt: ArgumentsTruncated" in failed.stdout


def test_fill_gives_json_lines_to_other_programs(folder, run):
    (folder / "two.txt").write_text("two")
    arguments = ("fill", "desk:schema", "--model", "desk:form", "--json", "--text", "-", "--text", "two.txt")
    done = run(*arguments, said="one\n")
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["text"], first["value"]) == ("-", {"mood": "good", "why": "sun"})
    assert [item["how"] for item in first["evidence"]] == ["scored", "generated"]
    assert first["usage"]["completion_tokens"] > 0
    assert (second["text"], second["error"]["type"]) == ("two.txt", "ArgumentsTruncated")
    assert done.returncode == 3


SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("desk", log_level="CRITICAL")

@server.tool()
def light(room: str, on: bool) -> str:
    return f"{room}: {on}"

server.run("stdio")
"""


def test_tools_of_an_mcp_server_are_called_in_a_chat(folder, run):
    (folder / "server.py").write_text(SERVER)
    server = f"{sys.executable} server.py"
    done = run("chat", "--model", "desk:talk", "--mcp", server, said="It is dark.\nThank you.\n")
    assert done.returncode == 0, done.stderr
    assert "scripted, 1 tools" in done.stdout
    assert "← office: True" in done.stdout
    refused = run("chat", "--model", "desk:talk", "--mcp", f"{sys.executable} gone.py")
    assert (refused.returncode, "Traceback" in refused.stderr) == (1, False)
    assert "is not reached" in refused.stderr
