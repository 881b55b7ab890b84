"""What travels between groups: events as one Arrow IPC stream of one batch, columns first and last.

Columns of a payload, in order:

- ``__ts`` int64: the event's timestamp, ms.
- ``__order`` int64: the running number, given at the source, of the event that caused it; -1 where a timer did.
- ``__path`` binary, only where there is any: which outputs of which outputs of that cause it is, see
  `spdist.mapping.columns`.
- ``__at`` int64, only where it differs from ``__ts``: the producer's clock when it put the event out, ms. One machine
  would deliver the event at that time: what a batch window releases bears older timestamps.
- ``__chunk`` int64, only where a chunk has several events: its place in the chunk that was put out together, from 0.
- ``__place`` int64, only in a share of a payload (`spdist.engine.shards.splitting`): the row's place in the whole, from
  0.
- the attributes of the stream, by name, in the order of its definition.

An attribute travels as the Arrow type of its SiddhiQL type. SiddhiQL lets values through that are not of the declared
type (``cast`` never converts), and ``object`` holds anything: such a column travels as tagged JSON, so that the next
group sees the very values that the same query on one machine would see.

The records that hold payloads go through Spark, and into segments, as batches of Arrow, too.
"""

from __future__ import annotations

import base64
import json
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from spdist.errors import MappingError
from spdist.java.objects import Float, HashMap, HashSet, JSONArray, JSONObject, Long, Opaque
from spdist.language.types import Schema, Type
from spdist.mapping.base import Event, Lost
from spdist.mapping.columns import ARROW, PYTHON, ColumnarRows, EventList, Events, child
from spdist.mapping.payload_reader import Failed
from spdist.mapping.rejected import RejectCounter
from spdist.transports.base import Record
from spdist.transports.payloads.external import ExternalReader, is_marked, read_marked

__all__ = [
    "MAX_PAYLOAD_BYTES",
    "PLACE",
    "RECORD_DDL",
    "ROUTED_DDL",
    "Payload",
    "arrow_bytes",
    "column_values",
    "from_batch",
    "from_routed",
    "pack_value",
    "payload_columns",
    "since",
    "to_batch",
    "to_routed",
    "unpack_value",
    "unpacked",
]

log = logging.getLogger(__name__)

#: A payload is split between chunks above this size.
MAX_PAYLOAD_BYTES = 512 * 1024

#: The column that only shares of payloads have.
PLACE = "__place"
#: Fewer are made rows when they come: to keep them as columns costs more.
_FEW = 64
_ALWAYS = {"__ts", "__order"}
_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("count", pa.int32()),
        ("producer", pa.string()),
        ("seq", pa.int64()),
        ("clock", pa.int64()),
        ("value", pa.binary()),
    ]
)
#: The same in Spark's words.
RECORD_DDL = (
    "topic string, partition int, offset bigint, count int, producer string, seq bigint, clock bigint, value binary"
)

#: On the way to the islands: Spark partition and number of the shard first.
ROUTED_DDL = f"target int, shard int, {RECORD_DDL}"
_OPTIONAL = {"__path", "__at", "__chunk", PLACE}
_TAGGED = {b"spdist": b"tagged-json"}


class Payload:
    """Turns events of one stream into bytes and back.

    Parameters
    ----------
    schema : Schema
        The stream's attributes. A payload names its attributes; it is read by name.
    lost : Callable, optional
        Told of events of outsiders that do not fit, which are left out.
    adapts : bool
        Whether a payload of other attributes is read all the same: what the stream does not have is left out, and what
        it has besides is null. For topics between groups, where one of them may be updated before the other.
    foreign : bool
        Whether others than groups may have written a payload: then its columns are checked before they are read, as
        Arrow reads memory that is not there where they point to it.
    """

    def __init__(
        self, schema: Schema, lost: Lost | None = None, *, adapts: bool = False, foreign: bool = False
    ) -> None:
        self.schema = schema
        self._foreign = foreign
        self._lost: Lost = lost or RejectCounter("a topic").add
        self._adapts = adapts

    @cached_property
    def _outside(self) -> ExternalReader:
        return ExternalReader(self.schema)

    def encode(self, events: Events) -> bytes:
        """Return `events` as one payload; there may be none, as where those of an outsider's all did not fit."""
        if events.columns is not None:
            return arrow_bytes(events.columns)
        fields, arrays = _own_columns(events, has_paths=any(events.path))
        rows = events.rows
        widths = {rows.width} if isinstance(rows, ColumnarRows) else set(map(len, rows))
        if widths - {len(self.schema)}:
            raise ValueError(f"rows of {widths} values for {self.schema}")
        for place, (name, kind) in enumerate(self.schema):
            column = rows.column(place) if isinstance(rows, ColumnarRows) else None
            if column is not None and column.type == ARROW.get(kind):
                described, values = pa.field(name, ARROW[kind]), column
            else:
                listed = [row[place] for row in rows] if column is None else column.to_pylist()
                described, values = _encode_column(name, kind, listed)
            fields.append(described)
            arrays.append(values)
        return arrow_bytes(pa.record_batch(arrays, schema=pa.schema(fields)))

    def encode_within(self, events: Events, max_bytes: int = MAX_PAYLOAD_BYTES) -> Iterator[tuple[int, bytes]]:
        """Yield ``(count, payload)``, each payload at most `max_bytes` long where chunks allow it, in order."""
        encoded = self.encode(events)
        # Encoded first and measured: most payloads fit, and only of the others halves are encoded again.
        cut = _middle_cut(events) if len(encoded) > max_bytes else None
        if cut is None:
            yield len(events), encoded
            return
        yield from self.encode_within(events.part(0, cut), max_bytes)
        yield from self.encode_within(events.part(cut, len(events)), max_bytes)

    def decode(self, payload: bytes, skip: int = 0) -> Events:
        """Return the events of a payload but the first `skip`; of a share but those that were so in the whole.

        Raises
        ------
        MappingError
            The bytes are no payload, or not one of a stream with these attributes.
        """
        batch = self.read(payload)
        try:
            return self._decoded(batch, skip)
        except Exception as error:
            if not self._foreign:
                raise
            raise MappingError(f"a payload of {len(payload)} bytes holds what is no value: {error!r}") from error

    def _decoded(self, batch: Any, skip: int) -> Events:
        if skip and PLACE in batch.schema.names:
            # Rows of a share keep the order of the whole: the first one whose place is not below `skip` is wanted.
            skip = int(numpy.searchsorted(_numbers(batch, PLACE), skip))
        batch = batch.slice(skip)
        names, count = batch.schema.names, batch.num_rows
        ts = _numbers(batch, "__ts")
        at = _numbers(batch, "__at") if "__at" in names else ts
        path = batch.column("__path").to_pylist() if "__path" in names else [b""] * count
        chunk = _numbers(batch, "__chunk") if "__chunk" in names else numpy.zeros(count, numpy.int64)
        return Events(at, _numbers(batch, "__order"), path, chunk, ts, self._rows(batch))

    def _rows(self, batch: Any) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a batch, as columns where all are of the types of their attributes."""
        schema = batch.schema
        fields = [schema.field(name) for name in self.schema.names]
        # A batch of no columns would have no number of rows.
        if fields and batch.num_rows >= _FEW and self._typed(fields):
            return ColumnarRows(batch.select(self.schema.names), _nobody)
        columns = [column_values(batch.column(one.name), one.metadata) for one in fields]
        return list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows

    def _typed(self, fields: Sequence[Any]) -> bool:
        """Tell whether all columns are of the types of their attributes."""
        kinds = self.schema.types
        return all(one.type == ARROW.get(k) and one.metadata != _TAGGED for one, k in zip(fields, kinds, strict=True))

    def read(self, payload: bytes) -> Any:
        """Return a payload as an Arrow batch, one of outsiders too; raises MappingError as `decode` does."""
        if is_marked(payload):
            payload = self._of_outsiders(payload)
        try:
            with pa.ipc.open_stream(payload) as reader:
                batch = reader.read_next_batch()
            if self._foreign:
                _check_columns(batch, self.schema)
        except Exception as error:
            raise MappingError(
                f"a payload of {len(payload)} bytes is no Arrow batch: {error}",
                hint="only groups and feeds of spdist write to a topic between groups",
            ) from error
        expected = {*_ALWAYS, *self.schema.names}
        found = set(batch.schema.names)
        # By name and not by place: the order of attributes may differ between two versions of an app.
        if not expected <= found or found - expected - _OPTIONAL:
            own = ", ".join(name for name in batch.schema.names if not name.startswith("__"))
            if not self._adapts or not found >= _ALWAYS:
                raise MappingError(f"a payload has the attributes ({own}), the stream has {self.schema}")
            log.warning("a payload of another version of the app has the attributes (%s), not %s", own, self.schema)
            return self._adapted(batch)
        return batch

    def _adapted(self, batch: Any) -> Any:
        kept = [field for field in batch.schema if field.name in _ALWAYS | _OPTIONAL or field.name in self.schema.names]
        columns = [batch.column(field.name) for field in kept]
        missing = [(name, ARROW.get(kind, pa.null())) for name, kind in self.schema if name not in batch.schema.names]
        fields = [*kept, *(pa.field(name, kind) for name, kind in missing)]
        nulls = [pa.nulls(batch.num_rows, kind) for _, kind in missing]
        return pa.record_batch([*columns, *nulls], schema=pa.schema(fields))

    def decode_outside(self, values: Sequence[bytes], failed: Failed) -> Events:
        """Return the events of many payloads of outsiders (`spdist.transports.payloads.external.mark`), in order.

        Parameters
        ----------
        values : Sequence[bytes]
            The payloads, all of them marked.
        failed : Callable
            Told the number of each that cannot be read, and why.
        """
        return self._of_chunks(self._outside.read(values, self._lost, failed))

    def _of_outsiders(self, payload: bytes) -> bytes:
        return self.encode(self._of_chunks(read_marked(self.schema, payload, self._lost)))

    @staticmethod
    def _of_chunks(chunks: Iterable[tuple[int, int, list[Event]]]) -> Events:
        events = EventList()
        add = events.add
        for time_ms, order, chunk in chunks:
            for place, (ts, row) in enumerate(chunk):
                add(time_ms, order, child(b"", place) if len(chunk) > 1 else b"", place, ts, row)
        return events.events()


def arrow_bytes(batch: Any) -> bytes:
    """Return an Arrow batch as a stream of its own in Arrow's IPC format, its schema included."""
    # Measured before: a buffer that grows copies what it holds again and again.
    measured = pa.MockOutputStream()
    _write_stream(measured, batch)
    buffer = pa.allocate_buffer(measured.size())
    _write_stream(pa.FixedSizeBufferWriter(buffer), batch)
    written: bytes = buffer.to_pybytes()
    return written


def _write_stream(sink: Any, batch: Any) -> None:
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)


def _own_columns(events: Events, has_paths: bool) -> tuple[list[Any], list[Any]]:
    """Return the fields and arrays of what is not an attribute."""
    columns: dict[str, Any] = {"__ts": events.ts, "__order": events.order}
    if has_paths:
        columns["__path"] = events.path
    if not events.is_on_time:
        columns["__at"] = events.at
    if events.chunk.any():
        columns["__chunk"] = events.chunk
    kinds = {name: pa.binary() if name == "__path" else pa.int64() for name in columns}
    fields = [pa.field(name, kind, nullable=False) for name, kind in kinds.items()]
    return fields, [pa.array(values, kinds[name]) for name, values in columns.items()]


def _nobody() -> None:
    """Do nothing where rows are made of columns."""


def _numbers(batch: Any, name: str) -> Any:
    """Return a column of whole numbers, none of them null, as an array."""
    return batch.column(name).to_numpy()


def _check_columns(batch: Any, schema: Schema) -> None:
    """Raise ValueError where the columns of a batch are not what a payload has, or do not hold together."""
    batch.validate(full=True)
    own = {"__path": pa.binary()}
    attributes = {name: pa.string() if kind not in ARROW else ARROW[kind] for name, kind in schema}
    for one, column in zip(batch.schema, batch.columns, strict=True):
        tagged = one.name in attributes and one.metadata == _TAGGED
        wanted = pa.string() if tagged else attributes.get(one.name) or own.get(one.name, pa.int64())
        if one.type != wanted or (column.null_count and one.name not in attributes):
            raise ValueError(f"the column '{one.name}' is {one.type} with {column.null_count} nulls")


def payload_columns(events: Events, attributes: Any) -> Any:
    """Return the Arrow batch of events that have no path but in chunks of several.

    Parameters
    ----------
    events : Events
        At least one.
    attributes : pyarrow.RecordBatch
        Their values, as `spdist.mapping.json_columns.ColumnReader` returns them.
    """
    fields, arrays = _own_columns(events, has_paths=bool(events.chunk.any()))
    return pa.record_batch([*arrays, *attributes.columns], schema=pa.schema([*fields, *attributes.schema]))


def since(payload: bytes, order: int) -> bytes:
    """Return a payload without its first events, whose orders are below `order`; nothing where all are."""
    with pa.ipc.open_stream(payload) as reader:
        batch = reader.read_next_batch()
    start = int(numpy.searchsorted(_numbers(batch, "__order"), order))
    if not start:
        return payload
    return arrow_bytes(batch.slice(start)) if start < batch.num_rows else b""


def _middle_cut(events: Events) -> int | None:
    """Return where a chunk begins, as near to the middle as there is; None where all events are one chunk."""
    starts = numpy.flatnonzero(events.chunk[1:] == 0) + 1
    return int(starts[numpy.abs(starts - len(events) // 2).argmin()]) if len(starts) else None


def _encode_column(name: str, kind: Type, column: Sequence[Any]) -> tuple[Any, Any]:
    # The very types: to Arrow a bool would be a number, and a number a text.
    if kind in PYTHON and set(map(type, column)) <= {PYTHON[kind], type(None)}:
        try:
            return pa.field(name, ARROW[kind]), pa.array(column, ARROW[kind])
        except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
            pass  # out of range, or half a surrogate pair: the tagged form keeps it as it is
    tagged = [None if value is None else pack_value(value) for value in column]
    return pa.field(name, pa.string(), metadata=_TAGGED), pa.array(tagged, pa.string())


def column_values(column: Any, metadata: dict[bytes, bytes] | None) -> list[Any]:
    """Return the values of an attribute's column, whose field has this metadata."""
    values: list[Any] = column.to_pylist()
    if metadata != _TAGGED:
        return values
    return [None if value is None else unpack_value(value) for value in values]


def pack_value(value: Any) -> str:
    """Return any value of an ``object`` attribute as JSON, with tags that tell tuples, sets and bytes apart.

    Raises
    ------
    MappingError
        The value is of a type that cannot travel.
    """
    return json.dumps(_tag(value), separators=(",", ":"))


def unpack_value(text: str) -> Any:
    """Return what `pack_value` was given."""
    return _untag(json.loads(text))


_TAGS: dict[type, str] = {
    tuple: "t",
    set: "s",
    frozenset: "f",
    deque: "q",
    HashSet: "hs",
    JSONArray: "ja",
}
_SEQUENCES: dict[str, Any] = {tag: kind for kind, tag in _TAGS.items()}
_MAPS: dict[str, type[HashMap]] = {"hm": HashMap, "jo": JSONObject}


def _tag(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [_tag(item) for item in value]
    if kind is dict:
        return {"d": [[_tag(key), _tag(item)] for key, item in value.items()]}
    if (tag := _TAGS.get(kind)) is not None:
        return {tag: [_tag(item) for item in value]}
    for tag, mapped in _MAPS.items():
        if kind is mapped:
            # In the order in which keys came: that of the iteration follows from it and from the capacity.
            return {tag: [value.capacity, [[_tag(key), _tag(item)] for key, item in value.history()]]}
    if kind is Long:
        return {"l": int(value)}
    if kind is Float:
        return {"r": float(value)}
    if kind is bytes:
        return {"b": base64.b64encode(value).decode("ascii")}
    if kind is Decimal:
        return {"bd": str(value)}
    if kind is Opaque:
        return {"op": [value.java_class, value.text]}
    raise MappingError(
        f"a value of type {kind.__name__} cannot travel to another group",
        hint="object attributes may hold strings, numbers, booleans, bytes, lists, tuples, sets and dictionaries",
    )


def _untag(value: Any) -> Any:
    if isinstance(value, list):
        return [_untag(item) for item in value]
    if not isinstance(value, dict):
        return value
    # A dictionary of a value is tagged itself (d), so each JSON object here is one tag.
    ((tag, inner),) = value.items()
    if tag == "d":
        return {_untag(key): _untag(item) for key, item in inner}
    if tag in _MAPS:
        made = _MAPS[tag]()
        for key, item in inner[1]:
            made.put(_untag(key), _untag(item))
        made.capacity = inner[0]
        return made
    if tag in _SEQUENCES:
        return _SEQUENCES[tag](_untag(item) for item in inner)
    return _SINGLE[tag](inner)


_SINGLE: dict[str, Any] = {
    "l": Long,
    "r": Float,
    "b": base64.b64decode,
    "bd": Decimal,
    "op": lambda parts: Opaque(*parts),
}


def to_batch(records: Sequence[Record]) -> Any:
    """Return `records` as one Arrow batch."""
    columns = zip(
        *((r.topic, r.partition, r.offset, r.count, r.producer, r.seq, r.clock, r.value) for r in records), strict=True
    )
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    return pa.record_batch(arrays, schema=_SCHEMA)


def from_batch(batch: Any) -> Iterator[Record]:
    """Yield the records of a batch in order."""
    columns = [batch.column(name).to_pylist() for name in _SCHEMA.names]
    for topic, partition, offset, count, producer, seq, clock, value in zip(*columns, strict=True):
        yield Record(topic, partition, value, count, producer, seq, clock, offset)


def unpacked(value: bytes) -> Iterator[Record]:
    """Yield the records of batches in Arrow's bytes in order."""
    with pa.ipc.open_stream(value) as reader:
        for batch in reader:
            yield from from_batch(batch)


def to_routed(routed: Sequence[tuple[int, int, Record]]) -> Any:
    """Return ``(Spark partition, number of the shard, record)`` as one Arrow batch."""
    targets, shards, records = zip(*routed, strict=True)
    batch = to_batch(records)
    places = [pa.array(targets, pa.int32()), pa.array(shards, pa.int32())]
    return pa.record_batch([*places, *batch.columns], names=["target", "shard", *batch.schema.names])


def from_routed(batch: Any, target: int) -> Iterator[tuple[int, Record]]:
    """Yield number of the shard and record of each row for a Spark partition, in order."""
    # In Arrow, before any record is made: most rows are for others.
    batch = batch.filter(pc.equal(batch.column("target"), target))
    return zip(batch.column("shard").to_pylist(), from_batch(batch), strict=True)
