"""Results of rows as one file: JSON lines, CSV or Parquet, whole or not at all."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agentform._util.files import replacing
from agentform.errors import InvalidInput
from agentform.rows.journal import RowEntry
from agentform.rows.source import parquet_library
from agentform.schema.json_text import dumps, text_or_json, to_jsonable

__all__ = ["check_out", "write_results"]

_ERROR = "error"
_BATCH = 1024


def check_out(path: Path) -> None:
    """Check that results can be written there, before any is made.

    Raises:
        InvalidInput: the ending is none that is known, or the folder is not there.
        MissingDependency: it is to be Parquet, without pyarrow.
    """
    _writer(path)
    if not path.parent.is_dir():
        raise InvalidInput(f"{path}: there is no folder {path.parent}")
    if path.suffix.lower() == ".parquet":
        parquet_library(path)


def write_results(path: Path, rows: Iterable[Any], entries: Mapping[int, RowEntry], *, column: str) -> None:
    """The rows with their results, in their order.

    JSON lines hold `row`, then `value` and `evidence`, or `error`. Tables hold the row's own columns (`column` for rows
    that are texts), then the form's, nested values as JSON, then `error`. What a row or the form calls
    `error` is `row_error` and `filled_error` there. A column of Parquet whose values have no type in common is text.

    Raises:
        InvalidInput: the file cannot be written.
        MissingDependency: Parquet, without pyarrow.
    """
    write = _writer(path)
    pairs = ((source, entries[number]) for number, source in enumerate(rows))
    try:
        with replacing(path) as beside:
            write(beside, pairs, column)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error}") from error


_Pairs = Iterator[tuple[Any, RowEntry]]


def _writer(path: Path) -> Callable[[Path, _Pairs, str], None]:
    writers = {".jsonl": _json_lines, ".ndjson": _json_lines, ".csv": _csv, ".parquet": _parquet}
    found = writers.get(path.suffix.lower())
    if found is None:
        raise InvalidInput(f"{path}: results are written as {', '.join(writers)}; got {path.suffix or 'no ending'!r}")
    return found


def _json_lines(path: Path, pairs: _Pairs, column: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        for _, entry in pairs:
            file.write(dumps({name: value for name, value in entry.items() if name != "key"}) + "\n")


def _csv(path: Path, pairs: _Pairs, column: str) -> None:
    records = [_record(source, entry, column) for source, entry in pairs]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _columns(records), restval="")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in row.items()} for row in records)


def _cell(value: Any) -> str:
    return "" if value is None else text_or_json(to_jsonable(value))


def _parquet(path: Path, pairs: _Pairs, column: str) -> None:
    parquet = parquet_library(path)
    import pyarrow  # type: ignore[import-not-found]

    records = [_record(source, entry, column) for source, entry in pairs]
    names = _columns(records)
    columns = {name: _arrow_column(pyarrow, [record.get(name) for record in records]) for name in names}
    parquet.write_table(pyarrow.table(columns), path, row_group_size=_BATCH)


def _arrow_column(pyarrow: Any, values: list[Any]) -> Any:
    """A column of one type; one of several, which Parquet has not, as text: texts as they are, the rest as JSON."""
    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowException, OverflowError, TypeError, ValueError):
        return pyarrow.array([None if value is None else _cell(value) for value in values])


def _record(source: Any, entry: RowEntry, column: str) -> dict[str, Any]:
    """A flat record; a column of the form that the row has too is named after the form, and `error` is neither's."""
    given: Mapping[str, Any] = source if isinstance(source, Mapping) else {column: source}
    own = {_apart(name, "row_", given) if name == _ERROR else name: each for name, each in given.items()}
    value = entry.get("value")
    made: Mapping[str, Any] = value if isinstance(value, Mapping) else {} if value is None else {"value": value}
    filled = {_apart(name, "filled_", own): _flat(each) for name, each in made.items()}
    said = entry.get(_ERROR)
    return own | filled | {_ERROR: None if said is None else f"{said['type']}: {said['message']}"}


def _apart(name: str, prefix: str, taken: Mapping[str, Any]) -> str:
    """The name, with the prefix before it until nobody else has it."""
    while name in taken or name == _ERROR:
        name = prefix + name
    return name


def _flat(value: Any) -> Any:
    return dumps(value) if isinstance(value, Mapping | list | tuple) else value


def _columns(records: list[dict[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for record in records for name in record if name != _ERROR)
    return [*names, _ERROR]
