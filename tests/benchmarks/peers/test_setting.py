"""Who takes part, with which prompts, in which order, and who is left out and why."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

import benchmarks.peers
from agentform.messages import Message
from agentform.runtime.scripted.byte_tokenizer import ByteTokenizer
from agentform.schema.json_text import dumps
from benchmarks.common.harness import Context
from benchmarks.common.processes import ChildFailed
from benchmarks.peers.bench import Bench, rotated
from benchmarks.peers.bfcl import load_questions
from benchmarks.peers.identity import difference
from benchmarks.peers.options import WORKS, add_arguments, modules
from benchmarks.peers.prompts import OPENING, answer_task, call_task, text_task
from benchmarks.peers.roster import OURS, read_roster
from benchmarks.peers.task import Model, Written, shared_length
from benchmarks.peers.venvs import Skipped, python_of
from benchmarks.peers.works import calls, conversation, speed

FOLDER = Path(benchmarks.peers.__file__).parent


def test_every_peer_has_a_driver_and_pins_and_agentform_comes_first():
    roster = read_roster()
    assert next(iter(roster)) == OURS
    for peer in roster.values():
        assert (FOLDER / "drivers" / f"{peer.driver}.py").is_file()
        if peer.name != OURS:
            assert all("==" in next(word for word in step if word[0] != "-") for step in peer.steps)


def test_the_modules_of_children_import_nothing_but_the_standard_library():
    told = subprocess.run(
        [sys.executable, "-S", "-E", "-c", "import benchmarks.peers.child; print('fine')"],
        cwd=FOLDER.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.stdout == "fine\n", told.stderr


def test_an_environment_is_made_once_for_its_pins(tmp_path, monkeypatch):
    made = []

    def run(command, **_):
        made.append(command)
        if "venv" in command:
            python = Path(command[-1], "bin", "python")
            python.parent.mkdir(parents=True)
            python.touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    peer = read_roster()["outlines"]
    first = python_of(peer, tmp_path)
    assert first == tmp_path / "outlines" / "bin" / "python"
    assert len(made) == 1 + len(peer.steps)
    assert python_of(peer, tmp_path) == first
    assert len(made) == 1 + len(peer.steps)
    (tmp_path / "outlines" / "made_of.txt").write_text("others")
    python_of(peer, tmp_path)
    assert len(made) == 2 * (1 + len(peer.steps))


def test_who_cannot_be_installed_is_skipped_with_the_last_words_of_pip(tmp_path, monkeypatch):
    def run(command, **_):
        failed = "pip" in command
        return subprocess.CompletedProcess(command, int(failed), "", "looking\nERROR: No matching distribution\n\n")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(Skipped, match=r"pip install xllamacpp.* failed: ERROR: No matching distribution"):
        python_of(read_roster()["llama_cpp"], tmp_path)


def test_options():
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    given = parser.parse_args(["--only", "guidance", "--work", "a,d"])
    assert (given.only, given.work) == (["guidance"], ["a", "d"])
    assert modules(["d", "a", "g", "f"]) == ["closed", "decode", "start"]
    assert modules(list(WORKS)) == ["closed", "calls", "conversation", "decode", "prefill", "start", "speed"]
    with pytest.raises(SystemExit):
        parser.parse_args(["--work", "z"])


QUESTION = load_questions(Context(name="peers", data=None, quick=True), 1)[0]


def test_prompt_text_and_ids_are_the_same_and_end_where_a_call_begins():
    tokenizer = ByteTokenizer()
    task = call_task(tokenizer, QUESTION.messages, QUESTION.tools)
    assert OPENING == "<tool_call>\n"
    assert task.prompt.endswith(OPENING)
    assert tokenizer.encode(task.prompt, control=True) == tuple(task.ids)
    assert QUESTION.tools[0]["name"] in task.prompt
    plain = text_task(task, max_tokens=1)
    assert (plain.kind, plain.schema, plain.tools, plain.ids) == ("text", None, [], task.ids)


def test_a_conversation_goes_on_from_what_was_said():
    tokenizer = ByteTokenizer()
    messages = [Message(role="user", content="Light, please.")]
    first = call_task(tokenizer, messages, conversation.TOOLS)
    made = {"name": "weather", "arguments": {"day": "today"}}
    messages += conversation._called(made, 0)
    after = answer_task(tokenizer, messages, conversation.TOOLS, max_tokens=4, conversation="x")
    assert shared_length(first.ids, after.ids) == len(first.ids)
    assert after.prompt[len(first.prompt) :].startswith(dumps(made))


def test_a_prompt_that_differs_is_noticed_where_it_differs():
    task = call_task(ByteTokenizer(), QUESTION.messages, QUESTION.tools)
    opening = len(OPENING)
    assert difference(task, None) is None
    assert difference(task, list(task.ids), opening) is None
    assert difference(task, task.ids[:-opening], opening) is None
    assert difference(task, task.ids[:-opening]) is not None
    said = difference(task, [*task.ids[:7], 999, *task.ids[8:]], opening)
    assert said is not None
    assert said.startswith("the prompt differs at token 7 of ")


class Fake:
    """Answers the first question rightly; `asked` is everybody's."""

    is_gone = False

    def __init__(self, name, asked):
        self.name, self.asked = name, asked

    def ask(self, request):
        return request["task"]["ids"]

    def run(self, task):
        self.asked.append((self.name, task))
        if self.name == "guidance" and task.kind == "call" and task.max_tokens > 1:
            raise ChildFailed("cannot")
        text = '{"name": "rooms_book", "arguments": {"room": "blue", "people": 6}}' if task.kind == "call" else "Hi."
        tokens = {"prompt_tokens": len(task.ids), "cached_tokens": 5, "completion_tokens": task.max_tokens}
        return Written(text=text, seconds=0.1 * task.max_tokens, **tokens)

    def close(self):
        pass


@pytest.fixture
def bench():
    names = (OURS, "llama_cpp", "guidance")
    made = Bench(
        context=Context(name="peers", data=None, quick=True),
        tokenizer=ByteTokenizer(),
        model=Model(folder="", gguf="", threads=1),
        roster={name: read_roster()[name] for name in names},
        folder=Path(),
    )
    made.asked = []
    made.processes = {name: Fake(name, made.asked) for name in names}
    return made


def test_everybody_is_asked_once_a_round_and_someone_else_first(bench):
    assert ["".join(rotated("abc", turn)) for turn in range(4)] == ["abc", "bca", "cab", "abc"]
    conversation.measure(bench)
    measured = [row["peer"] for row in bench.rows if row["case"] == "call"]
    assert measured == [OURS, "llama_cpp", "llama_cpp", OURS, OURS, "llama_cpp"]


def test_a_call_is_judged_and_a_failure_is_a_fault(bench):
    calls.measure(bench)
    known = [row for row in bench.rows if row["case"] == "known" and row["peer"] == "llama_cpp"]
    assert [row["right"] for row in known[:2]] == [True, False]
    assert [row["valid"] for row in known[:2]] == [True, True]
    assert {row["peer"] for row in bench.rows} == {OURS, "llama_cpp"}
    assert {fault["peer"] for fault in bench.faults} == {"guidance"}
    before = [task.max_tokens for name, task in bench.asked if "who are you" in task.prompt and name == "llama_cpp"]
    assert set(before) == {1}


def test_who_reads_another_prompt_is_dropped_with_a_reason(bench):
    bench.processes["llama_cpp"].ask = lambda request: [1, 2, 3]
    bench.check_prompt(call_task(bench.tokenizer, QUESTION.messages, QUESTION.tools))
    assert bench.names == [OURS, "guidance"]
    assert "differs at token 0" in bench.skipped["llama_cpp"]


def test_a_conversation_has_a_call_and_an_answer_per_turn(bench):
    bench.processes.pop("guidance")
    for process in bench.processes.values():
        process.run = lambda task: Written(
            text='{"name": "weather", "arguments": {"day": "today"}}' if task.kind == "call" else "Sunny.", seconds=1.0
        )
    conversation.measure(bench)
    ours = [(row["round"], row["case"]) for row in bench.rows if row["peer"] == OURS]
    assert ours == [(turn, case) for turn in range(3) for case in ("call", "answer")]


def test_a_folder_for_the_peers_is_made_where_there_is_none(bench, tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.peers.bench.signal.signal", lambda *_: None)
    bench.folder = tmp_path / "not" / "there"
    bench.roster, bench.processes = {}, {}
    with bench.open():
        assert bench.folder.is_dir()


def test_speed_is_measured_for_each_kind_of_weights_and_number_of_threads(bench, tmp_path, monkeypatch):
    loaded = []

    class Fresh(Fake):
        def load(self, model):
            loaded.append((self.name, model.weights, model.threads))

        def ask(self, request):
            return 5_000_000

        def run(self, task):
            return Written(
                text="", seconds=float(task.max_tokens), completion_tokens=task.max_tokens, cpu_s=task.max_tokens / 2
            )

    monkeypatch.setattr(Bench, "start", lambda self, peer, log: Fresh(peer.name, self.asked))
    monkeypatch.setattr(speed, "_read_speed", lambda threads: 1e9)
    bench.pythons = dict.fromkeys((OURS, "llama_cpp"), tmp_path)
    speed.measure(bench)
    assert loaded == [(OURS, kind, 1) for kind in ("both", "four_bit", "wide")] + [("llama_cpp", "both", 1)]
    assert {row["case"] for row in bench.rows if row["work"] == "speed"} == {"prompt", "1", "65", "memory"}
    assert [row["bytes_per_s"] for row in bench.rows if row["work"] == "read"] == [1e9]
    shown = speed.table(bench.rows, 1)
    assert [next(iter(column.cells)) for column in shown.columns][:5] == ["both", "64", "1000", "1.00", "500"]
    assert shown.row_count == 4
