"""What a sink puts out, as a value: it is collected while operators run, and sent when the batch cannot be lost.

Operators that catch up after a failure run again over the same input and collect the same deliveries with the same ids;
whoever sends them decides which ones have been sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, overload

__all__ = [
    "EVENT_BITS",
    "ID_HEADER",
    "KEEPS_EVENTS",
    "KEPT_ERRORS",
    "ORIGIN_HEADER",
    "Deliveries",
    "Delivery",
    "Outbox",
    "Outgoing",
    "header_text",
    "on_error_of",
]

#: What ``on.error`` says where the events themselves are needed when they cannot be sent.
KEEPS_EVENTS = ("STREAM", "STORE")

#: A delivery's events are numbered from ``seq << EVENT_BITS`` on, where they come back or are kept.
EVENT_BITS = 20
#: The header in which a message bears the id of its delivery: who must not see one twice drops repeats by it.
ID_HEADER = "spdist-id"
#: Over HTTP, the header that says within what these ids count: a life of the sender's state, a sink, a destination.
ORIGIN_HEADER = "spdist-origin"
#: The kind of deliveries that are no sink's: entries of the error store, see `spdist.transports.errors`.
KEPT_ERRORS = "errors"

#: Timestamp in ms, data.
_Event = tuple[int, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One payload for one destination of one sink.

    Parameters
    ----------
    kind : str
        The sink's type, such as ``http``.
    sink : int
        Which of the app's sinks, counted from 0 in the order of the text.
    destination : int
        Which ``@destination`` of it, from 0; 0 where it has none.
    stream : str
        The stream whose events it holds.
    options : mapping of str to str
        All options of the sink and of its destination, keys in lower case, ``{{attribute}}`` filled in: such a one is a
        `spdist.mapping.templates.Filled`. References to secrets are as written.
    payload : Any
        What the mapping made: text, a dictionary (``keyvalue``), or events (``passThrough``).
    producer : str
        Who made it: the group instance, or its shard.
    seq : int
        Number of this delivery, per producer, from 0 without gaps.
    events : tuple of (timestamp, row)
        What the payload was made of; only where ``on.error`` may need it (`KEEPS_EVENTS`), or whoever has the outbox.
    """

    kind: str
    sink: int
    destination: int
    stream: str
    options: Mapping[str, str]
    payload: Any
    producer: str
    seq: int
    events: tuple[_Event, ...] = ()

    @property
    def id(self) -> str:
        """A text that no other delivery has, and this one has each time it is made."""
        return f"{self.producer}:{self.seq}"

    @property
    def on_error(self) -> str:
        """What is to be done where it cannot be sent: LOG, WAIT, RETRY, STREAM or STORE."""
        return on_error_of(self.options)


@dataclass(frozen=True, slots=True)
class Deliveries(Sequence[Delivery]):
    """The payloads of one sink from one batch, where all that is said of each is the same: no object for each.

    Each is a `Delivery` that is made when it is asked for. They are numbered for their sink alone, so that the
    numbers do not depend on where batches are cut.

    Parameters
    ----------
    kind, sink, destination, stream, options
        As of each `Delivery`.
    payloads : sequence
        In order, at least one.
    producer : str
        Who made them: the group instance, or its shard.
    first : int
        Number of the first of them, per sink, from 0 without gaps.
    """

    kind: str
    sink: int
    destination: int
    stream: str
    options: Mapping[str, str]
    payloads: Sequence[Any]
    producer: str
    first: int

    def __len__(self) -> int:
        """Return the number of payloads."""
        return len(self.payloads)

    @overload
    def __getitem__(self, place: int) -> Delivery: ...
    @overload
    def __getitem__(self, place: slice) -> Deliveries: ...
    def __getitem__(self, place: int | slice) -> Delivery | Deliveries:
        """Return one as a delivery of a producer whose name is ours and the sink's number, or those of a slice."""
        numbers = range(self.first, self.first + len(self))[place]
        if isinstance(numbers, range):
            return replace(self, payloads=self.payloads[place], first=numbers.start)
        return self._one(numbers, self.payloads[place])

    def __iter__(self) -> Iterator[Delivery]:
        """Iterate over all as deliveries."""
        return map(self._one, count(self.first), self.payloads)

    def _one(self, number: int, payload: Any) -> Delivery:
        place = (self.kind, self.sink, self.destination, self.stream)
        return Delivery(*place, self.options, payload, self.source, number)

    @property
    def source(self) -> str:
        """Whose the numbers are: the producer's and the sink's."""
        return f"{self.producer}#{self.sink}"

    @property
    def on_error(self) -> str:
        """As of each `Delivery`."""
        return on_error_of(self.options)


#: What leaves an app: payloads one by one, or many of a sink together.
Outgoing = Delivery | Deliveries


def header_text(id: str) -> str:
    """Return an id as it stands in a header that takes nothing but ASCII, as those of HTTP."""
    return id.encode("ascii", "backslashreplace").decode()


def on_error_of(options: Mapping[str, str]) -> str:
    """Return what the options of a sink say about payloads that cannot be sent, LOG where nothing."""
    return (options.get("on.error") or "LOG").upper()


class Outbox:
    """Collects and numbers the deliveries of one producer.

    Parameters
    ----------
    producer : str
        Whose they are.
    keeps_events : bool
        Whether what is put out one by one is to hold the events that it was made of.

    State
    -----
    The number that is next; the deliveries of the running batch.
    """

    def __init__(self, producer: str, keeps_events: bool = False) -> None:
        self.producer = producer
        self.keeps_events = keeps_events
        self.next = 0
        self._collected: list[Outgoing] = []
        self._writers: list[Callable[[], Deliveries | None]] = []

    def add(
        self,
        place: tuple[str, int, int, str],
        options: Mapping[str, str],
        payload: Any,
        events: tuple[_Event, ...] = (),
    ) -> None:
        """Collect one payload; `place` is the delivery's kind, sink, destination and stream."""
        self._collected.append(Delivery(*place, options, payload, self.producer, self.next, events))
        self.next += 1

    def ask(self, writer: Callable[[], Deliveries | None]) -> None:
        """Have a sink that makes its payloads together asked for them at the end of each batch."""
        self._writers.append(writer)

    def drain(self) -> list[Outgoing]:
        """Return what was collected since the last call, of each sink in order, and forget it."""
        # Asked first: what cannot be written may be collected itself.
        together = [made for writer in self._writers if (made := writer()) is not None]
        collected, self._collected = self._collected, []
        return [*collected, *together]
