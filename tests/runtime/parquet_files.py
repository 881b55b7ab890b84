"""Parquet files that appear one after the other, for sources that read them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["put_file"]


def put_file(directory: Path, number: int, rows: list[tuple[str, int]], kind: pa.DataType) -> None:
    """Add a file of rows (k, n), each at n seconds; `kind` is that of n. It appears as a whole."""
    table = pa.table({
        "k": [k for k, _ in rows],
        "n": pa.array([n for _, n in rows]).cast(kind),
        "at": pa.array([1000 * n for _, n in rows], pa.timestamp("ms", tz="UTC")),
    })  # fmt: skip
    hidden = directory / f".{number}"
    pq.write_table(table, hidden)
    hidden.rename(directory / f"{number}.parquet")
