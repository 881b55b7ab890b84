"""The sinks of an app: events become payloads, one chunk after the other, or all of a batch together.

Source: io.siddhi.core.stream.output.sink.Sink, SinkMapper, described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy

from spdist.engine.local.app_context import AppContext
from spdist.errors import MappingError, TransportError, TransportUnavailableError
from spdist.language import ast
from spdist.language.types import Schema, Type
from spdist.mapping.base import Event, MapSetting
from spdist.mapping.columns import ColumnarRows
from spdist.mapping.json_payloads import is_plain_json
from spdist.mapping.mappers import sink_mapper
from spdist.mapping.templates import Filled, Template
from spdist.operators.base import Arrival, Row
from spdist.operators.core.distribution import distribution
from spdist.operators.core.junction import Receiver
from spdist.transports.delivery import KEEPS_EVENTS, Deliveries, JsonTexts, Outbox, on_error_of, together
from spdist.transports.event_log import write_log
from spdist.transports.in_memory import IN_MEMORY, InMemoryBroker
from spdist.transports.options import written_in

__all__ = ["LOG", "AppSink", "PayloadTarget", "PayloadWriter", "map_of", "sink_of"]

Chunk = Sequence[Arrival]
#: Told the number of the first event of a chunk that cannot be written, the chunk, and why.
Unwritten = Callable[[int, Chunk, Exception], None]

LOG = "log"


def map_of(annotation: ast.Annotation) -> ast.Annotation | None:
    """Return the ``@map`` of a source or sink; None where none is written."""
    found = annotation.nested("map")
    return found[0] if found else None


class AppSink(Protocol):
    """One ``@sink``, with all its destinations."""

    def snapshot(self) -> Any:
        """Return the state as plain data."""
        ...

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        ...

    def number_from(self, number: int) -> None:
        """Go on numbering what it puts out from `number` on, where it numbers for itself."""
        ...


def sink_of(
    stream: ast.StreamDefinition, annotation: ast.Annotation, context: AppContext, target: PayloadTarget
) -> AppSink:
    """Return the sink that an annotation describes; it has subscribed to its stream."""
    chosen = next(iter(annotation.nested("distribution")), None)
    destinations = () if chosen is None else chosen.nested("destination")
    options = [_Options((annotation, one), stream.schema) for one in destinations]
    if not options:
        options = [_Options((annotation,), stream.schema)]
    junction = context.junction(stream.name)
    together = (
        target.outbox is not None
        and annotation.get("type") != IN_MEMORY  # heard inside immediately
        and on_error_of({"on.error": annotation.get("on.error") or ""}) not in KEEPS_EVENTS
        and len(options) == 1
        and not options[0].varying
        # What fails must reach those who wait for it in its place among the events.
        and junction.fault is None
        and junction.keep is None
        # Objects may change after they were put out.
        and Type.OBJECT not in stream.schema.types
    )
    if together and target.outbox is not None:
        return _Together(stream, annotation, context, options[0], target, target.outbox)
    return _OneByOne(stream, annotation, context, options, target)


class PayloadTarget:
    """Where the payloads of one sink go: into the outbox, or immediately to in-memory topics and the log.

    Parameters
    ----------
    context : AppContext
        Of the app.
    stream : str
        The sink's stream.
    broker : InMemoryBroker
        Where in-memory topics are.
    outbox : Outbox, optional
        Takes what sinks of all types put out.
    number : int
        Which of the app's sinks it is, from 0.
    """

    def __init__(
        self, context: AppContext, stream: str, broker: InMemoryBroker, outbox: Outbox | None, number: int
    ) -> None:
        self.outbox = outbox
        self.number = number
        self._default_prefix = f"{context.name} : {stream}"
        self._stream = stream
        self._broker = broker

    def put(self, kind: str, destination: int, options: Mapping[str, str], payload: Any, events: Chunk) -> None:
        """Let one payload go.

        Raises
        ------
        TransportUnavailableError
            It is for an in-memory topic to which nobody subscribes, and goes nowhere else.
        """
        topic = options.get("topic", "")
        if kind == IN_MEMORY and not self._broker.publish(topic, payload) and self.outbox is None:
            raise TransportUnavailableError(f"Nobody subscribes to the in-memory topic '{topic}'")
        if self.outbox is not None:
            place = (kind, self.number, destination, self._stream)
            self.outbox.add(place, self.complete(kind, options), payload, tuple(events))
        elif kind == LOG:
            write_log(options, self._default_prefix, payload)

    def complete(self, kind: str, options: Mapping[str, str]) -> Mapping[str, str]:
        """Return options with what only this side knows."""
        return {"prefix": self._default_prefix, **options} if kind == LOG else options


class _OneByOne:
    """A sink whose payloads are made as events come."""

    def __init__(
        self,
        stream: ast.StreamDefinition,
        annotation: ast.Annotation,
        context: AppContext,
        options: Sequence[_Options],
        target: PayloadTarget,
    ) -> None:
        self._stream = stream.name
        self._context = context
        self._target = target
        self._kind = annotation.get("type") or ""
        self._on_error = (annotation.get("on.error") or "LOG").upper()
        self._keeps = self._on_error in KEEPS_EVENTS
        self._hands_on = self._keeps or (target.outbox is not None and target.outbox.keeps_events)
        self._mapper = sink_mapper(MapSetting(stream.name, stream.schema, map_of(annotation)))
        self._options = options
        chosen = next(iter(annotation.nested("distribution")), None)
        self._distribution = (
            None
            if chosen is None
            else distribution(chosen.get("strategy") or "", len(options), chosen.get("partitionKey"), stream.schema)
        )
        context.junction(stream.name).subscribe(Receiver(self._receive, self._receive_chunk))

    def _receive(self, timestamp: int, row: Row) -> None:
        self._receive_chunk(((timestamp, row),))

    def _receive_chunk(self, arrivals: Sequence[Arrival]) -> None:
        shares = [(0, arrivals)] if self._distribution is None else self._distribution.share_out(arrivals)
        for destination, events in shares:
            for options, chunk in self._options[destination].of_each(events):
                self._send(destination, options, chunk)

    def _send(self, destination: int, options: Mapping[str, str], chunk: Chunk) -> None:
        try:
            payloads = self._mapper.write(chunk)
        except MappingError as error:
            self._failed(chunk, error)
            return
        # A mapping writes all events as one payload, or each as one of its own.
        single = len(payloads) == len(chunk)
        for number, payload in enumerate(payloads):
            events = () if not self._hands_on else chunk[number : number + 1] if single else chunk
            try:
                self._target.put(self._kind, destination, options, payload, events)
            except TransportUnavailableError as error:
                if self._keeps:
                    self._failed(events, error)

    def _failed(self, chunk: Sequence[Arrival], error: TransportError) -> None:
        if self._on_error == "STORE":
            self._context.errors.add(self._context.clock, self._context.name, self._stream, "sink", error, chunk)
        elif self._on_error == "STREAM":
            self._context.junction(self._stream).failed(chunk, error)
        else:
            self._context.failures.add(f"the sink of stream '{self._stream}'", chunk, error)

    def snapshot(self) -> Any:
        """Return the state of the mapping and of the distribution as plain data."""
        return [self._mapper.snapshot(), None if self._distribution is None else self._distribution.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        mapper, shares = state[:2]
        self._mapper.restore(mapper)
        if self._distribution is not None:
            self._distribution.restore(shares)

    def number_from(self, number: int) -> None:
        """Do nothing: the outbox numbers."""


class _Together:
    """A sink that only gathers events while operators run, and makes all payloads of a batch at its end.

    State
    -----
    That of the mapping, how many payloads were made, and the events of the running batch, without their timestamps
    where the mapping looks at none.
    """

    def __init__(
        self,
        stream: ast.StreamDefinition,
        annotation: ast.Annotation,
        context: AppContext,
        options: _Options,
        target: PayloadTarget,
        outbox: Outbox,
    ) -> None:
        kind = annotation.get("type") or ""
        self._context = context
        self._place = (kind, target.number, 0, stream.name, target.complete(kind, options.fixed))
        self._producer = outbox.producer
        self._writer = PayloadWriter(MapSetting(stream.name, stream.schema, map_of(annotation)))
        self._timestamps: list[int] = []
        self._rows: list[Row] = []
        #: Begin and end of what came as a chunk of several events.
        self._chunks: list[tuple[int, int]] = []
        #: Payloads of events that came before those.
        self._parts: list[Sequence[Any]] = []
        self._next = 0
        receive_columns = self._receive_columns if self._writer.quick else None
        context.junction(stream.name).subscribe(
            Receiver(
                self._collector(), self._receive_chunk, receive_rows=self._receive_rows, receive_columns=receive_columns
            )
        )
        outbox.ask(self._made)

    def _collector(self) -> Callable[[int, Row], None]:
        put_timestamp, put_row = self._timestamps.append, self._rows.append

        def receive(timestamp: int, row: Row) -> None:
            put_timestamp(timestamp)
            put_row(row)

        def receive_timeless(_timestamp: int, row: Row) -> None:
            put_row(row)

        return receive_timeless if self._writer.quick else receive

    def _receive_chunk(self, arrivals: Sequence[Arrival]) -> None:
        if not self._writer.quick:
            self._timestamps.extend([timestamp for timestamp, _ in arrivals])
        self._chunk([row for _, row in arrivals])

    def _receive_rows(self, timestamp: int, rows: list[Row]) -> None:
        if not self._writer.quick:
            self._timestamps.extend([timestamp] * len(rows))
        self._chunk(rows)

    def _chunk(self, rows: list[Row]) -> None:
        if len(rows) > 1:
            begin = len(self._rows)
            self._chunks.append((begin, begin + len(rows)))
        self._rows.extend(rows)

    def _receive_columns(self, rows: ColumnarRows, bounds: Any, *_: Any) -> None:
        # Events that came one by one before these stay in front of them
        self._parts += [*self._written(), self._writer.chunks(rows, bounds)]

    def _written(self) -> Iterator[Sequence[Any]]:
        """Make payloads of the events that have come one by one since it was done last."""
        if self._rows:
            try:
                # A copy, as JSON texts are made from the rows later, and the list goes on to be used
                yield self._writer.write(self._timestamps, self._rows.copy(), self._failed, self._chunks)
            finally:
                for collected in (self._timestamps, self._rows, self._chunks):
                    collected.clear()

    def _made(self) -> Deliveries | None:
        parts, self._parts = [*self._parts, *self._written()], []
        if not parts:
            return None
        payloads = together(parts)
        first, self._next = self._next, self._next + len(payloads)
        return Deliveries(*self._place, payloads, self._producer, first) if payloads else None

    def _failed(self, _number: int, chunk: Sequence[Arrival], error: Exception) -> None:
        stream = self._place[3]
        if isinstance(error, MappingError):
            self._context.failures.add(f"the sink of stream '{stream}'", chunk, error)
        else:
            self._context.junction(stream).failed(chunk, error)

    def snapshot(self) -> Any:
        """Return the state as plain data, in the form of other sinks, and how many payloads there were."""
        return [self._writer.mapper.snapshot(), None, self._next]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        mapper, _, self._next = state
        self._writer.mapper.restore(mapper)

    def number_from(self, number: int) -> None:
        """Go on numbering what it puts out from `number` on."""
        self._next = number


class PayloadWriter:
    """Writes many events of one sink.

    Parameters
    ----------
    setting : MapSetting
        The mapping.

    State
    -----
    That of the mapping: ``mapper``.
    """

    def __init__(self, setting: MapSetting) -> None:
        self.mapper = sink_mapper(setting)
        self._schema = setting.schema
        #: Whether events are written here, and not by the mapping: no timestamps are needed then.
        self.quick = is_plain_json(setting, "payload") and not setting.flag("validate.json", False)
        self._groups = setting.flag("event.grouping.enabled", True)

    def write(
        self,
        timestamps: Sequence[int],
        rows: Sequence[Row],
        unwritten: Unwritten,
        chunks: Sequence[tuple[int, int]] = (),
    ) -> Sequence[Any]:
        """Return the payloads of all events in order, as the mapping writes them chunk by chunk.

        Parameters
        ----------
        timestamps, rows : Sequence
            The events; where the writer is `quick` timestamps may be missing.
        unwritten : Callable
            Told of each chunk that cannot be written: it has no payload.
        chunks : Sequence of (begin, end)
            Where there are chunks of several events, in order; each other event is a chunk of its own.
        """
        if self.quick and rows:
            return JsonTexts.grouped(self._schema, rows, chunks if self._groups else ())
        events = list(zip(timestamps, rows, strict=True))
        made: list[Any] = []
        done = 0
        for begin, end in (*chunks, (len(events), len(events))):
            for number in range(done, begin):
                made += self._write(number, events[number : number + 1], unwritten)
            if end > begin:
                made += self._write(begin, events[begin:end], unwritten)
            done = end
        return made

    def chunks(self, rows: ColumnarRows, bounds: Any) -> Sequence[Any]:
        """Return the payloads of many chunks, at least one, where the writer is `quick`.

        Parameters
        ----------
        rows : ColumnarRows
            The events.
        bounds : numpy.ndarray
            At which of them each chunk begins, and where the last one ends.
        """
        return JsonTexts(self._schema, rows, bounds if self._groups else numpy.arange(len(rows) + 1))

    def _write(self, number: int, chunk: Sequence[Event], unwritten: Unwritten) -> list[Any]:
        try:
            return self.mapper.write(chunk)
        except Exception as error:  # whoever made the event by itself would have been told, too
            unwritten(number, chunk, error)
            return []


class _Options:
    """The options of one destination: those of the sink, its own before them; some differ from event to event."""

    def __init__(self, annotations: Sequence[ast.Annotation], schema: Schema) -> None:
        written = written_in(*annotations)
        templates = {key: Template(value, schema) for key, value in written.items()}
        self.varying = {key: template for key, template in templates.items() if template.varies}
        self.fixed = {key: value for key, value in written.items() if key not in self.varying}

    def of_each(self, events: Chunk) -> list[tuple[Mapping[str, str], Chunk]]:
        """Return the events of a chunk that share their options, in the order in which the chunk names them first."""
        if not self.varying:
            return [(self.fixed, events)]
        chunks: dict[tuple[Filled, ...], list[Arrival]] = {}
        for timestamp, row in events:
            filled = tuple(template.filled(row) for template in self.varying.values())
            chunks.setdefault(filled, []).append((timestamp, row))
        return [
            ({**self.fixed, **dict(zip(self.varying, filled, strict=True))}, chunk) for filled, chunk in chunks.items()
        ]
