"""What functions give that are computed in front of the loop, in the arrays where it looks them up.

Those of one text have a place for each text; others one for each event, and for each that a window holds. Where an
argument or the value is an object, nothing is known from one event to the next.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy

from spdist.language.types import Type
from spdist.program.expressions import REAL, dtype_of
from spdist.program.functions.computed import (
    FAILED,
    KNOWN,
    MISTYPED,
    NULL,
    UNKNOWN,
    Computed,
    Guard,
    TextFunction,
    known,
)
from spdist.program.parts import Program
from spdist.program.running.values import ProgramValues

__all__ = ["FunctionValues", "ProgramArrays", "TupleValues"]

#: So many tuples of values are known at most, or as many as a batch has.
_FEWEST, _MOST = 1 << 10, 1 << 16
#: Which values of a tuple are null are the bits of one word.
_MOST_ARGUMENTS = 64
#: From the numbers of rows to which of them are looked at.
Wanted = Callable[[Any], Any]


class ProgramArrays(Protocol):
    """Who has the arrays (`spdist.program.running.rooms.Rooms`)."""

    arrays: dict[str, Any]
    values: ProgramValues

    def make_room_for_texts(self) -> None:
        """Let there be a place for each text."""
        ...


class EventValues:
    """The values of a function of several attributes, computed for each event.

    Parameters
    ----------
    function : Computed
        The function.
    types : Sequence of Type
        Of its arguments.
    program_values : ProgramValues
        The texts and objects by number.
    """

    def __init__(self, function: Computed, types: Sequence[Type], program_values: ProgramValues) -> None:
        self._function = function
        self._types = types
        self._program_values = program_values

    def forget(self) -> None:
        """Know nothing any more: texts, or objects, have other numbers."""

    def of(self, values: Sequence[Any], nulls: Sequence[Any], wanted: Wanted | None = None) -> tuple[Any, Any]:
        """Return what the function gives for each row of its arguments, and what is known of that: `KNOWN` and so on.

        Parameters
        ----------
        values, nulls : Sequence of numpy.ndarray
            Of each argument, as the program has them; 0 where they are null.
        wanted : callable, optional
            From the numbers of rows to which of them are looked at; of the others `UNKNOWN` may be known.
        """
        count = len(values[0])
        found, states = numpy.zeros(count, dtype_of(self._function.type)), numpy.full(count, UNKNOWN, numpy.uint8)
        rows = numpy.arange(count)
        if wanted is not None:
            rows = rows[wanted(rows)]
        if len(rows):
            given = zip(values, nulls, self._types, strict=True)
            columns = [self._program_values.shown(one[rows], null[rows], type) for one, null, type in given]
            found[rows], states[rows] = self.computed(columns)
        return found, states

    def computed(self, columns: Sequence[list[Any]]) -> tuple[Any, Any]:
        """Compute the function for rows of arguments, at least one; see `of`."""
        compute, type = self._function.compute, self._function.type
        states: Any = KNOWN
        try:
            values, nulls = self._program_values.taken(list(map(compute, *columns)), type, exactly=True)
        except Exception:  # one of them fails, or gives what is not of its type
            # One by one, since which of them it was must be known of each event.
            told = [known(compute, type, row) for row in zip(*columns, strict=True)]
            states = numpy.array([state for state, _ in told], numpy.uint8)
            values, nulls = self._program_values.taken([value for _, value in told], type)
        return values, numpy.where(nulls & (states == KNOWN), NULL, states)


class TupleValues(EventValues):
    """The values of a function of several attributes, by the tuple of theirs.

    Parameters
    ----------
    function, types, program_values
        As for `EventValues`.
    hash_tables : module
        `spdist.program.machine.hash_tables`.

    State
    -----
    A table of the tuples seen last, and what is known of each: 65,536, or as many as one batch has. Where there is no
    place for those of the next one, all are forgotten.
    """

    def __init__(
        self, function: Computed, types: Sequence[Type], program_values: ProgramValues, hash_tables: Any
    ) -> None:
        super().__init__(function, types, program_values)
        self._hash_tables = hash_tables
        self._width = len(types) + 1
        self._begin(_FEWEST)

    def _begin(self, places: int) -> None:
        """Know nothing, with a place for so many tuples."""
        self._places = places
        # A power of two, at least twice as many as tuples, as `find_all` wants it.
        slots = 1 << (2 * places - 1).bit_length()
        self._slots = numpy.full(slots, -1, numpy.int64)
        self._keys = numpy.zeros(places * self._width, numpy.int64)
        self._meta = numpy.array([0, -1, 0, secrets.randbits(62), slots - 1], numpy.int64)
        self._none = numpy.zeros(0, numpy.int64)  # No number is ever free again, so there are no links
        self._word = numpy.zeros(self._width, numpy.int64)
        self._values = numpy.zeros(places, dtype_of(self._function.type))
        self._known = numpy.zeros(places, numpy.uint8)

    def forget(self) -> None:
        """Know nothing any more: texts have other numbers."""
        self._begin(_FEWEST)

    def of(self, values: Sequence[Any], nulls: Sequence[Any], wanted: Wanted | None = None) -> tuple[Any, Any]:
        """See `EventValues.of`."""
        count = len(values[0])
        if int(self._meta[0]) + count > self._places:
            self._begin(max(count, min(2 * self._places, _MOST)))
        words = numpy.zeros((count, self._width), numpy.int64)
        for place, (given, null) in enumerate(zip(values, nulls, strict=True)):
            # Reals as their bits: a function may tell 0.0 from -0.0. The last word has a bit for each null.
            words[:, place] = given.view(numpy.int64)
            words[:, -1] |= (null != 0).astype(numpy.int64) << place
        numbers, first = numpy.empty(count, numpy.int64), int(self._meta[0])
        table = self._slots, self._keys, self._meta, self._none
        self._hash_tables.find_all(*table, words.reshape(-1), self._width, self._word, numbers)
        if wanted is None:
            self._compute(numpy.arange(first, int(self._meta[0])))
        else:
            rows = numpy.flatnonzero(self._known[numbers] == UNKNOWN)
            fresh = numpy.unique(numbers[rows])
            # Those that come again and again are computed once.
            self._compute(fresh if 2 * len(fresh) < len(rows) else numpy.unique(numbers[rows[wanted(rows)]]))
        return self._values[numbers], self._known[numbers]

    def _compute(self, numbers: Any) -> None:
        """Compute the function for tuples of which nothing is known, by their numbers."""
        if not len(numbers):
            return
        words = self._keys.reshape(-1, self._width)[numbers]
        columns = [self._column(words, place, type) for place, type in enumerate(self._types)]
        self._values[numbers], self._known[numbers] = self.computed(columns)

    def _column(self, words: Any, place: int, type: Type) -> list[Any]:
        """Return the values of an argument."""
        values = numpy.ascontiguousarray(words[:, place])
        values = values.view(numpy.float64) if dtype_of(type) == REAL else values
        return self._program_values.shown(values, words[:, -1] >> place & 1, type)


def _values(function: Computed, types: Sequence[Type], program_values: ProgramValues, hash_tables: Any) -> EventValues:
    """Return what computes a function of several attributes."""
    if Type.OBJECT in (function.type, *types) or len(types) > _MOST_ARGUMENTS:
        # Whoever gets an object may look into it later, so each event has its own.
        return EventValues(function, types, program_values)
    return TupleValues(function, types, program_values, hash_tables)


class FunctionValues:
    """Computes functions in front of the loop.

    Parameters
    ----------
    program : Program
        Its text.
    rooms : Rooms
        Who has its arrays.
    hash_tables : module
        `spdist.program.machine.hash_tables`.

    State
    -----
    That of `TupleValues` for each function of several attributes.
    """

    def __init__(self, program: Program, rooms: ProgramArrays, hash_tables: Any) -> None:
        self._program = program
        self._rooms = rooms
        self._of_texts: dict[tuple[str, int], list[TextFunction]] = {}
        for function in program.text_functions:
            for origin in function.origins:
                self._of_texts.setdefault(origin, []).append(function)
        self._of_events = {
            one.name: _values(one.function, one.types, rooms.values, hash_tables) for one in program.computed
        }
        self._types = [program.shape.schemas[stream].types for stream in program.inputs]
        self._of_held = {
            (query.name, one.place): _values(
                one, [query.read.types[place] for place in one.arguments], rooms.values, hash_tables
            )
            for query in program.queries
            for one in query.computed.values()
            if f"{query.name}_w_{one.place}" in rooms.arrays
        }

    def fill(self, stream: str, count: int) -> str:
        """Compute what so many events of a source need; returns why the loop cannot go on with that, or nothing."""
        number = list(self._program.inputs).index(stream)
        arrays = self._rooms.arrays
        for one in self._program.computed:
            if one.stream == stream:
                names = [f"i{number}_{place}" for place in one.arguments]
                wanted = partial(self._looked_at, number, one.guards) if one.guards else None
                states = self._written(self._of_events[one.name], names, one.name, count, wanted)
                if why := _refused(one.function.call.id, states, one.strict):
                    return why
        for place in self._program.inputs[stream]:
            for function in self._of_texts.get((stream, place), ()):
                name = f"i{number}_{place}"
                # Place 0 is that of null, so a text has the place behind its number.
                places = numpy.where(arrays[f"{name}_n"][:count] != 0, 0, arrays[name][:count] + 1)
                self._compute(function, places)
                # Looked up again: with more texts there may be another array.
                states = self._rooms.arrays[f"{function.name}_s"][places]
                if why := _refused(function.id, states, (stream, place) in function.strict):
                    return why
        return ""

    def _looked_at(self, number: int, guards: Sequence[Guard], rows: Any) -> Any:
        """Return which of some events of a source meet the conditions in front of a function."""
        found = numpy.zeros(len(rows), bool)
        arrays, types = self._rooms.arrays, self._types[number]
        for guard in guards:
            given = []
            for place in guard.arguments:
                values, nulls = arrays[f"i{number}_{place}"][rows], arrays[f"i{number}_{place}_n"][rows]
                given.append(self._rooms.values.shown(values, nulls, types[place]))
            found |= numpy.fromiter(map(guard.holds, *given), bool, len(rows))
        return found

    def _written(
        self, function: EventValues, given: Sequence[str], name: str, count: int, wanted: Wanted | None = None
    ) -> Any:
        """Compute a function for so many events, or nodes; returns what is known of each."""
        arrays = self._rooms.arrays
        nulls = [arrays[f"{one}_n"][:count] for one in given]
        values, states = function.of([arrays[one][:count] for one in given], nulls, wanted)
        arrays[name][:count] = values
        arrays[f"{name}_n"][:count] = numpy.where(states == KNOWN, 0, states)
        return states

    def _compute(self, function: TextFunction, places: Any) -> None:
        """Compute a function for texts of which nothing is known, given their numbers and one, or 0 for null."""
        self._rooms.make_room_for_texts()
        states = self._rooms.arrays[f"{function.name}_s"]
        values = self._rooms.arrays[f"{function.name}_v"]
        texts = self._rooms.values.texts
        for place in numpy.unique(places[states[places] == UNKNOWN]).tolist():
            states[place], value = function.known(texts.text(place - 1) if place else None)
            if states[place] == KNOWN:
                values[place] = self._rooms.values.number(value, function.type)

    def forget(self) -> None:
        """Forget what functions give: texts have other numbers. What windows hold has got them."""
        for function in self._program.text_functions:
            self._rooms.arrays[f"{function.name}_s"][:] = UNKNOWN
        for one in (*self._of_events.values(), *self._of_held.values()):
            one.forget()
        self._hold_texts()

    def hold(self) -> bool:
        """Compute what functions give for what windows hold; tells whether all of them have a value."""
        whole = self._hold_texts()
        for query in self._program.queries:
            for one in query.computed.values():
                name = f"{query.name}_w_{one.place}"
                if name in self._rooms.arrays:
                    names = [f"{query.name}_w_{place}" for place in one.arguments]
                    count = int(self._rooms.arrays[f"{query.name}_free"][1])
                    states = self._written(self._of_held[query.name, one.place], names, name, count)
                    whole = whole and not numpy.isin(states, (FAILED, MISTYPED)).any()
        return whole

    def _hold_texts(self) -> bool:
        """Compute functions for the texts that windows hold; tells whether all of them have a value."""
        whole = True
        for function in self._program.text_functions:
            for query, place in function.held:
                name, count = f"{query}_w_{place}", int(self._rooms.arrays[f"{query}_free"][1])
                texts, nulls = self._rooms.arrays[name][:count], self._rooms.arrays[f"{name}_n"][:count]
                places = numpy.where(nulls != 0, 0, texts + 1)
                self._compute(function, places)
                states = self._rooms.arrays[f"{function.name}_s"][places]
                whole = whole and not numpy.isin(states, (FAILED, MISTYPED)).any()
        return whole


def _refused(id: str, states: Any, strict: bool) -> str:
    """Return why the loop cannot go on with values of which this is known; nothing where it can."""
    if strict and (states == FAILED).any():
        return f"{id}() fails on a text, or on null"
    if (states == MISTYPED).any():
        return f"{id}() gives what is not of its type"
    return ""
