"""One start of a shard on its stored state: which batch is which segment, and in what order things happen.

A *shard* is one island with a state of its own: a whole group instance, or the share of the keys that one of several
shards of it has. One query may host many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy

from spdist.clock import Clock, SystemClock
from spdist.engine.island.island import Island, Output
from spdist.engine.shards.state import Positions, Segment, StateStore, later
from spdist.errors import FencedError, StateError
from spdist.operators.tables.stores import StoreBatch
from spdist.transports.base import Record
from spdist.transports.payloads.payload import since

__all__ = ["Ownership", "Shard", "SinceSnapshot", "SnapshotPolicy", "cut"]

#: So long after an append nobody can have noticed that its process stands still, let alone have taken over, ms.
_SURE_MS = 1_000


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """When a snapshot is taken: after so many segments, or so many bytes of payload in them, since the last one.

    A snapshot that is larger than `payload_bytes` is followed by as many bytes as it has: what has to be loaded at most
    doubles. And none follows before `pause` times as long as the last one took: whatever a state costs, snapshots have
    at most that share of the time, and another owner replays at most so much.
    """

    segments: int = 500
    payload_bytes: int = 16 * 1024 * 1024
    pause: int = 5


class SinceSnapshot:
    """What another process would have to load: the newest snapshot, and the segments after it.

    Parameters
    ----------
    policy : SnapshotPolicy
        When there is to be another one.
    clock : Clock, optional
        This machine's; its steady reading only.
    """

    def __init__(self, policy: SnapshotPolicy, clock: Clock | None = None) -> None:
        self.policy = policy
        self._clock = clock or SystemClock()
        self._took_ms = self._until_ms = 0
        self.begin(0)

    def snapshot_of(self, island: Island) -> bytes | None:
        """Return a snapshot, where it is time for one."""
        if not self.is_due:
            return None
        begin_ms = self._clock.steady_ms()
        snapshot = island.snapshot()
        self._took_ms = self._clock.steady_ms() - begin_ms
        return snapshot

    def begin(self, snapshot_bytes: int) -> None:
        """Note that there is a snapshot of that size, and nothing after it."""
        self._snapshot_bytes = snapshot_bytes
        self._payload_bytes = self._segments = 0
        self._until_ms = self._clock.steady_ms() + self.policy.pause * self._took_ms

    def count(self, segment: Segment) -> None:
        """Note a segment."""
        self._segments += 1
        self._payload_bytes += sum(len(record.value) for record in segment.records)

    @property
    def stored_bytes(self) -> int:
        """Its size."""
        return self._snapshot_bytes + self._payload_bytes

    @property
    def is_due(self) -> bool:
        """Whether it is time for a snapshot, which needs that all has been published."""
        enough = max(self.policy.payload_bytes, self._snapshot_bytes)
        much = self._segments >= self.policy.segments or self._payload_bytes >= enough
        return much and self._clock.steady_ms() >= self._until_ms


class Ownership:
    """When it was last known that nobody has taken a state over.

    A process may stand still between making a batch durable and publishing it, as on a machine that is suspended; its
    group may run elsewhere meanwhile, and have published the batch.

    Parameters
    ----------
    store : StateStore
        The state.
    owner : str
        Whose it is.
    clock : Clock, optional
        This machine's; its steady reading only.
    """

    def __init__(self, store: StateStore, owner: str, clock: Clock | None = None) -> None:
        self._store = store
        self._owner = owner
        self._clock = clock or SystemClock()
        self._known_ms = 0

    def begin_append(self) -> None:
        """Note that the owner is about to append, which fails where somebody has taken over."""
        # A lower bound: the append proves the ownership at some moment after this one
        self._known_ms = self._clock.steady_ms()

    def check(self) -> None:
        """Find out whether it is still the owner's, if a second has passed since that was known.

        Raises
        ------
        FencedError
            Another owner has taken over; nothing may be published.
        """
        now_ms = self._clock.steady_ms()
        if now_ms - self._known_ms >= _SURE_MS:
            self._store.check_owner(self._owner)
            self._known_ms = now_ms


class Shard:
    """Runs the batches of one owner, and finds the state again where this process does not have it.

    Parameters
    ----------
    store : StateStore
        Where the state is.
    opening : Segment
        What `StateStore.open` returned to this owner.
    make_island : callable
        Returns an island that has processed nothing.
    policy : SnapshotPolicy
        When snapshots are taken.
    skips_idle : bool
        Whether a batch that brings nothing gets no segment, where time does not pass by itself. For shards that share a
        query with others, whose records make most of its batches.
    messages : frozenset of str
        The topics of users' own sources, whose records can be cut.
    commits : bool
        Whether the outputs of a batch are durable before the next one begins: only that batch returns them again.

    State
    -----
    The island after segment `version`. What is in memory is a copy of what is stored: it can be lost at any time, and
    another process may have gone on in between; then only the segments that this one missed are replayed.
    """

    def __init__(
        self,
        store: StateStore,
        opening: Segment,
        make_island: Callable[[], Island],
        policy: SnapshotPolicy | None = None,
        *,
        skips_idle: bool = False,
        messages: frozenset[str] = frozenset(),
        commits: bool = False,
    ) -> None:
        self.store = store
        self.ownership = Ownership(store, opening.owner)
        self.island: Island | None = None
        self.version = 0
        self._opening = opening
        self._make_island = make_island
        self.since = SinceSnapshot(policy or SnapshotPolicy())
        self._skips_idle = skips_idle
        self._messages = messages
        self._commits = commits
        #: Of segment `version`.
        self._batch = -1
        self._positions: Positions = {}
        self._log: str | None = None
        #: Whether some of what was handed over last may have been published before.
        self.repeats = False
        #: What of segments that had to be replayed may not have been published.
        self._unpublished: dict[int, list[Output]] = {}
        #: The segments of which the outputs were handed over last, until they are known to have been published.
        self._on_their_way: tuple[int, ...] = ()
        # Of the running batch: its number, what came of it; the island where it has processed some of it before the
        # whole was durable, and the snapshot from before that.
        self._running = -1
        self._taken: list[Record] = []
        self._early: Island | None = None
        self._before: bytes | None = None

    def process(self, batch: int, records: Sequence[Record], tick: int, positions: Positions) -> list[Output]:
        """Make batch number `batch` (from 0) part of the state and return what is to be published and delivered for it.

        Where segments before it had to be replayed, it also returns what may not have been published of those, as by
        earlier owners. A batch that is repeated returns the same again.

        Parameters
        ----------
        batch, tick : int
            Number of the batch since this owner began, and its time in ms.
        records : sequence of Record
            What arrived, repeats included. What is below the shard's own position in its partition is part of its state
            already: a query begins to read where the shard that is furthest behind goes on.
        positions : Positions
            Where reading goes on after this batch; partitions that did not move may be missing.

        Raises
        ------
        FencedError
            Another owner has taken over; nothing may be published.
        StateError
            The stored state cannot be read or written.
        """
        self.begin(batch)
        for record in records:
            self.add(record)
        return self.finish(tick, positions)

    def begin(self, batch: int) -> None:
        """Begin batch number `batch`, of which `add` gets the records and `finish` the rest; see `process`."""
        if self._early is not None:  # of a batch that never became durable: no segment leads to its state
            self.forget()
        self._running, self._taken, self._before = batch, [], None
        if batch == 0 or not self.is_before(batch):
            self._load(batch)

    def is_before(self, batch: int) -> bool:
        """Tell whether the state in memory is one of before batch number `batch`."""
        return self.island is not None and self._batch < batch

    def forget(self) -> None:
        """Forget the state in memory: the next batch loads it, and puts out again what was not published."""
        if self._early is not None:
            self._early.give_up()  # what it has changed in databases keeps others from changing it
        self.island = self._early = None

    def add(self, record: Record) -> None:
        """Add the next record of the batch.

        Where it comes to the same it is processed now. Nothing leaves before the batch is durable; an island that
        is ahead of what turns out to be stored is given up.
        """
        for fresh in self._fresh((record,)):
            self._taken.append(self._ahead(fresh))

    def finish(self, tick: int, positions: Positions, sent: bool = True, closing: bool = False) -> list[Output]:
        """Make the batch part of the state, and return what is to be published and delivered for it; see `process`.

        Parameters
        ----------
        tick, positions
            See `process`.
        sent : bool
            Whether what the batch before returned has been published. While that is on its way it is not taken for
            published, and there is no snapshot.
        closing : bool
            See `Segment`.
        """
        batch, records, island, stored = self._running, tuple(self._taken), self._early, False
        self.ownership.begin_append()
        self._on_their_way = () if sent else self._on_their_way
        if island is None and self._skips_idle and not closing and self._nothing_new(batch, records):
            return self._handed_over([])
        if island is not None and self._is_first(segment := self._made(batch, records, tick, positions, closing)):
            snapshot = self._before
        else:
            if island is not None:  # the number is taken: others than what went ahead may be stored
                self.begin(batch)
            segment, stored = self._append(batch, records, tick, positions, closing)
            island = self._known()
            snapshot = None if self._unpublished else self.since.snapshot_of(island)
        # From a snapshot the outputs before it cannot be put out again.
        if snapshot is not None and not self._on_their_way:
            self.store.save_snapshot(segment.number - 1, snapshot)
            self.since.begin(len(snapshot))
        # A failure below leaves an island that is neither the one nor the other: it must be loaded again.
        self.island = self._early = None
        outputs = island.process(segment.records, segment.tick, self._named(segment.number), segment.closing)
        # Before anything of it can be read: whoever keeps a revision after that finds that it was published.
        self.store.save_cut(segment.number, island.publisher.cut())
        self.since.count(segment)
        self._is_at(island, segment)
        return self._handed_over(outputs, stored)

    def _handed_over(self, outputs: list[Output], stored: bool = False) -> list[Output]:
        """Return what is to be published, and take it for published from the next batch on.

        `stored` tells whether the segment of the outputs was found: nothing is published before there is one.
        """
        before, self._unpublished = self._unpublished, {}
        self.repeats = stored or bool(before)
        self._on_their_way = (*before, self.version)
        return [*chain.from_iterable(before.values()), *outputs]

    def _ahead(self, record: Record) -> Record:
        """Process a record before its batch is durable, where that may be; return what stands for it."""
        island = self._early or self.island
        if island is None or not island.goes_ahead(record) or not (self._early or self._may_go_ahead()):
            return record
        if self._early is None:  # a snapshot must be of before its first record
            self._before = None if self._unpublished else self.since.snapshot_of(island)
            self._early, self.island = island, None  # between two segments: no failure may leave that as `island`
        return island.process_ahead(record, self._named(self.version + 1))

    def _may_go_ahead(self) -> bool:
        # The first batch also says what must be published again. Where somebody has written its segment, that counts.
        return self._running > 0 and not self.store.path("segment", self.version + 1).exists()

    def _is_first(self, segment: Segment) -> bool:
        """Make a segment durable; False where another process has written that number, whoever it belongs to."""
        try:
            return self.store.append(segment) is segment
        except FencedError:  # `_append` finds out by whom, and raises where it must
            return False

    def _known(self) -> Island:
        assert self.island is not None
        return self.island

    def _nothing_new(self, batch: int, records: Sequence[Record]) -> bool:
        if batch == 0 or self._known().passes_time or self._fresh(records):
            return False
        self._catch_up(batch)  # what is counted must not fall behind what another process has counted
        return True

    def _made(self, batch: int, fresh: tuple[Record, ...], tick: int, positions: Positions, closing: bool) -> Segment:
        """Return the segment of a batch that follows the state, of records that are no part of it."""
        return Segment(
            number=self.version + 1,
            owner=self._opening.owner,
            emitted=min((*self._unpublished, *self._on_their_way), default=self.version + 1) - 1,  # those may fail
            tick=tick,
            positions=later(self._positions, positions),
            records=fresh,
            batch=batch,
            assignment=self._opening.assignment,
            closing=closing,
        )

    def _append(
        self, batch: int, records: Sequence[Record], tick: int, positions: Positions, closing: bool
    ) -> tuple[Segment, bool]:
        """Make the segment of the batch durable, and return it; and whether another process of this owner had done so.

        Where that has gone on, catch up before.
        """
        while True:
            version = self.version
            made = self._made(batch, self._fresh(records), tick, positions, closing)  # catching up moves positions
            try:
                segment = self.store.append(made)
            except FencedError:
                # Not fenced where a process of the same owner has gone on so far that it deleted what this one misses.
                if self.store.newest(self._opening.owner, batch).number <= version:
                    raise
                self._load(batch)
                continue
            if segment.batch == batch:  # where another process was first, its records count
                return segment, segment is not made
            if segment.batch > batch or not self._catch_up(batch):
                raise StateError(f"the state in {self.store.directory} is at batch {segment.batch}, not {batch}")

    def _fresh(self, records: Sequence[Record]) -> tuple[Record, ...]:
        fresh = []
        for record in records:
            position = self._positions.get(record.topic, {}).get(record.partition, 0)
            if not 0 <= record.offset < position:  # without an offset, -1, it is never a repeat
                fresh.append(cut(record, position) if record.topic in self._messages else record)
        return tuple(fresh)

    def _load(self, batch: int) -> None:
        """Load the state before `batch`."""
        newest = self.store.newest(self._opening.owner, batch)
        island = self._make_island()
        snapshot, segments = self.store.load(newest.number)
        if snapshot:
            island.restore(snapshot)
        self.island = None
        self._unpublished, self._on_their_way = {}, ()
        self.since.begin(len(snapshot))
        for segment in segments:
            self._replay(island, segment)
        self.store.save_cut(newest.number, island.publisher.cut())
        self._is_at(island, newest)

    def _catch_up(self, batch: int) -> bool:
        """Replay the segments before `batch` that another process of this owner wrote; whether there were any."""
        before, island = self.version, self._known()
        while self.store.path("segment", self.version + 1).exists():
            segment = self.store.segment(self.version + 1)
            if segment.owner != self._opening.owner or segment.batch >= batch:
                break  # the append that follows finds whether this one is fenced
            self.island = None
            self._replay(island, segment)
            self._is_at(island, segment)
        return self.version > before

    def _replay(self, island: Island, segment: Segment) -> None:
        """Process a stored segment, and keep what may not have been published."""
        self.since.count(segment)
        kept = {number: outputs for number, outputs in self._unpublished.items() if number > segment.emitted}
        if not segment.opening:
            if segment.assignment != self._opening.assignment:
                raise StateError(
                    f"segment {segment.number} in {self.store.directory} was processed by another app, or with other "
                    "inputs, than those that go on from it",
                    hint="restore a revision of this group",
                )
            named = self._named(segment.number)
            outputs = island.process(segment.records, segment.tick, named, segment.closing)
            if not self._commits:  # else Spark has committed them before the next segment was begun
                kept[segment.number] = outputs
        if segment.base:
            island.publisher.went_back()
        island.intake.undone.add(segment.undone)
        self._unpublished = kept

    def _named(self, number: int) -> StoreBatch:
        if self._log is None:
            self._log = self.store.identity()
        return StoreBatch(self._log, number)

    def _is_at(self, island: Island, segment: Segment) -> None:
        self.island, self.version = island, segment.number
        self._batch, self._positions = segment.batch, segment.positions


def cut(record: Record, position: int) -> Record:
    """Return what a record holds of the messages from offset `position` on."""
    if record.events is not None:
        # The order of an event of a user's topic is the offset of its message, so orders rise
        start = int(numpy.searchsorted(record.events.order, position))
        if not start:
            return record
        events = record.events.part(start, len(record.events))
        return replace(record, value=since(record.value, position), count=len(events), events=events)
    value = since(record.value, position) if record.value else record.value
    return record if value is record.value else replace(record, value=value)
