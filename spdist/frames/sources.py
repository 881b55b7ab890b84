"""What somebody gives as events, whatever its form, as columns by name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from spdist.errors import MappingError
from spdist.frames.columns import NamedColumns
from spdist.frames.files import read_file
from spdist.language.types import Schema

__all__ = ["columns_of"]


def columns_of(given: Any, schema: Schema) -> NamedColumns | None:
    """Return the columns of what is given; None where it is an iterable, of rows.

    Parameters
    ----------
    given
        A data frame of pandas or polars, a table or batch of Arrow, or a reader of batches; a file's path; a mapping of
        columns.
    schema : Schema
        The attributes that are wanted: files that tell no types are read as these.

    Raises
    ------
    MappingError
        It is none of these, or a file that cannot be read.
    """
    if isinstance(given, str | os.PathLike):
        return read_file(Path(given), schema)
    # Neither library is loaded to find out.
    libraries = {base.__module__.partition(".")[0] for base in type(given).__mro__}
    if "polars" in libraries and hasattr(given, "collect"):
        # A lazy frame of polars has no values yet.
        given = given.collect()
    # Before Arrow's interface, which pandas has as well: it would lose the index.
    if "pandas" in libraries and hasattr(given, "columns"):
        return _of_pandas(given)
    if isinstance(given, pa.RecordBatch) or hasattr(given, "__arrow_c_stream__"):
        table = pa.table(given)
        return NamedColumns(table.column_names, table.column)
    if isinstance(given, Mapping):
        return NamedColumns(list(given), given.__getitem__)
    if isinstance(given, Iterable):
        return None
    raise MappingError(
        f"events cannot be read from {type(given).__module__}.{type(given).__qualname__}",
        hint="give a data frame, an Arrow table, a file's path, columns by name, or rows: (time, row) or dictionaries",
    )


def _of_pandas(frame: Any) -> NamedColumns:
    """Return the columns of a data frame, then the levels of its index."""
    levels = {name: place for place, name in enumerate(frame.index.names) if name not in (None, *frame.columns)}
    index = None
    if frame.index.dtype.kind == "M":  # datetimes, with zone or without
        # An index without a name is called as `reset_index` calls it.
        index = "index" if frame.index.name is None else frame.index.name
        levels.setdefault(index, 0)

    def get(name: str) -> Any:
        column = frame.index.get_level_values(levels[name]) if name in levels else frame[name]
        try:
            return pa.Array.from_pandas(column)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):  # of several types, or none of Arrow's
            return [None if missing else value for value, missing in zip(column, column.isna(), strict=True)]

    return NamedColumns([*frame.columns, *levels], get, index)
