"""What happens with a query's results: they are inserted into a stream, and shown to those who watch the query.

Source: io.siddhi.core.query.output.callback.InsertIntoStreamCallback, described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from spdist.language.checking.checked import CheckedQuery
from spdist.operators.base import EXPIRED, Arrival, Event, Row
from spdist.operators.core.junction import DirectTarget, Junction, ObserverFailed
from spdist.operators.selection.selector import SelectorOutput
from spdist.operators.tables.stores import Store, Target

__all__ = ["DeferredResults", "QueryObserver", "Streams", "insert_into", "sink_for"]

#: Takes the timestamp of a chunk's last event, its current events and its expired events.
QueryObserver = Callable[[int, list[Arrival], list[Arrival]], None]


class Streams(Protocol):
    """Where a query lives, as far as its results need it."""

    def junction(self, stream_id: str) -> Junction:
        """Return a stream."""
        ...


def sink_for(
    checked: CheckedQuery, place: Streams, stores: Mapping[str, Store], observers: list[QueryObserver]
) -> SelectorOutput:
    """Return where a query's results go: into a stream or a named window.

    Parameters
    ----------
    checked : CheckedQuery
        The query.
    place : Streams
        Where the instance of the query lives.
    stores : Mapping[str, Store]
        What the app keeps rows in, by id.
    observers : list of QueryObserver
        Those who watch the query; the list may grow later.
    """
    store: object = stores.get(checked.target)
    if store is not None and isinstance(store, Target):
        return insert_into(store, observers)
    return insert_into(place.junction(checked.target), observers)


def insert_into(target: Target, observers: list[QueryObserver]) -> SelectorOutput:
    """Return what inserts results into a stream or named window, where expired ones count as new events.

    Parameters
    ----------
    target : Target
        The stream or window.
    observers : list of QueryObserver
        Those who watch the query; the list may grow later.
    """
    insert, insert_chunk = target.receive, target.receive_chunk

    def receive(kind: int, timestamp: int, row: Row) -> None:
        if observers:
            _show(observers, [(kind, timestamp, row)])
        insert(timestamp, row)

    def receive_chunk(events: list[Event]) -> None:
        if observers:
            _show(observers, events)
        if len(events) == 1:
            _, timestamp, row = events[0]
            insert(timestamp, row)
        else:
            insert_chunk([(timestamp, row) for _, timestamp, row in events])

    def direct_target() -> DirectTarget | None:
        return target if isinstance(target, DirectTarget) and not observers else None

    return SelectorOutput(receive, receive_chunk, direct_target)


def _show(observers: list[QueryObserver], events: list[Event]) -> None:
    current = [(timestamp, row) for kind, timestamp, row in events if kind != EXPIRED]
    expired = [(timestamp, row) for kind, timestamp, row in events if kind == EXPIRED]
    try:
        for observer in observers:
            observer(events[-1][1], current, expired)
    except Exception as error:
        raise ObserverFailed(error) from error


class DeferredResults:
    """Holds results back while a stream's event is offered to several elements of a pattern, then delivers them.

    What one element lets through is one chunk then, also where it completes several matches: so Siddhi does it where
    two elements of a pattern read the same stream.
    """

    __slots__ = ("_chunks", "_open", "holds", "sink", "target")

    def __init__(self, target: SelectorOutput) -> None:
        self.target = target
        self.sink = SelectorOutput(self._receive, self._receive_chunk)
        self.holds = False
        self._open: list[Event] | None = None
        self._chunks: list[list[Event]] = []

    def _receive(self, kind: int, timestamp: int, row: Row) -> None:
        if self._open is None:
            self.target.receive(kind, timestamp, row)
        else:
            self._open.append((kind, timestamp, row))

    def _receive_chunk(self, events: list[Event]) -> None:
        if self._open is None:
            self.target.receive_chunk(events)
        else:
            self._open += events

    def begin(self) -> None:
        """Begin a new chunk; what is put out from now on is deferred."""
        self.holds = True
        if self._open:
            self._chunks.append(self._open)
        self._open = []

    def drop(self) -> None:
        """Stop deferring, and forget what was deferred."""
        self.holds = False
        self._open = None
        self._chunks.clear()

    def deliver(self) -> None:
        """Stop deferring, and put out what was deferred, chunk by chunk."""
        # First of all: what is put out may come back to this query, which then defers anew.
        self.holds = False
        if self._open:
            self._chunks.append(self._open)
        self._open = None
        chunks, self._chunks = self._chunks, []
        for chunk in chunks:
            self.target.receive_chunk(chunk)
