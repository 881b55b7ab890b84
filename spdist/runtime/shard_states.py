"""The state of a group instance as one start of it takes it over, in as many shards as it is to have now.

A state that has another number of shards is laid out anew. First the old shards are brought to one point: after a kill
they may be at different batches. The owner runs one batch of them here, without Spark: the records that some have read
and others have not, from the instance's topics. With it leaves, under the old names, what the owner before may not have
published. Then their states become those of the new shards, and the move makes these the instance's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spdist.engine.layout import Layout, begin_layout, current_layout, move_to, open_layout
from spdist.engine.state import Positions, state_directory
from spdist.planning.topology import Assignment

if TYPE_CHECKING:
    from spdist.engine.query import QuerySettings
    from spdist.engine.shards import ShardSettings
    from spdist.runtime.kafka_inputs import KafkaReads
    from spdist.transports.base import Record

    #: Returns some records of a topic partition from an offset on.
    Read = Callable[[str, int, int], list[Record]]

__all__ = ["InstanceState"]

log = logging.getLogger(__name__)

#: What shards that were gone back to put out is numbered from here times the number of their layout on: above all that
#: later ones have published under the same names.
_NUMBERS = 1 << 40


class InstanceState:
    """Where the state of one instance is, and the way from the shards that it has to those that are asked for.

    Parameters
    ----------
    assignment : Assignment
        The instance.
    location : Path
        Below which the states of all instances are.
    """

    def __init__(self, assignment: Assignment, location: Path) -> None:
        self.assignment = assignment
        self._whole = state_directory(location, assignment.name)
        self._layout: Layout | None = None

    @property
    def directories(self) -> list[Path]:
        """Where the shards' states are that were taken over; none before."""
        return [] if self._layout is None else [store.directory for store in self._layout.stores]

    def positions(self) -> Positions:
        """Return where the state goes on: in each partition where the shard does that is furthest behind."""
        found: Positions = {}
        for store in current_layout(self._whole, self.assignment.shards).stores:
            last = store.last()
            for topic, offsets in last.positions.items() if last else ():
                lowest = found.setdefault(topic, {})
                for partition, offset in offsets.items():
                    lowest[partition] = min(offset, lowest.get(partition, offset))
        return found

    def open(self, owner: str, reads: KafkaReads) -> tuple[ShardSettings, ...]:
        """Become the owner of the shards that are there, however many they are.

        Parameters
        ----------
        owner : str
            A new one.
        reads : KafkaReads
            What the instance reads from Kafka, and where it begins.

        Raises
        ------
        FencedError
            Somebody else does so at the same time.
        StateError
            The state cannot be read or written.
        """
        from spdist.engine.shards import ShardSettings

        layout = self._layout = current_layout(self._whole, self.assignment.shards)
        openings = open_layout(layout, owner, reads.first.get(self.assignment.name))
        assignment = reads.assignment(self.assignment.name)
        return tuple(
            ShardSettings(assignment, index, layout.count, opening, str(self._whole / place))
            for index, (opening, place) in enumerate(zip(openings, layout.places, strict=True))
        )

    @property
    def fits(self) -> bool:
        """Whether what was opened are the shards that the instance is to have."""
        layout = self._layout
        return layout is not None and layout.count == self.assignment.shards and not layout.back

    def move(self, settings: QuerySettings, read: Read) -> None:
        """Lay the state out anew, in as many shards as the instance is to have; it must be opened again after it.

        Parameters
        ----------
        settings : QuerySettings
            A query of the shards that `open` has returned, all on one partition, which nobody has run.
        read : callable
            Returns records of the instance's topics, see `Transport.read`.

        Raises
        ------
        FencedError
            Somebody else has taken over; nothing was changed.
        StateError
            The state cannot be split, read or written; then it stays as it is.
        """
        from spdist.engine.hosted import checked_app
        from spdist.engine.rescale import establish, rescale
        from spdist.engine.tasks import catch_up

        before = self._layout
        assert before is not None  # it was opened
        openings = [shard.opening for shard in settings.shards]
        owner = openings[0].owner
        count = self.assignment.shards
        tick = max(opening.tick for opening in openings)
        positions, records = between([opening.positions for opening in openings], read)
        states = catch_up(settings, records, tick, positions)
        checked = checked_app(self.assignment, settings.scripts)
        above = (before.number + 1) * _NUMBERS if before.back else 0
        layout = begin_layout(before, count)
        made = rescale(states, checked, self.assignment, count, above)
        for store, state in zip(layout.stores, made, strict=True):
            establish(store, state, positions, tick, f"{owner}/laid out")
        move_to(layout, before, before.stores[0].newest(owner, 1), owner)
        log.info("the state of %s is in %d shards now, it was in %d", self.assignment.name, count, before.count)

    def give_up(self, owner: str) -> None:
        """See to it that `owner` appends nothing any more; whoever took over later is left alone."""
        for store in () if self._layout is None else self._layout.stores:
            store.give_up(owner)


def between(positions: Sequence[Positions], read: Read) -> tuple[Positions, list[Record]]:
    """Return how far the shards of an instance are together, and what some of them have read and others have not.

    Parameters
    ----------
    positions : sequence of Positions
        Of each shard.
    read : callable
        See `Transport.read`.

    Raises
    ------
    StateError
        A part of it is not there any more.
    """
    furthest: Positions = {}
    records: list[Record] = []
    places = {(topic, partition) for one in positions for topic, offsets in one.items() for partition in offsets}
    for topic, partition in sorted(places):
        offsets = [one.get(topic, {}).get(partition, 0) for one in positions]
        at, end = min(offsets), max(offsets)
        furthest.setdefault(topic, {})[partition] = end
        while at < end:
            some = [record for record in read(topic, partition, at) if record.offset < end]
            if not some:
                break
            records += some
            at = some[-1].offset + 1
    return furthest, records
