"""The arrays of a program at work, and its texts as numbers.

Arrays grow in front of a call by as much as it can use at most. What functions give for texts is computed in front of
it, too.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy

from spdist.program.aggregations.bucket_shape import ENDED
from spdist.program.arrays import TEXTS, Array, filled
from spdist.program.machine.compiler import Compiled
from spdist.program.parts import EACH, Most, Program, asked
from spdist.program.running.expanding import Expanding
from spdist.program.running.function_values import FunctionValues
from spdist.program.running.reserve import Reserve
from spdist.program.running.values import ProgramValues

__all__ = ["Rooms"]

_LEAST = 16
_ONE = Most({EACH: 1})
#: So much is allowed at a time to those who ask while the loop runs; twice as much as before, up to this.
_ALLOWED, _MOST_ALLOWED = 1 << 8, 1 << 16


@dataclass(frozen=True, slots=True)
class _Mark:
    """What tells how many places of a room are, or were, used: the most that arrays have at a place, and so many more.

    An array that is not there was not needed; where none is there, `none` are used.
    """

    names: tuple[str, ...]
    place: int
    more: int = 0
    none: int = 0

    def read(self, arrays: Mapping[str, Any]) -> int:
        """Return how many places are used."""
        found = (int(arrays[name][self.place]) for name in self.names if name in arrays)
        return max(found, default=self.none) + self.more


def _mark(program: Program, room: str) -> _Mark | None:
    """Return what tells how many places of a room are used; None where nothing stands there between calls."""
    kind, _, owner = room.partition(" ")
    match kind:
        case "nodes":
            return _Mark(_pools(program, owner), 1)
        case "dues":  # one may be asked for before another one is done
            return _Mark((f"{owner}_due_free",), 1, more=1)
        case "rows":
            return _Mark((f"{owner}_free",), 1)
        case "timers":
            return _Mark(("timers",), 0, more=1)
        case "ends":
            return _Mark((f"{owner}_ends",), 0, more=1)
        case "closings":
            return _Mark((f"{owner}_open",), ENDED)
        case "pairs":
            return _Mark(_sets(program, owner), 0)
        case "lines":
            return _Mark((owner,), 0)
        case "groups":  # else nobody reads what the query puts out, or there is one group at a time
            return _Mark((f"{owner}_k_meta",), 0, none=1)
        case "keys":
            return _Mark((f"p{owner}_meta",), 0, none=1)
    return None


def _passes(program: Program, room: str) -> bool:
    """Tell whether nothing stands in a room between calls, and only events of a call use it."""
    return room != TEXTS and _mark(program, room) is None and not program.most.get(room, _ONE).keys() - {EACH}


def _pools(program: Program, owner: str) -> tuple[str, ...]:
    """Return the free lists of the pools whose nodes have one room."""
    for query in program.parts:
        if query.name == owner:
            pools = (*query.aggregates, *query.bounding)
            return f"{owner}_free", *(f"{a.prefix}_free" for a in pools if a.form.candidates)
    return (f"{owner}_free",)


def _sets(program: Program, owner: str) -> tuple[str, ...]:
    """Return the tables of the values that the aggregators of a query, or an aggregation, tell apart."""
    for query in program.queries:
        if query.name == owner:
            return tuple(f"{a.prefix}_d_meta" for a in query.aggregates if a.form.pairs)
    adding = (adds for adds in (one.adds for one in program.shape.adding) if adds is not None and adds.name == owner)
    return tuple(f"{table}_meta" for adds in adding for table in adds.sets.values())


class Rooms:
    """The arrays of a program.

    Parameters
    ----------
    program : Program
        Its text.
    compiled : Compiled
        Its code.
    steady : bool
        Whether arrays stay where they are when they grow: somebody looks at them meanwhile. So they do where the loop
        asks for room.

    State
    -----
    `arrays`: what the text declares, by name; `values`: the texts and objects that they have by number; and for each
    function of a text two arrays with a place for each text, and for null: what is computed in front of a call is all
    that its loop looks up, since only attributes of sources are asked for.
    """

    def __init__(self, program: Program, compiled: Compiled, steady: bool = False) -> None:
        self.program = program
        self.compiled = compiled
        self._rooms: dict[str, int] = {}
        self.arrays: dict[str, Any] = {}
        steady = steady or bool(program.arrays.asking)
        self._reserve = Reserve(len(program.arrays.declared)) if steady else None
        #: The allowances of those who ask for room, by what `Most` has them under; how much each was allowed last.
        self._allowances = {asked(name): f"{name}_allowed" for name in program.arrays.asking}
        self._allowed = dict.fromkeys(program.arrays.asking, _ALLOWED)
        #: Whether the loop runs; how many events it was given; the room of who asks it for more, and what stands there.
        self.within = False
        self._events = 0
        self._asker: tuple[str, int] = "", 0
        #: What the arrays that stay where they are are parts of.
        self._whole: dict[str, Any] = {}
        for name, array in program.arrays.declared.items():
            self.arrays[name] = self._first(array)
        for name in program.arrays.free_lists:
            self.arrays[name][0] = -1
        for name in program.arrays.tables:
            # Whoever chooses keys must not know which of them meet in a table, so each has a seed of its own.
            self.arrays[f"{name}_meta"][:] = (0, -1, 0, secrets.randbits(62), 2 * _LEAST - 1)
        self._parameters = self._given()
        #: So many events may come before somebody must look whether there is room; -1: that must be done first.
        self._spare = -1
        self._most = program.most
        #: Rooms of what each call begins anew: so many events have room in them; so many more in this call.
        self._passing = {room: self._each(room) for room in self._rooms if _passes(program, room)}
        self._fits = self._left = min((_LEAST // each for each in self._passing.values()), default=2**63)
        #: What tells how many places of a room are used, as far as somebody has asked.
        self._marks: dict[str, _Mark | None] = {}
        self.values = ProgramValues(compiled.hash_tables, program.texts)
        self.texts = self.values.texts
        #: Why events could not be taken.
        self.refused = ""
        computes = program.text_functions or program.computed
        #: What Python computes in front of the loop, where it does.
        self._functions = FunctionValues(program, self, compiled.hash_tables) if computes else None
        self._expanding = Expanding(program, self) if program.expanded else None

    def _first(self, array: Array) -> Any:
        if array.room.isdigit():
            return filled(array, int(array.room))
        places = 2 * _LEAST if array.room == "slots" else self._rooms.setdefault(array.room, _LEAST)
        return filled(array, places) if self._reserve is None else self._set(array, 0, places)

    def _set(self, array: Array, used: int, places: int) -> Any:
        """Return an array that stays where it is with so many places, of which some are used."""
        assert self._reserve is not None
        whole = self._whole.get(array.name)
        if whole is None:
            whole = self._whole[array.name] = self._reserve.array(array.dtype)
        if places * array.width > len(whole):
            raise MemoryError(f"an app has more than {len(whole)} entries in one of its parts")
        if fill := float(array.fill):  # the others are zeros, which take no memory until something stands there
            whole[used * array.width : places * array.width] = fill
        return whole[: places * array.width]

    def _given(self) -> tuple[Any, ...]:
        """Return what the text is given: it looks at no length, and others may make arrays longer meanwhile."""
        return self.compiled.given(self._whole.get(name, array) for name, array in self.arrays.items())

    def make_room(self, count: int) -> None:
        """Make room for so many events; where the loop runs, what it may use of it for its own ones stays there."""
        if not self.within:
            self._events = count
            if count > self._fits:
                for room, each in self._passing.items():
                    if count * each > self._rooms[room]:
                        self._grow(room, count * each)
                self._fits = min(self._rooms[room] // each for room, each in self._passing.items())
            self._left = self._fits
        elif count > min(self._spare, self._left):
            self._spare = -1
            # The events around it may still use all of their own room.
            count += self._events
        if count > self._spare:
            spare = 2**63
            for room in self._rooms:
                if self.within or room not in self._passing:
                    # What windows hold now is put out once, whichever call it is.
                    used, each = self._begun(room), self._each(room)
                    if used + count * each > self._rooms[room]:
                        self._grow(room, used + count * each)
                    spare = min(spare, (self._rooms[room] - used) // each)
            self._spare = spare
            self._left = self._spare if self.within else self._left
        self._spare -= count
        self._left -= count

    def _each(self, room: str) -> int:
        """Return how many places of a room an event uses at most; at least one."""
        return max(1, self._most.get(room, _ONE)[EACH])

    def _begun(self, room: str) -> int:
        """Return how many places of a room are used, or will be by what windows hold, and by what was allowed."""
        most = self._most.get(room, _ONE)
        return self._used(room) + sum(n * self._unit(unit) for unit, n in most.items() if unit != EACH)

    def _unit(self, unit: str) -> int:
        """Return how much there is of what `Most` counts in."""
        allowance = self._allowances.get(unit)
        return self._used(f"nodes {unit}") if allowance is None else max(0, int(self.arrays[allowance][0]))

    def ask(self, name: str, more: int, count: int) -> None:
        """Make room while the loop runs, for what follows from so many results; the loop knows how many are there.

        Parameters
        ----------
        name : str
            Who asks.
        more, count : int
            How many results may come now, and how many stand in its buffers.

        Raises
        ------
        MemoryError
            There is no more.
        """
        allowed = max(more, self._allowed[name])
        self._allowed[name] = min(2 * allowed, _MOST_ALLOWED)
        # `_begun` reads it: room is needed for all that may follow from the allowance.
        self.arrays[f"{name}_allowed"][0] = allowed
        self._asker = self.program.arrays.asking[name], count
        for room, places in list(self._rooms.items()):
            needed = self._begun(room) + self._events * self._most.get(room, _ONE)[EACH]
            if needed > places:
                self._grow(room, needed)
        # What may come now is taken off.
        self.arrays[f"{name}_allowed"][0] = allowed - more
        self._asker = "", 0
        self._spare = -1

    def _used(self, room: str) -> int:
        """Return how many places of a room are, or were, used; of those that begin anew with each call none."""
        if room == self._asker[0]:
            return self._asker[1]
        if room == TEXTS:
            return len(self.texts) + 1
        if self.within and room.startswith("output "):
            return self._count(int(room.partition(" ")[2]))
        if room not in self._marks:
            self._marks[room] = _mark(self.program, room)
        mark = self._marks[room]
        return 0 if mark is None else mark.read(self.arrays)

    def _count(self, output: int) -> int:
        """Return how many events the loop has put out to a stream."""
        name = f"h{output}_count"
        return int(self.arrays[name][0]) if name in self.arrays else 0

    def reserve(self, room: str, more: int) -> None:
        """Let a room have so many places more than are used."""
        if room not in self._rooms:
            return
        used = self._used(room)
        if used + more > self._rooms[room]:
            self._grow(room, used + more)
        self._spare = -1

    def _grow(self, room: str, needed: int) -> None:
        """Let a room have at least so many places, and let what is in it stay."""
        # Twice as many at least, so what is copied is O(1) for each place; a power of two, as the slots of tables are.
        places = max(2 * self._rooms[room], 1 << (needed - 1).bit_length())
        for name, array in self.program.arrays.declared.items():
            if array.room == room:
                if self._reserve is not None:
                    self.arrays[name] = self._set(array, self._rooms[room], places)
                else:
                    more = filled(array, places - self._rooms[room])
                    self.arrays[name] = numpy.concatenate([self.arrays[name], more])
        self._rooms[room] = places
        for table in self.program.arrays.tables.values():
            if table.room == room:
                self.refill(table.name)
        # Addresses of arrays that have moved: nobody may be given the old ones.
        self._parameters = self._given()

    def refill(self, name: str) -> None:
        """Put the keys of a table where their hashes say: there are more slots, or the keys have changed."""
        table, arrays = self.program.arrays.tables[name], self.arrays
        fresh = numpy.full(2 * self._rooms[table.room], -1, numpy.int64)
        # The keys keep their numbers, so nothing that names them changes.
        keys, seed = arrays[f"{name}_keys"], arrays[f"{name}_meta"][3]
        self.compiled.hash_tables.refill(arrays[f"{name}_slots"], fresh, keys, table.width, seed)
        arrays[f"{name}_meta"][4] = len(fresh) - 1
        whole = self._whole.get(f"{name}_slots")
        if whole is not None:
            if len(fresh) > len(whole):
                raise MemoryError(f"an app has more than {len(whole) // 2} keys in one of its parts")
            whole[: len(fresh)] = fresh
            fresh = whole[: len(fresh)]
        arrays[f"{name}_slots"] = fresh
        self._parameters = self._given()

    # Functions that are computed before the loop.

    def make_room_for_texts(self) -> None:
        """Let there be a place for each text."""
        if len(self.texts) >= self._rooms[TEXTS]:
            self._grow(TEXTS, len(self.texts) + 1)

    def _computed(self, stream: str, count: int) -> bool:
        """Compute what functions give for so many events; tells whether the loop can go on with that."""
        why = "" if self._functions is None else self._functions.fill(stream, count)
        if not why and self._expanding is not None:
            why = self._expanding.fill(stream, count)
        self.refused = why or self.refused
        return not why

    def forget_computed(self) -> None:
        """Forget what functions give: texts have other numbers."""
        if self._functions is not None:
            self._functions.forget()

    def compute_held(self) -> bool:
        """Compute what functions give for what windows hold; tells whether all of them have a value."""
        return self._functions is None or self._functions.hold()
