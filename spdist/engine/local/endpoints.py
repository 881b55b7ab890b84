"""The sources and sinks of an app: in virtual time in-memory topics and the log, others are left unconnected.

A sink gets the events of its stream after the queries that read it. Sources are connected when the app has started,
so what is published meanwhile is not heard.

Where there is an outbox, all sinks put their payloads into it and nothing leaves while operators run; only in-memory
topics are heard immediately by the app's own sources, as in virtual time.

Source: io.siddhi.core.stream.input.source.Source, io.siddhi.core.stream.output.sink.Sink, described in our own words.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from spdist.engine.local.app_context import AppContext
from spdist.engine.local.sinks import LOG, AppSink, PayloadTarget, map_of, sink_of
from spdist.engine.local.stateful_parts import StatefulPart
from spdist.errors import MappingError
from spdist.language import ast
from spdist.language.checking.checked import CheckedApp
from spdist.language.types import Schema
from spdist.mapping.base import MapSetting
from spdist.mapping.mappers import is_mapped, source_mapper
from spdist.transports.delivery import Outbox
from spdist.transports.in_memory import IN_MEMORY, InMemoryBroker

__all__ = ["Endpoints"]

log = logging.getLogger(__name__)
_EMBEDDED = "embedded"


class Endpoints:
    """All sources and sinks of an app.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    context : AppContext
        Its streams and clock.
    broker : InMemoryBroker
        Where in-memory topics are.
    outbox : Outbox, optional
        Takes what sinks of all types put out. Without it, in-memory topics and the log get it immediately.

    State
    -----
    Of each sink the destination that is next and how many payloads it made, of each mapping what it has written or read
    once, and how many payloads were put into the outbox one by one.
    """

    def __init__(
        self, checked: CheckedApp, context: AppContext, broker: InMemoryBroker, outbox: Outbox | None = None
    ) -> None:
        self._outbox = outbox
        #: By number; None for a sink that is not connected.
        self._sinks: list[AppSink | None] = []
        self._sources: dict[int, _Source] = {}
        sources = 0
        for definition in checked.app.definitions:
            if not isinstance(definition, ast.StreamDefinition):
                continue
            for annotation in ast.find_annotations(definition.annotations, "sink"):
                self._sinks.append(self._sink(definition, annotation, context, broker))
            for annotation in ast.find_annotations(definition.annotations, "source"):
                # Where there is an outbox, others bring what sources of other types receive.
                known = (IN_MEMORY,) if outbox is None or annotation.get("type") == IN_MEMORY else None
                if known is not None and _connectable(annotation, definition.name, known):
                    self._sources[sources] = _Source(definition, annotation, context, broker)
                sources += 1

    def _sink(
        self, definition: ast.StreamDefinition, annotation: ast.Annotation, context: AppContext, broker: InMemoryBroker
    ) -> AppSink | None:
        if self._outbox is not None and annotation.get("type") == _EMBEDDED:
            return None  # a topic between groups: the publisher writes it
        if not _connectable(annotation, definition.name, (IN_MEMORY, LOG) if self._outbox is None else None):
            return None
        target = PayloadTarget(context, definition.name, broker, self._outbox, len(self._sinks))
        return sink_of(definition, annotation, context, target)

    def start(self) -> None:
        """Connect the sources."""
        for source in self._sources.values():
            source.connect()

    def stop(self) -> None:
        """Disconnect the sources: a broker may outlive the app."""
        for source in self._sources.values():
            source.disconnect()

    @property
    def put_out(self) -> int:
        """How many payloads were put into the outbox one by one."""
        return 0 if self._outbox is None else self._outbox.next

    @put_out.setter
    def put_out(self, number: int) -> None:
        if self._outbox is not None:
            self._outbox.next = number

    def _number_anew(self, sink: AppSink) -> None:
        sink.number_from(self.put_out)

    def parts(self) -> dict[tuple[str, str], StatefulPart]:
        """Return what is connected, by kind and key, see `spdist.planning.updates.fingerprints.AppElement`."""
        sinks = {
            ("sink", str(number)): StatefulPart(sink.snapshot, sink.restore, partial(self._number_anew, sink))
            for number, sink in enumerate(self._sinks)
            if sink is not None
        }
        sources = {
            ("source", str(number)): StatefulPart(source.mapper.snapshot, source.mapper.restore)
            for number, source in self._sources.items()
        }
        return {**sinks, **sources}


def _connectable(annotation: ast.Annotation, stream: str, types: Sequence[str] | None) -> bool:
    """Tell whether an annotation is of one of these types, or None for any, and its mapping is built."""
    setting = MapSetting(stream, Schema(()), map_of(annotation))
    kind = annotation.get("type")
    known = types is None or kind in types
    if known and is_mapped(setting):
        return True
    what = f"the mapping '{setting.text('type', '')}'" if known else f"type '{kind}'"
    log.warning("the @%s of stream '%s' has %s: it is not connected here", annotation.name, stream, what)
    return False


class _Source:
    """One ``@source``."""

    def __init__(
        self, stream: ast.StreamDefinition, annotation: ast.Annotation, context: AppContext, broker: InMemoryBroker
    ) -> None:
        self._stream = stream.name
        self._context = context
        self._broker = broker
        self._topic = annotation.get("topic") or ""
        self._stores_errors = (annotation.get("on.error") or "LOG").upper() == "STORE"
        self._junction = context.junction(stream.name)
        self._receiver = self._received
        self.mapper = source_mapper(MapSetting(stream.name, stream.schema, map_of(annotation)))

    def connect(self) -> None:
        """Begin to listen."""
        self._broker.subscribe(self._topic, self._receiver)

    def disconnect(self) -> None:
        """Stop listening."""
        self._broker.unsubscribe(self._topic, self._receiver)

    def _received(self, payload: Any, properties: Mapping[str, Any]) -> None:
        def lost(error: MappingError) -> None:
            if self._stores_errors:
                context = self._context
                context.errors.add(context.clock, context.name, self._stream, "source", error, payload=payload)
            else:
                # There is no event yet: one without values stands for it, to be counted
                self._context.failures.add(f"the source of stream '{self._stream}'", ((0, ()),), error)

        try:
            chunks = self.mapper.read(payload, properties, self._context.clock.now, lost)
        except MappingError as error:
            lost(error)
            return
        for chunk in chunks:
            if len(chunk) == 1:
                self._junction.receive(*chunk[0])
            else:
                self._junction.receive_chunk(chunk)
