"""Many shards in one query: which records go to which shard, and the shards that one Python process hosts.

Values only, no Spark. A query's shards are numbered in the order of its settings; Spark partition *p* of the island
step hosts those with ``number % partitions == p``.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from spdist.config.allowed import Allowed
from spdist.engine.island.cuts import Cut
from spdist.engine.island.hosted import build_island
from spdist.engine.island.island import Island, Output
from spdist.engine.shards.copies import Copies
from spdist.engine.shards.memory import resident_bytes
from spdist.engine.shards.shard import Shard, SnapshotPolicy
from spdist.engine.shards.splitting import Splitter
from spdist.engine.shards.state import Positions, Segment, StateStore
from spdist.errors import EngineError, ErrorKind, SpdistError, error_of
from spdist.language.types import Schema
from spdist.planning.compiled import CompiledInstance
from spdist.planning.sharding import sharding
from spdist.planning.topology import AssignedInput, Assignment, shard_names
from spdist.transports.base import Record
from spdist.transports.commands import SCHEMAS

__all__ = [
    "BackgroundCall",
    "Counters",
    "HostedShards",
    "ReadBatch",
    "Router",
    "ShardSettings",
    "idle_until",
    "island_maker",
    "lowest_positions",
]


#: How much longer than a count of rows the time is until the next one, at least.
_PAUSES = 20


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """One shard of a query.

    Parameters
    ----------
    assignment : Assignment
        What to run.
    index, count : int
        Which of how many shards of that assignment it is; from 0.
    opening : Segment
        The segment with which this start took the state over.
    state_directory : str
        Where the state is.
    """

    assignment: Assignment
    index: int
    count: int
    opening: Segment
    state_directory: str

    @property
    def name(self) -> str:
        """The instance, and which of its shards where there are several: for people."""
        name = self.assignment.name
        return name if self.count == 1 else f"{name} (shard {self.index + 1} of {self.count})"

    def published(self) -> Assignment:
        """Return the assignment under the name that this shard publishes under."""
        return replace(self.assignment, name=shard_names(self.assignment.name, self.count)[self.index])

    def positions(self, all_positions: Positions) -> Positions:
        """Return the part of `all_positions` that this shard reads; what did not move may be missing there."""
        return {
            assigned.topic: {p: moved[p] for p in assigned.partitions if p in moved}
            for assigned in self.assignment.inputs
            if (moved := all_positions.get(assigned.topic))
        }


@dataclass(frozen=True, slots=True)
class Counters:
    """What is known of some shards: sums of events, rows, stored bytes; the earliest and latest of their times, ms."""

    events_in: int = 0
    events_out: int = 0
    pending: int = 0
    clock: int | None = None
    latest: int | None = None
    state_bytes: int = 0
    memory_bytes: int = 0
    state_rows: int = 0


def lowest_positions(shards: Iterable[ShardSettings], *, kafka: bool = False) -> Positions:
    """Return where a fresh query must begin to read: for each topic partition where the last of its readers goes on.

    `kafka` asks for the topics in Kafka, else it is for the others.
    """
    lowest: Positions = {}
    for shard in shards:
        for assigned in (one for one in shard.assignment.inputs if (one.transport == "kafka") is kafka):
            known = shard.opening.positions.get(assigned.topic, {})
            offsets = lowest.setdefault(assigned.topic, {})
            for partition in assigned.partitions:
                own = known.get(partition, 0)
                offsets[partition] = min(own, offsets.get(partition, own))
    return lowest


class _TopicReader:
    """An assignment that reads a topic: the numbers of its shards, and what splits the topic's records for them."""

    def __init__(self, settings: ShardSettings, assigned: AssignedInput, scripts: bool) -> None:
        self.stream = stream = assigned.stream
        self.numbers: list[int] = []
        self._splitter: Splitter | None = None
        # Commands are for all shards.
        if settings.count > 1 and stream not in SCHEMAS:
            checked = CompiledInstance.of(settings.assignment, scripts).checked
            keys = sharding(checked, (stream,)).keys
            # Commands that are put to the instance go to any one of its shards.
            schema = {**checked.streams, **SCHEMAS}[stream]
            self._splitter = Splitter(
                schema,
                keys[stream],
                settings.count,
                messages=bool(assigned.into),
                adapts=bool(assigned.producers) or assigned.drains,
                foreign=not assigned.producers,
            )

    @property
    def rejected(self) -> int:
        """How many events of outsiders' messages were left out here."""
        return 0 if self._splitter is None else self._splitter.rejected.count

    def share(self, record: Record) -> Iterator[tuple[int, Record]]:
        """Yield number of the shard and record."""
        parts = [record] * len(self.numbers) if self._splitter is None else self._splitter.split(record)
        return zip(self.numbers, parts, strict=True)


class Router:
    """Knows which shards read a record, and which share of it.

    Parameters
    ----------
    shards : sequence of ShardSettings
        All shards of the query.
    scripts : bool
        Whether functions that apps define in Python are known.
    """

    def __init__(self, shards: Sequence[ShardSettings], scripts: bool = False) -> None:
        self._readers: dict[tuple[str, int], list[_TopicReader]] = {}
        known: dict[tuple[str, str], _TopicReader] = {}
        self._known = known.values()
        for number, shard in enumerate(shards):
            for assigned in shard.assignment.inputs:
                by = (shard.assignment.name, assigned.topic)
                # Shards of one assignment share it, so that a record is split once for all of them
                if by not in known:
                    known[by] = _TopicReader(shard, assigned, scripts)
                    for partition in assigned.partitions:
                        self._readers.setdefault((assigned.topic, partition), []).append(known[by])
                known[by].numbers.append(number)

    def rejected(self) -> Counter[str]:
        """Return how many events of outsiders' messages were left out here, by stream."""
        counted: Counter[str] = Counter()
        for reader in self._known:
            counted[reader.stream] += reader.rejected
        return counted

    def route(self, records: Iterable[Record]) -> Iterator[tuple[int, Record]]:
        """Yield number of the shard and record, for each shard that reads a record, in the order of `records`."""
        for record in records:
            for reader in self._readers.get((record.topic, record.partition), ()):
                yield from reader.share(record)


class ReadBatch(Protocol):
    """What is known of a batch when all of it has been read (`spdist.engine.spark.tasks.Arrivals`)."""

    @property
    def tick(self) -> int:
        """The time of the batch, ms."""
        ...

    @property
    def positions(self) -> Positions:
        """Where reading goes on after it, for all topics of the query."""
        ...


class Sending(Protocol):
    """What was put out before, and leaves while others go on (`BackgroundCall`)."""

    def is_over(self) -> bool:
        """Tell whether all of it has been published."""
        ...

    def end(self) -> object:
        """Wait until it is over; raises what went wrong."""
        ...


class BackgroundCall:
    """Makes one call in a thread behind the caller, who goes on and asks later what has become of it.

    State
    -----
    The call, and its error until somebody has asked.
    """

    def __init__(self) -> None:
        self._call: Future[None] | None = None

    def begin(self, call: Callable[[], None]) -> None:
        """Begin a call; the one before must have been asked for."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="behind")
        self._call = pool.submit(call)
        pool.shutdown(wait=False)  # the thread ends with the call

    def is_over(self) -> bool:
        """Tell whether no call runs, nor one has failed for which nobody has asked."""
        return self._call is None or (self._call.done() and self._call.exception() is None)

    def end(self) -> bool:
        """Wait until the call has ended, and raise its error; False the second time, or where none began."""
        call, self._call = self._call, None
        if call is not None:
            call.result()
        return call is not None


#: Of what was published before anybody went on.
_SENT: Sending = BackgroundCall()


class HostedShards:
    """The shards that this process hosts, with their live state.

    Parameters
    ----------
    shards : mapping
        Number in the query → settings.
    make_island : callable
        Makes the island of a shard, without state.
    policy : SnapshotPolicy, optional
        When snapshots are taken.
    copies : Copies, optional
        Where files of the states may be that were fetched before.
    """

    def __init__(
        self,
        shards: Mapping[int, ShardSettings],
        make_island: Callable[[ShardSettings], Island],
        policy: SnapshotPolicy | None = None,
        copies: Copies | None = None,
    ) -> None:
        self._settings = dict(shards)
        self._rows = 0
        self._count_at = 0.0
        alone = len(shards) == 1
        self._shards = {
            number: Shard(
                StateStore(one.state_directory, copies),
                one.opening,
                functools.partial(make_island, one),
                policy,
                skips_idle=not alone,
                messages=frozenset(assigned.topic for assigned in one.assignment.inputs if assigned.into),
            )
            for number, one in shards.items()
        }

    def process(
        self,
        batch: int,
        routed: Iterable[tuple[int, Record]],
        heard: ReadBatch,
        sending: Sending = _SENT,
        closing: bool = False,
    ) -> list[Output]:
        """Run one batch in all shards; see `Shard.process`. All segments are durable when this returns.

        Parameters
        ----------
        batch : int
            Its number.
        routed : iterable
            What `Router.route` yields for these shards; shards may process one while the next is made.
        heard : ReadBatch
            What is known of the batch once `routed` has ended.
        sending : Sending
            Of what the batch before put out; over when this returns.
        closing : bool
            See `Segment`.

        Raises
        ------
        SpdistError
            A shard failed; where there are several, the message begins with its name.
        """
        # All of them before the first record: `add` compares it with the position in the loaded state
        for number, shard in self._shards.items():
            with self._naming(number):
                shard.begin(batch)
        for number, record in routed:
            with self._naming(number):
                self._shards[number].add(record)
        outputs: list[Output] = []
        try:
            # Nothing brings back outputs from before a snapshot, so wait for them, but only where one is due
            if any(shard.since.is_due for shard in self._shards.values()):
                sending.end()
            for number, shard in self._shards.items():
                own = self._settings[number].positions(heard.positions)
                with self._naming(number):
                    outputs += shard.finish(heard.tick, own, sending.is_over(), closing)
            # Before this batch is published: readers drop a number that is below one they have seen
            sending.end()
        except BaseException:
            self.forget()  # what could not be sent must be put out again
            raise
        return outputs

    @contextmanager
    def _naming(self, number: int) -> Iterator[None]:
        """Have errors say whose they are, where there are several shards."""
        settings = self._settings[number]
        try:
            yield
        except Exception as error:
            if len(self._shards) == 1 and settings.count == 1:
                raise
            raise _named(error, settings.name) from error

    def settings_of(self, producer: str) -> tuple[ShardSettings, Mapping[str, Schema]]:
        """Return the shard that puts out in this name, and the attributes of its streams."""
        number = next(number for number, one in self._settings.items() if one.published().name == producer)
        island = self._shards[number].island
        assert island is not None  # it has put something out
        return self._settings[number], island.schemas

    def origins(self) -> dict[str, Cut]:
        """Return `Publisher.origin` of each producer whose last outputs may have been published before."""
        return {
            self._settings[number].published().name: shard.island.publisher.origin
            for number, shard in self._shards.items()
            if shard.repeats and shard.island is not None
        }

    def check_owner(self) -> None:
        """Raise FencedError where another owner has taken a shard over; see `Ownership.check`."""
        for number, shard in self._shards.items():
            with self._naming(number):
                shard.ownership.check()

    def forget(self) -> None:
        """Forget the states in memory; see `Shard.forget`."""
        for shard in self._shards.values():
            shard.forget()

    def snapshots(self) -> list[bytes]:
        """Return the states of the shards after the last batch, in order; its outputs must have left."""
        islands = [shard.island for _, shard in sorted(self._shards.items())]
        return [island.snapshot() for island in islands if island is not None]

    def counters(self) -> Counters:
        """Return what the shards have counted since the beginning of their states."""
        islands = [shard.island for shard in self._shards.values() if shard.island is not None]
        clocks = [island.clock for island in islands if island.clock is not None]
        return Counters(
            events_in=sum(island.events_in for island in islands),
            events_out=sum(island.events_out for island in islands),
            pending=sum(island.pending for island in islands),
            clock=min(clocks, default=None),
            latest=max(clocks, default=None),
            state_bytes=sum(shard.since.stored_bytes for shard in self._shards.values()),
            memory_bytes=resident_bytes(),
            state_rows=self._held_rows(islands),
        )

    def idle_until(self) -> int | None:
        """Return until when nothing happens in any shard unless something comes; see `idle_until`."""
        times = [idle_until(shard.island) for shard in self._shards.values()]
        return min((time for time in times if time is not None), default=None)

    def rejected(self) -> Counter[str]:
        """Return how many messages of outsiders could not be read here, by stream, since this process began."""
        islands = (shard.island for shard in self._shards.values())
        return sum((Counter(island.rejected) for island in islands if island is not None), Counter())

    def _held_rows(self, islands: Sequence[Island]) -> int:
        """Count rows so seldom that it takes a twentieth of the time at most; small states with each batch."""
        began = time.monotonic()
        if began >= self._count_at:
            self._rows = sum(island.held_rows() for island in islands)
            now = time.monotonic()
            self._count_at = now + _PAUSES * (now - began)
        return self._rows


def idle_until(island: Island | None) -> int | None:
    """Return until when nothing happens in an island unless something comes, ms.

    0 where time must go on, as it is not known or something waits for its turn; None where it need not.
    """
    if island is None or island.clock is None or not island.live or island.pending:
        return 0
    return island.app.next_timer


def island_maker(
    merge_wait_ms: int, scripts: bool, allowed: Allowed | None = None
) -> Callable[[ShardSettings], Island]:
    """Return what makes the island of a shard; the parameters are those of `build_island`."""

    def make(settings: ShardSettings) -> Island:
        return build_island(settings.published(), merge_wait_ms, scripts, allowed)

    return make


def _named(error: Exception, name: str) -> SpdistError:
    """Return `error` as an error of ours that names the shard."""
    if not isinstance(error, SpdistError):
        return EngineError(f"{name}: {type(error).__name__}: {error}", code=ErrorKind.QUERY_FAILED)
    return error_of(error.code, f"{name}: {error.message}", span=error.span, hint=error.hint, text=error.text)
