"""A form, and questions, for many rows: in their order, several at once, and errors that stay with their row."""

from __future__ import annotations

import json
import sys
from typing import Literal

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel

from agentform import YesNo, decide_many, decide_many_sync, fill_many
from agentform.errors import Attempt, CallRejected, EngineClosed, InvalidInput, MissingDependency, Violation
from agentform.rows.each import each_row
from agentform.rows.source import content_of, read_rows
from agentform.testing import Fill, ScriptedEngine

pytestmark = pytest.mark.anyio


class Mood(BaseModel):
    mood: Literal["glad", "sad"]


def engine_of(num: int) -> ScriptedEngine:
    moods = ("glad", "sad")
    return ScriptedEngine([Fill(f"row {at}.", {"mood": moods[at % 2]}) for at in range(num)])


TEXTS = [f"row {at}." for at in range(5)]
MOODS = ["glad", "sad", "glad", "sad", "glad"]


async def test_rows_are_filled_in_their_order_and_counted():
    told = []
    rows = await fill_many(engine_of(5), iter(TEXTS), Mood, progress=lambda done, of: told.append((done, of)))
    assert [row.unwrap().value.mood for row in rows] == MOODS
    assert [(row.number, row.source) for row in rows] == list(enumerate(TEXTS))
    assert told == [(at, None) for at in range(1, 6)]


async def test_a_row_that_cannot_be_filled_does_not_stop_the_others():
    rows = await fill_many(engine_of(3), [{"text": "row 0."}, {"texts": "x"}, {"text": " "}, {"text": "row 1."}], Mood)
    assert [row.ok for row in rows] == [True, False, False, True]
    assert "has no column 'text'; it has 'texts'" in str(rows[1].error)
    with pytest.raises(InvalidInput, match="no text in column 'text'"):
        rows[2].unwrap()


async def test_errors_of_a_call_stay_with_their_row_and_those_of_the_engine_end_the_work():
    errors = {"bad": CallRejected("form", [_attempt()]), "worse": EngineClosed("closed")}

    async def work(row):
        if row in errors:
            raise errors[row]
        return row

    done = []
    await each_row(work, enumerate(["a", "bad", "b"]), num_at_once=2, take=done.append)
    assert {row.number: row.result for row in done} == {0: "a", 1: None, 2: "b"}
    with pytest.raises(EngineClosed):
        await each_row(work, enumerate(["a", "worse"]), num_at_once=2, take=done.append)


def _attempt():
    return Attempt(arguments={}, violations=(Violation(pointer="", reason="no"),))


async def test_the_first_row_is_alone_and_no_more_than_asked_for_are_worked_on_at_once():
    running, most = 0, []

    async def work(row):
        nonlocal running
        running += 1
        most.append(running)
        await anyio.lowlevel.checkpoint()
        running -= 1

    done = []
    await each_row(work, enumerate(range(40)), num_at_once=3, take=done.append)
    assert (len(done), max(most), most[:2]) == (40, 3, [1, 1])
    with pytest.raises(InvalidInput, match="at least one row"):
        await each_row(work, [], num_at_once=0, take=done.append)


async def test_a_result_is_handed_on_while_other_rows_are_still_worked_on():
    handed_on, done = anyio.Event(), []

    async def work(row):
        if row == 1:
            await handed_on.wait()

    def take(row):
        done.append(row.number)
        if row.number == 9:
            handed_on.set()

    await each_row(work, enumerate(range(10)), num_at_once=2, take=take)
    assert done == [0, 2, 3, 4, 5, 6, 7, 8, 9, 1]


async def test_questions_are_answered_for_every_row():
    engine = ScriptedEngine([Fill("row 0.", {"late": True}), Fill("row 1.", {"late": False})])
    rows = await decide_many(engine, [{"said": text} for text in TEXTS[:2]], {"late": YesNo("Late?")}, column="said")
    assert [row.unwrap()["late"].value for row in rows] == [True, False]


def test_questions_are_answered_without_an_event_loop_too():
    engine = ScriptedEngine([Fill("row 0.", {"late": True})])
    [row] = decide_many_sync(engine, TEXTS[:1], {"late": {"type": "noul", "instructions": "Late?"}})
    assert row.unwrap()["late"].value is True


def test_files_are_read_by_their_ending(tmp_path):
    lines, table = tmp_path / "rows.jsonl", tmp_path / "rows.csv"
    lines.write_text('{"text": "a\\nb"}\n\n"c"\n', encoding="utf-8")
    table.write_text('\ufefftext,n\n"a\nb",1\n', encoding="utf-8")
    assert list(read_rows(lines)) == [{"text": "a\nb"}, "c"]
    assert list(read_rows(table)) == [{"text": "a\nb", "n": "1"}]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("rows.jsonl", b'{"a": 1}\n{', "line 2"),
        ("rows.jsonl", b"\xff\n", "cannot read"),
        ("rows.csv", b"a,b\n1\n", "line 2: as many values"),
        ("rows.csv", b'a\n"x\n', "unexpected end"),
        ("rows.csv", b"a,b,a\n1,2,3\n", "line 1: a column is named twice: a, b, a"),
        ("rows.jsonl", b"[]\n" + b"[" * 100_000 + b"\n", "line 2"),
        ("rows.xls", b"", "rows are read from .jsonl"),
    ],
)
def test_a_file_that_holds_no_rows_is_named_with_its_line(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=said):
        list(read_rows(tmp_path / name))


class Missing:
    """As pandas has it: neither the same as itself nor another."""

    __hash__ = None

    def __ne__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")


@pytest.mark.parametrize("cell", [None, float("nan"), " ", Missing()])
def test_a_cell_that_stands_for_nothing_holds_no_text(cell):
    with pytest.raises(InvalidInput, match="no text in column 'text'"):
        content_of({"text": cell}, "text")


def test_a_cell_that_holds_an_array_is_no_text_and_wrong_with_its_row_alone():
    numpy = pytest.importorskip("numpy")
    with pytest.raises(InvalidInput, match="ndarray is not a JSON type"):
        content_of({"text": numpy.array([1, 2])}, "text")


def test_what_is_no_source_of_rows_is_refused():
    for source in ("rows.csv", {"text": "x"}):
        with pytest.raises(InvalidInput, match=r"pathlib\.Path"):
            read_rows(source)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_of_libraries_that_are_installed_are_read(library):
    module = pytest.importorskip(library)
    columns = {"text": ["a", "b"], "n": [1, 2]}
    table = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    assert list(read_rows(table)) == [{"text": "a", "n": 1}, {"text": "b", "n": 2}]


def test_parquet_without_its_library_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    with pytest.raises(MissingDependency, match="pip install pyarrow"):
        list(read_rows(tmp_path / "rows.parquet"))


async def test_a_row_may_be_json_that_is_read_as_its_text():
    rows = await fill_many(ScriptedEngine([Fill('{"a": 1}', {"mood": "sad"})]), [{"text": {"a": 1}}], Mood)
    assert json.loads(rows[0].unwrap().json_text) == {"mood": "sad"}
