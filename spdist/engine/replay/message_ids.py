"""Which events a message held that a sink has sent, or which event a topic holds, by the id that its receiver sees.

Nobody keeps what was sent. The log of the shard is replayed with its sinks, which number what they put out from the
numbers in the log's state on, as they did then. Values only; nothing leaves.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence
from dataclasses import dataclass

from spdist.engine.replay.shard_log import ShardLog
from spdist.errors import NotFoundError
from spdist.history import clock_text
from spdist.operators.base import Arrival
from spdist.transports.delivery import EVENT_BITS, KEPT_ERRORS, Deliveries, Outgoing
from spdist.transports.payloads.headers import header_text

__all__ = ["MessageId", "sent_events"]

_ID = re.compile(r"(\S.*):([0-9]{1,19})")
#: The type of sinks whose receivers see an id for each event.
_SPARK = "spark"


@dataclass(frozen=True, slots=True)
class MessageId:
    """An id that receivers see: who numbers, and a number.

    Parameters
    ----------
    source : str
        The group instance, or shard, and where a sink numbers for itself ``#`` and which one: `Deliveries.source`; of
        an event in a topic, such as that of an ``embedded`` sink, ``@``, the topic, ``/`` and the partition.
    number : int
        That of the message, or of an event of a sink of type ``spark`` or in a topic.
    """

    source: str
    number: int

    def __str__(self) -> str:
        return f"{self.source}:{self.number}"

    @classmethod
    def of(cls, text: str) -> MessageId:
        """Return the id in a text.

        Raises
        ------
        NotFoundError
            It is none.

        Examples
        --------
        >>> MessageId.of("Rooms-alert-1#0:17")
        MessageId(source='Rooms-alert-1#0', number=17)
        """
        found = _ID.fullmatch(text.strip())
        if found is None:
            raise NotFoundError(
                f"{text[:80]!r} is no id of a message",
                hint="write what the header spdist-id holds, such as Rooms-alert-1#0:17, or what `spdist tail` prints",
            )
        return cls(found[1], int(found[2]))

    def is_of(self, producer: str) -> bool:
        """Return whether a group instance, or shard, or one of its sinks has given this id."""
        return any(re.fullmatch(rf"{re.escape(name)}(#\d+|@.+/\d+)?", self.source) for name in _written(producer))

    def place(self, producer: str) -> tuple[str, int] | None:
        """Return topic and partition of an event that it has put into a topic; None for a message of a sink."""
        found = re.fullmatch(rf"{re.escape(producer)}@(.+)/(\d+)", self.source)
        return None if found is None else (found[1], int(found[2]))


def sent_events(log: ShardLog, producer: str, stream: str, id: MessageId) -> list[tuple[int, Arrival]]:
    """Return the events of a stream that a message held, each with its number among all of that stream in the log.

    Parameters
    ----------
    log : ShardLog
        What the shard was given that has sent the message.
    producer : str
        Its name.
    stream : str
        Whose sink it was.
    id : MessageId
        The id of the message; that of an event in a topic holds this one.

    Raises
    ------
    NotFoundError
        No such message comes out of the log, or it is of another stream.
    """
    if (place := id.place(producer)) is not None:
        return _published(log, producer, stream, id, *place)
    app = log.sending_app(producer)
    search = _MessageSearch(id, stream)

    def came(chunk: Sequence[Arrival]) -> None:
        # The sinks of the stream have just had this chunk, and no other one since they were asked.
        search.observe(app.take_deliveries(), chunk)

    def done() -> bool:
        search.observe(app.take_deliveries(), ())
        return bool(search.found)

    app.subscribe_chunks(stream, came)
    log.replay(app, log.steps, done=done)
    if not done():
        raise search.missing(log.start)
    return search.found


def _published(
    log: ShardLog, producer: str, stream: str, id: MessageId, topic: str, partition: int
) -> list[tuple[int, Arrival]]:
    """Return the event of a stream that has this id in a topic; see `sent_events`."""
    search = _MessageSearch(id, stream)
    publisher = log.publisher(producer, stream, topic)
    if publisher is None:
        search.elsewhere = next((o.stream for o in log.outputs if any(p.topic == topic for p in o.publishing)), "")
        raise search.missing(log.start)
    app = log.app()
    #: What others have published and it reads, it does not publish again.
    heard = {builtins.id(one.row) for one in log.given() if one.stream == stream and stream in log.echoed}

    def came(chunk: Sequence[Arrival]) -> None:
        if builtins.id(chunk[0][1]) not in heard:
            places = publisher.numbered(stream, topic, chunk)
            search.compare([number if own == partition else None for own, number in places], chunk)
        search.number += len(chunk)

    app.subscribe_chunks(stream, came)
    log.replay(app, log.steps, done=lambda: bool(search.found))
    if not search.found:
        raise search.missing(log.start)
    return search.found


@dataclass
class _MessageSearch:
    """The search for one message among all that sinks put out.

    State
    -----
    ``number``: events of the stream so far; ``span``: the first and last number of its messages; ``elsewhere``: of
    which other stream the message is; ``found``.
    """

    id: MessageId
    stream: str
    number: int = 0
    span: tuple[int, int] | None = None
    elsewhere: str = ""

    def __post_init__(self) -> None:
        self.found: list[tuple[int, Arrival]] = []

    def observe(self, deliveries: Sequence[Outgoing], chunk: Sequence[Arrival]) -> None:
        """Look at what sinks have put out; that of the stream was made of one chunk of it."""
        for one in deliveries:
            source, first, count = _numbered(one)
            if one.kind == KEPT_ERRORS or self.id.source not in _written(source):
                continue
            # An id of type spark: the payload's number, shifted left, and the event's place in it in the lowest bits.
            bits = EVENT_BITS if one.kind == _SPARK else 0
            place = (self.id.number >> bits) - first
            if one.stream != self.stream:
                self.elsewhere = one.stream if 0 <= place < count else self.elsewhere
                continue
            low, high = first << bits, ((first + count) << bits) - 1
            self.span = (low if self.span is None else self.span[0], high)
            if 0 <= place < count and not self.found:
                self._hold(_events_in(one, chunk, place), one.kind == _SPARK)
        self.number += len(chunk)

    def compare(self, numbers: Sequence[int | None], chunk: Sequence[Arrival]) -> None:
        """Look at the events of a chunk, which have these numbers in the partition that is meant, or are not there."""
        for place, (number, event) in enumerate(zip(numbers, chunk, strict=True)):
            if number is not None:
                self.span = (number if self.span is None else self.span[0], number)
                if number == self.id.number:
                    self.found = [(self.number + place, event)]

    def _hold(self, held: Sequence[tuple[int, Arrival]], single: bool) -> None:
        if single:
            place = self.id.number & ((1 << EVENT_BITS) - 1)
            held = held[place : place + 1]
        self.found = [(self.number + place, event) for place, event in held]

    def missing(self, start: int) -> NotFoundError:
        """Return why the message is not found in a log that starts at `start`, ms."""
        if self.elsewhere:
            return NotFoundError(
                f"the message {self.id} is one of stream '{self.elsewhere}', not of '{self.stream}'",
                hint=f"ask for '{self.elsewhere}' instead",
            )
        told, hint = f"no message {self.id} of '{self.stream}' comes out of what is kept", ""
        if self.span is not None:
            told += f": {self.span[0]} to {self.span[1]} do"
        if self.span is None or self.id.number < self.span[0]:
            hint = f"inputs are kept since {clock_text(start)}; what was sent before cannot be explained"
        elif self.id.number > self.span[1]:
            hint = "a state that began anew numbers from 0 on: the message is of one before, or of another deployment"
        return NotFoundError(told, hint=hint or None)


def _numbered(one: Outgoing) -> tuple[str, int, int]:
    """Return who numbers payloads, the number of the first, and how many there are."""
    return (one.source, one.first, len(one)) if isinstance(one, Deliveries) else (one.producer, one.seq, 1)


def _events_in(one: Outgoing, chunk: Sequence[Arrival], place: int) -> list[tuple[int, Arrival]]:
    """Return the events of a chunk that a payload holds, each with its place in the chunk."""
    placed = list(enumerate(chunk))
    if isinstance(one, Deliveries):  # a mapping writes a chunk as one payload, or each event as one
        return placed if len(one) == 1 else placed[place : place + 1]
    held = [row for _, row in one.events]
    found = []
    for number, event in placed:
        # Options that differ from event to event, and destinations, choose among the events of a chunk.
        if held and event[1] is held[0]:
            found.append((number, event))
            del held[0]
    return found


def _written(source: str) -> tuple[str, str]:
    """Return how a name stands in ids, and in those that headers of HTTP hold."""
    return source, header_text(source)
