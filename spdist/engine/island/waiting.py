"""The chunks as which events are released, of runs and of events that wait one by one, where they are no run.

What was put out as one chunk and spread over partitions is one chunk again where all of it is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from operator import eq
from typing import Any, NamedTuple

import numpy

from spdist.mapping.columns import TIMER, ColumnarRows, EventList, Events, all_rows, next_sibling, sort_key
from spdist.operators.base import Arrival
from spdist.operators.core.junction import StreamPart

__all__ = [
    "DueRun",
    "Key",
    "Mixed",
    "Origin",
    "Released",
    "WaitingEvent",
    "below",
    "chunks",
    "follow",
    "follow_on",
    "gathered",
    "in_chunks",
    "one_by_one",
    "part_in_chunks",
    "raised",
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
        if place != sort_key(path):
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


def _places_in_chunks(follows: Any) -> Any:
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


# Runs.


def raised(events: Events, follows: Any) -> list[bytes] | None:
    """Return the last parts of keys whose times and orders never fall; None where paths do not fall while these stay.

    `follows` says which events stand behind in chunks, where they are higher.
    """
    equal = (events.at[1:] == events.at[:-1]) & (events.order[1:] == events.order[:-1])
    path, suspect = events.path, numpy.flatnonzero(equal if follows is None else equal & ~follows)
    falls = [place + 1 for place in suspect.tolist() if sort_key(path[place]) > sort_key(path[place + 1])]
    if not falls:
        return None
    places = list(map(sort_key, path))
    for place in falls:
        while place < len(places) and equal[place - 1] and places[place] < places[place - 1]:
            places[place] = places[place - 1]
            place += 1
    return places


def in_chunks(run: Events, follows: Any) -> Events:
    """Return a run with the places of its events in the chunks as which they are released."""
    follows = follows & (run.at[1:] == run.at[:-1]) & (run.order[1:] == run.order[:-1])
    places = _places_in_chunks(follows)
    return run if numpy.array_equal(places, run.chunk) else replace(run, chunk=places, columns=None)


class DueRun(NamedTuple):
    """Events of a channel that are due.

    Parameters
    ----------
    origin : (str, str)
        Stream and producer of the channel.
    chunk : numpy.ndarray
        Their places in chunks, as they came.
    run : Events
        With the times and orders of their merge keys.
    places : list of bytes, optional
        The last parts of their keys, where these are not what their paths say.
    """

    origin: Origin
    chunk: Any
    run: Events
    places: list[bytes] | None


class Mixed:
    """Runs of several channels as one.

    Parameters
    ----------
    runs : sequence of DueRun
        What is due, by channel; at least one.
    """

    def __init__(self, runs: Sequence[DueRun]) -> None:
        self._runs = runs
        at, order, self._ts = (
            numpy.concatenate([getattr(one.run, name) for one in runs]) for name in ("at", "order", "ts")
        )
        chunk = numpy.concatenate([one.chunk for one in runs])
        self._path = list(chain.from_iterable(one.run.path for one in runs))
        keys = [order, at]
        if self._path.count(self._path[0]) < len(self._path) or any(one.places for one in runs):
            places = chain.from_iterable(one.places or map(sort_key, one.run.path) for one in runs)
            keys.insert(0, numpy.array(list(places)))  # none ends with a zero, which numpy fills up with
        #: In which order all events are due: of equal keys, those of the first channel come first.
        self._numbers = numpy.lexsort(keys)
        self._at, self._order, self._chunk = at, order, chunk[self._numbers]
        #: Of the events in that order, where chunks begin.
        self._begins = self._chunk_begins() if chunk.any() else numpy.arange(len(at))

    def _chunk_begins(self) -> Any:
        """Return where chunks begin: what a producer has spread over partitions is one again where it follows."""
        numbers, known = self._numbers, dict[Origin, int]()
        origins = [known.setdefault(one.origin, len(known)) for one in self._runs]
        origin = numpy.repeat(origins, [len(one.run) for one in self._runs])
        follows = follow([self._path[number] for number in numbers.tolist()], self._chunk)
        for values in (origin, self._at, self._order):
            follows &= values[numbers[1:]] == values[numbers[:-1]]
        return numpy.flatnonzero(numpy.append(True, ~follows))

    def causes(self) -> Events:
        """Return when each chunk is due, and order, path and timestamp of its first event, as they are due."""
        first = self._numbers[self._begins]
        path = [self._path[number] for number in first.tolist()]
        none = numpy.zeros(len(first), numpy.int64)
        return Events(self._at[first], self._order[first], path, none, ts=self._ts[first])

    def parts(self) -> dict[str, StreamPart]:
        """Return the chunks of each stream, as they are due, from all its channels."""
        places = numpy.empty_like(self._numbers)
        places[self._numbers] = numpy.arange(len(places))
        own: dict[str, list[tuple[Events, Any]]] = {}
        start = 0
        for (stream, _), _, run, _ in self._runs:
            own.setdefault(stream, []).append((run, places[start : start + len(run)]))
            start += len(run)
        return {stream: self._part(runs) for stream, runs in own.items()}

    def _part(self, runs: Sequence[tuple[Events, Any]]) -> StreamPart:
        """Return the chunks of runs of one stream, given the place of each event among all."""
        at, ts = (numpy.concatenate([getattr(run, name) for run, _ in runs]) for name in ("at", "ts"))
        places, rows = numpy.concatenate([own for _, own in runs]), all_rows([run.rows for run, _ in runs])
        if len(places) > 1 and int(numpy.diff(places).min()) < 0:  # of several channels
            order = places.argsort()
            at, ts, places = at[order], ts[order], places[order]
            rows = rows.at(order) if isinstance(rows, ColumnarRows) else [rows[place] for place in order.tolist()]
        ranks = numpy.searchsorted(self._begins, places, side="right") - 1
        return part_in_chunks(at, self._order[self._numbers[places]], ts, rows, ranks)


def part_in_chunks(at: Any, order: Any, ts: Any, rows: Sequence[Any], ranks: Any) -> StreamPart:
    """Return events of one stream as chunks: those are one that have the same rank."""
    begins = numpy.flatnonzero(numpy.append(True, ranks[1:] != ranks[:-1]))
    early = order == TIMER
    until = at - early if early.any() else None
    if len(begins) == len(at):
        return StreamPart(at, ranks, rows, None if at is ts or (at == ts).all() else ts, until=until)
    until = None if until is None else until[begins]
    return StreamPart(at[begins], ranks[begins], rows, ts, numpy.append(begins, len(at)), until)
