"""One start of a group instance on its stored state: which batch is which segment, and in what order things happen.

A *shard* here is a whole group instance: instances are made parallel by `@dist(parallel)`, each has one state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spdist.engine.island import Island
from spdist.engine.state import Positions, Segment, StateStore
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
        What `StateStore.open` returned to this owner: batch *b* becomes segment ``opening.number + 1 + b``.
    make_island : callable
        Returns an island that has processed nothing.
    policy : SnapshotPolicy
        When snapshots are taken.

    State
    -----
    The island after segment `version`. What is in memory is a copy of what is stored: it can be lost at any time.
    """

    def __init__(
        self,
        store: StateStore,
        opening: Segment,
        make_island: Callable[[], Island],
        policy: SnapshotPolicy | None = None,
    ) -> None:
        self.store = store
        self.island: Island | None = None
        self.version = 0
        self._opening = opening
        self._make_island = make_island
        self._policy = policy or SnapshotPolicy()
        self._segments = 0
        self._payload_bytes = 0

    def process(self, batch: int, records: Sequence[Record], tick: int, positions: Positions) -> list[Record]:
        """Make batch number `batch` (from 0) part of the state and return what is to be published for it.

        The first batch also returns what earlier owners may not have published. A batch that is repeated returns the
        same again. The batch before has been published when this is called.

        Parameters
        ----------
        batch, tick : int
            Number of the batch since this owner began, and its time in ms.
        records : sequence of Record
            What arrived, repeats included.
        positions : Positions
            Where reading goes on after this batch.

        Raises
        ------
        FencedError
            Another owner has taken over; nothing may be published.
        StateError
            The stored state cannot be read or written.
        """
        number = self._opening.number + 1 + batch
        emitted = self._opening.emitted if batch == 0 else number - 1
        again: list[Record] = []
        island = self.island
        if island is None or self.version != number - 1:
            island, again = self._catch_up(number - 1, emitted)
        segment = self.store.append(Segment(number, self._opening.owner, emitted, tick, positions, tuple(records)))
        self._save_snapshot(island, number - 1, emitted)
        # A failure below leaves an island that is neither the one nor the other: it must be loaded again.
        self.island = None
        outputs = island.process(segment.records, segment.tick)
        self.island, self.version = island, number
        self._count(segment)
        return again + outputs

    def _catch_up(self, version: int, emitted: int) -> tuple[Island, list[Record]]:
        """Load the state after segment `version`, and what its segments after `emitted` publish."""
        island, again = self._make_island(), []
        snapshot, segments = self.store.load(version)
        if snapshot:
            island.restore(snapshot)
        self._segments = self._payload_bytes = 0
        for segment in segments:
            self._count(segment)
            if segment.opening:
                continue
            outputs = island.process(segment.records, segment.tick)
            if segment.number > emitted:
                again.extend(outputs)
        return island, again

    def _save_snapshot(self, island: Island, number: int, emitted: int) -> None:
        due = self._segments >= self._policy.segments or self._payload_bytes >= self._policy.payload_bytes
        # From a snapshot the outputs before it cannot be put out again.
        if due and number <= emitted:
            self.store.save_snapshot(number, island.snapshot())
            self._segments = self._payload_bytes = 0

    def _count(self, segment: Segment) -> None:
        self._segments += 1
        self._payload_bytes += sum(len(record.value) for record in segment.records)
