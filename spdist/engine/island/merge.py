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

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import eq
from typing import Any, NamedTuple

import numpy

from spdist.engine.island.waiting import (
    DueRun,
    Key,
    Released,
    WaitingEvent,
    below,
    chunks,
    follow,
    follow_on,
    gathered,
    in_chunks,
    one_by_one,
    part_in_chunks,
    raised,
)
from spdist.mapping.columns import TIMER, Events, sort_key
from spdist.operators.core.junction import StreamPart
from spdist.planning.topology import AssignedInput
from spdist.transports.base import NO_CLOCK

__all__ = ["ChannelKey", "Merge", "as_run", "causes_of", "part_of"]

#: Topic, partition, and the producer where the topic is between groups, else an empty text.
ChannelKey = tuple[str, int, str]
_LOWEST: Key = (NO_CLOCK, TIMER, b"")
#: Runs of fewer events are delivered together, in lots of about so many events.
_SMALL, _TOGETHER = 1_000, 20_000
#: So many events that wait one by one are looked through after each batch, whether they are a run.
_FEW = 10_000


def _promised(clock: int) -> Key:
    """Return the lowest key that may follow the promise `clock`."""
    return (clock, TIMER + 1, b"") if clock != NO_CLOCK else _LOWEST


def _reached(key: Key) -> int:
    """Return the time that is over in a channel at `key`: where a timer put that out, others may do so at that time."""
    at, order, _ = key
    return at if order != TIMER or at == NO_CLOCK else at - 1


class _Run(NamedTuple):
    """Events of a channel that are due when they say.

    Parameters
    ----------
    before : Key
        The channel's key before them.
    events : Events
        How they came.
    run : Events
        The same with the times and orders of their merge keys: one whose key is below one before it is due with that,
        and keeps its timestamp. Their places in chunks are those as they are released.
    places : list of bytes, optional
        The last parts of their keys, where these are not what their paths say.
    """

    before: Key
    events: Events
    run: Events
    places: list[bytes] | None = None

    def key(self, number: int) -> Key:
        """Return the merge key of an event."""
        place = sort_key(self.run.path[number]) if self.places is None else self.places[number]
        return int(self.run.at[number]), int(self.run.order[number]), place

    def part(self, begin: int, end: int) -> _Run:
        """Return some of the events that follow one another, chunks of which none is cut."""
        before = self.before if begin == 0 else self.key(begin - 1)
        places = None if self.places is None else self.places[begin:end]
        return _Run(before, self.events.part(begin, end), self.run.part(begin, end), places)


def part_of(events: Events) -> StreamPart:
    """Return the events of an only stream, which are a run."""
    if events.chunk.any() or events.order.min() == TIMER:
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


def as_run(events: Events, high: Key) -> _Run | None:
    """Return events as a run; None where one is due before its timestamp.

    Parameters
    ----------
    events : Events
        At least one.
    high : Key
        What the channel has reached.
    """
    at, order, path = events.at, events.order, events.path
    if not (events.is_on_time or (at >= events.ts).all()):
        return None
    follows = follow(path, events.chunk) if events.chunk.any() else None
    begins = (int(at[0]), int(order[0]), sort_key(path[0]))
    if begins >= high and _never_fall(at, order):
        run = events if follows is None else in_chunks(events, follows)
        return _Run(high, events, run, None if events.has_one_path else raised(events, follows))
    own = zip(at.tolist(), order.tolist(), map(sort_key, path), strict=True)
    keys = list(accumulate(own, max, initial=high))[1:]
    run = replace(events, at=[key[0] for key in keys], order=[key[1] for key in keys])
    run = run if follows is None else in_chunks(run, follows)
    places = [key[2] for key in keys]
    return _Run(high, events, run, None if all(map(eq, places, map(sort_key, path))) else places)


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
    pending: deque[WaitingEvent] = field(default_factory=deque)
    #: Where nothing is pending: what waits together.
    runs: list[_Run] = field(default_factory=list)


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
        return sum(len(c.pending) + sum(len(one.events) for one in c.runs) for c in self._by_rank)

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
        if events is not None and len(events) and not self._keep(channel, events):
            self._queue(channel, events)
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
            self.reached = max(self.reached, max(waiting) + 1)
        return self.reached

    @property
    def only_stream(self) -> str | None:
        """The stream of the only channel; None where there are several, or none."""
        return self._by_rank[0].stream if len(self._by_rank) == 1 else None

    def runs(self) -> list[Events]:
        """Return the runs of an only channel, in order, instead of releasing their events; nothing else waits then."""
        if len(self._by_rank) != 1:
            return []
        runs, self._by_rank[0].runs = self._by_rank[0].runs, []
        return list(_joined(one.run for one in runs))

    def due_runs(self) -> list[DueRun] | None:
        """Return what is due of several channels, given what `frontier` returned last; None where it is not all runs.

        Equal keys go in the order of the channels, as in `release`.
        """
        if len(self._by_rank) < 2 or any(channel.pending for channel in self._by_rank):
            return None
        if not any(channel.runs for channel in self._by_rank):
            return None
        return [
            DueRun((channel.stream, channel.producer), one.events.chunk, one.run, one.places)
            for channel in self._by_rank
            for one in _due_runs(channel, self.reached)
        ]

    def release(self) -> list[Released]:
        """Return the chunks whose turn has come, given what `frontier` returned last, in order.

        Those put out before it, and those that timers put out at that very time.
        """
        if len(self._by_rank) == 1:
            (channel,) = self._by_rank
            _spill(channel)
            due, channel.pending = list(channel.pending), deque()
        else:
            limit = _promised(self.reached)
            due = []
            for channel in self._by_rank:
                due += _waiting(channel.rank, _due_runs(channel, self.reached))
                due += below(channel.pending, limit)
                if len(channel.pending) <= _FEW:
                    _gather(channel)
            # Stable, and each channel's part is sorted already: equal keys of a channel keep their order.
            due.sort(key=lambda waiting: waiting[:2])
        return list(chunks(due, [(channel.stream, channel.producer) for channel in self._by_rank])) if due else []

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data."""
        return {
            "reached": self.reached,
            "latest": self._latest,
            "channels": [
                [*key, c.key, c.first, [[w.key, w.path, w.chunk, w.arrival] for w in _all_waiting(c)]]
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
            channel.pending = deque(
                WaitingEvent(at, channel.rank, path, chunk, arrival) for at, path, chunk, arrival in pending
            )
            _gather(channel)

    def _channel(self, key: ChannelKey) -> _Channel:
        topic, partition, producer = key
        assigned = self._inputs[topic]
        found = self._channels.get(key if assigned.producers else (topic, partition, ""))
        if found is None:
            found = _Channel(assigned.stream, producer, len(self._by_rank), outside=True, holds=False)
            self._channels[key] = found
            self._by_rank.append(found)
        return found

    def _keep(self, channel: _Channel, events: Events) -> bool:
        """Keep events as a run, where that is possible."""
        last = channel.runs[-1].events if channel.runs else None
        # Producers put no chunk into two records.
        cut = events.chunk[0] and last is not None and follow_on(last, events)
        run = None if cut or channel.pending else as_run(events, channel.key)
        if run is None:
            _spill(channel)
            return False
        if channel.first is None:
            channel.first = int(events.at[0])
        channel.runs.append(run)
        channel.key = run.key(-1)
        return True

    @staticmethod
    def _queue(channel: _Channel, events: Events) -> None:
        if channel.first is None:
            channel.first = int(events.at[0])
        channel.pending.extend(one_by_one(channel.rank, channel.key, events))
        channel.key = channel.pending[-1].key


def _waiting(rank: int, runs: Iterable[_Run]) -> Iterator[WaitingEvent]:
    """Yield the events of a channel's runs one by one."""
    for one in runs:
        yield from one_by_one(rank, one.before, one.events)


def _all_waiting(channel: _Channel) -> Iterator[WaitingEvent]:
    yield from channel.pending
    yield from _waiting(channel.rank, channel.runs)


def _last(channels: Iterable[_Channel]) -> Iterator[int]:
    """Yield when the last ones are due that wait in each channel, ms."""
    for channel in channels:
        yield from (int(one.run.at[-1]) for one in channel.runs)
        if channel.pending:
            yield channel.pending[-1].key[0]


def _spill(channel: _Channel) -> None:
    """Let the events of runs wait one by one."""
    channel.pending.extend(_waiting(channel.rank, channel.runs))
    channel.runs.clear()


def _due_runs(channel: _Channel, reached: int) -> list[_Run]:
    """Take what is due off the runs of a channel; at that very time it is only what timers put out."""
    held, channel.runs = channel.runs, []
    due = []
    for one in held:
        at, order = one.run.at, one.run.order
        end = len(one.run)
        if at[-1] >= reached:
            end = int(numpy.searchsorted(at, reached))
            end += int(numpy.count_nonzero(order[end : numpy.searchsorted(at, reached, side="right")] == TIMER))
        if end == len(one.run):
            due.append(one)
        elif not end:
            channel.runs.append(one)
        else:
            due.append(one.part(0, end))
            channel.runs.append(one.part(end, len(one.run)))
    return due


def _gather(channel: _Channel) -> None:
    """Let what waits one by one wait as a run, where it is one."""
    if channel.runs:
        return
    events = gathered(channel.pending)
    run = None if events is None else as_run(events, _LOWEST)
    if run is not None:
        channel.runs.append(run)
        channel.pending.clear()
