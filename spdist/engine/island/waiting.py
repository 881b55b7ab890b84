"""What waits in several channels as one run, and the chunks as which events are released.

What was put out as one chunk and spread over partitions is one chunk again where all of it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from operator import eq
from typing import Any

import numpy

from spdist.mapping.columns import TIMER, ColumnarRows, Events, all_rows, next_sibling, sort_key
from spdist.operators.base import Arrival
from spdist.operators.core.junction import StreamPart
from spdist.transports.base import NO_CLOCK

__all__ = ["Key", "Mixed", "Origin", "chunk_now", "follow", "in_chunks", "part_in_chunks", "raised"]

#: Merge key: at, order, sort key of the path.
Key = tuple[int, int, bytes]
#: Stream and producer of a channel.
Origin = tuple[str, str]


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


def _places_in_chunks(follows: Any) -> Any:
    """Return of each event its place in the chunk as which it is released, given which follow the one before them."""
    numbers = numpy.arange(len(follows) + 1)
    begins = numpy.append(True, ~follows)
    # The running maximum is where the chunk of each event has begun
    return numbers - numpy.maximum.accumulate(numpy.where(begins, numbers, 0))


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


class Mixed:
    """Runs of several channels as one.

    Parameters
    ----------
    runs : sequence of (Origin, numpy.ndarray, Events, list of bytes or None)
        What is due, by channel, at least one: from where, then as `spdist.engine.island.merge.WaitingRun` says.
    """

    def __init__(self, runs: Sequence[tuple[Origin, Any, Events, list[bytes] | None]]) -> None:
        self._runs = [(origin, run) for origin, _, run, _ in runs]
        at, order, self._ts = (
            numpy.concatenate([getattr(run, name) for _, run in self._runs]) for name in ("at", "order", "ts")
        )
        chunk = numpy.concatenate([chunk for _, chunk, _, _ in runs])
        self._path = list(chain.from_iterable(run.path for _, run in self._runs))
        # `lexsort` takes the last key as the first to sort by: time, then order, then path
        keys = [order, at]
        if self._path.count(self._path[0]) < len(self._path) or any(places for *_, places in runs):
            places = chain.from_iterable(own or map(sort_key, run.path) for _, _, run, own in runs)
            keys.insert(0, numpy.array(list(places)))  # none ends with a zero, which numpy fills up with
        #: In which order all events are due: of equal keys, those of the first channel come first.
        self._numbers = numpy.lexsort(keys)
        self._at, self._order, self._chunk = at, order, chunk[self._numbers]
        #: Of the events in that order, where chunks begin.
        self._begins = self._chunk_begins() if chunk.any() else numpy.arange(len(at))

    def _chunk_begins(self) -> Any:
        """Return where chunks begin: what a producer has spread over partitions is one again where it follows."""
        numbers, known = self._numbers, dict[Origin, int]()
        origins = [known.setdefault(origin, len(known)) for origin, _ in self._runs]
        origin = numpy.repeat(origins, [len(run) for _, run in self._runs])
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
        # The inverse of `_numbers`: from a run's event to its place among all
        places[self._numbers] = numpy.arange(len(places))
        own: dict[str, list[tuple[Events, Any]]] = {}
        start = 0
        for (stream, _), run in self._runs:
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
    # What a timer of another group has put out at t comes before timers here at t: those fire up to t - 1 ms
    until = at - early if early.any() else None
    if len(begins) == len(at):
        return StreamPart(at, ranks, rows, None if at is ts or (at == ts).all() else ts, until=until)
    until = None if until is None else until[begins]
    return StreamPart(at[begins], ranks[begins], rows, ts, numpy.append(begins, len(at)), until)


def chunk_now(arrivals: Sequence[Arrival], clock: int) -> StreamPart:
    """Return one chunk, at least one event, that is delivered with the clock where it is, ms: no timer fires."""
    bounds, stamps = numpy.array([0, len(arrivals)]), numpy.array([ts for ts, _ in arrivals], numpy.int64)
    until = numpy.array([max(clock - 1, NO_CLOCK)])
    return StreamPart(numpy.array([clock]), numpy.array([0]), [row for _, row in arrivals], stamps, bounds, until)
