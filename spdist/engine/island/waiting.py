"""Which events are released as one chunk; and events that wait one by one for their turn, where they are no run.

What was put out as one chunk and spread over partitions is one chunk again where all of it is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from operator import eq
from typing import Any, NamedTuple

import numpy

from spdist.mapping.columns import TIMER, EventList, Events, next_sibling, sort_key
from spdist.operators.base import Arrival

__all__ = [
    "Key",
    "Origin",
    "Released",
    "WaitingEvent",
    "below",
    "chunks",
    "follow",
    "follow_on",
    "gathered",
    "one_by_one",
    "places_in_chunks",
]

#: Merge key: at, order, sort key of the path.
Key = tuple[int, int, bytes]
#: Stream and producer of a channel.
Origin = tuple[str, str]


class Released(NamedTuple):
    """A chunk whose turn has come: when it was put out, by what, the path of its first event, its stream and events."""

    at: int
    order: int
    path: bytes
    stream: str
    arrivals: list[Arrival]


class WaitingEvent(NamedTuple):
    """An event with its merge key and the rank of its channel, by which it is sorted; then what it is."""

    key: Key
    rank: int
    path: bytes
    chunk: int
    arrival: Arrival


def one_by_one(rank: int, high: Key, events: Events) -> Iterator[WaitingEvent]:
    """Yield events with keys that never fall below `high`, nor below one before them."""
    for at, order, path, chunk, ts, row in events:
        key = (at, order, sort_key(path))
        if key > high:
            high = key
        yield WaitingEvent(high, rank, path, chunk, (ts, row))


def below(pending: deque[WaitingEvent], limit: Key) -> Iterator[WaitingEvent]:
    """Take the events off the front of `pending` whose key is below `limit`, as they are asked for."""
    while pending and pending[0].key < limit:
        yield pending.popleft()


def gathered(pending: Iterable[WaitingEvent]) -> Events | None:
    """Return events that wait one by one, with the times of their keys; None for none, and where they are no run."""
    waiting = EventList()
    for (at, order, place), _, path, chunk, (ts, row) in pending:
        if order == TIMER or place != sort_key(path):
            return None
        waiting.add(at, order, path, chunk, ts, row)
    return waiting.events() if len(waiting) else None


def follow(path: Sequence[bytes], chunk: Any) -> Any:
    """Return of each event but the first whether it may stand behind the one before it in a chunk.

    Parameters
    ----------
    path : Sequence of bytes
        Which outputs of their causes the events are.
    chunk : numpy.ndarray
        Their places in chunks, not all 0.
    """
    siblings = numpy.fromiter(map(eq, map(next_sibling, path[:-1]), path[1:]), numpy.bool_, len(path) - 1)
    return siblings & (chunk[1:] == chunk[:-1] + 1)


def follow_on(before: Events, events: Events) -> bool:
    """Tell whether events may go on with the chunk that others end with."""
    return bool(events.chunk[0] == before.chunk[-1] + 1) and next_sibling(before.path[-1]) == events.path[0]


def places_in_chunks(follows: Any) -> Any:
    """Return of each event its place in the chunk as which it is released, given which follow the one before them."""
    numbers = numpy.arange(len(follows) + 1)
    begins = numpy.append(True, ~follows)
    return numbers - numpy.maximum.accumulate(numpy.where(begins, numbers, 0))


def chunks(due: Sequence[WaitingEvent], origins: Sequence[Origin]) -> Iterator[Released]:
    """Put events together that were put out together and still follow one another.

    Parameters
    ----------
    due : sequence of WaitingEvent
        In order.
    origins : sequence of Origin
        Of the channels, by rank.
    """
    chunk: Released | None = None
    last: WaitingEvent | None = None
    for waiting in due:
        if waiting.chunk and chunk is not None and last is not None and _continues(last, waiting, origins):
            chunk.arrivals.append(waiting.arrival)
        else:
            if chunk is not None:
                yield chunk
            (at, order, _), stream = waiting.key, origins[waiting.rank][0]
            chunk = Released(at, order, waiting.path, stream, [waiting.arrival])
        last = waiting
    if chunk is not None:
        yield chunk


def _continues(last: WaitingEvent, waiting: WaitingEvent, origins: Sequence[Origin]) -> bool:
    """Tell whether an event comes from the producer of the one before it and stands behind it in its chunk."""
    return (
        waiting.chunk == last.chunk + 1
        and origins[last.rank] == origins[waiting.rank]
        and last.key[:2] == waiting.key[:2]
        and next_sibling(last.path) == waiting.path
    )
