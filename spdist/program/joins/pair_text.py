"""What a query over two sides puts out: pairs, of which those of one event are what totals and groups collapse to."""

from __future__ import annotations

from typing import Any

from spdist.program.joins.demand_text import Demand
from spdist.program.joins.shape import Joined
from spdist.program.parts import Event, Most, asked, indent
from spdist.program.queries.batch_groups import BatchGroups
from spdist.program.queries.result_text import ResultWriter

__all__ = ["PairWriter"]


class PairWriter(ResultWriter):
    """Writes what a join puts out: all pairs of a chunk are one, those of each event are selected by themselves.

    Parameters
    ----------
    whole, query, block, key, groups, writer, silent
        As for `ResultWriter`.

    Notes
    -----
    How many pairs there are is known when partners are looked for: so it asks for room (`Demand`), but where there is
    one for an event at most.
    """

    _groups: BatchGroups

    def __init__(self, *given: Any, **more: Any) -> None:
        query = given[1]
        self._one = isinstance(query.read, Joined) and query.read.finds_one
        self._ends = given[0].name(), given[0].name()
        #: Source of the number of the pass.
        self.number = "0"
        super().__init__(*given, **more)
        self._demand = None if self._one else Demand(self._whole.arrays, self._query.name, self._buffers.room)

    @property
    def _passes(self) -> str:
        """The array of the pass of each result: what one pass of an event has given is a chunk; empty where all is."""
        return f"{self._arranged.buffers.owner}_pass" if "pass" in self._buffers.more else ""

    @property
    def _bounds(self) -> tuple[str, str]:
        return self._ends if self._passes else super()._bounds

    def hands_over(self, chunk: list[str]) -> list[str]:
        """Return a chunk, given what makes its results, and what hands them over."""
        if not self.wanted:
            return chunk
        begins = f"{self._arranged.end} = {self._arranged.begin}"
        return [begins, *chunk, *(self._in_runs(self._passes) if self._passes else self._reads())]

    @property
    def _most(self) -> Most:
        return super()._most if self._one else Most({asked(self._query.name): 1})

    def _own_attribute(self, place: int) -> int | None:
        join, found = self._read, self._attribute_of(place)
        assert isinstance(join, Joined)
        looking = [side for side in join.sides if side.triggers and side.stream == self._block.stream]
        # Of a stream with itself an event may be on either side, so its attributes have no one place.
        if found is None or len(looking) != 1:
            return None
        (side,) = looking
        own = found - (join.width if side.position else 0)
        return own if 0 <= own < len(side.schema) else None

    def asks(self, bound: str, refused: list[str]) -> list[str]:
        """Return what asks for room for so many pairs; see `Demand.asks`."""
        return (
            []
            if self._demand is None
            else self._demand.asks(bound, self._arranged.end if self.wanted else "0", refused)
        )

    def resets(self, timestamp: str) -> list[str]:
        """Return what lets all totals begin anew, and puts a sign of that behind the pairs arranged already."""
        groups, anew = self._groups, self._groups.resets()
        anew = [*groups.before(), *anew, *groups.forgets()] if anew else []
        if not (self.wanted and self._query.notes_resets):
            return anew
        owner, end, room = self._arranged.buffers.owner, self._arranged.end, self._whole.name()
        noted = [f"{owner}_ts[{end}], {owner}_kind[{end}] = {timestamp}, 2", f"{end} += 1"]
        if self._passes:
            noted.insert(0, f"{self._passes}[{end}] = {self.number}")
        return [*anew, f"{room} = 1", *self.asks("1", [f"{room} = 0"]), f"if {room} != 0:", *indent(noted)]

    @property
    def selects(self) -> tuple[bool, bool]:
        """Whether pairs of events that come are wanted, and those of events that leave."""
        totals = self._groups.aggregated or bool(self._groups.conditions)
        current, expired = self._read.puts_out_current, self._read.puts_out_expired
        return totals or (self.wanted and current), totals or (self.wanted and expired)

    def of_pair(self, event: Event, leaves: bool) -> list[str]:
        """Return what adds a pair to the totals, or takes it off, and puts its result into the chunk."""
        groups, noted = self._groups, [f"{self._buffers.owner}_pass[s] = {self.number}"] if self._passes else []
        found = groups.finds(event.read)
        if not leaves:
            enters = groups.enters(lambda: self._writer(event.read, event.timestamp, event.group))
            return [*found, *enters, *self.emits(event, noted=noted)]
        gone = Event(event.read, event.timestamp, "gone")
        leaving = self.emits(gone, leaves=True, noted=noted)
        return [*found, *groups.leaves(event.read, event.timestamp, event.group, leaving, counted=False)]

    def of_event(self, pairs: list[str]) -> list[str]:
        """Return what selects from the pairs of an event, given what is done with each of them."""
        groups, count = self._groups, self.count
        arranged = self._arranged.lines() if self.wanted else []
        begins = [f"{count} = 0"] if self._arranged.part else []
        if groups.collapses and groups.grouped and self.wanted:
            begins += [f"mark{count} = marks[0] + 1", f"marks[0] = mark{count}"]
        elif groups.collapses and self.wanted:
            begins += [f"{groups.begin} = {count}"]
        return [*groups.before(), *begins, *pairs, *arranged, *groups.forgets()]
