"""The texts of a program at work: columns of texts as numbers and back, and what functions give for each text."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from spdist.language.types import Type
from spdist.mapping.read_rows import ARROW
from spdist.program.arrays import TEXTS
from spdist.program.machine.compiler import Compiled
from spdist.program.parts import Program
from spdist.program.running.rooms import Rooms
from spdist.program.running.texts import TextTable
from spdist.program.text_functions import FAILED, KNOWN, MISTYPED, UNKNOWN, TextFunction

__all__ = ["TextRooms"]


class TextRooms(Rooms):
    """The arrays of a program, with the texts that they have by number.

    Parameters
    ----------
    program, compiled, steady
        See `Rooms`.

    State
    -----
    `texts`, and for each function of a text two arrays with a place for each text, and for null: what is computed in
    front of a call is all that its loop looks up, since only attributes of sources are asked for.
    """

    def __init__(self, program: Program, compiled: Compiled, steady: bool = False) -> None:
        super().__init__(program, compiled, steady)
        self.texts = TextTable(compiled.kernels, program.texts)
        #: Why events could not be taken.
        self.refused = ""
        self._functions: dict[tuple[str, int], list[TextFunction]] = {}
        for function in program.text_functions:
            for origin in function.origins:
                self._functions.setdefault(origin, []).append(function)

    def numbers(self, column: Any, type: Type, into: Any = None) -> Any:
        """Return the values of an Arrow column as a program has them; those of texts in `into`, if that is given."""
        if type is Type.STRING:
            found = self.texts.numbers(column, into)
            if column.null_count:
                found[column.is_null().to_numpy(zero_copy_only=False)] = 0
            return found
        if column.null_count:
            column = column.fill_null(False if type is Type.BOOL else 0)
        return column.to_numpy(zero_copy_only=False)

    def column(self, values: Any, nulls: Any, type: Type) -> Any:
        """Return values of a program as an Arrow column."""
        if type is Type.STRING:
            texts = self.texts.texts(values)
            return pc.if_else(pa.array(nulls == 0), texts, pa.scalar(None, pa.string())) if nulls.any() else texts
        mask = nulls != 0 if nulls.any() else None
        if type is Type.BOOL:
            return pa.array(values != 0, mask=mask)
        return pa.array(values, ARROW[type], mask=mask)

    # Functions of texts.

    def _used(self, room: str) -> int:
        return len(self.texts) + 1 if room == TEXTS else super()._used(room)

    def _make_room_for_texts(self) -> None:
        if len(self.texts) >= self._rooms[TEXTS]:
            self._grow(TEXTS, len(self.texts) + 1)

    def _computed(self, stream: str, count: int) -> bool:
        """Compute what functions give for the texts of so many events; tells whether the loop can go on with that."""
        number = list(self.program.inputs).index(stream)
        for place in self.program.inputs[stream]:
            for function in self._functions.get((stream, place), ()):
                name = f"i{number}_{place}"
                places = numpy.where(self.arrays[f"{name}_n"][:count] != 0, 0, self.arrays[name][:count] + 1)
                self._compute(function, places)
                known = self.arrays[f"{function.name}_s"][places]
                if (stream, place) in function.strict and (known == FAILED).any():
                    self.refused = f"{function.id}() fails on a text, or on null"
                    return False
                if (known == MISTYPED).any():
                    self.refused = f"{function.id}() gives what is not of its type"
                    return False
        return True

    def _compute(self, function: TextFunction, places: Any) -> None:
        """Compute a function for texts of which nothing is known, given their numbers and one, or 0 for null."""
        self._make_room_for_texts()
        known = self.arrays[f"{function.name}_s"]
        values = self.arrays[f"{function.name}_v"]
        for place in numpy.unique(places[known[places] == UNKNOWN]).tolist():
            known[place], value = function.known(self.texts.text(place - 1) if place else None)
            if known[place] == KNOWN:
                values[place] = self.texts.number(value) if function.type is Type.STRING else value

    def forget_computed(self) -> None:
        """Forget what functions give: texts have other numbers."""
        for function in self.program.text_functions:
            self.arrays[f"{function.name}_s"][:] = UNKNOWN
        self.compute_held()

    def compute_held(self) -> bool:
        """Compute what functions give for texts that windows hold; tells whether all of them have a value."""
        whole = True
        for function in self.program.text_functions:
            for query, place in function.held:
                name, count = f"{query}_w_{place}", int(self.arrays[f"{query}_free"][1])
                texts, nulls = self.arrays[name][:count], self.arrays[f"{name}_n"][:count]
                places = numpy.where(nulls != 0, 0, texts + 1)
                self._compute(function, places)
                whole = whole and not numpy.isin(self.arrays[f"{function.name}_s"][places], (FAILED, MISTYPED)).any()
        return whole
