"""Sends what the sinks of users put out: one for each destination, retries, and what ``on.error`` says.

Each delivery bears an id that it has again when it is sent again after a failure, so that receivers can tell; that of
files does so itself. The deliveries of one destination are sent in their order.

Source: io.siddhi.core.stream.output.sink.Sink (onError), described in our own words.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import tenacity

from spdist.config.allowed import Allowed
from spdist.connectors.registry import connector, sink_types, why_missing
from spdist.errors import TransportError
from spdist.language.types import Schema
from spdist.mapping.columns import EventList
from spdist.transports.base import NO_CLOCK, Record, Transport
from spdist.transports.delivery import EVENT_BITS, KEPT_ERRORS, Deliveries, Delivery, Outgoing, together
from spdist.transports.errors import append_error, error_entry
from spdist.transports.payloads.payload import Payload
from spdist.transports.rejects import fault_topic

__all__ = ["ErrorsSink", "SendError", "Sink", "SinkContext", "Sinks", "open_sink"]

log = logging.getLogger(__name__)

#: How often a delivery is tried that nobody takes, where ``on.error`` is not WAIT.
_TRIES = 5
#: Between two attempts: a receiver that fails over is away for seconds, and all events behind wait with the first.
_LONGEST_PAUSE_S = 3.0
_SLICE_S = 0.1


class SendError(Exception):
    """A delivery could not be sent.

    Parameters
    ----------
    message : str
        Why.
    done : int
        How many deliveries before it were sent.
    lasting : bool
        True where trying again cannot help: the receiver refuses what it is given.
    """

    def __init__(self, message: str, done: int = 0, lasting: bool = False) -> None:
        super().__init__(message)
        self.done = done
        self.lasting = lasting


class Sink(Protocol):
    """Sends to one destination."""

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Send in order; returns when all have been taken. Raises SendError for the first that was not."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What sinks need to know of where they are.

    Parameters
    ----------
    app : str
        Name of the app.
    transport : Transport
        Of the embedded topics.
    schemas : mapping of str to Schema
        Attributes of the app's streams, fault streams included.
    error_text : callable
        Words an error as ``_error`` of a fault stream has it.
    stopped : callable
        Whether sending is to end, even where it waits.
    waiting : callable
        Told why sending waits, and None when it goes on.
    allowed : Allowed
        The secrets and files that the app may refer to.
    origin : str
        Name of the state whose outputs are sent: one that begins anew, whose ids do too, has another.
    group : str
        The group whose sinks they are.
    """

    app: str
    transport: Transport
    schemas: Mapping[str, Schema]
    error_text: Callable[[BaseException], str] = str
    stopped: Callable[[], bool] = lambda: False
    waiting: Callable[[str | None], None] = lambda _why: None
    allowed: Allowed = field(default_factory=Allowed)
    origin: str = ""
    group: str = ""

    def go_on(self) -> None:
        """Raise TransportError where sending is to end."""
        if self.stopped():
            raise TransportError("sending was stopped while a sink waited for its receiver")

    def pause(self, seconds: float) -> None:
        """Wait between two tries; raises TransportError as soon as sending is to end."""
        end = time.monotonic() + seconds
        pace = threading.Event()
        while True:
            self.go_on()
            left = end - time.monotonic()
            if left <= 0:
                return
            pace.wait(min(left, _SLICE_S))


def open_sink(kind: str, options: Mapping[str, str], context: SinkContext) -> Sink:
    """Return what sends for a destination of a sink of type `kind`.

    Parameters
    ----------
    kind : str
        The sink's type.
    options : mapping of str to str
        Those of its first delivery; what differs from event to event is read from each delivery.
    context : SinkContext
        Where it is.

    Raises
    ------
    AppValidationError
        An option is missing or wrong.
    TransportError
        There is no sink of that type.
    """
    if kind == KEPT_ERRORS:
        return ErrorsSink(context.transport, context.app)
    known = connector(kind)
    if known is None or not known.sink:
        hint = why_missing(kind) or f"it is one of {', '.join(sink_types())}"
        raise TransportError(f"a sink of type '{kind}' is not sent from here", hint=hint)
    sink: Sink = known.load(known.sink)(options, context)
    return sink


class Sinks:
    """All sinks of one process for one app.

    Parameters
    ----------
    context : SinkContext
        Where they are.

    State
    -----
    An open sink for each destination; nothing that a failure must not lose.
    """

    def __init__(self, context: SinkContext) -> None:
        self._context = context
        self._open: dict[tuple[int, int], Sink] = {}
        self._waited = False

    def send(self, deliveries: Sequence[Outgoing]) -> None:
        """Send all; returns when each has been taken, or dealt with as its ``on.error`` says.

        Raises
        ------
        TransportError
            There is no sink for one, or sending was told to stop while it waited: what was not sent will be sent
            again by the next who runs the app.
        """
        by_place: dict[tuple[int, int], list[list[Outgoing]]] = {}
        for one in deliveries:
            runs = by_place.setdefault((one.sink, one.destination), [])
            # Runs keep the order of one destination; between destinations there is none to keep.
            if runs and _follows(one, runs[-1][-1]):
                runs[-1].append(one)
            else:
                runs.append([one])
        for place, runs in by_place.items():
            for run in map(_together, runs):
                if place not in self._open:
                    # Opened when it is first used: a destination that gets nothing needs no connection.
                    self._open[place] = open_sink(run[0].kind, run[0].options, self._context)
                self._send(self._open[place], run)

    def close(self) -> None:
        """Close all sinks; the next call opens them again."""
        for sink in self._open.values():
            sink.close()
        self._open.clear()

    def _send(self, sink: Sink, deliveries: Sequence[Delivery]) -> None:
        left, tries = deliveries, _TRIES
        while left:
            left, error = self._tried(sink, left, tries)
            if error is not None:
                self._give_up(left[0], error)
                left = left[1:]
                # Nobody takes anything now: those that follow are not each tried for a while.
                tries = _TRIES if error.lasting else 1

    def _tried(self, sink: Sink, left: Sequence[Delivery], tries: int) -> tuple[Sequence[Delivery], SendError | None]:
        """Try until some are sent; return those that are not, and the error where the first of them was given up."""

        def once() -> None:
            nonlocal left
            try:
                sink.send(left)
            except SendError as error:
                left = left[error.done :]
                # Some were sent, so the receiver is there: `_send` tries the rest with all tries again.
                if error.lasting or not error.done:
                    raise
            else:
                left = []

        endless = left[0].on_error in ("WAIT", "RETRY")
        retrying = tenacity.Retrying(
            stop=tenacity.stop_never if endless else tenacity.stop_after_attempt(tries),
            wait=tenacity.wait_random_exponential(multiplier=0.2, max=_LONGEST_PAUSE_S),
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, SendError) and not error.lasting),
            before_sleep=lambda attempt: self._waits(left[0], attempt),
            sleep=self._pause,
            reraise=True,
        )
        try:
            retrying(once)
        except SendError as error:
            return left, error
        finally:
            if self._waited:
                # Whoever was told that sending waits is told that it goes on, however the wait ended.
                self._waited = False
                self._context.waiting(None)
        return left, None

    def _waits(self, delivery: Delivery, attempt: tenacity.RetryCallState) -> None:
        error = attempt.outcome.exception() if attempt.outcome else None
        why = f"the @sink of stream '{delivery.stream}' ({delivery.kind}) waits: {error}"
        if attempt.attempt_number in (1, 10) or attempt.attempt_number % 100 == 0:
            log.warning("%s (tried %d times)", why, attempt.attempt_number)
        self._waited = True
        self._context.waiting(why)

    def _pause(self, seconds: float) -> None:
        self._context.pause(seconds)

    def _give_up(self, delivery: Delivery, error: SendError) -> None:
        if delivery.on_error == "STREAM" and self._to_fault_stream(delivery, error):
            return
        if delivery.on_error == "STORE":
            self._store(delivery, error)
            return
        log.error(
            "dropping delivery %s of the @sink of stream '%s' (%s): %s",
            delivery.id,
            delivery.stream,
            delivery.kind,
            error,
        )

    def _to_fault_stream(self, delivery: Delivery, error: SendError) -> bool:
        """Send the events back as an input of the app, if it has the fault stream."""
        context = self._context
        topic, schema = fault_topic(context.app, delivery.stream), context.schemas.get(f"!{delivery.stream}")
        if schema is None or not context.transport.partitions(topic):
            return False
        told = context.error_text(error)
        events = EventList()
        for place, (ts, row) in enumerate(delivery.events):
            # All of a delivery are one chunk, as they were put out together.
            events.add(ts, delivery.seq, b"", place, ts, (*row, told))
        self._append(topic, Payload(schema).encode(events.events()), len(events), delivery)
        return True

    def _store(self, delivery: Delivery, error: SendError) -> None:
        entry = error_entry(delivery.stream, "sink", str(error), delivery.events)
        append_error(self._context.transport, self._context.app, entry, delivery.producer, delivery.seq << EVENT_BITS)

    def _append(self, topic: str, value: bytes, count: int, delivery: Delivery) -> None:
        # A delivery has several events: each has a number of its own, the same after a failure.
        seq = delivery.seq << EVENT_BITS
        self._context.transport.append([Record(topic, 0, value, count, delivery.producer, seq, NO_CLOCK)])


def _follows(one: Outgoing, before: Outgoing) -> bool:
    """Tell whether a sink can be given what goes to one place and what went there before it together."""
    if isinstance(one, Deliveries) and isinstance(before, Deliveries):
        # Equal in all but the payloads, and numbered on from there: then one sequence can say it of all.
        return one == replace(before, payloads=one.payloads, first=before.first + len(before))
    return isinstance(one, Delivery) and isinstance(before, Delivery)


def _together(run: Sequence[Outgoing]) -> Sequence[Delivery]:
    """Return deliveries that follow one another as one sequence."""
    first = run[0]
    if not isinstance(first, Deliveries):
        return [one for one in run if isinstance(one, Delivery)]
    if len(run) == 1:
        return first
    return replace(first, payloads=together([one.payloads for one in run if isinstance(one, Deliveries)]))


class ErrorsSink:
    """Keeps the entries of an app's error store.

    Parameters
    ----------
    transport : Transport
        Of the embedded topics.
    app : str
        Name of the app.
    """

    def __init__(self, transport: Transport, app: str) -> None:
        self._transport = transport
        self._app = app

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Append the entries."""
        for one in deliveries:
            append_error(self._transport, self._app, one.payload, one.producer, one.seq << EVENT_BITS)

    def close(self) -> None:
        """Do nothing: the transport belongs to others."""
