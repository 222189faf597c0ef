"""Rows from wherever they are: lists, pandas, polars and Arrow tables, and files of JSON lines, CSV or Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from agentform.errors import InvalidInput, MissingDependency
from agentform.messages import JsonValue, Message
from agentform.schema.json_text import text_or_json

__all__ = ["RowSource", "content_of", "num_rows", "parquet_library", "read_rows"]

RowSource: TypeAlias = Iterable[Any] | Path
"""Texts, conversations or mappings; a pandas, polars or Arrow table; or the path of a file."""
_BATCH = 1024


def read_rows(source: RowSource) -> Iterator[Any]:
    """The rows one by one: a text, a list of messages, or a mapping of columns.

    Raises:
        InvalidInput: the source is none, or a line of the file is no row; it names the line.
        MissingDependency: a Parquet file is read without pyarrow.
    """
    if isinstance(source, Path):
        return _file_rows(source)
    if isinstance(source, str | bytes | Mapping):
        raise InvalidInput(
            f"rows must be an iterable of rows, or a pathlib.Path of a file; got {type(source).__name__}"
        )
    match type(source).__module__.partition(".")[0]:
        case "pandas":
            return _pandas_rows(source)
        case "polars":
            return cast("Any", source).iter_rows(named=True)
        case "pyarrow":
            return (row for batch in cast("Any", source).to_batches(_BATCH) for row in batch.to_pylist())
        case _:
            return iter(source)


def num_rows(source: RowSource) -> int | None:
    """How many rows there are, where that is known without reading them."""
    if isinstance(source, Path):
        return None
    try:
        return len(cast("Any", source))
    except TypeError:
        return None


def content_of(row: Any, column: str) -> str | Sequence[Message]:
    """What is to be read of a row: itself, or its column of that name.

    Raises:
        InvalidInput: it has no such column, or there is nothing in it.
    """
    content: Any = row
    if isinstance(row, Mapping):
        columns = cast("Mapping[str, Any]", row)
        if column not in columns:
            raise InvalidInput(f"the row has no column {column!r}; it has {', '.join(map(repr, columns))}")
        content = columns[column]
    if isinstance(content, Sequence) and content and all(isinstance(item, Message) for item in cast("Any", content)):
        return cast("Sequence[Message]", content)
    if _is_nothing(content):
        where = f"column {column!r}" if isinstance(row, Mapping) else "the row"
        raise InvalidInput(f"there is no text in {where}")
    return text_or_json(cast("JsonValue", content))


def _is_nothing(content: Any) -> bool:
    """Whether it is blank, or stands for nothing in a table: null, NaN, NaT, pandas' NA."""
    if content is None or isinstance(content, str):
        return not (content or "").strip()
    try:
        return bool(content != content)
    except TypeError:  # NA, of which nothing is true
        return True
    except ValueError:  # an array, of whose items some may be
        return False


def _pandas_rows(frame: Any) -> Iterator[Mapping[str, Any]]:
    names = [str(name) for name in frame.columns]
    return (dict(zip(names, values, strict=True)) for values in frame.itertuples(index=False, name=None))


def _file_rows(path: Path) -> Iterator[Any]:
    readers = {".jsonl": _json_lines, ".ndjson": _json_lines, ".csv": _csv_rows, ".parquet": _parquet_rows}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InvalidInput(f"{path}: rows are read from {', '.join(readers)}; got {path.suffix or 'no ending'!r}")
    return reader(path)


def _json_lines(path: Path) -> Iterator[Any]:
    for number, line in enumerate(_lines(path), 1):
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InvalidInput(f"{path}, line {number}: {error}") from error


def _csv_rows(path: Path) -> Iterator[Mapping[str, str]]:
    reader = csv.DictReader(_lines(path), strict=True)
    try:
        names = reader.fieldnames or ()
        if len(set(names)) < len(names):
            raise InvalidInput(f"{path}, line {reader.line_num}: a column is named twice: {', '.join(names)}")
        for row in reader:
            if None in row or None in row.values():
                raise InvalidInput(f"{path}, line {reader.line_num}: as many values are needed as there are columns")
            yield row
    except csv.Error as error:
        raise InvalidInput(f"{path}, line {reader.line_num}: {error}") from error


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from file
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read {path}: {error}") from error


def _parquet_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    parquet = parquet_library(path)
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH):
                yield from batch.to_pylist()
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot read {path}: {error}") from error


def parquet_library(path: Path) -> Any:
    """`pyarrow.parquet`.

    Raises:
        MissingDependency: it is not installed.
    """
    try:
        import pyarrow.parquet as parquet  # type: ignore[import-not-found]
    except ImportError as error:
        raise MissingDependency(f"{path}: Parquet needs pyarrow: pip install pyarrow") from error
    return cast("Any", parquet)
