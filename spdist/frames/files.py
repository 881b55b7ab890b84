"""Files of events: Parquet, CSV with a header, Arrow (Feather) and JSON lines, by the suffix of their names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spdist.errors import MappingError
from spdist.frames.columns import NamedColumns
from spdist.language.checking.scope import suggestion
from spdist.language.types import Schema, Type
from spdist.mapping.columns import ARROW

__all__ = ["check_suffix", "read_file", "write_file"]

_REALS = (Type.FLOAT, Type.DOUBLE)


def read_file(path: Path, schema: Schema) -> NamedColumns:
    """Return the columns of a file, or of a directory of files whose name has the suffix.

    Parameters
    ----------
    path : Path
        Of the file; Parquet and Arrow files are read column by column, as far as they are wanted.
    schema : Schema
        What CSV and JSON are read as, which do not tell text from numbers.

    Raises
    ------
    MappingError
        There is no such file, or it holds something else than its name says.
    """
    read, _ = _FORMS[check_suffix(path)]
    if not path.exists():
        near = suggestion(path.name, (other.name for other in path.parent.glob("*")))
        raise MappingError(f"there is no file {path}", hint=near)
    with _told(f"cannot read {path}"):
        return read(path, schema)


def write_file(table: Any, path: Path) -> None:
    """Write an Arrow table with times of type timestamp; what is there already is replaced once all is written.

    CSV and JSON lines hold objects as text; JSON has no NaN and no infinity, which become null.

    Raises
    ------
    MappingError
        The file cannot be written, or its name has no suffix that is known.
    """
    _, write = _FORMS[check_suffix(path)]
    # Next to the file: a rename replaces it in one step only within one file system.
    part = path.with_name(f".{path.name}.part")
    with _told(f"cannot write {path}"):
        try:
            write(table, part)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def check_suffix(path: Path) -> str:
    """Return the suffix of a file's name that says what is in it.

    Raises
    ------
    MappingError
        It says nothing.
    """
    suffix = path.suffix.lower()
    if suffix not in _FORMS:
        raise MappingError(
            f"the name of {path} does not say what it holds", hint=f"it ends with one of: {', '.join(_FORMS)}"
        )
    return suffix


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MappingError(f"{what}: {reason}") from error


# ------------------------------------------------------------------------------------------------------------- reading
def _read_dataset(path: Path, form: str) -> NamedColumns:
    import pyarrow.dataset

    found = pyarrow.dataset.dataset(path, format=form, partitioning="hive")

    def get(name: str) -> Any:
        with _told(f"cannot read {path}"):
            # Column by column when it is asked for: of a wide file only the attributes are read.
            return found.to_table(columns=[name]).column(0)

    return NamedColumns(found.schema.names, get)


def _read_parquet(path: Path, schema: Schema) -> NamedColumns:
    return _read_dataset(path, "parquet")


def _read_arrow(path: Path, schema: Schema) -> NamedColumns:
    return _read_dataset(path, "ipc")


def _read_csv(path: Path, schema: Schema) -> NamedColumns:
    import pyarrow.csv

    # A field without quotes that holds nothing is null, also where a text is; whole numbers may be followed by others.
    read_as = {name: ARROW[kind] for name, kind in schema if kind is Type.STRING or kind in _REALS}
    options = pyarrow.csv.ConvertOptions(
        column_types=read_as, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    return _of_table(pyarrow.csv.read_csv(path, convert_options=options))


def _read_json(path: Path, schema: Schema) -> NamedColumns:
    import pyarrow.json

    with path.open(encoding="utf-8-sig") as lines:
        # Arrow is told the types of what is there, and only the lines say what that is: the first stands for all.
        first = json.loads(next(filter(str.strip, lines), "{}"))
    if not isinstance(first, dict):
        raise ValueError("its first line is no JSON object")
    if not first:
        return NamedColumns((), lambda name: None)
    kinds = dict(schema)
    read_as = {}
    # Only of what is there: Arrow would make up a column. Texts are not to be taken for times.
    for name, value in first.items():
        kind = kinds.get(name)
        if isinstance(value, str) or kind is Type.STRING:
            read_as[name] = pa.string()
        elif isinstance(value, float) or kind in _REALS:
            read_as[name] = pa.float64()
    options = pyarrow.json.ParseOptions(explicit_schema=pa.schema(list(read_as.items())))
    return _of_table(pyarrow.json.read_json(path, parse_options=options))


def _of_table(table: Any) -> NamedColumns:
    return NamedColumns(table.column_names, table.column)


# ------------------------------------------------------------------------------------------------------------- writing
def _write_parquet(table: Any, path: Path) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(table, path)


def _write_arrow(table: Any, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _write_csv(table: Any, path: Path) -> None:
    import pyarrow.csv

    pyarrow.csv.write_csv(pa.table(list(map(_flat, table.columns)), table.column_names), path)


def _write_json(table: Any, path: Path) -> None:
    columns = [_json_values(column) for column in table.columns]
    with path.open("w", encoding="utf-8") as file:
        for row in zip(*columns, strict=True):
            file.write(json.dumps(dict(zip(table.column_names, row, strict=True)), ensure_ascii=False) + "\n")


def _json_values(column: Any) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ")  # with ms, which are what a second is made of there
    elif pa.types.is_floating(column.type):
        # json.dumps would write NaN and Infinity, which are no JSON.
        column = pc.if_else(pc.is_finite(column), column, None)
    values: list[Any] = _flat(column).to_pylist()
    return values


def _flat(column: Any) -> Any:
    """Return a column whose values are not nested."""
    if not pa.types.is_nested(column.type):
        return column
    texts = [None if value is None else json.dumps(value, default=str) for value in column.to_pylist()]
    return pa.array(texts, pa.string())


_Read = Callable[[Path, Schema], NamedColumns]
_Write = Callable[[Any, Path], None]
_FORMS: dict[str, tuple[_Read, _Write]] = {
    ".parquet": (_read_parquet, _write_parquet),
    ".csv": (_read_csv, _write_csv),
    ".arrow": (_read_arrow, _write_arrow),
    ".feather": (_read_arrow, _write_arrow),
    ".jsonl": (_read_json, _write_json),
    ".ndjson": (_read_json, _write_json),
    ".json": (_read_json, _write_json),
}
