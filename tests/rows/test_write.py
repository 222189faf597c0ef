"""Results of rows as a file."""

from __future__ import annotations

import csv
from datetime import date

import pytest

from agentform.rows.write import write_results


def written(path, rows, entries):
    write_results(path, rows, dict(enumerate(entries)), column="text")
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_dates_of_a_table_are_written_as_text(tmp_path):
    [row] = written(tmp_path / "out.csv", [{"text": "a", "day": date(2024, 2, 29)}], [{"value": {"ok": True}}])
    assert row == {"text": "a", "day": "2024-02-29", "ok": "true", "error": ""}


def test_what_the_row_or_the_form_calls_error_is_kept_beside_the_error(tmp_path):
    rows = [{"text": "a", "error": "E7"}, {"text": "b", "error": "E8"}]
    failed = {"error": {"type": "CallRejected", "message": "no"}}
    first, second = written(tmp_path / "out.csv", rows, [{"value": {"error": "disk"}}, failed])
    assert first == {"text": "a", "row_error": "E7", "filled_error": "disk", "error": ""}
    assert second == {"text": "b", "row_error": "E8", "filled_error": "", "error": "CallRejected: no"}


def test_no_column_of_the_row_is_replaced_by_the_forms(tmp_path):
    rows = [{"text": "a", "mood": "x", "filled_mood": "y"}]
    [row] = written(tmp_path / "out.csv", rows, [{"value": {"mood": "glad"}}])
    assert row == {"text": "a", "mood": "x", "filled_mood": "y", "filled_filled_mood": "glad", "error": ""}


def test_a_column_of_several_types_is_text_in_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"text": "a", "id": 1}, {"text": "b", "id": "x"}, {"text": "c", "id": None}, {"text": "d", "id": 2**80}]
    entries = [{"value": {"n": value}} for value in (1, 2.5, None, 2)]
    write_results(tmp_path / "out.parquet", rows, dict(enumerate(entries)), column="text")
    table = parquet.read_table(tmp_path / "out.parquet").to_pydict()
    assert table["id"] == ["1", "x", None, str(2**80)]
    assert table["n"] == [1.0, 2.5, None, 2.0]
