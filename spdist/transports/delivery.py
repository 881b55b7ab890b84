"""What a sink puts out, as a value: it is collected while operators run, and sent when the batch cannot be lost.

Operators that catch up after a failure run again over the same input and collect the same deliveries with the same ids;
whoever sends them decides which ones have been sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["EVENT_BITS", "KEEPS_EVENTS", "KEPT_ERRORS", "Delivery", "Outbox"]

#: What ``on.error`` says where the events themselves are needed when they cannot be sent.
KEEPS_EVENTS = ("STREAM", "STORE")

#: A delivery's events are numbered from ``seq << EVENT_BITS`` on, where they come back or are kept.
EVENT_BITS = 20
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
        All options of the sink and of its destination, keys in lower case, ``{{attribute}}`` filled in.
    payload : Any
        What the mapping made: text, a dictionary (``keyvalue``), or events (``passThrough``).
    producer : str
        Who made it: the group instance, or its shard.
    seq : int
        Number of this delivery, per producer, from 0 without gaps.
    events : tuple of (timestamp, row)
        What the payload was made of; only where ``on.error`` may need it (`KEEPS_EVENTS`).
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
        return (self.options.get("on.error") or "LOG").upper()


class Outbox:
    """Collects and numbers the deliveries of one producer.

    Parameters
    ----------
    producer : str
        Whose they are.

    State
    -----
    The number that is next; the deliveries of the running batch.
    """

    def __init__(self, producer: str) -> None:
        self.producer = producer
        self.next = 0
        self._collected: list[Delivery] = []

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

    def take(self) -> list[Delivery]:
        """Return what was collected since the last call, in order, and forget it."""
        collected, self._collected = self._collected, []
        return collected
