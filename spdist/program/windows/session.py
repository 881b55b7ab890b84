"""The window ``session`` holds the sessions of keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from spdist.java.objects import concurrent_capacity
from spdist.language.types import Type
from spdist.operators.core.state_columns import (
    Column,
    ListColumn,
    MapColumn,
    NumberColumn,
    StructColumn,
    ValueColumn,
    numbers_of,
    ranges,
)
from spdist.program.parts import QueryText
from spdist.program.registry import WINDOWS
from spdist.program.running.running import Running
from spdist.program.shape import Read
from spdist.program.states.dues import load_dues, window_dues
from spdist.program.states.key_words import key_numbers, key_owners, spread_hashes, words_of_keys
from spdist.program.states.nodes import events_of_nodes, stored_list, walked
from spdist.program.states.window import ListStates
from spdist.program.windows.kinds import WindowCall
from spdist.program.windows.session_text import LateSessionWriter, Sessions, SessionWriter

__all__ = ["SessionStates", "SessionsOfKeys"]


@WINDOWS.typed("session")
@dataclass(frozen=True, slots=True)
class SessionsOfKeys(Sessions):
    """The window ``session``; see `Sessions`."""

    @classmethod
    def of(cls, given: WindowCall) -> SessionsOfKeys | None:
        """Return what an app says."""
        match given.constants:
            case (int(span), *more) if span > 0:
                latency = more[1] if more[1:] else 0
                return cls(span=span, key=given.place(1), latency=latency) if isinstance(latency, int) else None
        return None

    @property
    def writer(self) -> type[SessionWriter]:
        """What writes it."""
        return LateSessionWriter if self.latency > 0 else SessionWriter

    @property
    def states(self) -> SessionStates:
        """What knows its state."""
        return SessionStates(self)


class SessionStates(ListStates):
    """The state of a window ``session``: the sessions of each key of a partition by their own key, and the wake-ups."""

    window: SessionsOfKeys

    def fresh(self, read: Read) -> Any:
        """Return the state of a window that has seen nothing."""
        return [{}, []]

    def load(self, running: Running, query: QueryText, numbers: Any, states: Column) -> None:
        """Take over the states of the keys of a partition, whose numbers are an array; or one, of number 0."""
        prefix, (by_key, dues) = query.name, states.parts(2)
        sizes, (keys, sessions) = by_key.sizes(), by_key.entries()
        owners = numpy.repeat(numbers, sizes)
        places, hashes, null = owners, numpy.zeros(len(owners), numpy.int64), numpy.zeros(len(owners), bool)
        if self.window.key is not None and len(keys):
            table = f"{prefix}_s"
            running.reserve(f"groups {table}", len(keys))
            texts, null = running.values.loaded(keys, Type.STRING)
            words = [texts, null.astype(numpy.int64)]
            if query.keyed is not None:
                words.insert(0, owners)
            places = key_numbers(running, f"{table}_k", numpy.stack(words, axis=1))
            hashes = spread_hashes(running, texts, null)
        current, previous = (session.parts(5) for session in sessions.parts(2))
        self.load_lists(running, query, {"head": current[0], "prev": previous[0]}, places, owners)
        arrays = running.arrays
        arrays[f"{prefix}_keys"][numbers] = sizes
        arrays[f"{prefix}_capacity"][numbers] = list(map(concurrent_capacity, sizes.tolist()))
        arrays[f"{prefix}_hash"][places] = hashes
        if query.keyed is not None:
            arrays[f"{prefix}_owner"][places] = owners
        self._load_times(running, query, places, null, current, previous)
        if query.read.timed:
            load_dues(running, query, numbers, dues, query.operator)

    def _load_times(
        self,
        running: Running,
        query: QueryText,
        places: Any,
        null: Any,
        current: Sequence[Column],
        previous: Sequence[Column],
    ) -> None:
        """Note the times of sessions, whose events are there already.

        Parameters
        ----------
        places, null : numpy.ndarray
            Their numbers, and whether their own key is null.
        current, previous : sequence of Column
            Of both sessions of each the events, when they began and ended, until when they are kept, and how many
            events there were when the last late one came.
        """
        prefix, latency = query.name, self.window.latency
        running.reserve(f"ends {prefix}", 2 * len(places))
        arrays = running.arrays
        (start, _), (end, _), _, (late, _) = map(numbers_of, current[1:])
        arrays[f"{prefix}_start"][places], arrays[f"{prefix}_end"][places] = start, end
        # The nodes of a list that was loaded follow one another, so a place in it is a distance
        some = late > 0
        arrays[f"{prefix}_last"][places[some]] = arrays[f"{prefix}_head"][places[some]] + late[some] - 1
        dues = [(current[0], end)]
        if latency > 0:
            (started, _), (until, _), (alive, _) = map(numbers_of, previous[1:4])
            arrays[f"{prefix}_started"][places], arrays[f"{prefix}_until"][places] = started, until
            dues.append((previous[0], alive))
        for events, due in dues:
            for is_null in (False, True):
                asked = (events.sizes() > 0) & (null == is_null)
                given = due[asked].astype(numpy.int64), int(is_null), places[asked]
                running.compiled.kernels.timers_set(arrays[f"{prefix}_ends"], *given)

    def stored(self, running: Running, query: QueryText, count: int) -> Column:
        """Return the states of so many keys of a partition, by number; or one."""
        numbers, owners, keys = self._keys(running, query, count)
        prefix, arrays, latency = query.name, running.arrays, self.window.latency
        # Sessions keep their numbers for ever: those below the first one that was never given are all
        slots = count if self.window.key is None else int(arrays[f"{prefix}_s_k_meta"][0])
        sizes, order = walked(running, arrays[f"{prefix}_head"][:slots], arrays[f"{prefix}_next"])
        held = ListColumn(list, NumberColumn(sizes), events_of_nodes(running, query, order))
        earlier = stored_list(running, query, "prev", slots)
        came = numpy.flatnonzero((sizes[numbers] > 0) | (arrays[f"{prefix}_end"][numbers] != 0))
        own = came[numpy.argsort(owners[came], kind="stable")]
        numbers, sizes_of = numbers[own], numpy.bincount(owners[own], minlength=count)
        # Of each node its place in its list, behind which late events were; and whose list that is
        lists, (place, listed) = numpy.arange(slots), numpy.full((2, len(arrays[f"{prefix}_next"])), -1)
        place[order], listed[order] = ranges(numpy.zeros_like(lists), sizes), numpy.repeat(lists, sizes)
        last, nothing_before = arrays[f"{prefix}_last"][numbers], numpy.zeros(len(numbers), numpy.int64)
        late = numpy.where((last >= 0) & (listed[last] == numbers), place[last] + 1, -1)
        end, started, until = arrays[f"{prefix}_end"][numbers], nothing_before, nothing_before
        alive = until
        if latency > 0:
            started, until = arrays[f"{prefix}_started"][numbers], arrays[f"{prefix}_until"][numbers]
            alive = until + latency
        both = (
            (held.at(numbers), arrays[f"{prefix}_start"][numbers], end, end + latency, late),
            (earlier.at(numbers), started, until, alive, nothing_before - 1),
        )
        sessions = [StructColumn(list, [events, *map(NumberColumn, times)]) for events, *times in both]
        by_key = MapColumn(NumberColumn(sizes_of), keys.at(own), StructColumn(list, sessions))
        return StructColumn(list, [by_key, window_dues(running, query, count)])

    def _keys(self, running: Running, query: QueryText, count: int) -> tuple[Any, Any, Column]:
        """Return the numbers of all sessions, those of their keys of the partition, and their keys."""
        if self.window.key is None:
            return numpy.arange(count), numpy.arange(count), ValueColumn([None] * count)
        table = f"{query.name}_s_k"
        numbers, owners = key_owners(running, query, table)
        words = words_of_keys(running, table, numbers)
        return numbers, owners, running.values.stored(words[:, -2], words[:, -1], Type.STRING)
