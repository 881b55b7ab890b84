"""In which order the events of several producers are processed: by event time, and the same however they arrive.

A *channel* is what arrives in order: one producer's records in one partition of a topic between groups, or a whole
partition where outsiders feed the topic. Every event of a channel gets a merge key ``(at, order, path)``: when its
producer put it out, the number, given at the source, of the event that caused it (-1 for a timer), and which output of
that cause it is; raised to the key before it, so that keys never fall within a channel. A channel's highest key is at
the same time a promise: nothing below it will follow.

An event is released once every channel has promised what comes after it; what is released goes by key, then by rank of
the channel. So the order depends on what the channels hold and not on when it arrived. With one channel there is
nothing to wait for. Live apps wait only so long: see `Merge.frontier`.

Source: conservative synchronisation with null messages, Chandy and Misra (1979).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from operator import eq
from typing import Any, NamedTuple

import numpy

from spdist.engine.island.waiting import Key, Mixed, follow, in_chunks, part_in_chunks, raised
from spdist.mapping.columns import TIMER, Events, next_sibling, sort_key
from spdist.operators.base import Arrival, Row
from spdist.operators.core.junction import StreamPart
from spdist.planning.topology import AssignedInput
from spdist.transports.base import NO_CLOCK

__all__ = ["ChannelKey", "DueChunks", "Merge", "Released", "WaitingRun", "as_run"]

#: Topic, partition, and the producer where the topic is between groups, else an empty text.
ChannelKey = tuple[str, int, str]
_LOWEST: Key = (NO_CLOCK, TIMER, b"")
#: Runs of fewer events are delivered together, in lots of about so many events.
_SMALL, _TOGETHER = 1_000, 20_000


def _promised(clock: int) -> Key:
    """Return the lowest key that may follow the promise `clock`."""
    # At the promised time itself nothing by a timer follows any more
    return (clock, TIMER + 1, b"") if clock != NO_CLOCK else _LOWEST


def _reached(key: Key) -> int:
    """Return the time that is over in a channel at `key`: where a timer put that out, others may do so at that time."""
    at, order, _ = key
    return at if order != TIMER or at == NO_CLOCK else at - 1


class Released(NamedTuple):
    """A chunk whose turn has come: when it was put out, by what, the path of its first event, its stream and events."""

    at: int
    order: int
    path: bytes
    stream: str
    arrivals: Sequence[Arrival]


class DueChunks(NamedTuple):
    """Chunks whose turn has come.

    Parameters
    ----------
    parts : mapping of str to StreamPart
        The chunks, by stream.
    causes : Callable
        Returns of each, by rank, when it is due, and order, path and timestamp of its first event.
    """

    parts: Mapping[str, StreamPart]
    causes: Callable[[], Events]

    def chunks(self) -> Iterator[Released]:
        """Yield the chunks, in order."""
        causes = self.causes()
        found: list[tuple[str, Sequence[Arrival]]] = [("", ())] * len(causes)
        for stream, part in self.parts.items():
            for rank, arrivals in zip(part.ranks.tolist(), part.chunks(), strict=True):
                found[rank] = stream, arrivals
        for at, order, path, own in zip(causes.at.tolist(), causes.order.tolist(), causes.path, found, strict=True):
            yield Released(at, order, path, *own)

    def first_rows(self, streams: Collection[str]) -> list[Row | None]:
        """Return the first row of each chunk of some streams, by rank; None for those of others."""
        return [one.arrivals[0][1] if one.stream in streams else None for one in self.chunks()]


class WaitingRun(NamedTuple):
    """Events of a channel that wait for their turn.

    Parameters
    ----------
    chunk : numpy.ndarray
        Their places in chunks, as they came.
    run : Events
        With the times and orders of their merge keys: one whose key is below one before it is due with that, and keeps
        its timestamp. Their places in chunks are those as they are released.
    places : list of bytes, optional
        The last parts of their keys, where these are not what their paths say.
    """

    chunk: Any
    run: Events
    places: list[bytes] | None = None

    @classmethod
    def of(cls, run: Events, follows: Any, places: list[bytes] | None) -> WaitingRun:
        """Return events with the times and orders of their keys; `follows` as `follow` tells it, None for no chunks."""
        return cls(run.chunk, run if follows is None else in_chunks(run, follows), places)

    @classmethod
    def restored(cls, waiting: Sequence[tuple[Key, bytes, int, Arrival]]) -> WaitingRun:
        """Return what `snapshot` told, at least one event."""
        keys, path, chunk, arrivals = zip(*waiting, strict=True)
        at, order, places = zip(*keys, strict=True)
        ts, rows = zip(*arrivals, strict=True)
        run = Events(at, order, [*path], chunk, ts, [*rows])
        return cls.of(run, follow(path, run.chunk) if any(chunk) else None, [*places])

    def snapshot(self) -> Iterator[tuple[Key, bytes, int, Arrival]]:
        """Yield the merge key of each event, its path, its place in its chunk as it came, and the event."""
        at, order, ts = self.run.at.tolist(), self.run.order.tolist(), self.run.ts.tolist()
        keys, arrivals = zip(at, order, self.sort_keys(), strict=True), zip(ts, self.run.rows, strict=True)
        return zip(keys, self.run.path, self.chunk.tolist(), arrivals, strict=True)

    def sort_keys(self) -> list[bytes]:
        """Return the last parts of the keys."""
        return [*map(sort_key, self.run.path)] if self.places is None else self.places

    def key(self, number: int) -> Key:
        """Return the merge key of an event."""
        place = sort_key(self.run.path[number]) if self.places is None else self.places[number]
        return int(self.run.at[number]), int(self.run.order[number]), place

    def part(self, begin: int, end: int) -> WaitingRun:
        """Return some of the events that follow one another, chunks of which none is cut."""
        places = None if self.places is None else self.places[begin:end]
        return WaitingRun(self.chunk[begin:end], self.run.part(begin, end), places)

    def goes_on_with(self, more: WaitingRun) -> bool:
        """Tell whether others may begin with the rest of the chunk that these end with."""
        return bool(more.chunk[0] == self.chunk[-1] + 1) and next_sibling(self.run.path[-1]) == more.run.path[0]

    def followed_by(self, more: WaitingRun) -> WaitingRun:
        """Return these events and others as one: a chunk that came in two pieces is one again."""
        run = replace(Events.following([self.run, more.run]), chunk=numpy.concatenate([self.chunk, more.chunk]))
        return WaitingRun.of(run, follow(run.path, run.chunk), [*self.sort_keys(), *more.sort_keys()])


def part_of(events: Events) -> StreamPart:
    """Return the events of an only stream, which are a run."""
    if events.chunk.any() or events.order.min() == TIMER:  # the latter need `until`
        ranks = numpy.cumsum(events.chunk == 0) - 1
        return part_in_chunks(events.at, events.order, events.ts, events.rows, ranks)
    return StreamPart(events.at, numpy.arange(len(events)), events.rows, None if events.is_on_time else events.ts)


def causes_of(events: Events) -> Events:
    """Return of the chunks of a run when each is due, and order, path and timestamp of its first event."""
    if not events.chunk.any():
        return events
    begins = numpy.flatnonzero(events.chunk == 0)
    path = [events.path[place] for place in begins.tolist()]
    return Events(events.at[begins], events.order[begins], path, events.chunk[begins], ts=events.ts[begins])


def _joined(runs: Iterable[Events]) -> Iterator[Events]:
    """Yield runs that follow one another, small ones as one: to deliver a run costs as much as some events."""
    small: list[Events] = []
    count = 0
    for run in runs:
        if small and (len(run) >= _SMALL or count >= _TOGETHER):
            yield Events.following(small)
            small, count = [], 0
        if len(run) >= _SMALL:
            yield run  # its rows may be columns
        else:
            small.append(run)
            count += len(run)
    if small:
        yield Events.following(small)


def as_run(events: Events, high: Key) -> WaitingRun:
    """Return events of a channel as they wait for their turn.

    Parameters
    ----------
    events : Events
        At least one.
    high : Key
        What the channel has reached.
    """
    at, order, path = events.at, events.order, events.path
    follows = follow(path, events.chunk) if events.chunk.any() else None
    begins = (int(at[0]), int(order[0]), sort_key(path[0]))
    if begins >= high and _never_fall(at, order):
        return WaitingRun.of(events, follows, None if events.has_one_path else raised(events, follows))
    # Somewhere a key falls: each is raised to the highest one before it
    own = zip(at.tolist(), order.tolist(), map(sort_key, path), strict=True)
    keys = list(accumulate(own, max, initial=high))[1:]
    run = replace(events, at=[key[0] for key in keys], order=[key[1] for key in keys], columns=None)
    places = [key[2] for key in keys]
    return WaitingRun.of(run, follows, None if all(map(eq, places, map(sort_key, path))) else places)


def _never_fall(at: Any, order: Any) -> bool:
    later = at[1:] > at[:-1]
    return bool((later | ((at[1:] == at[:-1]) & (order[1:] >= order[:-1]))).all())


@dataclass(slots=True)
class _Channel:
    """What is known of one channel; `holds` is False for one that is not waited for.

    That is a producer that nobody announced, or a topic that an update has taken out of the plan.
    """

    stream: str
    producer: str
    rank: int
    outside: bool
    holds: bool = True
    key: Key = _LOWEST
    first: int | None = None
    #: What waits.
    runs: list[WaitingRun] = field(default_factory=list)

    def add(self, events: Events) -> None:
        """Let events wait, at least one."""
        if self.first is None:
            self.first = int(events.at[0])
        run = as_run(events, self.key)
        self.key = run.key(-1)
        # Producers put no chunk into two records; but of one that is repeated only the end may be new.
        if self.runs and self.runs[-1].goes_on_with(run):
            run = self.runs.pop().followed_by(run)
        self.runs.append(run)


class Merge:
    """Takes records in any interleaving of channels and releases their events in one order.

    Parameters
    ----------
    inputs : sequence of AssignedInput
        What the group instance reads. Equal keys of different channels go in the order of the inputs, those of other
        groups before those fed by outsiders, then of partitions and producers.
    live : bool
        False for ``@app:playback``: wait without bound.
    merge_wait_ms : int
        How long a live app waits for a producer that lags, in ms.

    State
    -----
    Per channel its key and its unreleased events: for live apps those of `merge_wait_ms`, else as far as the producers
    are apart.
    """

    def __init__(self, inputs: Sequence[AssignedInput], *, live: bool, merge_wait_ms: int) -> None:
        self.live = live
        self.merge_wait_ms = merge_wait_ms
        self.reached = NO_CLOCK
        #: The latest time of a batch.
        self._latest = NO_CLOCK
        self._inputs = {assigned.topic: assigned for assigned in inputs}
        self._channels: dict[ChannelKey, _Channel] = {}
        for assigned in sorted(inputs, key=lambda one: not one.producers):
            for partition in assigned.partitions:
                for producer in assigned.producers or ("",):
                    self._channels[assigned.topic, partition, producer] = _Channel(
                        assigned.stream, producer, len(self._channels), not assigned.producers, not assigned.drains
                    )
        self._by_rank = list(self._channels.values())

    @property
    def pending(self) -> int:
        """Number of events that wait for their turn."""
        return sum(len(one.run) for channel in self._by_rank for one in channel.runs)

    @property
    def first(self) -> int | None:
        """The earliest time that a channel began with; None before anything has arrived."""
        return min((c.first for c in self._by_rank if c.first is not None), default=None)

    def offer(self, key: ChannelKey, events: Events | None, clock: int) -> None:
        """Take a record: its events, None for one that only promises; then its promise.

        Parameters
        ----------
        key : ChannelKey
            Topic, partition and producer of the record.
        events : Events or None
            Without repeats.
        clock : int
            What the record promises.
        """
        channel = self._channel(key)
        if events is not None and len(events):
            channel.add(events)
        channel.key = max(channel.key, _promised(clock))
        if channel.first is None and channel.key > _LOWEST:
            channel.first = channel.key[0]

    def reached_in(self, key: ChannelKey) -> int | None:
        """Return up to when a channel has come, ms; None before anything of it has arrived."""
        channel = self._channel(key)
        return channel.key[0] if channel.key > _LOWEST else None

    def idle(self, by_ms: int) -> None:
        """Let time pass in what outsiders feed: it goes on from the latest that came from there, ms."""
        outside = [channel for channel in self._by_rank if channel.outside]
        reached = max((_reached(channel.key) for channel in outside), default=NO_CLOCK)
        if by_ms and reached != NO_CLOCK:
            for channel in outside:
                channel.key = max(channel.key, _promised(reached + by_ms))

    def frontier(self, tick: int) -> int:
        """Return the time that all channels have reached, which never falls; `NO_CLOCK` while one is unheard.

        What follows was put out at that time at the earliest, and then not by a timer.

        Parameters
        ----------
        tick : int
            The time of the batch, ms. In a live app a channel that outsiders feed has reached it, as whatever was
            appended before `tick` is in this batch; a producer of another group is waited for, `merge_wait_ms` long.
            Where the clock goes behind that of batches before, as on another machine, that holds for all that is here.
        """
        holding = [channel for channel in self._by_rank if channel.holds]
        if self.live:
            outside = tick
            if tick < self._latest:
                outside = max([tick, *(last + 1 for last in _last(c for c in holding if c.outside))])
            self._latest = max(self._latest, tick)
            times = (max(_reached(c.key), outside if c.outside else tick - self.merge_wait_ms) for c in holding)
            reached = min(times, default=tick)
        else:
            reached = min((_reached(channel.key) for channel in holding), default=NO_CLOCK)
        self.reached = max(self.reached, reached)
        return self.reached

    def close(self) -> int:
        """Let the frontier pass everything that waits, and return it: nobody will promise what comes after that."""
        waiting = list(_last(self._by_rank))
        if waiting:
            # Behind the last one: of what is due at the frontier itself only outputs of timers are released
            self.reached = max(self.reached, max(waiting) + 1)
        return self.reached

    @property
    def has_one_channel(self) -> bool:
        """Whether there is nothing to wait for."""
        return len(self._by_rank) == 1

    def due(self) -> list[DueChunks]:
        """Take and return the chunks whose turn has come, given what `frontier` returned last, in order.

        Those put out before it, and those that timers put out at that very time; of an only channel all. Equal keys go
        in the order of the channels, those of one channel as they came.
        """
        if len(self._by_rank) == 1:
            (only,) = self._by_rank
            runs, only.runs = only.runs, []
            joined = _joined(one.run for one in runs)
            return [DueChunks({only.stream: part_of(run)}, partial(causes_of, run)) for run in joined]
        due = [
            ((channel.stream, channel.producer), *one)
            for channel in self._by_rank
            for one in _due_runs(channel, self.reached)
        ]
        return [DueChunks((mixed := Mixed(due)).parts(), mixed.causes)] if due else []

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data."""
        return {
            "reached": self.reached,
            "latest": self._latest,
            "channels": [
                [*key, c.key, c.first, [[*event] for one in c.runs for event in one.snapshot()]]
                for key, c in self._channels.items()
            ],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over the state of a snapshot."""
        self.reached = state["reached"]
        self._latest = state.get("latest", NO_CLOCK)  # older states do not tell it
        for topic, partition, producer, key, first, pending in state["channels"]:
            channel = self._channel((topic, partition, producer))
            channel.key, channel.first = key, first
            channel.runs = [WaitingRun.restored(pending)] if pending else []

    def _channel(self, key: ChannelKey) -> _Channel:
        topic, partition, producer = key
        assigned = self._inputs[topic]
        # Outsiders are one channel for each partition, whatever producer they name
        found = self._channels.get(key if assigned.producers else (topic, partition, ""))
        if found is None:
            found = _Channel(assigned.stream, producer, len(self._by_rank), outside=True, holds=False)
            self._channels[key] = found
            self._by_rank.append(found)
        return found


def _last(channels: Iterable[_Channel]) -> Iterator[int]:
    """Yield when the last ones are due that wait in each channel, ms."""
    for channel in channels:
        yield from (int(one.run.at[-1]) for one in channel.runs)


def _due_runs(channel: _Channel, reached: int) -> list[WaitingRun]:
    """Take what is due off the runs of a channel; at that very time it is only what timers put out."""
    held, channel.runs = channel.runs, []
    due = []
    for one in held:
        at, order = one.run.at, one.run.order
        end = len(one.run)
        if at[-1] >= reached:
            end = int(numpy.searchsorted(at, reached))
            # `TIMER` is the lowest order, so these stand first among the events of that time
            end += int(numpy.count_nonzero(order[end : numpy.searchsorted(at, reached, side="right")] == TIMER))
        if end == len(one.run):
            due.append(one)
        elif not end:
            channel.runs.append(one)
        else:
            due.append(one.part(0, end))
            channel.runs.append(one.part(end, len(one.run)))
    return due
