"""The sources and sinks of a local app: in-memory topics and the log; others are left unconnected.

A sink gets the events of its stream after the queries that read it. Sources are connected when the app has started,
so what is published meanwhile is not heard.

Source: io.siddhi.core.stream.input.source.Source, io.siddhi.core.stream.output.sink.Sink, described in our own words.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spdist.engine.home import Home
from spdist.errors import MappingError
from spdist.language import ast
from spdist.language.checked import CheckedApp
from spdist.language.types import Schema
from spdist.mapping.base import MapSetting
from spdist.mapping.mappers import is_mapped, sink_mapper, source_mapper
from spdist.mapping.passing import Events
from spdist.mapping.templates import Template
from spdist.operators.base import Arrival, Row
from spdist.operators.distribution import distribution
from spdist.transports.in_memory import InMemoryBroker

__all__ = ["Endpoints"]

log = logging.getLogger(__name__)
#: What ``@sink(type='log')`` writes.
events_log = logging.getLogger("spdist.events")

_IN_MEMORY = "inMemory"
_LOG = "log"
_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


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

    State
    -----
    Of each sink the destination that is next, of each mapping what it has written or read once.
    """

    def __init__(self, checked: CheckedApp, home: Home, broker: InMemoryBroker) -> None:
        self._sinks: list[_Sink] = []
        self._sources: list[_Source] = []
        for definition in checked.app.definitions:
            if not isinstance(definition, ast.StreamDefinition):
                continue
            for annotation in ast.find_annotations(definition.annotations, "sink"):
                if _connectable(annotation, definition.name, (_IN_MEMORY, _LOG)):
                    self._sinks.append(_Sink(definition, annotation, home, broker))
            for annotation in ast.find_annotations(definition.annotations, "source"):
                if _connectable(annotation, definition.name, (_IN_MEMORY,)):
                    self._sources.append(_Source(definition, annotation, home, broker))

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
        return [[sink.snapshot() for sink in self._sinks], [source.mapper.snapshot() for source in self._sources]]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        sinks, sources = state
        for sink, stored in zip(self._sinks, sinks, strict=True):
            sink.restore(stored)
        for source, stored in zip(self._sources, sources, strict=True):
            source.mapper.restore(stored)


def _connectable(annotation: ast.Annotation, stream: str, types: Sequence[str]) -> bool:
    setting = MapSetting(stream, Schema(()), _map_of(annotation))
    kind = annotation.get("type")
    if kind in types and is_mapped(setting):
        return True
    what = f"type '{kind}'" if kind not in types else f"the mapping '{setting.text('type', '')}'"
    log.warning("the @%s of stream '%s' has %s: it is not connected here", annotation.name, stream, what)
    return False


def _map_of(annotation: ast.Annotation) -> ast.Annotation | None:
    found = annotation.nested("map")
    return found[0] if found else None


class _Sink:
    """One ``@sink``."""

    def __init__(
        self, stream: ast.StreamDefinition, annotation: ast.Annotation, home: Home, broker: InMemoryBroker
    ) -> None:
        self._stream = stream.name
        self._home = home
        self._broker = broker
        self._on_error = (annotation.get("on.error") or "LOG").upper()
        self._mapper = sink_mapper(MapSetting(stream.name, stream.schema, _map_of(annotation)))
        if annotation.get("type") == _LOG:
            self._write = self._logger(annotation)
            self._topics = [Template("", stream.schema)]
        else:
            self._write = broker.publish
            self._topics = [Template(topic, stream.schema) for topic in _topics(annotation)]
        chosen = next(iter(annotation.nested("distribution")), None)
        self._distribution = (
            None
            if chosen is None
            else distribution(
                chosen.get("strategy") or "", len(self._topics), chosen.get("partitionKey"), stream.schema
            )
        )
        home.junction(stream.name).subscribe(self._one, self._many)

    def _logger(self, annotation: ast.Annotation) -> Callable[[str, Any], None]:
        prefix = annotation.get("prefix") or f"{self._home.name} : {self._stream}"
        level = _LEVELS.get((annotation.get("priority") or "INFO").upper())

        def write(_topic: str, payload: Any) -> None:
            if level is not None:
                events_log.log(level, "%s : %s", prefix, _shown(payload))

        return write

    def _one(self, timestamp: int, row: Row) -> None:
        self._many(((timestamp, row),))

    def _many(self, arrivals: Sequence[Arrival]) -> None:
        shares = [(0, arrivals)] if self._distribution is None else self._distribution.share_out(arrivals)
        for destination, events in shares:
            for topic, chunk in _by_topic(self._topics[destination], events):
                self._send(topic, chunk)

    def _send(self, topic: str, chunk: Sequence[Arrival]) -> None:
        try:
            payloads = self._mapper.write(chunk)
        except MappingError as error:
            self._failed(chunk, error)
            return
        for payload in payloads:
            self._write(topic, payload)

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


def _topics(annotation: ast.Annotation) -> list[str]:
    """Return the topic of each destination; one without its own has that of the sink."""
    own = annotation.get("topic") or ""
    destinations = [d for chosen in annotation.nested("distribution") for d in chosen.nested("destination")]
    return [destination.get("topic") or own for destination in destinations] or [own]


def _by_topic(topic: Template, events: Sequence[Arrival]) -> list[tuple[str, Sequence[Arrival]]]:
    """Return the events of each topic, in the order in which the chunk names them first."""
    if not topic.varies:
        return [(topic.fill(()), events)]
    chunks: dict[str, list[Arrival]] = {}
    for timestamp, row in events:
        chunks.setdefault(topic.fill(row), []).append((timestamp, row))
    return list(chunks.items())


def _shown(payload: Any) -> str:
    if not isinstance(payload, Events):
        return str(payload)
    events = [f"Event{{timestamp={ts}, data={list(row)}, isExpired=false}}" for ts, row in payload]
    return events[0] if len(events) == 1 else f"[{', '.join(events)}]"


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
