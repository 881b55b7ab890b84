"""The state of a group instance as one start of it takes it over, for what it is to run now, in as many shards.

A state that has another number of shards, or that another text has made, is laid out anew. First the old shards are
brought to one point, by the text that made them: after a kill they may be at different batches. The owner runs a batch
of them here, without Spark: the records that some have read and others have not, from the instance's topics. With it
leaves, under the old names, what the owner before may not have published. Then their states become those of the new
shards, each element of the app that has not changed with its state, and the move makes these the instance's.

So what was read before an update has been processed by the old text, and what is read after it is by the new one. Of
topics whose events have other attributes now, the old text reads all that is there.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from spdist.engine.shards.layout import (
    ShardLayout,
    assignment_hash,
    begin_layout,
    current_state,
    keep_assignment,
    kept_assignment,
    layouts,
    move_to,
    open_layout,
)
from spdist.engine.shards.places import Place
from spdist.engine.shards.state import Positions, Segment, later, state_directory
from spdist.errors import FencedError, SiddhiAppError, StateError
from spdist.planning.compiled import CompiledInstance
from spdist.planning.topology import AssignedInput, Assignment
from spdist.planning.updates.origin import Begin

if TYPE_CHECKING:
    from spdist.engine.shards.shards import ShardSettings
    from spdist.engine.spark.query import QuerySettings
    from spdist.planning.updates.change import ElementChange
    from spdist.transports.base import Record

    #: Returns some records of a topic partition from an offset on.
    Read = Callable[[str, int, int], list[Record]]

__all__ = ["InstanceReads", "InstanceState"]

log = logging.getLogger(__name__)

#: What shards that were gone back to put out is numbered from here times the number of their layout on: above all that
#: later ones have published under the same names.
_NUMBERS = 1 << 40
#: Above the number of any batch.
_ANY_BATCH = 1 << 62
#: How often an instance that another one follows is fenced.
_ATTEMPTS = 100


class InstanceReads(Protocol):
    """What instances read (`spdist.runtime.kafka_inputs.KafkaReads`), as far as a state needs it."""

    @property
    def first(self) -> Mapping[str, Positions]:
        """By instance where reading begins in partitions that its state does not know."""
        ...

    def assignment(self, name: str) -> Assignment:
        """Return an instance by its name, with all topics that it reads."""
        ...


class InstanceState:
    """Where the state of one instance is, and the way from the shards that it has to those that are asked for.

    Parameters
    ----------
    assignment : Assignment
        The instance.
    location : Place
        Below which the states of all instances are.
    """

    def __init__(self, assignment: Assignment, location: Place) -> None:
        self.assignment = assignment
        self._location = location
        self._whole = state_directory(location, assignment.name)
        self._begun: Positions | None = None
        self._layout: ShardLayout | None = None
        self._made_by: Assignment | None = None
        #: Where a query of Columns has read to that ran in the place of the shards: the state does not know.
        self.read_by_columns: Positions = {}
        #: What became of each element of the app when the last move was to another text.
        self.changes: tuple[ElementChange, ...] = ()

    @property
    def directory(self) -> Place:
        """Where the state is, whatever its layout."""
        return self._whole

    def positions(self) -> Positions:
        """Return where the state goes on: in each partition where the shard does that is furthest behind."""
        return self._positions(*self._state_now())

    def _positions(self, layout: ShardLayout, first: Segment | None) -> Positions:
        """Return them of a layout of which the newest segment of the first shard is known."""
        found: Positions = {}
        for last in (first, *(store.last() for store in layout.stores[1:])):
            for topic, offsets in last.positions.items() if last else ():
                lowest = found.setdefault(topic, {})
                for partition, offset in offsets.items():
                    lowest[partition] = min(offset, lowest.get(partition, offset))
        return later(found, self.read_by_columns)

    def begun(self) -> Positions:
        """Return where the instance goes on, and where one begins that an update has brought.

        See `spdist.planning.updates.succession`.         Whoever it follows in a partition adds nothing to its state
        any more.

        Raises
        ------
        FencedError
            Others take over the state of an instance that it follows, again and again.
        StateError
            A state cannot be read or written.
        """
        known = self._own_positions()
        origin, found = self.assignment.origin, {topic: dict(offsets) for topic, offsets in known.items()}
        for (name, update), begins in self._unknown(known).items():
            places = {(begin.topic, begin.partition) for begin in begins}
            ended = ended_at(state_directory(self._location, name), update, places) if name else {}
            for begin in begins:
                offset = ended.get(begin.topic, {}).get(begin.partition, begin.offset)
                found.setdefault(begin.topic, {})[begin.partition] = offset
            # Users' topics, which no plan knows.
            for topic in () if known else ended.keys() - {one.topic for one in origin.begins}:
                found.setdefault(topic, ended[topic])
        self._begun = found
        return found

    def followed(self) -> list[InstanceState]:
        """Return the states of instances that this one follows, and that no start of theirs has moved since the update.

        What they may not have published has to be, by their own text: see `move`.
        """
        known = self._own_positions()
        found = []
        for (name, update), begins in self._unknown(known).items():
            whole = state_directory(self._location, name)
            made_by = kept_assignment(layouts(whole)[-1].directory) if name else None
            if made_by is None or name == self.assignment.name or made_by.origin.update == update:
                continue
            if any((begin.topic, begin.partition) in made_by.places for begin in begins):
                found.append(InstanceState(made_by, self._location))
        return found

    def _unknown(self, known: Positions) -> dict[tuple[str, str], list[Begin]]:
        """Return where it begins in partitions that its state does not know, by whom it follows since which update."""
        found: dict[tuple[str, str], list[Begin]] = {}
        for begin in self.assignment.origin.begins:
            if begin.partition not in known.get(begin.topic, {}):
                found.setdefault((begin.after, begin.update), []).append(begin)
        return found

    def _own_positions(self) -> Positions:
        """Return where the state goes on; nowhere where what has made it is no life of this instance."""
        layout, last = self._state_now()
        return {} if self._begins_anew(kept_assignment(layout.directory)) else self._positions(layout, last)

    def _state_now(self) -> tuple[ShardLayout, Segment | None]:
        return current_state(self._whole, self.assignment.shards)

    def _begins_anew(self, made_by: Assignment | None) -> bool:
        """Tell whether what has made the state is no life of this instance: an update has brought it since then."""
        update = self.assignment.origin.update
        return bool(update) and made_by is not None and made_by.origin.update != update

    def made_by(self) -> Assignment:
        """Return what has made the state: this instance where there is none yet, which is kept from now on.

        Raises
        ------
        StateError
            The state does not tell, or cannot be read or written.
        """
        return keep_assignment(self._state_now()[0], self.assignment)

    def open(self, owner: str, reads: InstanceReads) -> tuple[ShardSettings, ...]:
        """Become the owner of the shards that are there, however many they are.

        Parameters
        ----------
        owner : str
            A new one.
        reads : InstanceReads
            What the instance reads from Kafka, and where it begins; of `made_by`.

        Raises
        ------
        FencedError
            Somebody else does so at the same time.
        StateError
            The state cannot be read or written.
        """
        from spdist.engine.shards.shards import ShardSettings

        layout, last = self._state_now()
        self._layout = layout
        self._made_by = keep_assignment(layout, self.assignment)
        assignment, made_by = reads.assignment(self.assignment.name), assignment_hash(self._made_by)
        if assignment_hash(assignment) != made_by:
            raise FencedError(
                f"the state in {self._whole} was just moved to another text",
                hint="the group was started twice at the same time; this copy must stop",
            )
        first = dict(reads.first.get(assignment.name, {}))
        if not self._is_other(self._made_by):
            begun = self.begun() if self._begun is None else self._begun
            planned = {one.topic for one in assignment.inputs if not one.into}
            known = self._positions(layout, last)
            # Only what the state does not know: `StateStore.open` takes the later one, and would skip what lies between
            first |= {
                topic: {number: offset for number, offset in offsets.items() if number not in known.get(topic, {})}
                for topic, offsets in begun.items()
                if topic in planned
            }
        openings = open_layout(layout, owner, first, made_by)
        return tuple(
            ShardSettings(assignment, index, layout.count, opening, str(self._whole / place))
            for index, (opening, place) in enumerate(zip(openings, layout.places, strict=True))
        )

    @property
    def fits(self) -> bool:
        """Whether what was opened are the shards that the instance is to have, made by what it is to run."""
        layout, made_by = self._layout, self._made_by
        if layout is None or made_by is None or layout.back:
            return False
        return layout.count == self.assignment.shards and not self._is_other(made_by)

    def _is_other(self, made_by: Assignment) -> bool:
        return assignment_hash(made_by) != assignment_hash(self.assignment)

    def move(self, settings: QuerySettings, reads: InstanceReads, read: Read) -> None:
        """Lay the state out anew, for what the instance is to run, in as many shards; it must be opened again after it.

        Parameters
        ----------
        settings : QuerySettings
            A query of the shards that `open` has returned, all on one partition, which nobody has run.
        reads : InstanceReads
            What the instance is to read from now on.
        read : callable
            Returns records of the instance's topics, see `Transport.read`.

        Raises
        ------
        FencedError
            Somebody else has taken over; nothing was changed.
        StateError
            The state cannot be split, read or written, or what made it cannot be run any more; then it stays as it is.
        """
        from spdist.engine.shards.rescale import establish, rescale
        from spdist.engine.shards.updating import positions_of, update
        from spdist.engine.spark.tasks import catch_up

        before, made_by = self._layout, self._made_by
        assert before is not None and made_by is not None  # it was opened
        openings = [shard.opening for shard in settings.shards]
        owner, count = openings[0].owner, self.assignment.shards
        tick = max(opening.tick for opening in openings)
        after = CompiledInstance.of(self.assignment, settings.scripts)
        version = after if not self._is_other(made_by) else _compiled_before(made_by, settings.scripts)
        left = after.left(version)
        positions, records = between([opening.positions for opening in openings], read)
        changed = [one for one in made_by.inputs if one.topic in left and after.attributes(one.topic) is not None]
        # A copy: `_rest` moves `positions` on while batches are taken from it
        begun = {topic: dict(offsets) for topic, offsets in positions.items()}
        batches = chain([(records, begun)], _rest(positions, changed, read))
        anew = self._begins_anew(made_by)
        states = catch_up(settings, batches, tick, closing=bool(left) or anew)
        above = (before.number + 1) * _NUMBERS if before.back else 0
        if version is after:
            made = rescale(states, after.checked, self.assignment, count, above)
        else:
            made, self.changes = update(states, version, after, count, above, anew=anew)
            positions = {} if anew else positions_of(positions, reads.assignment(self.assignment.name))
        layout = begin_layout(before, count, self.assignment)
        for store, state in zip(layout.stores, made, strict=True):
            establish(store, state, positions, tick, f"{owner}/laid out", assignment_hash(self.assignment))
        # `newest` fails where somebody else has taken over since
        move_to(layout, before, before.stores[0].newest(owner, _ANY_BATCH), owner)
        if count != before.count:
            log.info("the state of %s is in %d shards now, it was in %d", self.assignment.name, count, before.count)
        for change in self.changes:
            log.info("%s: %s", self.assignment.name, change)

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


def ended_at(whole: Place, update: str, places: Set[tuple[str, int]]) -> Positions:
    """Return where the instance in directory `whole` has ended in some partitions, and see to it that it is so.

    Parameters
    ----------
    whole : Place
        Where its state is.
    update : str
        Name of the update: what the instance does in a life that began with it does not count.
    places : set of (str, int)
        The topic partitions, which it has read, and does not read any more.

    Raises
    ------
    FencedError
        Others take it over again and again.
    """
    for _ in range(_ATTEMPTS):
        for layout in reversed(layouts(whole)):
            made_by = kept_assignment(layout.directory)
            if made_by is None or made_by.origin.update == update:
                continue
            if places.isdisjoint(made_by.places):
                continue
            with contextlib.suppress(FencedError):
                # To the others nothing can be appended, as they end with a move. Here the opening sees to that
                if layout == layouts(whole)[-1]:
                    open_layout(layout, f"{update}/{uuid.uuid4().hex}")
                ended: Positions = {}
                for store in layout.stores:
                    if (last := store.last()) is not None:
                        ended = later(ended, last.positions)
                return ended
            break
        else:
            return {}
    raise FencedError(f"the state in {whole} is being taken over by others again and again")


def _rest(
    positions: Positions, inputs: Sequence[AssignedInput], read: Read
) -> Iterator[tuple[list[Record], Positions]]:
    """Yield what is there of some inputs from `positions` on, which move on: batches of records, and where they end."""
    for one in inputs:
        at = positions.setdefault(one.topic, {})
        for partition in one.partitions:
            while some := read(one.topic, partition, at.get(partition, 0)):
                at[partition] = some[-1].offset + 1
                yield some, {one.topic: dict(at)}


def _compiled_before(assignment: Assignment, scripts: bool) -> CompiledInstance:
    try:
        return CompiledInstance.of(assignment, scripts)
    except SiddhiAppError as error:
        raise StateError(
            f"the state of {assignment.name} was made by a text that cannot be run here any more: {error}",
            hint="let this node run it once more, so that the state can be carried over; or remove the app, with its "
            "state, and deploy it anew",
        ) from error
