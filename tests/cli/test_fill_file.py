"""`agentform fill --in FILE --out FILE`, and what it does when it is begun again."""

from __future__ import annotations

import csv
import json

import pytest
from rich.console import Console

from agentform.cli.fill_file import FileFill, fill_file
from agentform.errors import EngineClosed, InvalidInput
from agentform.schema.target import load
from agentform.testing import Fill, ScriptedEngine

TARGET = load({"type": "object", "properties": {"mood": {"enum": ["glad", "sad"]}}, "required": ["mood"]})
ROWS = "id,text,mood\n1,sun,?\n2,,?\n3,rain,?\n"


class Breaking(ScriptedEngine):
    """Closed as soon as the rain is read."""

    broken = False

    async def score(self, request):
        if self.broken and "rain" in self.tokenizer.decode(request.prompt_ids):
            raise EngineClosed("closed")
        return await super().score(request)


def run(folder, monkeypatch, *, broken=False, out="out.csv", **options) -> tuple[int, Breaking]:
    engine = Breaking([Fill("sun", {"mood": "glad"}), Fill("rain", {"mood": "sad"})])
    engine.broken = broken
    monkeypatch.setattr("agentform.cli.loading.open_engine", lambda model, **_: engine)
    task = FileFill(source=folder / "in.csv", out=folder / out, **options)
    return fill_file(Console(quiet=True), TARGET, task, model="scripted"), engine


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in.csv").write_text(ROWS, encoding="utf-8")
    return tmp_path


def test_a_table_comes_out_with_its_own_columns_the_forms_and_the_errors(folder, monkeypatch):
    assert run(folder, monkeypatch)[0] == 1
    with (folder / "out.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["id"], row["mood"], row["filled_mood"]) for row in rows] == [
        ("1", "?", "glad"),
        ("2", "?", ""),
        ("3", "?", "sad"),
    ]
    assert [bool(row["error"]) for row in rows] == [False, True, False]


def test_json_lines_hold_the_evidence(folder, monkeypatch):
    run(folder, monkeypatch, out="out.jsonl")
    lines = [json.loads(line) for line in (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert (lines[0]["value"], lines[0]["evidence"][0]["how"]) == ({"mood": "glad"}, "scored")
    assert (lines[1]["row"], lines[1]["error"]["type"]) == (1, "InvalidInput")
    assert not any("key" in line for line in lines)


def test_what_was_interrupted_goes_on_where_it_ended_and_failures_are_tried_again(folder, monkeypatch):
    with pytest.raises(EngineClosed):
        run(folder, monkeypatch, broken=True)
    part = folder / "out.csv.part"
    assert not (folder / "out.csv").exists()
    with part.open("a", encoding="utf-8") as file:
        file.write('{"row": 2, "ke')  # as a process leaves it that was killed
    num_failed, engine = run(folder, monkeypatch)
    prompts = [engine.tokenizer.decode(request.prompt_ids) for request in engine.requests]
    assert (num_failed, any("sun" in prompt for prompt in prompts)) == (1, False)
    assert run(folder, monkeypatch)[0] == 1


def test_a_file_that_is_done_leaves_nothing_behind_and_is_not_overwritten(folder, monkeypatch):
    (folder / "in.csv").write_text("text\nsun\n", encoding="utf-8")
    assert run(folder, monkeypatch)[0] == 0
    assert sorted(path.name for path in folder.iterdir()) == ["in.csv", "out.csv"]
    with pytest.raises(InvalidInput, match="--overwrite"):
        run(folder, monkeypatch)
    assert run(folder, monkeypatch, overwrite=True)[0] == 0


def test_a_beginning_that_was_made_from_something_else_is_refused(folder, monkeypatch):
    run(folder, monkeypatch)
    (folder / "in.csv").write_text(ROWS.replace("sun", "snow"), encoding="utf-8")
    with pytest.raises(InvalidInput, match="begun with another input"):
        run(folder, monkeypatch)


@pytest.mark.parametrize(
    ("change", "said"),
    [({"out": "out.xls"}, "results are written as"), ({"out": "no/out.csv"}, "no folder")],
)
def test_what_cannot_be_written_is_said_before_a_model_is_loaded(folder, monkeypatch, change, said):
    monkeypatch.setattr("agentform.cli.loading.open_engine", None)
    task = FileFill(source=folder / "in.csv", out=folder / change["out"])
    with pytest.raises(InvalidInput, match=said):
        fill_file(Console(quiet=True), TARGET, task, model="scripted")
    with pytest.raises(InvalidInput, match="there is no file"):
        FileFill(source=folder / "none.csv", out=folder / "out.csv").check()
