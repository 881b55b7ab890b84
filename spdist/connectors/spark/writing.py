"""Events written through any Spark connector, one batch after the other, each of which may be written again.

Files are staged in a hidden directory and moved to their place under names that follow from the batch: written again
they replace themselves. Delta is told who writes and which batch it is, and leaves out what it has. Other connectors
get what is written again once more; the ids of events tell.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from spdist.connectors.spark.options import SparkSinkOptions
from spdist.engine.frames.spark_types import EVENT_TIME, arrow_type
from spdist.errors import TransportError
from spdist.language.types import Schema

__all__ = ["ConnectorSink", "SinkBatch"]

_DELTA = "delta"


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """What is written together.

    Parameters
    ----------
    writer : str
        Who writes; it numbers its batches.
    number : int
        Of the batch: the same events whenever it is written.
    ids : sequence of str
        Of each event.
    times : sequence of int
        Timestamps of the events, ms.
    rows : sequence of tuple
        Their values.
    """

    writer: str
    number: int
    ids: Sequence[str]
    times: Sequence[int]
    rows: Sequence[tuple[Any, ...]]

    @property
    def name(self) -> str:
        """A text that no other batch has, fit for the names of files."""
        return f"{self.writer}-{self.number:010d}"


class ConnectorSink:
    """Writes batches through a connector.

    Parameters
    ----------
    session : SparkSession
        That writes.
    options : SparkSinkOptions
        Which connector, where, and which columns.
    schema : Schema
        The stream's attributes.
    """

    def __init__(self, session: SparkSession, options: SparkSinkOptions, schema: Schema) -> None:
        self._session = session
        self._options = options
        self._schema = schema

    def write(self, batch: SinkBatch) -> None:
        """Write a batch, which may have been written before, in part or whole; raises TransportError."""
        connector = self._options.connector
        try:
            frame = self._session.createDataFrame(self._table(batch))
            if connector.files and connector.path is not None and self._options.mode == "append":
                # One task, so that there is one file for each directory, and the same rows have the same names again.
                self._write_files(frame.coalesce(1), batch, connector.path)
                return
            writer = self._writer(frame).mode(self._options.mode)
            if connector.format == _DELTA:
                # Delta skips a version that this application has written already.
                writer = writer.option("txnAppId", batch.writer).option("txnVersion", str(batch.number))
            writer.save(None if connector.path is None else str(connector.path))
        except (PySparkException, Py4JError, OSError) as error:
            why = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise TransportError(f"Spark's '{connector.format}' does not write: {why.strip()}") from error

    def _writer(self, frame: DataFrame) -> DataFrameWriter:
        connector = self._options.connector
        writer = frame.write.format(connector.format).options(**connector.options)
        return writer.partitionBy(*self._options.partitions) if self._options.partitions else writer

    def _table(self, batch: SinkBatch) -> pa.Table:
        values = zip(*batch.rows, strict=True)
        columns = {
            name: pa.array(column, arrow_type(kind))
            for (name, kind), column in zip(self._schema, values, strict=True)
        }  # fmt: skip
        if self._options.time:
            # Spark's timestamps count microseconds.
            columns[self._options.time] = pa.array([1000 * ms for ms in batch.times], pa.int64()).cast(EVENT_TIME)
        if self._options.id:
            columns[self._options.id] = pa.array(batch.ids, pa.string())
        return pa.table(columns)

    def _write_files(self, frame: DataFrame, batch: SinkBatch, target: Path) -> None:
        """Stage files in a hidden directory, then move each to its place; those of a try before are replaced."""
        # Readers of Spark pass over what begins with a dot.
        staged = target / f".spdist-{batch.name}"
        # What a try that was cut off has left there is incomplete.
        shutil.rmtree(staged, ignore_errors=True)
        self._writer(frame).save(str(staged))
        numbers: dict[Path, int] = {}
        for file in sorted(path for path in staged.rglob("part-*") if path.is_file()):
            place = target / file.parent.relative_to(staged)
            number = numbers[place] = numbers.get(place, -1) + 1
            place.mkdir(parents=True, exist_ok=True)
            # First its content, then its name: after a power cut a name without content would be taken for written.
            _to_disk(file)
            file.replace(place / f"{batch.name}-{number:05d}{''.join(file.suffixes)}")
            _to_disk(place)
        shutil.rmtree(staged)


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
