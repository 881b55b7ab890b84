"""``@sink(type='spark')``: writes through Spark what the tasks of a group have appended for its sinks.

What is about to be written is noted before: up to which record of the topic, under which number. Who goes on after a
crash writes just that again under the same number.
"""

from __future__ import annotations

import fcntl
import logging
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote

from spdist.connectors.positions import Position
from spdist.connectors.receiving import Looping
from spdist.connectors.spark.options import SparkSinkOptions
from spdist.connectors.spark.sink import spark_topic
from spdist.errors import SpdistError, TransportError
from spdist.language import ast
from spdist.language.types import Schema
from spdist.planning.compiled import CompiledInstance
from spdist.planning.topology import Assignment
from spdist.transports.base import Repeats, Transport
from spdist.transports.options import options_of, written_in
from spdist.transports.payloads.payload import Payload

if TYPE_CHECKING:
    from spdist.connectors.spark.writing import ConnectorSink
    from spdist.engine.spark.session import SparkHost

__all__ = ["SparkWriter", "spark_writers"]

log = logging.getLogger(__name__)

#: Records that are written together at most.
_MOST = 2000


class SparkWriter(Looping):
    """Follows the topic of a sink and writes what is there, batch by batch.

    Parameters
    ----------
    stream : str
        The sink's stream.
    topic : str
        Where its events are.
    schema : Schema
        The stream's attributes.
    sink : ConnectorSink
        What writes.
    transport : Transport
        Of the topic.
    position : Path
        Where it remembers what it has written. Whoever holds the lock next to it writes.

    State
    -----
    How far it is, on the disk; a number for each producer.
    """

    _PAUSE_S = 0.2

    def __init__(
        self,
        stream: str,
        topic: str,
        schema: Schema,
        sink: ConnectorSink,
        transport: Transport,
        position: Path,
    ) -> None:
        super().__init__(f"the @sink of stream '{stream}'")
        self._topic = topic
        self._payload = Payload(schema)
        self._sink = sink
        self._transport = transport
        self._position = Position(position)
        self._lock_file = position.with_suffix(".lock")
        self._lock: IO[bytes] | None = None
        self._known: dict[str, Any] = {}

    def finish(self, until: float) -> None:
        """Write what is there, after `stop`; what is left at `until`, of `time.monotonic`, the next start writes."""
        try:
            while time.monotonic() < until and self._turn() == 0.0:
                pass
        except SpdistError as error:
            log.warning("%s: what is left is written by the next start: %s", self._name, error)
        finally:
            self._end()

    def _begin(self) -> None:
        self._transport.ensure(self._topic, 1)

    def _turn(self) -> float:
        self._own()
        known = self._known
        if known["end"] is None:
            records = self._transport.read(self._topic, 0, known["offset"], _MOST)
            if not records:
                return self._PAUSE_S
            known["end"] = records[-1].offset + 1
            # Before the write: who repeats it takes the same records under the same number, whatever came meanwhile.
            self._position.save(known)
        else:
            # A write of before has failed or was cut off: just these records again, and none behind them.
            records = self._noted(known["offset"], known["end"])
        self._write(records)
        return 0.0

    def _own(self) -> None:
        """Become the only one who writes; raises TransportError where another process does."""
        if self._lock is not None:
            return
        self._lock_file.parent.mkdir(parents=True, exist_ok=True)
        lock = self._lock_file.open("ab")
        try:
            # The system releases it when the process ends, in whatever way; who does not get it tries again later.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise TransportError("another process still writes for it") from error
        self._lock = lock
        fresh = {"writer": f"spdist-{uuid.uuid4().hex}", "number": 0, "offset": 0, "end": None, "seen": {}}
        # Only under the lock: the one before has saved its last position by then.
        self._known = self._position.load() or fresh

    def _noted(self, offset: int, end: int) -> list[Any]:
        records: list[Any] = []
        while offset < end:
            more = [one for one in self._transport.read(self._topic, 0, offset, _MOST) if one.offset < end]
            if not more:
                break
            records += more
            offset = more[-1].offset + 1
        return records

    def _write(self, records: Sequence[Any]) -> None:
        from spdist.connectors.spark.writing import SinkBatch

        known = self._known
        repeats = Repeats({(self._topic, 0, producer): number for producer, number in known["seen"].items()})
        ids: list[str] = []
        times: list[int] = []
        rows: list[tuple[Any, ...]] = []
        for one in records:
            # Tasks append again after a failure: the events that are there under the same ids are passed over.
            fresh = repeats.fresh(one)
            if fresh < one.count:
                events = self._payload.decode(one.value, fresh)
                ids += [f"{one.producer}:{one.seq + number}" for number in range(fresh, one.count)]
                times += events.ts.tolist()
                rows += events.rows
        if rows:
            self._sink.write(SinkBatch(known["writer"], known["number"], ids, times, rows))
        seen = {producer: number for (_, _, producer), number in repeats.seen.items()}
        # Also where all were repeats: the offset moves on, and the number is used for nothing else.
        self._known = {**known, "number": known["number"] + 1, "offset": known["end"], "end": None, "seen": seen}
        self._position.save(self._known)

    def _end(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()


def spark_writers(assignment: Assignment, transport: Transport, host: SparkHost) -> tuple[SparkWriter, ...]:
    """Return what writes for the sinks of an instance, not yet started: the first of its group writes for all.

    Raises
    ------
    SiddhiAppError
        An option is missing or wrong; shows where.
    """
    # Most apps have no such sink: they are not compiled for it.
    if "spark" not in assignment.text or not _is_first(assignment):
        return ()
    from spdist.connectors.spark.writing import ConnectorSink

    made: dict[str, SparkWriter] = {}
    checked = CompiledInstance.of(assignment, host.config.script.python_enabled).checked
    for definition in checked.app.definitions:
        sinks = ast.find_annotations(definition.annotations, "sink")
        for sink in sinks if isinstance(definition, ast.StreamDefinition) else ():
            if sink.get("type") == "spark":
                stream = definition.name
                schema = checked.streams[stream]
                options = SparkSinkOptions.of(options_of(sink, stream, host.allowed), sink, schema)
                topic = spark_topic(assignment.group, stream, written_in(sink))
                writes = ConnectorSink(host.session, options, schema)
                position = host.log_directory / f"{quote(topic, safe=' ')}.position.json"
                made[topic] = SparkWriter(stream, topic, schema, writes, transport, position)
    return tuple(made.values())


def _is_first(assignment: Assignment) -> bool:
    """Tell whether an instance is the first of its group."""
    return assignment.name in (assignment.app, f"{assignment.group}-1")
