"""``@source(type='spark')``: the rows of any Spark connector as events, each once, also after a crash.

Spark says how far it has read; what a micro-batch holds has numbers that follow from that of the batch. So what is
appended again after a failure is known to have been appended.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from spdist.connectors.positions import Position
from spdist.connectors.receiving import Looping, SourceContext
from spdist.connectors.spark.options import SparkSourceOptions
from spdist.errors import EngineError, TransportError

if TYPE_CHECKING:
    from spdist.connectors.spark.reading import ConnectorBatch
    from spdist.engine.spark.session import SparkHost

__all__ = ["SparkSource", "open_source"]

#: Rows that become events at a time.
_SLICE = 50_000
#: Rows of a micro-batch have room for so many numbers.
_BATCH_BITS = 32
_LOOK_S = 0.25


class SparkSource(Looping):
    """Runs a streaming query on a connector, and appends what it reads.

    Parameters
    ----------
    context : SourceContext
        Where events go. Options: ``format``, ``path``, ``time``, ``polling.interval`` in ms, and ``option.<name>``.
    directory : Path
        Below which it remembers what it has read: of each connector for itself, so that another format or path is read
        from its beginning.
    host : SparkHost, optional
        With the Spark session.

    Raises
    ------
    AppValidationError
        An option is wrong, or names what the app may not use.

    State
    -----
    Spark's checkpoint and one micro-batch, on the disk.
    """

    def __init__(self, context: SourceContext, directory: Path, host: SparkHost | None) -> None:
        super().__init__(f"the @source of stream '{context.stream}'")
        if host is None:
            raise EngineError("a source of type 'spark' needs a Spark session", hint="run the app on Spark")
        from spdist.connectors.spark.reading import ConnectorSource

        self._context = context
        self._options = SparkSourceOptions.of(context.options, context.annotation)
        self._directory = directory / self._options.connector.identity
        self._position = Position(self._directory / "producer.json")
        self._producer = ""
        self._waits: str | None = None
        self._source = ConnectorSource(
            host.session, context.options, self._options, context.schema, self._directory, self._append
        )

    def _begin(self) -> None:
        known = self._position.load()
        if known is None:
            known = {"producer": f"spark-{uuid.uuid4().hex}"}
            self._position.save(known)
        self._producer = known["producer"]
        with suppress(TransportError):  # it is tried again, and then it is said
            self._waits = self._source.start()

    @property
    def problem(self) -> str | None:
        """Why nothing comes in at the moment."""
        return self._problem or (self._waits and f"{self._name}: {self._waits}")

    def _turn(self) -> float:
        if self._source.runs:
            self._source.check()
        else:
            self._waits = self._source.start()
        return _LOOK_S

    def _end(self) -> None:
        self._source.stop()

    def _append(self, batch: ConnectorBatch) -> None:
        for start in range(0, len(batch.rows), _SLICE):
            chunks = []
            for time, row in batch.rows[start : start + _SLICE]:
                if self._options.time and time is None:
                    self._context.reject(repr(row), f"a row has no time in '{self._options.time}'", batch.at)
                else:
                    chunks.append(((batch.at if time is None else time, row),))
            # Numbered by the place of the slice, so that rejected rows do not shift the numbers of later slices.
            self._context.writer.append(chunks, batch.at, self._producer, (batch.number << _BATCH_BITS) + start)


def open_source(context: SourceContext) -> SparkSource:
    """Return the source of an annotation, not yet started."""
    return SparkSource(context, context.kept("spark"), context.node.host)
