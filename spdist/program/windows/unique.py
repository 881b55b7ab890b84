"""The windows with one event of each key, the ``unique:`` ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy

from spdist.extension import catalog
from spdist.language import ast
from spdist.language.checking.expressions import type_of
from spdist.language.types import Type
from spdist.operators.core.state_columns import (
    Column,
    HashMapColumn,
    ListColumn,
    MapColumn,
    NumberColumn,
    StructColumn,
    ValueColumn,
    column_of,
    in_turn,
    nothing,
    numbers_of,
)
from spdist.program.expressions import NotTyped
from spdist.program.parts import QueryText
from spdist.program.registry import WINDOWS
from spdist.program.running.running import Running
from spdist.program.shape import Read
from spdist.program.states.dues import asked_again, load_dues, window_dues
from spdist.program.states.totals import load_copied, stored_copies
from spdist.program.states.unique import UniqueState, list_keys, load_sent, load_unique, stored_unique
from spdist.program.states.window import WindowStates
from spdist.program.windows.batch_text import BatchWriter
from spdist.program.windows.external import TIMES, open_times, stored_times
from spdist.program.windows.kinds import EARLIEST, JOINED, Batched, Sliding, Unique, WindowCall, size_of
from spdist.program.windows.unique_text import (
    UniqueBatchWriter,
    UniqueExternalWriter,
    UniqueLengthWriter,
    UniquePeriodWriter,
    UniqueTimeWriter,
    UniqueWriter,
)

__all__ = ["LEAST_BUCKETS", "UniqueBatches", "UniqueSliding", "UniqueStates", "hash_maps", "unique_by"]

_REALS = (Type.FLOAT, Type.DOUBLE)
#: How many buckets a table of Java's has at least, once there is a key.
LEAST_BUCKETS = 16


def unique_by(given: WindowCall, keys: Sequence[ast.Expression], joined: bool) -> Unique:
    """Return what makes events the only ones; where keys are `joined`, one text is made of them."""
    key = ast.FunctionCall(JOINED, tuple(keys), span=given.call.span) if joined else keys[0]
    type = Type.STRING if joined else type_of(key, given.scope, catalog(False))
    named = {node.name for node in key.walk() if isinstance(node, ast.Variable)}
    places = tuple(sorted(place for name in named if (place := given.schema.index(name)) is not None))
    return Unique(key, type, places)


@WINDOWS.typed("unique:ever", "unique:first", "unique:length", "unique:time")
@dataclass(frozen=True, slots=True)
class UniqueSliding(Sliding):
    """A window that events leave one by one, and as soon as another one of their key comes."""

    @classmethod
    def of(cls, given: WindowCall) -> UniqueSliding | None:
        """Return what an app says."""
        key, *more = given.call.args
        first = given.call.name == "first"
        found: UniqueSliding | None = None
        match given.call.name, given.constants[1:]:
            case "ever" | "first", _:
                found = cls()
            case "length", (int(length),):
                found = cls(length=size_of(length))
            case "time", (int(span),) if span > 0:
                found = cls(span=span)
        if found is None:
            return None
        several = not (found.length or found.span) and bool(more)
        own = unique_by(given, given.call.args if several else (key,), joined=several)
        return replace(found, unique=replace(own, first=first))

    @property
    def leaves_early(self) -> bool:
        """Whether an event may leave before it comes."""
        return bool(self.length or self.span)

    @property
    def is_woken(self) -> bool:
        """Whether events may leave by time behind others that stay."""
        return bool(self.span)

    @property
    def rooms(self) -> tuple[str, ...]:
        """The room of keys."""
        return ("groups {}_u",)

    @property
    def writer(self) -> type[UniqueWriter]:
        """What writes it."""
        return UniqueTimeWriter if self.span else UniqueLengthWriter if self.length else UniqueWriter

    @property
    def states(self) -> UniqueStates:
        """What knows its state."""
        return UniqueSlidingStates(self)


@WINDOWS.typed(
    "unique:lengthBatch",
    "unique:firstLengthBatch",
    "unique:timeBatch",
    "unique:firstTimeBatch",
    "unique:timeLengthBatch",
    "unique:externalTimeBatch",
)
@dataclass(frozen=True, slots=True)
class UniqueBatches(Batched):
    """A window that releases batches with one event of each key."""

    @classmethod
    def of(cls, given: WindowCall) -> UniqueBatches | None:
        """Return what an app says."""
        found: UniqueBatches | None = None
        match given.call.name, given.constants[1:]:
            case "lengthBatch" | "firstLengthBatch", (int(length),) if length > 0:
                found = cls(length=length)
            case "timeBatch" | "firstTimeBatch", (int(span), *start) if span > 0 and start != [None]:
                found = cls(span=span, start=_start(start))
            case "timeLengthBatch", (int(span), *start, int(length)) if span > 0 and length > 0 and start != [None]:
                found = cls(length=length, span=span, start=_start(start))
            case "externalTimeBatch", (None, int(span), *more) if span > 0 and more[:1] != [None]:
                timeout, replaces = (*more[1:], None, None)[:2]
                found = cls(
                    span=span,
                    start=_start(more),
                    time=given.place(1),
                    timeout=max(timeout, 0) if isinstance(timeout, int) else 0,
                    replaces=replaces is True,
                )
        if found is None:
            return None
        key, first = given.call.args[0], given.call.name.startswith("first")
        # A real is looked for in a table by its text.
        real = first and type_of(key, given.scope, catalog(False)) in _REALS
        own = unique_by(given, (key,), joined=real)
        # The operator computes the key of the row into which it has written the end of the period
        if found.replaces and found.time in own.places:
            raise NotTyped("a unique key of a time that the window writes", given.call.span)
        return replace(found, unique=replace(own, first=first, as_text=first or found.time is not None))

    @property
    def lists_keys(self) -> bool:
        """Whether its list is that of all keys."""
        return True

    @property
    def rooms(self) -> tuple[str, ...]:
        """The room of keys."""
        return ("groups {}_u",)

    @property
    def writer(self) -> type[BatchWriter]:
        """What writes it."""
        timed = UniqueExternalWriter if self.time is not None else UniquePeriodWriter
        return timed if self.span else UniqueBatchWriter

    @property
    def states(self) -> UniqueStates:
        """What knows its state."""
        return UniqueBatchStates(self)


def _start(given: list[object]) -> int | None:
    """Return from when periods are counted, ms; None where nothing is said of that."""
    return given[0] if given and isinstance(given[0], int) else None


class UniqueStates(WindowStates):
    """The state of a window with one event of each key."""

    def read(self, states: Column) -> UniqueState:
        """Return what operators' states say, of at least one key of a partition."""
        raise NotImplementedError

    def written(self, read: Read, held: UniqueState) -> Column:
        """Return operators' states that say so."""
        raise NotImplementedError

    def load(self, running: Running, query: QueryText, numbers: Any, states: Column) -> None:
        """Take over the states of the keys of a partition, whose numbers are an array; or one, of number 0."""
        if not len(numbers):
            return
        held = self.read(states)
        load_unique(running, query, self.window, numbers, held)
        load_sent(running, query, self.window, numbers, held)
        list_keys(running, query, self.window)
        if held.copied is not None:
            known = held.copied.known()
            load_copied(running, query, numbers[known], held.copied.at(numpy.flatnonzero(known)))
        if query.read.timed and held.dues is not None:
            load_dues(running, query, numbers, held.dues, query.operator)
        self.looks_at_times(running, query)

    def stored(self, running: Running, query: QueryText, count: int) -> Column:
        """Return the states of so many keys of a partition, by number; or one."""
        assert isinstance(query.read, Read)
        found = stored_unique(running, query, self.window, count)
        copies = stored_copies(running, query, count)
        came = running.arrays.get(f"{query.name}_came")
        # Where nothing looks at the event, nobody notes whether there is one: an open batch has it
        is_known = found.sizes > 0 if came is None else came[:count] != 0
        copied: Column = copies
        if self.window.time is not None:
            copied = _or_null(is_known, copies.at(numpy.flatnonzero(is_known)))
        return self.written(query.read, self.with_dues(running, query, replace(found, copied=copied)))

    def with_dues(self, running: Running, query: QueryText, found: UniqueState) -> UniqueState:
        """Return what is held with the wake-ups asked for, and with the ends of open periods."""
        return replace(found, dues=window_dues(running, query, len(found.sizes)))

    def fresh(self, read: Read) -> Any:
        """Return the state of a window that has seen nothing."""
        none, row = ValueColumn([]), ValueColumn([None])
        noted = {name: ValueColumn([value]) for name, value in self.noted_first().items()}
        sizes = numpy.zeros(1, numpy.int64)
        nobody = UniqueState(
            sizes, none, none, nothing(1), nothing(1), none, none, noted, row, nothing(1), (none, none)
        )
        (state,) = self.written(read, nobody).values()
        return state

    def noted_first(self) -> dict[str, Any]:
        """Return what there is one number of for each key of a partition, where no event has come."""
        return {"reset_at": EARLIEST}


class UniqueSlidingStates(UniqueStates):
    """The state of a window that events leave one by one."""

    def read(self, states: Column) -> UniqueState:
        """Return what operators' states say, of at least one key of a partition."""
        latest, held, more = states, nothing(len(states)), dict[str, Any]()
        if self.window.length:
            numbered, latest, passed, number, torn = states.parts(5)
            numbers, times, rows = numbered.items_held().parts(3)
            held = ListColumn(list, NumberColumn(numbered.sizes()), StructColumn(tuple, [times, rows]))
            more = {"numbers": numbers, "noted": {"passed": passed, "number": number, "torn": torn}}
        elif self.window.span:
            events, latest, asked_for, dues = states.parts(4)
            held = ListColumn(list, NumberColumn(events.sizes()), events.items_held())
            more = {"noted": {"latest": asked_for}, "dues": dues}
        return UniqueState(latest.sizes(), *latest.entries(), held, nothing(len(states)), **more)

    def written(self, read: Read, held: UniqueState) -> Column:
        """Return operators' states that say so."""
        latest = MapColumn(NumberColumn(held.sizes), held.keys, held.events)
        if self.window.length:
            assert held.numbers is not None
            times, rows = held.held.items_held().parts(2)
            numbered = replace(held.held, held=StructColumn(tuple, [held.numbers, times, rows]))
            more = held.number("passed"), held.number("number"), _flags(held.number("torn"))
            return StructColumn(list, [numbered, latest, *more])
        if self.window.span:
            assert held.dues is not None
            return StructColumn(list, [held.held, latest, held.number("latest"), held.dues])
        return latest


class UniqueBatchStates(UniqueStates):
    """The state of a window that releases batches."""

    window: UniqueBatches

    def read(self, states: Column) -> UniqueState:
        """Return what operators' states say, of at least one key of a partition."""
        window, none = self.window, nothing(len(states))
        if window.time is not None:
            more, batch, sent = states.parts(3)
            _, _, copied, times, dues = more.parts(5)
            keys, events = sent.entries()
            last, noted = ListColumn(list, NumberColumn(sent.sizes()), events), open_times(times)
            return UniqueState(batch.sizes(), *batch.entries(), none, last, None, keys, noted, copied, dues)
        noted, dues = {}, none
        if window.span and window.length:
            states, noted["full"] = states.parts(2)
        if window.span:
            states, noted["ending"], dues = states.parts(3)
        table, before, released, reset = states.parts(4)
        maps, known, (released_at, _) = hash_maps(table), reset.known(), numbers_of(released)
        sizes, (keys, rows) = maps.sizes(), maps.entries()
        reset_at, copied = reset.at(numpy.flatnonzero(known)).parts(2)
        resets = numpy.full(len(known), EARLIEST)
        resets[known] = numbers_of(reset_at)[0]
        noted["capacity"] = NumberColumn(numpy.maximum(numbers_of(maps.capacities)[0], LEAST_BUCKETS))
        noted["reset_at"] = NumberColumn(resets)
        return UniqueState(
            sizes,
            keys,
            _released(rows, sizes, released_at),
            none,
            ListColumn(list, NumberColumn(before.sizes()), _released(before.items_held(), before.sizes(), released_at)),
            noted=noted,
            copied=_or_null(known, copied),
            dues=dues,
        )

    def written(self, read: Read, held: UniqueState) -> Column:
        """Return operators' states that say so."""
        window, sizes = self.window, NumberColumn(held.sizes)
        assert held.copied is not None
        assert held.dues is not None
        if window.time is not None:
            none, sent = nothing(len(held.sizes)), held.before.items_held()
            # Without a timeout no key is released again: any keys that differ will do
            keys = held.before_keys if held.before_keys is not None else ValueColumn(list(map(str, range(len(sent)))))
            times = StructColumn(list, [held.number(name) for name in TIMES])
            more = StructColumn(list, [none, none, held.copied, times, held.dues])
            maps = MapColumn(sizes, held.keys, held.events), MapColumn(held.before.lengths, keys, sent)
            return StructColumn(list, [more, *maps])
        (_, rows), (sent_at, sent) = held.events.parts(2), held.before.items_held().parts(2)
        before, released = held.before.sizes(), numpy.zeros(len(held.sizes), numpy.int64)
        released[before > 0] = numbers_of(sent_at)[0][(numpy.cumsum(before) - before)[before > 0]]
        reset_at, _ = numbers_of(held.number("reset_at"))
        known = reset_at != EARLIEST
        # Of the event that a RESET copies mostly nobody looks at more than whether there is one, and when it came.
        resets = StructColumn(tuple, [NumberColumn(reset_at[known]), held.copied.at(numpy.flatnonzero(known))])
        state: Column = StructColumn(
            list,
            [
                HashMapColumn(sizes, held.keys, rows, held.number("capacity")),
                replace(held.before, held=sent),
                NumberColumn(released),
                _or_null(known, resets),
            ],
        )
        if window.span:
            state = StructColumn(list, [state, held.number("ending"), held.dues])
        return StructColumn(list, [state, _flags(held.number("full"))]) if window.span and window.length else state

    def noted_first(self) -> dict[str, Any]:
        """Return what there is one number of for each key of a partition, where no event has come."""
        times = dict(zip(TIMES, (self.window.start or 0, None, 0, 0, False), strict=True))
        return {"reset_at": EARLIEST, **times}

    def with_dues(self, running: Running, query: QueryText, found: UniqueState) -> UniqueState:
        """Return what is held with the wake-ups asked for, and with the ends of open periods."""
        count, span = len(found.sizes), self.window.span
        if not span:
            return UniqueStates.with_dues(self, running, query, found)
        if self.window.time is not None:
            times, dues = stored_times(running, query, self.window, count)
            return replace(found, noted={**found.noted, **dict(zip(TIMES, times.parts(5), strict=True))}, dues=dues)
        ending, asleep = (running.arrays[f"{query.name}_{name}"][:count] for name in ("ending", "asleep"))
        # Periods that ended while it slept have put out nothing: the open one ends behind all that has fired
        ending, dues = asked_again(running, window_dues(running, query, count), ending, asleep != 0, span)
        return replace(found, noted={**found.noted, "ending": NumberColumn(ending, ending == EARLIEST)}, dues=dues)


def hash_maps(maps: Column) -> HashMapColumn:
    """Return maps of Java's of operators' states."""
    found = maps if isinstance(maps, HashMapColumn) else column_of(maps.values())
    if not isinstance(found, HashMapColumn):
        raise TypeError("a state of which a map is none of Java's")
    return found


def _released(rows: Column, sizes: Any, released: Any) -> Column:
    """Return rows, so many of each key, as events of the time when their key has released the last ones."""
    return StructColumn(tuple, [NumberColumn(numpy.repeat(released, sizes)), rows])


def _flags(numbers: Column) -> Column:
    """Return numbers as bools."""
    return NumberColumn(numbers_of(numbers)[0] != 0)


def _or_null(known: Any, values: Column) -> Column:
    """Return values where they are known, an array of bools, and nulls in between."""
    return in_turn(known, [ValueColumn([None] * int(numpy.count_nonzero(~known))), values])
