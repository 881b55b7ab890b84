"""Any Spark connector as a source: a streaming query that hands on the rows of each micro-batch, under its number.

Spark remembers in its checkpoint how far it is, and begins a micro-batch again that a crash has ended. What that
holds is on the disk before it is handed on, so that it is handed on again as it was: row for row, in the same order.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spdist.connectors.spark.columns import MatchedColumns, declared_columns, matched_columns
from spdist.connectors.spark.options import SparkSourceOptions
from spdist.engine.frames.spark_types import plain_values
from spdist.errors import TransportError
from spdist.language.types import Schema
from spdist.transports.options import Options
from spdist.transports.whole_files import write_whole

__all__ = ["ConnectorBatch", "ConnectorSource"]

log = logging.getLogger(__name__)

#: Formats whose files do not say which columns they have.
_DECLARED = ("csv", "json", "xml")
#: Formats whose files do: there is nothing to read before there is one.
_TOLD = ("avro", "orc", "parquet")
#: What Spark says where there is no file, or no directory, yet.
_NOTHING_YET = ("UNABLE_TO_INFER_SCHEMA", "PATH_NOT_FOUND", "DELTA_SCHEMA_NOT_SET", "DELTA_TABLE_NOT_FOUND")

#: How long a query may take until its first micro-batch is over before it counts as running, s.
_FIRST_S, _LOOK_S = 10.0, 0.05


@dataclass(frozen=True, slots=True)
class ConnectorBatch:
    """The rows of a micro-batch.

    Parameters
    ----------
    number : int
        The same whenever it is handed on; later ones have higher ones.
    at : int
        When it was read first, ms.
    rows : list of (time, row)
        Times in ms, None where the row has none; values as Siddhi has them.
    """

    number: int
    at: int
    rows: list[tuple[int | None, tuple[Any, ...]]]


class ConnectorSource:
    """A streaming query on a connector.

    Parameters
    ----------
    session : SparkSession
        Where it runs.
    read : Options
        Of the ``@source``, for messages.
    options : SparkSourceOptions
        What they say.
    schema : Schema
        The stream's attributes.
    directory : Path
        For Spark's checkpoint, and for the micro-batch that is being handed on.
    hand_on : callable
        Gets each batch, in a thread of its own, and returns once it cannot be lost; where it raises, the query ends
        and the batch comes again.

    State
    -----
    Spark's checkpoint, and the rows of one micro-batch, both in `directory`.
    """

    def __init__(
        self,
        session: SparkSession,
        read: Options,
        options: SparkSourceOptions,
        schema: Schema,
        directory: Path,
        hand_on: Callable[[ConnectorBatch], None],
    ) -> None:
        self._session = session
        self._read = read
        self._options = options
        self._schema = schema
        self._directory = directory
        self._hand_on = hand_on
        self._query: Any = None
        self._failure: Exception | None = None
        self._stopping = threading.Event()
        #: Held while a batch is handed on.
        self._busy = threading.Lock()

    def start(self) -> str | None:
        """Start the query; return why there is nothing to read yet, None where it runs.

        Raises
        ------
        AppValidationError
            Columns do not fit the stream.
        TransportError
            Spark cannot read it.
        """
        try:
            found = self._frame()
        except (PySparkException, Py4JError) as error:
            if any(code in str(error) for code in _NOTHING_YET):
                return f"{self._named()} has nothing to read yet"
            raise TransportError(f"{self._named()} cannot be read: {_first_line(error)}") from error
        matched = matched_columns(self._read, self._schema, found.schema, self._options.time)
        if matched.others:
            log.info("%s: columns that are no attributes are left out: %s", self._read.what, ", ".join(matched.others))
        writer = found.select(*matched.selected()).writeStream.foreachBatch(self._receiver(matched))
        writer = writer.option("checkpointLocation", str(self._directory / "checkpoint"))
        try:
            self._query = writer.trigger(processingTime=f"{self._options.interval_ms} milliseconds").start()
        except (PySparkException, Py4JError) as error:
            raise TransportError(f"{self._named()} does not start: {_first_line(error)}") from error
        # So an error of the first micro-batch is told by `start`, and not as the end of a query that runs.
        self._begun()
        return None

    def check(self) -> None:
        """Raise TransportError where the query has ended by itself; it may be started again then."""
        query = self._query
        if query is None or query.isActive:
            return
        self._query = None
        why = self._failure or query.exception() or "without a reason"
        self._failure = None
        raise TransportError(f"{self._named()} ended: {_first_line(why)}")

    @property
    def runs(self) -> bool:
        """Whether it was started, and has not been found to have ended."""
        return self._query is not None

    def stop(self) -> None:
        """End the query, after the batch that is being handed on."""
        self._stopping.set()
        # A batch that is being handed on is finished; the next one sees `_stopping`.
        with self._busy:
            query, self._query = self._query, None
        if query is not None:
            try:
                # Outside of the lock: the thread of the query may wait for it, and this for that thread.
                query.stop()
            except Exception as error:  # its JVM may be gone
                log.warning("%s did not end cleanly: %s", self._named(), _first_line(error))

    def _named(self) -> str:
        connector = self._options.connector
        return f"Spark's '{connector.format}'{'' if connector.path is None else f' in {connector.path}'}"

    def _begun(self) -> None:
        """Wait for the first micro-batch, or until there is none; raises TransportError where the query ends before."""
        query, end = self._query, time.monotonic() + _FIRST_S
        while query.isActive and time.monotonic() < end and not self._stopping.wait(_LOOK_S):
            if query.lastProgress is not None or query.status["message"].startswith("Waiting for"):
                break
        self.check()

    def _frame(self) -> DataFrame:
        connector = self._options.connector
        path = None if connector.path is None else str(connector.path)
        reader = self._session.readStream.format(connector.format).options(**connector.options)
        if connector.format in _DECLARED:
            reader = reader.schema(declared_columns(self._read, self._schema, self._options.time))
        elif connector.format in _TOLD:
            there = self._session.read.format(connector.format).options(**connector.options)
            reader = reader.schema(there.load(path).schema)
        return reader.load(path)

    def _receiver(self, matched: MatchedColumns) -> Callable[[DataFrame, int], None]:
        def receive(frame: DataFrame, number: int) -> None:
            with self._busy:
                try:
                    if self._stopping.is_set():
                        raise TransportError("it was told to stop")
                    self._hand_on(self._batch(frame, number, matched.schema))
                except Exception as error:
                    self._failure = error  # Spark's own says it among the lines of a traceback
                    raise

        return receive

    def _batch(self, frame: DataFrame, number: int, schema: Schema) -> ConnectorBatch:
        file = self._directory / "batch.arrow"
        known = _load(file, number, schema)
        if known is None:
            known = frame.toArrow(), int(time.time() * 1000)
            # On the disk before anybody has seen a row: who computes them again may get them in another order.
            _save(file, number, schema, *known)
        table, at = known
        columns = [plain_values(column.combine_chunks()) for column in table.columns]
        return ConnectorBatch(number, at, list(zip(columns[0], zip(*columns[1:], strict=True), strict=True)))


def _load(file: Path, number: int, schema: Schema) -> tuple[pa.Table, int] | None:
    """Return the rows of a batch, and when they were read, where they were noted before."""
    try:
        with pa.ipc.open_stream(file.read_bytes()) as reader:
            told = reader.schema.metadata
            # The file of another batch, or of a stream that was defined otherwise, is no copy of this one.
            if told[b"number"] == str(number).encode() and told[b"stream"] == str(schema).encode():
                return reader.read_all(), int(told[b"at"])
    except FileNotFoundError:
        pass
    except (OSError, pa.ArrowInvalid, KeyError, TypeError) as error:
        raise TransportError(f"what was being read is damaged, in {file}: {error}") from error
    return None


def _save(file: Path, number: int, schema: Schema, table: pa.Table, at: int) -> None:
    told = {"number": str(number), "stream": str(schema), "at": str(at)}
    sink = pa.BufferOutputStream()
    noted = table.replace_schema_metadata(told)
    with pa.ipc.new_stream(sink, noted.schema) as writer:
        writer.write_table(noted)
    write_whole(file, sink.getvalue().to_pybytes())


def _first_line(error: object) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__).strip()
