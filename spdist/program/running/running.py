"""A program at work: columns in, columns out, and arrays that grow in between."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy
import pyarrow.compute as pc

from spdist.functions.streams import told
from spdist.language.types import Type
from spdist.mapping.columns import PYTHON, ColumnarRows
from spdist.operators.base import Arrival, Row
from spdist.operators.core.junction import NO_TIMER, StreamPart
from spdist.program.arrays import ASKS, FAILURES, LINES
from spdist.program.machine.compiler import Compiled
from spdist.program.parts import Program
from spdist.program.running.orders import answer
from spdist.program.running.rooms import Rooms
from spdist.program.running.values import TextTable, names_of, nulls_of, rows_of, together
from spdist.program.tables.text import REFUSED
from spdist.program.windows.kinds import FAR

__all__ = ["NOT_TYPED", "ONE_CHUNK", "GivenChunks", "Lent", "PutOut", "Running", "time_has_come"]

log = logging.getLogger(__name__)

#: Why events cannot be taken, mostly.
NOT_TYPED = "a value is not of its type"
#: Or because of a window that has its time from them.
TOO_FAR = "a time near the limits of a long"
#: Where a chunk begins that is the only one.
ONE_CHUNK = numpy.zeros(1, numpy.int64)
#: Arrays that a call reads in place of some of the program's, by their names.
Lent = Mapping[str, Any]
#: A stream, and the events of a chunk that is put out to it.
Chunk = tuple[str, list[Arrival]]


@dataclass(frozen=True, slots=True)
class PutOut:
    """What is put out to one stream.

    Parameters
    ----------
    rows : Sequence of tuple
        The events.
    bounds : numpy.ndarray
        Where each chunk begins, and where the last one ends.
    causes : numpy.ndarray
        The rank of the event that has caused each chunk, or before which a timer has.
    firsts : numpy.ndarray
        Which of all that its cause puts out, to any stream, the first row of each chunk is; of timers since the call
        and at that time.
    stamps : numpy.ndarray, optional
        The timestamps, ms; None where they are those of the causes.
    times : numpy.ndarray, optional
        Where timers can put something out: when one has put out each chunk, ms; `NO_TIMER` where an event has.
    """

    rows: Sequence[Row]
    bounds: Any
    causes: Any
    firsts: Any
    stamps: Any
    times: Any = None

    @property
    def numbers(self) -> Any:
        """Which of all that its cause puts out each row is; None where each chunk is the first one of its cause."""
        if not self.firsts.any():
            return None
        return numpy.arange(len(self.rows)) + numpy.repeat(self.firsts - self.bounds[:-1], numpy.diff(self.bounds))


class GivenChunks(NamedTuple):
    """The chunks that a program is given in one call, by rank.

    Parameters
    ----------
    begins, ends : numpy.ndarray
        Of each chunk, where it begins and ends among the events of its source, int64.
    at : numpy.ndarray
        When it is due, ms, int64.
    until : numpy.ndarray
        Until when timers fire before it, ms, int64.
    which : numpy.ndarray
        The number of its source, int16.
    alone : bool
        Whether each has one event.
    """

    begins: Any
    ends: Any
    at: Any
    until: Any
    which: Any
    alone: bool


class Ranks:
    """The chunks of a batch, by rank.

    Parameters
    ----------
    sources : Sequence of str
        The streams that they may be of.

    State
    -----
    Numbers from 0 on, and of each source its own one: for two batches as large as the largest.
    """

    def __init__(self, sources: Sequence[str]) -> None:
        self._sources = sources
        self._numbers = numpy.arange(2)
        self._of_source: dict[str, Any] = {}

    def first(self, count: int) -> Any:
        """Return so many numbers from 0 on; nobody writes to them."""
        self._make(count)
        return self._numbers[:count]

    def _make(self, count: int) -> None:
        if count >= len(self._numbers):
            self._numbers, self._of_source = numpy.arange(2 * count), {}

    def chunks(self, parts: Mapping[str, StreamPart]) -> GivenChunks:
        """Return all chunks, by rank; nobody writes to what is returned: of one stream it is used again."""
        alone = all(part.bounds is None for part in parts.values())
        total = sum(len(part.times) for part in parts.values())
        self._make(total)
        if len(parts) == 1:
            ((stream, part),) = parts.items()
            which = self._of_source.get(stream)
            if which is None:
                which = self._of_source[stream] = numpy.full(
                    len(self._numbers), self._sources.index(stream), numpy.int16
                )
            at = numpy.ascontiguousarray(part.times, numpy.int64)
            until = at if part.until is None else numpy.ascontiguousarray(part.until, numpy.int64)
            return GivenChunks(*self._within(part), at, until, which[:total], alone)
        begins, ends, at, until = (numpy.empty(total, numpy.int64) for _ in range(4))
        which = numpy.empty(total, numpy.int16)
        for stream, part in parts.items():
            begins[part.ranks], ends[part.ranks] = self._within(part)
            at[part.ranks] = part.times
            until[part.ranks] = part.times if part.until is None else part.until
            which[part.ranks] = self._sources.index(stream)
        return GivenChunks(begins, ends, at, until, which, alone)

    def _within(self, part: StreamPart) -> tuple[Any, Any]:
        """Return where the chunks of a part begin and end."""
        bounds = self._numbers[: len(part.times) + 1] if part.bounds is None else part.bounds
        bounds = numpy.ascontiguousarray(bounds, numpy.int64)
        return bounds[:-1], bounds[1:]


class Running(Rooms):
    """A program with its state.

    Parameters
    ----------
    program : Program
        Its text.
    compiled : Compiled
        Its code.
    steady : bool
        See `Rooms`.

    State
    -----
    The arrays, and the texts that they have by number (`Rooms`).
    """

    def __init__(self, program: Program, compiled: Compiled, steady: bool = False) -> None:
        super().__init__(program, compiled, steady)
        #: Of the streams that are put out, how many events and chunks are; none of one that no query can reach.
        names = (f"h{n}_{name}" for n, _ in enumerate(program.outputs) for name in ("count", "chunks"))
        self._counts = [name for name in (*names, FAILURES) if name in self.arrays]
        shown = {origin for origins in program.outputs.values() for origin in origins if origin is not None}
        #: Of each stream that is put out, where its attributes are read from, and their types; names of columns.
        self._shown = {
            stream: list(zip(origins, program.shape.schemas[stream].types, strict=True))
            for stream, origins in program.outputs.items()
        }
        self._names = {stream: names_of(type for _, type in shown) for stream, shown in self._shown.items()}
        self._ranks = Ranks(program.shape.sources)
        wanted = {s: {*program.inputs[s], *(p for stream, p in shown if stream == s)} for s in program.inputs}
        self._known, self._timed = program.known, program.times
        self._types = {s: tuple(program.shape.schemas[s].types) for s in program.inputs}
        #: The attributes of sources that are objects: they come, and are put out, in rows.
        self._objects = {s: [p for p in wanted[s] if types[p] is Type.OBJECT] for s, types in self._types.items()}
        self._wanted = {stream: places.difference(self._objects[stream]) for stream, places in wanted.items()}
        self._places = {name: place for place, name in enumerate(self.arrays)}
        #: The sources whose arrays Python reads in front of the loop.
        self._copied = {one.stream for one in program.computed} | {one.stream for one in program.expanded}
        infos = ((id, self.arrays.get(f"{table.name}_info")) for id, table in program.shape.tables.items())
        #: What is known of each table as a whole, by its name.
        self._tables = [(id, info) for id, info in infos if info is not None]
        #: What is raised when the loop has ended; until then nothing is called any more.
        self._broken: BaseException | None = None
        self._alone = True  # whether each chunk of the last call had one event
        #: What the text calls (`spdist.program.machine.shared`), where it calls something.
        self._kept: Any = None
        self._keeps_timestamps = program.keeps_timestamps
        self._callback: Any = 0
        if program.calls:
            self._kept, self._callback = compiled.callback(self._called)

    def process_columns(self, parts: Mapping[str, StreamPart], now: int) -> dict[str, PutOut] | None:
        """Process events, and return what is put out, by stream; None where a value is not of its type.

        Parameters
        ----------
        parts : mapping of str to StreamPart
            The events, by stream; of other streams than the sources of the program there are none.
        now : int
            The clock before them, ms.
        """
        columns: dict[str, dict[int, Any]] = {}
        self.refused = NOT_TYPED
        for stream, part in parts.items():
            read = ColumnarRows.of(part.rows, self._types[stream], self._wanted[stream])
            if read is None:
                return None
            given = columns[stream] = {place: read.column(place) for place in self._wanted[stream]}
            for place in self._objects[stream]:
                given[place] = [row[place] for row in part.rows]
            if any(given[place].null_count for place in self._known.get(stream, ())):
                return None
            if any(_is_far(given[place]) for place in self._timed.get(stream, ())):
                self.refused = TOO_FAR
                return None
        chunks = self._ranks.chunks(parts)
        self.make_room(sum(len(part.rows) for part in parts.values()))
        lent: dict[str, Any] = {}
        for stream, given in columns.items():
            part = parts[stream]
            lent.update(self._fill(stream, given, part.timestamps))
            if not self._computed(stream, len(part.rows)):
                return None
        self._run(chunks, now, fires=True, lent=lent)
        return {
            stream: put
            for number, stream in enumerate(self.program.outputs)
            if (put := self._put_out(number, stream, columns)) is not None
        }

    def process_chunk(self, stream: str, arrivals: Sequence[Arrival], now: int, until: int) -> list[Chunk] | None:
        """Process one small chunk, with the clock at `now`; as `process_columns`, without columns and timers.

        Parameters
        ----------
        stream : str
            Their stream.
        arrivals : Sequence of (int, tuple)
            The events.
        now, until : int
            The clock, and until when timers have fired, ms.

        Returns
        -------
        list of (str, list of (int, tuple))
            The chunks that are put out, in order: their stream, timestamps and rows.
        """
        count, number = len(arrivals), list(self.program.inputs).index(stream)
        self.make_room(count)
        self.refused = NOT_TYPED
        try:
            if not self._fill_chunk(number, stream, arrivals) or not self._computed(stream, count):
                return None
        except (UnicodeEncodeError, OverflowError):  # half a character, or too large
            return None
        time_has_come(self, until)
        self._run(_one_chunk(count, now, number), now, fires=False)
        return [(target, rows) for _, target, rows in self._chunks(arrivals)]

    def advance(self, to_ms: int, now: int) -> list[tuple[int, str, list[Arrival]]]:
        """Let time pass from `now` until `to_ms`, and return the chunks that timers put out, each behind its time."""
        self.make_room(0)
        self._run(_one_chunk(0, to_ms, -1), now, fires=True)  # No source has -1: nothing but timers
        return self._chunks(())

    @property
    def next_due(self) -> int | None:
        """When the next timer is due, ms; None where none is."""
        timers = self.arrays.get("timers")
        return int(timers[3]) if timers is not None and timers[0] else None  # The first of the heap

    def _chunks(self, arrivals: Sequence[Arrival]) -> list[tuple[int, str, list[Arrival]]]:
        """Return the chunks that were put out, in order: the time where a timer has, stream, timestamps and rows."""
        chunks = sorted(self._made_chunks(arrivals), key=itemgetter(0, 1))
        return [(time, target, rows) for time, _, target, rows in chunks]

    def _made_chunks(self, arrivals: Sequence[Arrival]) -> list[tuple[int, int, str, list[Arrival]]]:
        """Return the chunks that were put out, with the number of their first event."""
        arrays, chunks = self.arrays, []
        for output, target in enumerate(self.program.outputs):
            owner = f"h{output}"
            times, bounds = arrays.get(f"{owner}_at"), self._bounds(output, target)
            for chunk, (begin, end) in enumerate(pairwise(bounds.tolist())):
                time = NO_TIMER if times is None else int(times[chunk])
                stamps = arrays[f"{owner}_ts"][begin:end].tolist()
                rows = [self._row(output, target, place, arrivals) for place in range(begin, end)]
                number = int(arrays[f"{owner}_number"][chunk])
                chunks.append((time, number, target, list(zip(stamps, rows, strict=True))))
        return chunks

    def _bounds(self, output: int, stream: str) -> Any:
        """Return where each chunk that is put out to a stream begins, and where the last one ends."""
        owner, count = f"h{output}", self._count(output)
        if not count:
            return numpy.zeros(1, numpy.int64)
        if self._alone and stream in self.program.single:
            return self._ranks.first(count + 1)
        chunks = int(self.arrays[f"{owner}_chunks"][0])
        bounds = numpy.empty(chunks + 1, numpy.int64)
        bounds[:chunks], bounds[chunks] = self.arrays[f"{owner}_begin"][:chunks], count
        return bounds

    def _fill_chunk(self, number: int, stream: str, arrivals: Sequence[Arrival]) -> bool:
        """Let events be the input; tells whether all values are of their types."""
        arrays, types, timed = self.arrays, self._types[stream], self._timed.get(stream, ())
        for place, (timestamp, _) in enumerate(arrivals):
            arrays[f"i{number}_ts"][place] = timestamp
        for attribute in self.program.inputs[stream]:
            type, name = types[attribute], f"i{number}_{attribute}"
            values, nulls, kind = arrays[name], arrays[f"{name}_n"], PYTHON.get(type)
            known = attribute in self._known.get(stream, ())
            for place, (_, row) in enumerate(arrivals):
                value: Any = row[attribute]
                nulls[place] = value is None
                if value is None and known:
                    return False
                if value is None:
                    values[place] = 0
                elif value.__class__ is not kind and kind is not None:  # True is an int to `isinstance`
                    return False
                elif attribute in timed and not -FAR < row[attribute] < FAR:
                    self.refused = TOO_FAR
                    return False
                else:
                    values[place] = self.values.number(value, type)
        return True

    def _row(self, output: int, stream: str, place: int, arrivals: Sequence[Arrival]) -> Row:
        """Return a row that is put out."""
        arrays, values = self.arrays, []
        source = int(arrays[f"h{output}_source"][place])
        for attribute, type in enumerate(self.program.shape.schemas[stream].types):
            origin = self.program.outputs[stream][attribute]
            name = f"h{output}_{attribute}"
            if origin is not None:
                values.append(arrivals[source][1][origin[1]])
            elif arrays[f"{name}_n"][place]:
                values.append(None)
            else:
                values.append(self.values.single(arrays[name][place].item(), type))
        return tuple(values)

    def _run(self, chunks: GivenChunks, now: int, *, fires: bool, lent: Lent | None = None) -> None:
        """Run the program on chunks; `fires`: timers, too, that are due until a chunk is."""
        for count in self._counts:
            self.arrays[count][0] = 0
        if "text_starts" in self.arrays:
            given = {"text_starts": self.texts.starts, "text_bytes": self.texts.arena}
            if any(self.arrays[name] is not array for name, array in given.items()):
                self.arrays.update(given)  # The table has grown into others
                self._parameters = self._given()
        self._alone = chunks.alone
        accepting = [(id, info) for id, info in self._tables if not info[REFUSED]]
        self._broken, self.within = None, True
        parameters = self._parameters  # whoever makes room meanwhile puts others in their place
        if lent:
            parameters = self.compiled.lending(parameters, {self._places[name]: lent[name] for name in lent})
        try:
            begins, ends, at, until, which, alone = chunks
            self.compiled.run(begins, ends, int(alone), at, until, which, int(fires), now, self._callback, *parameters)
        finally:
            self.within = False
            if LINES in self.arrays:
                write_lines(self.arrays, self.texts)
        broken: BaseException | None = self._broken
        if broken is not None:
            raise broken
        for id, info in accepting:
            if info[REFUSED]:
                log.warning("table '%s' keeps its row with a primary key and refuses another one", id)

    def _called(self, site: int, more: int, count: int) -> int:
        """Do what somebody asks for; returns whether that failed. No error passes through the loop: it is kept."""
        if self._broken is not None:
            return 1
        try:
            answer(self, list(self.program.arrays.asking)[ASKS - site], more, count)
        except BaseException as error:
            self._broken = error
            return 1
        return 0

    def expire(self, now: int) -> None:
        """Let events leave windows whose time is over, also where no event comes."""
        self.compiled.expire(now, *self.arrays.values())

    @property
    def failures(self) -> list[tuple[int, int]]:
        """Which events of the last call were lost, by rank, and the number of the query that failed."""
        if FAILURES not in self.arrays:
            return []
        count = int(self.arrays[FAILURES][0])
        causes, queries = (self.arrays[f"failed_{name}"][:count].tolist() for name in ("cause", "query"))
        return list(zip(causes, queries, strict=True))

    def _fill(self, stream: str, columns: Mapping[int, Any], stamps: Any) -> Lent:
        """Let events be the input; returns what the loop is to read where it is, in place of the arrays for it."""
        arrays, types, count = self.arrays, self._types[stream], len(stamps)
        number = self.program.shape.sources.index(stream)
        lent = {f"i{number}_ts": numpy.ascontiguousarray(stamps, numpy.int64)}
        for place in self.program.inputs[stream]:
            column, name = columns[place], f"i{number}_{place}"
            values = arrays[name][:count]
            given = self.values.numbers(column, types[place], values)
            if given is not values:
                if given.dtype == values.dtype and given.flags.aligned:  # As machine code reads it
                    lent[name] = given
                else:
                    values[:] = given
            arrays[f"{name}_n"][:count] = nulls_of(column) if types[place] is Type.OBJECT or column.null_count else 0
        if stream not in self._copied:
            return lent
        for name, given in lent.items():
            arrays[name][:count] = given
        return {}

    def _put_out(self, number: int, stream: str, columns: Mapping[str, Mapping[int, Any]]) -> PutOut | None:
        arrays, owner = self.arrays, f"h{number}"
        count = self._count(number)
        if not count:
            return None
        source, bounds = arrays[f"{owner}_source"][:count], self._bounds(number, stream)
        chunks, made = len(bounds) - 1, []
        for place, (origin, type) in enumerate(self._shown[stream]):
            if origin is not None:
                column = columns[origin[0]][origin[1]]
                # All rows in their order: the column itself goes on, and nothing is gathered.
                whole = count == len(column) and numpy.array_equal(source, self._ranks.first(count))
                made.append(column if whole else rows_of(column, source, self.compiled.hash_tables))
            else:
                name = f"{owner}_{place}"
                made.append(self.values.column(arrays[name][:count], arrays[f"{name}_n"][:count], type))
        alone = self._alone and stream in self.program.single
        causes = (source if alone else arrays[f"{owner}_cause"][:chunks]).copy()  # The next call writes there again
        firsts = arrays[f"{owner}_number"][:chunks].copy()
        times = arrays[f"{owner}_at"][:chunks].copy() if f"{owner}_at" in arrays else None
        stamps = None if self._keeps_timestamps and self._alone else arrays[f"{owner}_ts"][:count].copy()
        return PutOut(together(made, self._names[stream]), bounds, causes, firsts, stamps, times)


def _one_chunk(count: int, at: int, which: int) -> GivenChunks:
    """Return a chunk of so many events that is due at a time, given the number of its source."""
    ends, due, source = numpy.array([count]), numpy.array([at]), numpy.array([which], numpy.int16)
    return GivenChunks(ONE_CHUNK, ends, due, due, source, count == 1)


def _is_far(times: Any) -> bool:
    """Tell whether a column has a time that is left to operators."""
    least, most = pc.min_max(times).values()
    return len(times) > 0 and (least.as_py() <= -FAR or most.as_py() >= FAR)


# The lines that a loop has noted for the log.


def write_lines(arrays: Mapping[str, Any], texts: TextTable) -> None:
    """Write what the loop has noted, in that order; then there is nothing. There must be a ``#log`` in the program."""
    count, arrays[LINES][0] = int(arrays[LINES][0]), 0
    levels, numbers = (arrays[f"{LINES}_{name}"][:count].tolist() for name in ("level", "text"))
    for level, number in zip(levels, numbers, strict=True):
        told(level, None if number < 0 else texts.text(number))


def time_has_come(running: Running, until: int) -> None:
    """Take note that all timers have fired that were due until then, ms; the program's own must have."""
    timers_until = running.arrays.get("timers_until")
    if timers_until is not None:
        timers_until[0] = max(timers_until[0], until)
