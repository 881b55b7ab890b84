"""The sources and sinks of an app: in virtual time in-memory topics and the log, others are left unconnected.

A sink gets the events of its stream after the queries that read it. Sources are connected when the app has started,
so what is published meanwhile is not heard.

Where there is an outbox, all sinks put their payloads into it and nothing leaves while operators run; only in-memory
topics are heard at once by the app's own sources, as in virtual time.

Source: io.siddhi.core.stream.input.source.Source, io.siddhi.core.stream.output.sink.Sink, described in our own words.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from spdist.engine.home import Home
from spdist.errors import MappingError
from spdist.language import ast
from spdist.language.checked import CheckedApp
from spdist.language.types import Schema
from spdist.mapping.base import MapSetting
from spdist.mapping.mappers import is_mapped, sink_mapper, source_mapper
from spdist.mapping.templates import Template
from spdist.operators.base import Arrival, Row
from spdist.operators.distribution import distribution
from spdist.transports.delivery import KEEPS_EVENTS, Outbox
from spdist.transports.event_log import write_log
from spdist.transports.in_memory import InMemoryBroker

__all__ = ["Endpoints"]

Chunk = Sequence[Arrival]

log = logging.getLogger(__name__)
_EMBEDDED = "embedded"
_IN_MEMORY = "inMemory"
_LOG = "log"


class Endpoints:
    """All sources and sinks of an app.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    home : Home
        Its streams and clock.
    broker : InMemoryBroker
        Where in-memory topics are.
    outbox : Outbox, optional
        Takes what sinks of all types put out. Without it, in-memory topics and the log get it at once.

    State
    -----
    Of each sink the destination that is next, of each mapping what it has written or read once, and how many payloads
    were put into the outbox.
    """

    def __init__(self, checked: CheckedApp, home: Home, broker: InMemoryBroker, outbox: Outbox | None = None) -> None:
        self._outbox = outbox
        #: By number; None for a sink that is not connected.
        self._sinks: list[_Sink | None] = []
        self._sources: list[_Source] = []
        for definition in checked.app.definitions:
            if not isinstance(definition, ast.StreamDefinition):
                continue
            for annotation in ast.find_annotations(definition.annotations, "sink"):
                self._sinks.append(self._sink(definition, annotation, home, broker))
            for annotation in ast.find_annotations(definition.annotations, "source"):
                # Where there is an outbox, others bring what sources of other types receive.
                known = (_IN_MEMORY,) if outbox is None or annotation.get("type") == _IN_MEMORY else None
                if known is not None and _connectable(annotation, definition.name, known):
                    self._sources.append(_Source(definition, annotation, home, broker))

    def _sink(
        self, definition: ast.StreamDefinition, annotation: ast.Annotation, home: Home, broker: InMemoryBroker
    ) -> _Sink | None:
        if self._outbox is not None and annotation.get("type") == _EMBEDDED:
            return None  # a topic between groups: the publisher writes it
        if not _connectable(annotation, definition.name, (_IN_MEMORY, _LOG) if self._outbox is None else None):
            return None
        target = _Target(home, definition.name, broker, self._outbox, len(self._sinks))
        return _Sink(definition, annotation, home, target)

    def start(self) -> None:
        """Connect the sources."""
        for source in self._sources:
            source.connect()

    def stop(self) -> None:
        """Disconnect the sources: a broker may outlive the app."""
        for source in self._sources:
            source.disconnect()

    def snapshot(self) -> Any:
        """Return the state as plain data."""
        return [
            [None if sink is None else sink.snapshot() for sink in self._sinks],
            [source.mapper.snapshot() for source in self._sources],
            0 if self._outbox is None else self._outbox.next,
        ]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        sinks, sources, collected = state
        for sink, stored in zip(self._sinks, sinks, strict=True):
            if sink is not None and stored is not None:
                sink.restore(stored)
        if self._outbox is not None:
            self._outbox.next = collected
        for source, stored in zip(self._sources, sources, strict=True):
            source.mapper.restore(stored)


def _connectable(annotation: ast.Annotation, stream: str, types: Sequence[str] | None) -> bool:
    """Tell whether an annotation is of one of these types, or None for any, and its mapping is built."""
    setting = MapSetting(stream, Schema(()), _map_of(annotation))
    kind = annotation.get("type")
    known = types is None or kind in types
    if known and is_mapped(setting):
        return True
    what = f"the mapping '{setting.text('type', '')}'" if known else f"type '{kind}'"
    log.warning("the @%s of stream '%s' has %s: it is not connected here", annotation.name, stream, what)
    return False


def _map_of(annotation: ast.Annotation) -> ast.Annotation | None:
    found = annotation.nested("map")
    return found[0] if found else None


class _Target:
    """Where the payloads of one sink go: into the outbox, or at once to in-memory topics and the log."""

    def __init__(self, home: Home, stream: str, broker: InMemoryBroker, outbox: Outbox | None, number: int) -> None:
        self._default_prefix = f"{home.name} : {stream}"
        self._stream = stream
        self._broker = broker
        self._outbox = outbox
        self._number = number

    def put(self, kind: str, destination: int, options: Mapping[str, str], payload: Any, events: Chunk) -> None:
        """Let one payload go."""
        if kind == _IN_MEMORY:
            self._broker.publish(options.get("topic", ""), payload)
        if self._outbox is not None:
            if kind == _LOG:
                options = {"prefix": self._default_prefix, **options}
            self._outbox.add((kind, self._number, destination, self._stream), options, payload, tuple(events))
        elif kind == _LOG:
            write_log(options, self._default_prefix, payload)


class _Sink:
    """One ``@sink``, with all its destinations."""

    def __init__(self, stream: ast.StreamDefinition, annotation: ast.Annotation, home: Home, target: _Target) -> None:
        self._stream = stream.name
        self._home = home
        self._target = target
        self._kind = annotation.get("type") or ""
        self._on_error = (annotation.get("on.error") or "LOG").upper()
        self._keeps = self._on_error in KEEPS_EVENTS
        self._mapper = sink_mapper(MapSetting(stream.name, stream.schema, _map_of(annotation)))
        chosen = next(iter(annotation.nested("distribution")), None)
        destinations = () if chosen is None else chosen.nested("destination")
        self._options = [_Options((annotation, one), stream.schema) for one in destinations]
        if not destinations:
            self._options = [_Options((annotation,), stream.schema)]
        self._distribution = (
            None
            if chosen is None
            else distribution(
                chosen.get("strategy") or "", len(self._options), chosen.get("partitionKey"), stream.schema
            )
        )
        home.junction(stream.name).subscribe(self._one, self._many)

    def _one(self, timestamp: int, row: Row) -> None:
        self._many(((timestamp, row),))

    def _many(self, arrivals: Sequence[Arrival]) -> None:
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
            events = () if not self._keeps else chunk[number : number + 1] if single else chunk
            self._target.put(self._kind, destination, options, payload, events)

    def _failed(self, chunk: Sequence[Arrival], error: MappingError) -> None:
        if self._on_error == "STORE":
            self._home.errors.add(self._home.clock, self._home.name, self._stream, "sink", error, chunk)
        elif self._on_error == "STREAM":
            self._home.junction(self._stream).failed(chunk, error)
        else:
            self._home.failures.add(f"the sink of stream '{self._stream}'", chunk, error)

    def snapshot(self) -> Any:
        """Return the state as plain data."""
        return [self._mapper.snapshot(), None if self._distribution is None else self._distribution.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        mapper, shares = state
        self._mapper.restore(mapper)
        if self._distribution is not None:
            self._distribution.restore(shares)


class _Options:
    """The options of one destination: those of the sink, its own before them; some differ from event to event."""

    def __init__(self, annotations: Sequence[ast.Annotation], schema: Schema) -> None:
        written = {
            (element.key or "").lower(): element.value for annotation in annotations for element in annotation.elements
        }
        templates = {key: Template(value, schema) for key, value in written.items()}
        self._varying = {key: template for key, template in templates.items() if template.varies}
        self._fixed = {key: value for key, value in written.items() if key not in self._varying}

    def of_each(self, events: Chunk) -> list[tuple[Mapping[str, str], Chunk]]:
        """Return the events of a chunk that share their options, in the order in which the chunk names them first."""
        if not self._varying:
            return [(self._fixed, events)]
        chunks: dict[tuple[str, ...], list[Arrival]] = {}
        for timestamp, row in events:
            filled = tuple(template.fill(row) for template in self._varying.values())
            chunks.setdefault(filled, []).append((timestamp, row))
        return [
            ({**self._fixed, **dict(zip(self._varying, filled, strict=True))}, chunk)
            for filled, chunk in chunks.items()
        ]


class _Source:
    """One ``@source``."""

    def __init__(
        self, stream: ast.StreamDefinition, annotation: ast.Annotation, home: Home, broker: InMemoryBroker
    ) -> None:
        self._stream = stream.name
        self._home = home
        self._broker = broker
        self._topic = annotation.get("topic") or ""
        self._stores_errors = (annotation.get("on.error") or "LOG").upper() == "STORE"
        self._junction = home.junction(stream.name)
        self._receiver = self._received
        self.mapper = source_mapper(MapSetting(stream.name, stream.schema, _map_of(annotation)))

    def connect(self) -> None:
        """Begin to listen."""
        self._broker.subscribe(self._topic, self._receiver)

    def disconnect(self) -> None:
        """Stop listening."""
        self._broker.unsubscribe(self._topic, self._receiver)

    def _received(self, payload: Any, properties: Mapping[str, Any]) -> None:
        def lost(error: MappingError) -> None:
            if self._stores_errors:
                home = self._home
                home.errors.add(home.clock, home.name, self._stream, "source", error, payload=payload)
            else:
                self._home.failures.add(f"the source of stream '{self._stream}'", ((0, ()),), error)

        try:
            chunks = self.mapper.read(payload, properties, self._home.clock.now, lost)
        except MappingError as error:
            lost(error)
            return
        for chunk in chunks:
            if len(chunk) == 1:
                self._junction.one(*chunk[0])
            else:
                self._junction.many(chunk)
