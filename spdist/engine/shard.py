"""One start of a shard on its stored state: which batch is which segment, and in what order things happen.

A *shard* is one island with a state of its own: a whole group instance, or the share of the keys that one of several
shards of it has. One query may host many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spdist.engine.island import Island, Output
from spdist.engine.packing import cut
from spdist.engine.state import Positions, Segment, StateStore, later
from spdist.errors import FencedError, StateError
from spdist.operators.stores import Batch
from spdist.transports.base import Record

__all__ = ["Shard", "SnapshotPolicy"]


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """When a snapshot is taken: after so many segments, or so many bytes of payload in them, since the last one."""

    segments: int = 500
    payload_bytes: int = 16 * 1024 * 1024


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
    ) -> None:
        self.store = store
        self.island: Island | None = None
        self.version = 0
        self._opening = opening
        self._make_island = make_island
        self._policy = policy or SnapshotPolicy()
        self._skips_idle = skips_idle
        self._messages = messages
        #: Of segment `version`.
        self._batch = -1
        self._positions: Positions = {}
        self._segments = 0
        self._payload_bytes = 0
        self._snapshot_bytes = 0
        self._log: str | None = None

    @property
    def stored_bytes(self) -> int:
        """Bytes that another process would have to load: the newest snapshot and the segments after it."""
        return self._snapshot_bytes + self._payload_bytes

    def process(self, batch: int, records: Sequence[Record], tick: int, positions: Positions) -> list[Output]:
        """Make batch number `batch` (from 0) part of the state and return what is to be published and delivered for it.

        The first batch also returns what earlier owners may not have published. A batch that is repeated returns the
        same again. The batch before has been published when this is called.

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
        again: list[Output] = []
        if self.island is None or self._batch >= batch:
            again = self._load(batch)
        if self._skips_idle and self._nothing_new(batch, records):
            return again
        segment = self._append(batch, records, tick, positions)
        island = self._known()
        self._save_snapshot(island, segment)
        # A failure below leaves an island that is neither the one nor the other: it must be loaded again.
        self.island = None
        outputs = island.process(segment.records, segment.tick, self._named(segment))
        self._count(segment)
        self._is_at(island, segment)
        return again + outputs

    def _known(self) -> Island:
        assert self.island is not None
        return self.island

    def _nothing_new(self, batch: int, records: Sequence[Record]) -> bool:
        if batch == 0 or self._known().live or self._fresh(records):
            return False
        if self.store.path("segment", self.version + 1).exists():
            self._catch_up(batch)  # what is counted must not fall behind what another process has counted
        return True

    def _append(self, batch: int, records: Sequence[Record], tick: int, positions: Positions) -> Segment:
        """Make the segment of the batch durable; catch up before that where another process of this owner went on."""
        while True:
            emitted = self._opening.emitted if batch == 0 else self.version
            made = Segment(
                number=self.version + 1,
                owner=self._opening.owner,
                emitted=emitted,
                tick=tick,
                positions=later(self._positions, positions),
                records=self._fresh(records),
                batch=batch,
            )
            version = self.version
            try:
                segment = self.store.append(made)
            except FencedError:
                # Not fenced where a process of the same owner has gone on so far that it deleted what this one misses.
                if self.store.newest(self._opening.owner, batch).number <= version:
                    raise
                self._load(batch)
                continue
            if segment.batch == batch:
                return segment
            if segment.batch > batch or not self._catch_up(batch):
                raise StateError(f"the state in {self.store.directory} is at batch {segment.batch}, not {batch}")

    def _fresh(self, records: Sequence[Record]) -> tuple[Record, ...]:
        fresh = []
        for record in records:
            position = self._positions.get(record.topic, {}).get(record.partition, 0)
            if not 0 <= record.offset < position:
                fresh.append(cut(record, position) if record.topic in self._messages else record)
        return tuple(fresh)

    def _load(self, batch: int) -> list[Output]:
        """Load the state before `batch`; for the first batch return what earlier owners may not have published."""
        newest = self.store.newest(self._opening.owner, batch)
        emitted = self._opening.emitted if batch == 0 else newest.number
        island = self._make_island()
        again: list[Output] = []
        snapshot, segments = self.store.load(newest.number)
        if snapshot:
            island.restore(snapshot)
        self.island = None
        self._segments, self._payload_bytes, self._snapshot_bytes = 0, 0, len(snapshot)
        for segment in segments:
            outputs = self._replay(island, segment)
            if segment.number > emitted:
                again.extend(outputs)
        self._is_at(island, newest)
        return again

    def _catch_up(self, batch: int) -> bool:
        """Replay the segments before `batch` that another process of this owner wrote; whether there were any."""
        before, island = self.version, self._known()
        while self.store.path("segment", self.version + 1).exists():
            segment = self.store.segment(self.version + 1)
            if segment.owner != self._opening.owner or segment.batch >= batch:
                break
            self.island = None
            self._replay(island, segment)
            self._is_at(island, segment)
        return self.version > before

    def _replay(self, island: Island, segment: Segment) -> list[Output]:
        self._count(segment)
        return [] if segment.opening else island.process(segment.records, segment.tick, self._named(segment))

    def _named(self, segment: Segment) -> Batch:
        if self._log is None:
            self._log = self.store.identity()
        return Batch(self._log, segment.number)

    def _is_at(self, island: Island, segment: Segment) -> None:
        self.island, self.version = island, segment.number
        self._batch, self._positions = segment.batch, segment.positions

    def _save_snapshot(self, island: Island, segment: Segment) -> None:
        due = self._segments >= self._policy.segments or self._payload_bytes >= self._policy.payload_bytes
        # From a snapshot the outputs before it cannot be put out again.
        if due and segment.number - 1 <= segment.emitted:
            snapshot = island.snapshot()
            self.store.save_snapshot(segment.number - 1, snapshot)
            self._segments, self._payload_bytes, self._snapshot_bytes = 0, 0, len(snapshot)

    def _count(self, segment: Segment) -> None:
        self._segments += 1
        self._payload_bytes += sum(len(record.value) for record in segment.records)
