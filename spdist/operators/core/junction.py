"""Where the events of one stream meet those who receive them.

Delivery is depth first: what a receiver inserts into other streams is processed before the next receiver gets the
event. A receiver that fails ends the delivery of that event: the receivers after it do not see it.

Source: io.siddhi.core.stream.StreamJunction, described in our own words.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from spdist.errors import ErrorKind, SpdistError
from spdist.mapping.bounds import shown
from spdist.operators.base import Arrival, Row, VirtualClock
from spdist.operators.core.faults import error_text

__all__ = [
    "NO_TIMER",
    "DirectTarget",
    "Drive",
    "Failures",
    "Junction",
    "Loop",
    "LoopMaker",
    "ObserverFailed",
    "ReceiveColumns",
    "Receiver",
    "StreamPart",
    "guarded",
]

log = logging.getLogger(__name__)

Receive = Callable[[int, Row], None]
ReceiveChunk = Callable[[Sequence[Arrival]], None]
#: Receives the rows of events that are one chunk and have the same timestamp, at least one.
ReceiveRows = Callable[[int, list[Row]], None]
#: Receives many chunks together: their rows; at which row each chunk begins and the last one ends, as an int64 array;
#: likewise which of the events that were processed together has caused each, ascending; and the timestamps of the
#: rows, None where they are those of the causes. Where an event causes several chunks, or some to several streams,
#: also which of all that it causes each row is. Where timers put out some, before the event that is their cause, also
#: when each chunk is put out, `NO_TIMER` where an event has caused it; of those of a timer it is told which of all at
#: that time a row is.
ReceiveColumns = Callable[..., None]
NO_TIMER = -(2**63)
#: Takes timestamps and rows of events of one stream, each a chunk of its own, and lets time pass between them.
Loop = Callable[[Iterable[int], Iterable[Row]], None]


@dataclass(frozen=True, slots=True)
class StreamPart:
    """What is of one stream among chunks of one or several.

    Parameters
    ----------
    times : numpy.ndarray
        When the chunks are due, ms, int64; they never fall.
    ranks : numpy.ndarray
        Which of all the chunks each is, int64, ascending.
    rows : Sequence of tuple
        The values of the events.
    stamps : numpy.ndarray, optional
        The timestamps of the events; None where each is a chunk that is due at its timestamp.
    bounds : numpy.ndarray, optional
        At which event each chunk begins, and the last one ends, int64; None where each event is a chunk of its own.
    until : numpy.ndarray, optional
        Until when timers fire before each chunk, ms, int64, where that is not always when it is due: what timers of
        another group put out comes before what timers here do at that time.
    """

    times: Any
    ranks: Any
    rows: Sequence[Row]
    stamps: Any = None
    bounds: Any = None
    until: Any = None

    @property
    def timestamps(self) -> Any:
        """The timestamps of the events, ms, int64."""
        return self.times if self.stamps is None else self.stamps

    @property
    def is_ahead(self) -> bool:
        """Whether the timestamp of an event lies ahead of when its chunk is due, so of the clock."""
        if self.stamps is None:
            return False
        # When each event's chunk is due: once for each of its events.
        due = self.times if self.bounds is None else self.times.repeat(self.bounds[1:] - self.bounds[:-1])
        return bool((self.stamps > due).any())

    def chunks(self) -> Iterator[Sequence[Arrival]]:
        """Yield the events of each chunk."""
        events = zip(self.timestamps.tolist(), self.rows, strict=True)
        if self.bounds is None:
            return zip(events)
        return ([*islice(events, size)] for size in (self.bounds[1:] - self.bounds[:-1]).tolist())

    def arrivals(self, place: int) -> list[Arrival]:
        """Return the events of the chunk at a place."""
        begin, end = (place, place + 1) if self.bounds is None else self.bounds[place : place + 2].tolist()
        return list(zip(self.timestamps[begin:end].tolist(), self.rows[begin:end], strict=True))


@dataclass(frozen=True, slots=True)
class Drive:
    """What a loop over events needs of the app and of the stream.

    Parameters
    ----------
    clock : VirtualClock
        The app's time.
    heap : list
        The timers, first due first.
    move : Callable[[int], None]
        Lets time pass until an event's timestamp, where a timer is due by then.
    failed : Callable
        Takes the event that a query failed on, and the error.
    """

    clock: VirtualClock
    heap: list[Any]
    move: Callable[[int], None]
    failed: Callable[[Sequence[Arrival], Exception], None]


#: Makes the loop of a stream's only receiver, as it is watched now; see `spdist.operators.queries.loops`.
LoopMaker = Callable[[Drive], Loop]


@dataclass(frozen=True, slots=True)
class Receiver:
    """Who gets the events of a stream.

    Parameters
    ----------
    receive, receive_chunk : Callable
        Receive a single event, and the events of one chunk.
    loop : LoopMaker, optional
        Makes what takes many single events faster than `receive` does.
    receive_rows : ReceiveRows, optional
        Receives chunks faster than `receive_chunk` does; of a receiver that only collects events, and cannot fail.
    receive_columns : ReceiveColumns, optional
        Receives many chunks together; of a receiver that only collects events and looks at no timestamps.
    """

    receive: Receive
    receive_chunk: ReceiveChunk
    loop: LoopMaker | None = None
    receive_rows: ReceiveRows | None = None
    receive_columns: ReceiveColumns | None = None


class ObserverFailed(BaseException):
    """Carries an error of an observer past the queries, whose own failures only cost the event.

    It is no `Exception` so that nothing between the observer and the app's entry takes it for a failure of a query.
    """

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


def guarded(call: Callable[[Any], None], argument: Any) -> None:
    """Call from outside of all queries: an error of an observer comes out as itself."""
    try:
        call(argument)
    except ObserverFailed as failed:
        raise failed.cause from None


#: Failures of a kind whose reasons are kept.
_KEPT = 5


class Failures:
    """Counts the events that were lost because a query failed on them, as Siddhi's log does.

    State
    -----
    ``count``, of which ``refused`` lay too far ahead of the clock; the ``reasons`` of the first failures, and apart
    from them the ``refusals``: five of each at most.
    """

    __slots__ = ("count", "latest", "reasons", "refusals", "refused")

    def __init__(self) -> None:
        self.count = 0
        self.refused = 0
        self.latest: str | None = None
        self.reasons: list[str] = []
        self.refusals: list[str] = []

    def add(self, where: str, events: Sequence[Arrival], error: Exception) -> None:
        """Count a failure; the first one is logged with its traceback, later ones briefly."""
        self.count += len(events)
        self.latest = f"{where}: {type(error).__name__}: {error}"
        code = error.code if isinstance(error, SpdistError) else None
        is_refused = code == ErrorKind.CLOCK_JUMP
        self.refused += len(events) if is_refused else 0
        told = self.refusals if is_refused else self.reasons
        if len(told) < _KEPT:
            why = error.message if isinstance(error, SpdistError) else f"{type(error).__name__}: {error}"
            told.append(f"{where}, {shown(events[0])}: {why}")
        if code in (ErrorKind.CLOCK_JUMP, ErrorKind.FEEDBACK):
            tell = log.warning if self.count == len(events) else log.info
            tell("dropping %d event(s) of %s: %s", len(events), where, error)
            return
        brief = "dropping %d event(s) of %s, a query failed: %s"
        if self.count == len(events):
            log.warning(brief, len(events), where, error, exc_info=error)
        else:
            log.info(brief, len(events), where, error)


@runtime_checkable
class DirectTarget(Protocol):
    """What receives a query's results with nothing in between: a stream, or a table."""

    def receive(self, timestamp: int, row: Row) -> None:
        """Receive one event."""
        ...

    def receive_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Receive the events of one chunk."""
        ...

    def only_observer(self) -> Callable[[int, Row], None] | None:
        """Return the only one who gets the events, where that is an observer; else None."""
        ...

    def receive_rows(self, timestamp: int, rows: list[Row]) -> None:
        """Receive the events of one chunk that all have the same timestamp."""
        ...

    def columns_receiver(self) -> ReceiveColumns | None:
        """Return what receives many chunks together, where the only receiver does; else None."""
        ...


class Junction:
    """One stream of a running app.

    Parameters
    ----------
    id : str
        The stream's id.
    failures : Failures
        Where events are counted that a query failed on.
    fault : Junction, optional
        The fault stream ``!id``, which gets the event and the error instead (``@OnError(action='STREAM')``).
    keep : Callable, optional
        Takes the events and the error instead, to keep them (``@OnError(action='STORE')``).
    """

    __slots__ = (
        "_receivers",
        "_receives",
        "_receives_chunks",
        "failures",
        "fault",
        "id",
        "keep",
        "observers",
    )

    def __init__(
        self,
        id: str,
        failures: Failures,
        fault: Junction | None = None,
        keep: Callable[[Sequence[Arrival], Exception], None] | None = None,
    ) -> None:
        self.id = id
        self.failures = failures
        self.fault = fault
        self.keep = keep
        self.observers: list[Callable[[int, Row], None]] = []
        self._receivers: list[Receiver] = []
        #: Their functions for events and for chunks: to look them up at each event would cost as much as some take.
        self._receives: list[Receive] = []
        self._receives_chunks: list[ReceiveChunk] = []

    def subscribe(self, receiver: Receiver) -> None:
        """Add a receiver, after those already there."""
        self._receive_with([*self._receivers, receiver])

    def _receive_with(self, receivers: list[Receiver]) -> None:
        self._receivers = receivers
        self._receives = [one.receive for one in receivers]
        self._receives_chunks = [one.receive_chunk for one in receivers]

    @property
    def _only(self) -> Receiver | None:
        """The only one who gets the events, where that is a receiver."""
        return self._receivers[0] if len(self._receivers) == 1 and not self.observers else None

    def behind(self, count: int) -> list[Receiver]:
        """Return the receivers behind the first ones, so many, that only collect events: all have a `receive_columns`.

        Raises
        ------
        LookupError
            One of them, or an observer, does not.
        """
        found = self._receivers[count:]
        if self.observers or any(one.receive_columns is None for one in found):
            raise LookupError(self.id)
        return found

    def first(self, count: int) -> list[Receiver]:
        """Return the first receivers, so many, or all."""
        return self._receivers[:count]

    def divert(self, begin: int, end: int, receiver: Receiver) -> Callable[[], None]:
        """Let one receive in place of the receivers from place `begin` to `end`; returns what undoes all since."""
        before = self._receivers
        self._receive_with([*before[:begin], receiver, *before[end:]])
        return lambda: self._receive_with(before)

    def loop(self, clock: VirtualClock, heap: list[Any], move: Callable[[int], None]) -> Loop:
        """Return what takes many single events, as the stream is read and watched now; see `Drive`."""
        only = self._only
        if only is not None and only.loop is not None:
            return only.loop(Drive(clock, heap, move, self.failed))
        # An only receiver is called directly: what `receive` does beyond that, the loop does.
        receive = self.receive if only is None else only.receive

        def process_events(timestamps: Iterable[int], rows: Iterable[Row]) -> None:
            for timestamp, row in zip(timestamps, rows, strict=True):
                # A timer that is due at an event's time fires before the event.
                if heap and heap[0][0] <= timestamp:
                    move(timestamp)
                elif timestamp > clock.now:
                    clock.now = timestamp
                try:
                    receive(timestamp, row)
                # Only the event is lost; `ObserverFailed` is no `Exception` and ends the loop.
                except Exception as error:
                    self.failed(((timestamp, row),), error)

        return process_events

    @property
    def is_heard(self) -> bool:
        """Whether anybody gets the events."""
        return bool(self._receivers or self.observers)

    def only_observer(self) -> Callable[[int, Row], None] | None:
        """Return the only one who gets the events, where that is an observer or a receiver that only collects."""
        if (only := self._only) is not None:
            return None if only.receive_rows is None else only.receive
        return self.observers[0] if len(self.observers) == 1 and not self._receivers else None

    def columns_receiver(self) -> ReceiveColumns | None:
        """Return what receives many chunks together, where the only receiver does; else None."""
        return None if (only := self._only) is None else only.receive_columns

    def receive_rows(self, timestamp: int, rows: list[Row]) -> None:
        """Deliver the events of one chunk that all have the same timestamp."""
        only = self._only
        # Observers take events one by one: no list need be made for them.
        if not self._receivers:
            try:
                for observer in self.observers:
                    for row in rows:
                        observer(timestamp, row)
            except Exception as error:
                raise ObserverFailed(error) from error
        elif only is not None and only.receive_rows is not None:
            only.receive_rows(timestamp, rows)
        else:
            self.receive_chunk([(timestamp, row) for row in rows])

    def receive(self, timestamp: int, row: Row) -> None:
        """Deliver one event."""
        try:
            for receive in self._receives:
                receive(timestamp, row)
        except Exception as error:
            self.failed(((timestamp, row),), error)
            # Observers come last, so they do not see the event either.
            return
        if self.observers:
            self._observe(((timestamp, row),))

    def receive_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Deliver the events of one chunk."""
        try:
            for receive in self._receives_chunks:
                receive(arrivals)
        except Exception as error:
            self.failed(arrivals, error)
            return
        if self.observers:
            self._observe(arrivals)

    def _observe(self, arrivals: Sequence[Arrival]) -> None:
        try:
            for observer in self.observers:
                for timestamp, row in arrivals:
                    observer(timestamp, row)
        except Exception as error:
            raise ObserverFailed(error) from error

    def failed(self, arrivals: Sequence[Arrival], error: Exception) -> None:
        """Do with events that a receiver failed on what the stream's ``@OnError`` says; by default they are counted."""
        if self.fault is not None:
            told = error_text(error)
            self.fault.receive_chunk([(timestamp, (*row, told)) for timestamp, row in arrivals])
        elif self.keep is not None:
            self.keep(arrivals, error)
        else:
            self.failures.add(f"stream '{self.id}'", arrivals, error)
