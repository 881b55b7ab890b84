"""The windows with one event of each key, the ``unique:`` ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from spdist.extension import catalog
from spdist.java.objects import HashMap
from spdist.language import ast
from spdist.language.checking.expressions import type_of
from spdist.language.types import Type
from spdist.operators.core.state_columns import Column, column_of
from spdist.program.expressions import NotTyped
from spdist.program.parts import QueryText
from spdist.program.registry import WINDOWS
from spdist.program.running.running import Running
from spdist.program.shape import Read
from spdist.program.states.dues import load_dues, window_dues
from spdist.program.states.nodes import events_of_nodes
from spdist.program.states.totals import load_copied, stored_copies
from spdist.program.states.unique import UniqueState, list_keys, load_sent, load_unique, stored_unique
from spdist.program.states.window import WindowStates
from spdist.program.windows.batch_text import BatchWriter
from spdist.program.windows.batches import open_period
from spdist.program.windows.external import awaited_again
from spdist.program.windows.kinds import EARLIEST, JOINED, Batched, Sliding, Unique, WindowCall, size_of
from spdist.program.windows.unique_text import (
    UniqueBatchWriter,
    UniqueExternalWriter,
    UniqueLengthWriter,
    UniquePeriodWriter,
    UniqueTimeWriter,
    UniqueWriter,
)

__all__ = ["UniqueBatches", "UniqueSliding", "UniqueStates", "unique_by"]

_REALS = (Type.FLOAT, Type.DOUBLE)


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

    def read(self, state: Any) -> UniqueState:
        """Return what an operator's state says."""
        raise NotImplementedError

    def written(self, read: Read, held: UniqueState) -> Any:
        """Return an operator's state that says so."""
        raise NotImplementedError

    def load(self, running: Running, query: QueryText, numbers: Any, states: Column) -> None:
        """Take over the states of the keys of a partition, whose numbers are an array; or one, of number 0."""
        own = list(map(self.read, states.values()))
        load_unique(running, query, self.window, numbers, own)
        load_sent(running, query, self.window, numbers, own)
        list_keys(running, query, self.window)
        copied = [state.copied for state in own]
        known = [place for place, row in enumerate(copied) if row is not None]
        load_copied(running, query, numbers[known], column_of([copied[place] for place in known]))
        if query.read.timed:
            load_dues(running, query, numbers, column_of([state.due for state in own]), query.operator)
        self.looks_at_times(running, query)

    def stored(self, running: Running, query: QueryText, count: int) -> Column:
        """Return the states of so many keys of a partition, by number; or one."""
        read = query.read
        assert isinstance(read, Read)
        shown = partial(events_of_nodes, running, query)
        found = stored_unique(running, query, self.window, count, lambda order: shown(order).values())
        came = running.arrays.get(f"{query.name}_came")
        copies = stored_copies(running, query, count).values()
        for number, state in enumerate(found):
            # Where nothing looks at the event, nobody notes whether there is one: an open batch has it
            is_known = bool(state.entries) if came is None else came[number] != 0
            state.copied = copies[number] if is_known or self.window.time is None else None
        dues = window_dues(running, query, count).values()
        for number, state in enumerate(found if read.timed else ()):
            state.due = dues[number]
            self.store_period(running, query, number, state)
        return column_of([self.written(read, state) for state in found])

    def store_period(self, running: Running, query: QueryText, number: int, state: UniqueState) -> None:
        """Note the end of the open period of a key, where it has one."""

    def fresh(self, read: Read) -> Any:
        """Return the state of a window that has seen nothing."""
        return self.written(read, UniqueState())


class UniqueSlidingStates(UniqueStates):
    """The state of a window that events leave one by one."""

    def read(self, state: Any) -> UniqueState:
        """Return what an operator's state says."""
        if self.window.length:
            held, latest, passed, number, torn = state
            events = [(timestamp, row) for _, timestamp, row in held]
            return UniqueState(list(latest.items()), events, [one for one, _, _ in held], passed, number, torn)
        if self.window.span:
            held, known, latest, due = state
            return UniqueState(list(known.items()), held, latest=latest, due=due)
        return UniqueState(list(state.items()))

    def written(self, read: Read, held: UniqueState) -> Any:
        """Return an operator's state that says so."""
        if self.window.length:
            events = [(number, *event) for number, event in zip(held.numbers, held.held, strict=True)]
            return [events, dict(held.entries), held.passed, held.number, held.torn]
        return [held.held, dict(held.entries), held.latest, held.due] if self.window.span else dict(held.entries)


class UniqueBatchStates(UniqueStates):
    """The state of a window that releases batches."""

    window: UniqueBatches

    def read(self, state: Any) -> UniqueState:
        """Return what an operator's state says."""
        window = self.window
        if window.time is not None:
            (_, _, copied, times, due), batch, sent = state
            before, keys = list(sent.values()), list(sent)
            return UniqueState(
                list(batch.items()), before=before, before_keys=keys, times=list(times), copied=copied, due=due
            )
        full = False
        if window.span and window.length:
            state, full = state
        batches, end, due = state if window.span else (state, None, [])
        table, before, released, copied = batches
        found = UniqueState([(key, (released, row)) for key, row in table.history()], full=full, due=due)
        found.before, found.times[1] = [(released, row) for row in before], end
        found.capacity, (found.reset_at, found.copied) = table.capacity or 16, copied or (EARLIEST, None)
        return found

    def written(self, read: Read, held: UniqueState) -> Any:
        """Return an operator's state that says so."""
        window = self.window
        # Of the event that a RESET copies mostly nobody looks at more than whether there is one, and when it came.
        nothing = held.copied or (None,) * len(read.schema)
        if window.time is not None:
            times = [window.start or 0, *held.times[1:]] if held.times[1] is None else held.times
            # Without a timeout no key is released again: any keys that differ will do
            keys = held.before_keys or map(str, range(len(held.before)))
            return [
                [[], [], held.copied, times, held.due],
                dict(held.entries),
                dict(zip(keys, held.before, strict=True)),
            ]
        table = HashMap((key, row) for key, (_, row) in held.entries)
        table.capacity = held.capacity
        released = held.before[0][0] if held.before else 0
        reset = None if held.reset_at == EARLIEST else (held.reset_at, nothing)
        state: Any = [table, [row for _, row in held.before], released, reset]
        if not window.span:
            return state
        state = [state, held.times[1], held.due]
        return [state, held.full] if window.length else state

    def store_period(self, running: Running, query: QueryText, number: int, state: UniqueState) -> None:
        """Note the end of the open period of a key; where it sleeps, its wake-up is asked for again."""
        if self.window.time is not None:
            if (awaited := awaited_again(running, query, number, self.window.timeout)) is not None:
                state.times[3], state.due = awaited, [*state.due, awaited]
            return
        ending, asleep = open_period(running, query, self.window.span, number)
        if asleep:
            state.due = [ending]
        if ending != EARLIEST:
            state.times[1] = ending
