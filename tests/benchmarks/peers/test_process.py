from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from benchmarks.common.processes import ChildFailed, answer_lines, descendants, peak_bytes
from benchmarks.peers.child import operations_of
from benchmarks.peers.process import Process
from benchmarks.peers.task import Model, Task, Written
from tests.support.waiting import wait_until

TASK = Task(kind="text", messages=[], rendered=[], prompt="a", ids=[1, 2], max_tokens=3)
STUB = """
import json, subprocess, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["op"] == "run" and asked["task"]["prompt"] == "die":
        sys.exit("I have had enough")
    if asked["op"] == "run" and asked["task"]["prompt"] == "sleep":
        continue
    if asked["op"] == "run" and asked["task"]["prompt"] == "fail":
        print(json.dumps({"error": "ValueError: no"}), flush=True)
        continue
    if asked["op"] == "load":
        child = subprocess.Popen(["sleep", "60"])
        print(json.dumps({"value": {"below": child.pid}}), flush=True)
        continue
    if asked["op"] == "quit":
        break
    print(json.dumps({"value": {"text": "b" * asked["task"]["max_tokens"], "seconds": 0.5}}), flush=True)
"""


@pytest.fixture
def process(tmp_path):
    made = Process(Path(sys.executable), "stub", tmp_path / "log", command=[sys.executable, "-c", STUB])
    yield made
    made.close()


def state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


def task(prompt):
    return Task(kind="text", messages=[], rendered=[], prompt=prompt, ids=[], max_tokens=2)


def test_a_task_goes_out_and_comes_back(process):
    assert process.run(TASK) == Written(text="bbb", seconds=0.5)


def test_an_error_is_reported_and_the_process_goes_on(process):
    with pytest.raises(ChildFailed, match="ValueError: no"):
        process.run(task("fail"))
    assert process.run(task("a")).text == "bb"
    assert not process.is_gone


def test_a_death_is_reported_with_its_last_words(process):
    with pytest.raises(ChildFailed, match="status 1: I have had enough"):
        process.run(task("die"))
    assert process.is_gone


def test_who_does_not_answer_in_time_is_gone(process):
    with pytest.raises(ChildFailed, match="no answer within"):
        process.run(task("sleep"), limit_s=0.05)
    assert process.is_gone


def reaches(pid, *wanted) -> bool:
    """Signals arrive when they arrive."""
    wait_until(lambda: state(pid) in wanted, f"the state {wanted}")
    return True


def test_between_requests_the_whole_tree_is_stopped_and_at_the_end_it_is_gone(process):
    below = process.load(Model(folder="", gguf="", threads=1))["below"]
    assert reaches(below, "T")
    process.run(TASK)
    assert reaches(below, "T")
    process.close()
    assert reaches(below, "Z", "gone")


class Echo:
    def __init__(self):
        self.settings, self.closed = {"colour": "blue"}, False

    def load(self, model):
        assert model.threads == 2

    def run(self, task):
        if task.prompt == "fail":
            raise KeyError("gone")
        return Written(text=task.prompt, seconds=1.0)

    def prompt_ids(self, task):
        return [3, *task.ids]

    def close(self):
        self.closed = True


def test_a_child_answers_every_line_and_ends_at_quit(capsys):
    asked = [
        {"op": "load", "model": {"folder": "", "gguf": "", "threads": 2}},
        {"op": "run", "task": task("fail").as_json()},
        {"op": "run", "task": TASK.as_json()},
        {"op": "prompt_ids", "task": TASK.as_json()},
        {"op": "versions", "packages": ["pytest"]},
        {"op": "memory"},
        {"op": "quit"},
        {"op": "run", "task": TASK.as_json()},
    ]
    driver, out = Echo(), io.StringIO()
    lines = io.StringIO("".join(json.dumps(line) + "\n" for line in asked))
    answer_lines(operations_of(driver), lines, out)
    loaded, failed, ran, ids, versions, memory, *rest = (json.loads(line) for line in out.getvalue().splitlines())
    assert loaded == {"value": {"colour": "blue"}}
    assert failed == {"error": "KeyError: 'gone'"}
    assert ran["value"]["text"] == "a"
    assert ran["value"]["cpu_s"] >= 0
    assert ids == {"value": [3, 1, 2]}
    assert versions == {"value": {"pytest": pytest.__version__}}
    assert memory["value"] > 1 << 20
    assert rest == [{"value": None}]
    assert driver.closed


def test_memory_counts_what_is_below(process):
    pid = process.load(Model(folder="", gguf="", threads=1))["below"]
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    assert descendants(parent) == [pid]
    alone = peak_bytes(pid)
    whole = peak_bytes(parent)
    assert alone is not None
    assert whole is not None
    assert whole > alone
