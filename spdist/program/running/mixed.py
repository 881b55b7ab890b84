"""A program of which some elements are called: events out to operators and back, outputs and timers in one order.

The loop calls an element with a chunk, or has the operators' first timer fire. What they put out to a stream that typed
queries read comes back by a call of the loop inside of that call, before they go on; what they put out to the outside
is kept until the loop has ended, with its cause and number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy

from spdist.language.types import Type
from spdist.mapping.columns import PYTHON, ColumnarRows
from spdist.operators.base import Arrival, Row
from spdist.operators.core.junction import NO_TIMER, Receive, ReceiveChunk, StreamPart
from spdist.program.arrays import ASKS
from spdist.program.called import Called, CallSite
from spdist.program.expressions import is_typed
from spdist.program.machine.compiler import Compiled
from spdist.program.machine.shared import (
    CAUSE,
    DUE,
    ELEMENT,
    FIRED,
    FIRED_NUMBER,
    LIMIT,
    NESTED,
    NEVER_DUE,
    NEXT_DUE,
    NEXT_ELEMENT,
    NO_ELEMENT,
    NOW,
    NUMBER,
    OWN_DUE,
    PICKED,
    RUNG,
    WAKE,
)
from spdist.program.parts import Program
from spdist.program.running.running import NOT_TYPED, ONE_CHUNK, Chunk, GivenChunks, Lent, PutOut, Running
from spdist.program.states.bucket import LoopBuckets

__all__ = ["MixedRunning", "Operators"]

#: Of so many rows one is looked at before all are made.
_FEW = 16
#: After so many events it is looked whether calls cost more than the program saves. What a typed query over a source
#: saves for each event is counted as 1; then a call costs 2, and what comes back 14 (measured).
_LOOKED_AT, _CALL, _BACK = 20_000, 2, 14
#: So many groups of an open bucket cost 1 to bring to the operators, about.
_GROUPS = 2


class Operators(Protocol):
    """What runs the elements that are called."""

    def receiver(self, element: Called, stream: str) -> tuple[Receive, ReceiveChunk]:
        """Return what takes the events of a stream for an element: single ones, and chunks."""
        ...

    def failed(self, stream: str, arrivals: Sequence[Arrival], error: Exception) -> None:
        """Do with events that an element failed on what the stream says."""
        ...

    def set_clock(self, now: int) -> None:
        """Let it be `now`, ms."""
        ...

    @property
    def first_timer(self) -> tuple[int, int] | None:
        """When the first timer is due, ms, and the rank of its query; None where there is none."""
        ...

    def begin_step(self) -> None:
        """Begin a step of the clock."""
        ...

    def fire_first(self, until: int, alone: bool) -> int:
        """Wake what is due first, and return the clock after it, ms.

        Parameters
        ----------
        until : int
            So far timers that do nothing may be skipped, ms.
        alone : bool
            Whether none may.
        """
        ...


@dataclass(frozen=True, slots=True)
class _CalledChunk:
    """A chunk that operators have put out: when a timer did, its cause, its first number, and what came before it."""

    time: int
    cause: int
    number: int
    behind: int
    arrivals: Sequence[Arrival]


class _Given:
    """The events of a stream, of which some are looked at: only those are made where they are few."""

    __slots__ = ("_asked", "_columns", "_made", "_stamps")

    def __init__(self, stamps: Any, rows: Sequence[Row]) -> None:
        self._columns = rows if isinstance(rows, ColumnarRows) else None
        self._stamps = stamps
        self._made: Sequence[Arrival] = ()
        if self._columns is None:
            self._made = list(zip(stamps.tolist(), rows, strict=True))
        self._asked = 0

    @classmethod
    def of(cls, arrivals: Sequence[Arrival]) -> _Given:
        """Return the events of a chunk."""
        given = cls(numpy.zeros(0, numpy.int64), ())
        given._made = arrivals
        return given

    def arrival(self, place: int) -> Arrival:
        """Return an event."""
        if self._columns is None:
            return self._made[place]
        self._asked += 1
        if self._asked * _FEW > len(self._columns):
            self._made, self._columns = list(zip(self._stamps.tolist(), self._columns, strict=True)), None
            return self._made[place]
        return int(self._stamps[place]), self._columns.single(place)


class MixedRunning(Running):
    """A program with its state, and operators that it calls.

    Parameters
    ----------
    program : Program
        Its text.
    compiled : Compiled
        Its code.
    operators : Operators
        What runs the elements without a typed form.

    State
    -----
    That of `Running`; while the loop runs also the events that it was given, and what operators have put out.
    """

    def __init__(self, program: Program, compiled: Compiled, operators: Operators) -> None:
        super().__init__(program, compiled, steady=bool(program.shape.returned))
        self._operators = operators
        # Python's own integers: numpy's cost three times as much where one is looked at.
        self._shared = memoryview(self.arrays["shared"])
        self._receivers = [operators.receiver(site.element, site.stream) for site in program.sites]
        #: Of the events of a site: timestamps, and of each attribute values, nulls and type, for these parameters.
        self._columns: dict[str, tuple[Any, list[tuple[Any, Any, Type]]]] = {}
        self._columns_of: object = None
        self._inputs = (*program.shape.sources, *program.shape.returned)
        # An event must be seen to be of its types before the loop sees it: in it, nothing can be given back.
        self._checked = {s: [n for n, type in enumerate(types) if type in PYTHON] for s, types in self._types.items()}
        self._wanted = {stream: set(places) for stream, places in self._checked.items()}
        #: The open buckets of aggregations whose events the loop adds.
        self.added: dict[Called, LoopBuckets] = {}
        self._rows_given: dict[str, _Given] = {}
        self._held: dict[str, list[_CalledChunk]] = {}
        self._failed: Exception | None = None
        #: The event before which timers fire, and until when: with another one, a step of the clock begins.
        self._step = -1, 0
        #: How often elements were called; so many calls and chunks that came back cost more than what has saved.
        self.calls = 0
        self._seen = self._cost = 0
        self._saves = sum(any(s in program.shape.sources for s in query.streams) for query in program.shape.queries)
        self._saves += sum(one.streams[0] in program.shape.sources for one in program.shape.adding)

    def costs_more(self) -> bool:
        """Tell whether calls have cost more than the program has saved, over the last events that came together."""
        if self._seen < _LOOKED_AT:
            return False
        seen, cost, self._seen, self._cost = self._seen, self._cost, 0, 0
        return cost > seen * max(1, self._saves)

    # The loop, called from outside.

    def process_columns(self, parts: Mapping[str, StreamPart], now: int) -> dict[str, PutOut] | None:
        """Process events; see `Running.process_columns`."""
        self._rows_given = {
            f"i{self._inputs.index(stream)}": _Given(part.timestamps, part.rows) for stream, part in parts.items()
        }
        made = super().process_columns(parts, now)
        if made is None:
            return None
        held, self._held = self._held, {}
        self._seen += sum(len(part.rows) for part in parts.values())
        return {**made, **{stream: _merged(made.get(stream), chunks) for stream, chunks in held.items()}}

    def process_chunk(self, stream: str, arrivals: Sequence[Arrival], now: int, until: int) -> list[Chunk] | None:
        """Process the events of one small chunk; see `Running.process_chunk`."""
        if not self._are_typed(stream, arrivals):
            self.refused = NOT_TYPED
            return None
        self._rows_given = {f"i{self._inputs.index(stream)}": _Given.of(arrivals)}
        return super().process_chunk(stream, arrivals, now, until)

    def _run(self, chunks: GivenChunks, now: int, *, fires: bool, lent: Lent | None = None) -> None:
        shared = self._shared
        shared[FIRED], shared[FIRED_NUMBER] = NO_TIMER, 0
        shared[DUE], shared[ELEMENT] = NO_TIMER, NO_ELEMENT
        self._failed = None
        self._step = -1, 0
        self._look_at_timers()
        try:
            super()._run(chunks, now, fires=fires, lent=lent)
        except BaseException:
            self._held.clear()
            raise
        finally:
            for added in self.added.values():
                added.collect()

    def forget_computed(self) -> None:
        """Forget what was known of texts: they have other numbers."""
        super().forget_computed()
        for added in self.added.values():
            added.texts_changed()

    def taken_failure(self) -> Exception | None:
        """Return what an element has raised on the events that the loop was given, once."""
        error, self._failed = self._failed, None
        return error

    def _made_chunks(self, arrivals: Sequence[Arrival]) -> list[tuple[int, int, str, list[Arrival]]]:
        held, self._held = self._held, {}
        chunks = [(one.time, one.number, s, list(one.arrivals)) for s, many in held.items() for one in many]
        return [*super()._made_chunks(arrivals), *chunks]

    # The loop, called by operators that it has called.

    def feed(self, stream: str, arrivals: Sequence[Arrival]) -> None:
        """Take the events of a chunk that operators put out to a stream that typed queries read, while the loop runs.

        Raises
        ------
        Exception
            What an element has raised that reads the stream.
        """
        if not self._are_typed(stream, arrivals):
            raise TypeError(f"an event of stream '{stream}' has a value that is not of its type")
        self._cost += _BACK
        number, count, now = self._inputs.index(stream), len(arrivals), self._shared[NOW]
        self.make_room(count)
        self._fill_chunk(number, stream, arrivals)
        self._rows_given[f"i{number}"] = _Given.of(arrivals)
        self._events += count
        ends, at, which = numpy.array([count]), numpy.array([now]), numpy.array([number], numpy.int16)
        self.compiled.run(ONE_CHUNK, ends, 0, at, at, which, NESTED, now, self._callback, *self._parameters)
        self._events -= count
        error = self._broken or self.taken_failure()
        if error is not None:
            # To the stream that they were put out to, which does with them what its `@OnError` says.
            raise error

    def put_out(self, stream: str, arrivals: Sequence[Arrival]) -> None:
        """Keep a chunk that operators put out to the outside while the loop runs."""
        if stream in self.program.shape.changed:
            arrivals = deepcopy(arrivals)  # as they are now: functions change lists and maps in place
        shared = self._shared
        outputs = list(self.program.outputs)
        behind = self._count(outputs.index(stream)) if stream in outputs else 0
        time, cause, number = shared[RUNG], shared[CAUSE], shared[NUMBER]
        self._held.setdefault(stream, []).append(_CalledChunk(time, cause, number, behind, arrivals))
        shared[NUMBER] = number + len(arrivals)

    def _are_typed(self, stream: str, arrivals: Sequence[Arrival]) -> bool:
        types = self._types[stream]
        for _, row in arrivals:
            for place in self._checked[stream]:
                value, type = row[place], types[place]
                if value is not None and not is_typed(value, type):
                    return False
        return True

    # Operators, called by the loop.

    def _called(self, site: int, begin: int, end: int) -> int:
        """Call an element, or wake the operators' first timer; returns whether that failed.

        No error passes through the loop: it is kept, and nothing is called any more.
        """
        if site <= ASKS:
            failed = super()._called(site, begin, end)
            if failed:
                self._shared[NEXT_DUE] = NEVER_DUE
            return failed
        if self._broken is not None:
            return 1
        self.calls += 1
        self._cost += _CALL
        try:
            self._operators.set_clock(self._shared[NOW])
            refused = self._wake() if site == WAKE else self._deliver(site, begin, end)
            # Whatever has run may have asked for a wake-up.
            self._look_at_timers()
        except BaseException as error:
            self._broken = error
            # The loop would have the same timer fire again and again.
            self._shared[NEXT_DUE] = NEVER_DUE
            return 1
        return int(refused)

    def _deliver(self, number: int, begin: int, end: int) -> bool:
        site, (receive, receive_chunk) = self.program.sites[number], self._receivers[number]
        places: Any = range(begin, end)
        if site.picked:
            places = self.arrays[site.picked][: self._shared[PICKED]].tolist()
        arrivals = self._arrivals(site, places)
        added = self.added.get(site.element)
        if added is not None:
            self._cost += added.groups // _GROUPS
            if arrivals:
                # They add the event to what they have: the loop's sums come first.
                added.bring()
        try:
            if added is not None and not arrivals:
                added.close(self._shared[NOW])
            elif len(arrivals) == 1:
                receive(*arrivals[0])
            else:
                receive_chunk(arrivals)
        except Exception as error:
            if site.nested:
                # Its events came from operators: `feed` raises it there.
                self._failed = error
            else:
                self._operators.failed(site.stream, self._arrivals(site, range(begin, end)), error)
            return True
        finally:
            if added is not None:
                added.load()
        return False

    def _arrivals(self, site: CallSite, places: Sequence[int]) -> list[Arrival]:
        """Return the events at some places."""
        if site.given:
            return [self._rows_given[site.owner].arrival(place) for place in places]
        stamps, columns = self._columns_at(site)
        return [(stamps.item(at), tuple([self._value(*column, at) for column in columns])) for at in places]

    def _columns_at(self, site: CallSite) -> tuple[Any, list[tuple[Any, Any, Type]]]:
        # Where arrays have grown there are other ones, and other parameters.
        if self._columns_of is not self._parameters:
            self._columns, self._columns_of = {}, self._parameters
        found = self._columns.get(site.owner)
        if found is None:
            arrays, name = self.arrays, site.owner
            attributes = [(arrays[f"{name}_{n}"], arrays[f"{name}_{n}_n"], type) for n, type in enumerate(site.types)]
            found = self._columns[name] = arrays[f"{name}_ts"], attributes
        return found

    def _value(self, values: Any, nulls: Any, type: Type, place: int) -> Any:
        if nulls.item(place):
            return None
        return self.values.single(values.item(place), type)

    def _wake(self) -> bool:
        shared = self._shared
        first = self._operators.first_timer
        assert first is not None
        due, element = first
        now = max(shared[NOW], due)
        if now != shared[FIRED]:
            shared[FIRED], shared[FIRED_NUMBER] = now, 0
        shared[NUMBER], shared[RUNG], shared[NOW] = shared[FIRED_NUMBER], now, now
        shared[DUE], shared[ELEMENT] = max((shared[DUE], shared[ELEMENT]), (due, element))
        until = self.arrays.get("timers_until")
        if until is not None:
            until[0] = max(int(until[0]), due - 1)
        limit, own, cause = shared[LIMIT], shared[OWN_DUE], shared[CAUSE]
        # Timers that fire without end are counted in each step, and the loop calls for each timer by itself.
        if self._step != (cause, limit):
            self._step = cause, limit
            self._operators.begin_step()
        # What does nothing may be skipped as far as the loop's own first timer, which might change that.
        shared[NOW] = self._operators.fire_first(min(limit, own - 1), alone=own <= due)
        shared[FIRED_NUMBER] = shared[NUMBER]
        return False

    def _look_at_timers(self) -> None:
        first = self._operators.first_timer
        self._shared[NEXT_DUE], self._shared[NEXT_ELEMENT] = (NEVER_DUE, NO_ELEMENT) if first is None else first


def _merged(made: PutOut | None, held: Sequence[_CalledChunk]) -> PutOut:
    """Return what the loop and what operators have put out to a stream, in order."""
    rows: list[Row] = []
    chunks: list[tuple[int, int]] = []
    firsts: list[int] = []
    stamps: list[int] = []
    begins, at = [], 0
    own = [] if made is None else list(made.rows)
    bounds = [0] if made is None else made.bounds.tolist()

    def of_loop(until: int) -> None:
        nonlocal at
        assert made is not None
        while at + 1 < len(bounds) and bounds[at] < until:
            begin, end = bounds[at], bounds[at + 1]
            begins.append(len(rows))
            chunks.append((int(made.causes[at]), int(made.times[at])))
            rows.extend(own[begin:end])
            firsts.append(int(made.firsts[at]))
            stamps.extend(made.stamps[begin:end].tolist())
            at += 1

    for one in held:
        if made is not None:
            of_loop(one.behind)
        begins.append(len(rows))
        chunks.append((one.cause, one.time))
        rows.extend(row for _, row in one.arrivals)
        firsts.append(one.number)
        stamps.extend(timestamp for timestamp, _ in one.arrivals)
    if made is not None:
        of_loop(len(own))
    causes, times = (numpy.array([chunk[n] for chunk in chunks]) for n in (0, 1))
    return PutOut(rows, numpy.array([*begins, len(rows)]), causes, numpy.array(firsts), numpy.array(stamps), times)
