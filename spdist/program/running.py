"""A program at work: columns in, columns out, and arrays that grow in between."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from spdist.language.types import Type
from spdist.mapping.read_rows import ARROW, ReadRows
from spdist.operators.base import Row
from spdist.program.arrays import Array, filled
from spdist.program.compiler import Compiled
from spdist.program.text import Program
from spdist.program.texts import TextTable

__all__ = ["Given", "PutOut", "Running"]

_LEAST = 16
_REALS = (Type.FLOAT, Type.DOUBLE)


@dataclass(frozen=True, slots=True)
class Given:
    """Events of one stream: when they are due and their timestamps, ms, their ranks among all, and their rows.

    ``bounds`` has where each chunk begins and the last one ends; None where each event is one.
    """

    times: Any
    stamps: Any
    ranks: Any
    rows: Sequence[Row]
    bounds: Any = None


@dataclass(frozen=True, slots=True)
class PutOut:
    """What is put out to one stream.

    Parameters
    ----------
    rows : ReadRows
        The events.
    bounds : numpy.ndarray
        Where each chunk begins, and where the last one ends.
    causes : numpy.ndarray
        The rank of the event that has caused each chunk.
    numbers : numpy.ndarray
        Which of all that its cause puts out, to any stream, each row is.
    stamps : numpy.ndarray
        The timestamps, ms.
    """

    rows: ReadRows
    bounds: Any
    causes: Any
    numbers: Any
    stamps: Any


class Running:
    """A program with its state.

    Parameters
    ----------
    program : Program
        Its text.
    compiled : Compiled
        Its code.

    State
    -----
    `arrays`: what the text declares, by name. They grow in front of a call by as much as it can use at most.
    """

    def __init__(self, program: Program, compiled: Compiled) -> None:
        self.program = program
        self.compiled = compiled
        self.texts = TextTable(compiled.kernels, program.texts)
        self._rooms: dict[str, int] = {}
        self.arrays: dict[str, Any] = {}
        for name, array in program.arrays.declared.items():
            self.arrays[name] = self._first(array)
        for name, array in program.arrays.declared.items():
            if name.endswith("_free") and array.room == "2":
                self.arrays[name][0] = -1
        for name in program.arrays.tables:
            self.arrays[f"{name}_meta"][:] = (0, -1, 0, secrets.randbits(62))
        self._types = {s: tuple(program.shape.schemas[s].types) for s in program.shape.sources}

    def _first(self, array: Array) -> Any:
        if array.room.isdigit():
            return filled(array, int(array.room))
        places = 2 * _LEAST if array.room == "slots" else self._rooms.setdefault(array.room, _LEAST)
        return filled(array, places)

    def take(self, parts: Mapping[str, Given], now: int) -> dict[str, PutOut] | None:
        """Take events, and return what is put out, by stream; None where a value is not of its type.

        Parameters
        ----------
        parts : mapping of str to Given
            The events, by stream; of other streams than the sources of the program there are none.
        now : int
            The clock before them, ms.
        """
        columns: dict[str, ReadRows] = {}
        for stream, part in parts.items():
            read = ReadRows.of(part.rows, self._types[stream], range(len(self._types[stream])))
            if read is None:
                return None
            columns[stream] = read
        begins, ends, at, which = _chunks(self.program.shape.sources, parts)
        longest = int((ends - begins).max())
        total = sum(len(one) for one in columns.values())
        self._make_room(total, longest, {s: len(rows) for s, rows in columns.items()})
        for number, stream in enumerate(self.program.shape.sources):
            if stream in columns:
                self._fill(number, stream, columns[stream], parts[stream].stamps)
        for number in range(len(self.program.outputs)):
            if f"h{number}_count" in self.arrays:
                self.arrays[f"h{number}_count"][0] = 0
        self.compiled.run(begins, ends, at, which, now, *self.arrays.values())
        return {
            stream: put
            for number, stream in enumerate(self.program.outputs)
            if (put := self._put_out(number, stream, columns)) is not None
        }

    def expire(self, now: int) -> None:
        """Let events leave windows whose time is over, also where no event comes."""
        self.compiled.expire(now, *self.arrays.values())

    # Room.

    def _make_room(self, total: int, longest: int, given: Mapping[str, int]) -> None:
        """Make room for so many events."""
        for room, places in list(self._rooms.items()):
            kind, _, owner = room.partition(" ")
            needed = {
                "chunk": lambda: longest,
                "input": lambda owner=owner: given.get(self.program.shape.sources[int(owner)], 0),
                "output": lambda owner=owner: total * list(self.program.ways.values())[int(owner)],
                "nodes": lambda owner=owner: self._nodes(owner) + total,
                "groups": lambda owner=owner: int(self.arrays[f"{owner}_k_meta"][0]) + total,
                "keys": lambda owner=owner: int(self.arrays[f"p{owner}_meta"][0]) + total,
            }[kind]()
            if needed > places:
                self._grow(room, needed)

    def reserve(self, room: str, more: int) -> None:
        """Let a room have so many places more than are used."""
        if room not in self._rooms:
            return
        kind, _, owner = room.partition(" ")
        used = {
            "nodes": lambda: self._nodes(owner),
            "groups": lambda: int(self.arrays[f"{owner}_k_meta"][0]),
            "keys": lambda: int(self.arrays[f"p{owner}_meta"][0]),
        }[kind]()
        if used + more > self._rooms[room]:
            self._grow(room, used + more)

    def _nodes(self, query: str) -> int:
        """Return how many nodes of a query's pools were ever used."""
        pools = [name for name in self.arrays if name.startswith(f"{query}_") and name.endswith("_free")]
        return max(int(self.arrays[name][1]) for name in pools)

    def _grow(self, room: str, needed: int) -> None:
        """Let a room have at least so many places, and let what is in it stay."""
        places = max(2 * self._rooms[room], 1 << (needed - 1).bit_length())
        for name, array in self.program.arrays.declared.items():
            if array.room == room:
                more = filled(array, places - self._rooms[room])
                self.arrays[name] = numpy.concatenate([self.arrays[name], more])
        self._rooms[room] = places
        for table in self.program.arrays.tables.values():
            if table.room == room:
                slots = self.arrays[f"{table.name}_slots"]
                fresh = numpy.full(2 * places, -1, numpy.int64)
                keys, seed = self.arrays[f"{table.name}_keys"], self.arrays[f"{table.name}_meta"][3]
                self.compiled.kernels.refill(slots, fresh, keys, table.width, seed)
                self.arrays[f"{table.name}_slots"] = fresh

    # Columns.

    def _fill(self, number: int, stream: str, rows: ReadRows, stamps: Any) -> None:
        count = len(rows)
        self.arrays[f"i{number}_ts"][:count] = stamps
        for place in self.program.inputs[stream]:
            column, _ = rows.column(place)
            name = f"i{number}_{place}"
            self.arrays[name][:count] = self.numbers(column, self._types[stream][place])
            self.arrays[f"{name}_n"][:count] = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else 0

    def numbers(self, column: Any, type: Type) -> Any:
        """Return the values of an Arrow column as a program has them."""
        if type is Type.STRING:
            found = self.texts.numbers(column)
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

    def _put_out(self, number: int, stream: str, columns: Mapping[str, ReadRows]) -> PutOut | None:
        arrays, owner = self.arrays, f"h{number}"
        count = int(arrays[f"{owner}_count"][0]) if f"{owner}_count" in arrays else 0
        if not count:
            return None
        source = arrays[f"{owner}_source"][:count]
        made = []
        for place, type in enumerate(self.program.shape.schemas[stream].types):
            origin = self.program.outputs[stream][place]
            if origin is not None:
                column, _ = columns[origin[0]].column(origin[1])
                whole = count == len(column) and bool((source == numpy.arange(count)).all())
                made.append(column if whole else column.take(pa.array(source)))
            else:
                name = f"{owner}_{place}"
                made.append(self.column(arrays[name][:count], arrays[f"{name}_n"][:count], type))
        batch = pa.RecordBatch.from_arrays(made, list(map(str, range(len(made)))))
        first = numpy.flatnonzero(arrays[f"{owner}_first"][:count])
        return PutOut(
            ReadRows(batch, lambda: None),
            numpy.append(first, count),
            arrays[f"{owner}_cause"][:count][first],
            arrays[f"{owner}_number"][:count].copy(),
            arrays[f"{owner}_ts"][:count].copy(),
        )


def _chunks(sources: Sequence[str], parts: Mapping[str, Given]) -> tuple[Any, Any, Any, Any]:
    """Return of all chunks, by rank, where they begin and end, when they are due, and which source each is of."""
    if len(parts) == 1:
        ((stream, part),) = parts.items()
        bounds = numpy.arange(len(part.times) + 1) if part.bounds is None else part.bounds
        at = numpy.ascontiguousarray(part.times[bounds[:-1]])
        return bounds[:-1].copy(), bounds[1:].copy(), at, numpy.full(len(at), sources.index(stream))
    total = sum(len(part.times) for part in parts.values())
    begins, at, which = (numpy.empty(total, numpy.int64) for _ in range(3))
    for stream, part in parts.items():
        begins[part.ranks] = numpy.arange(len(part.times))
        at[part.ranks] = part.times
        which[part.ranks] = sources.index(stream)
    return begins, begins + 1, at, which
