"""The window ``session`` holds the sessions of keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from spdist.java.objects import bucket_of, concurrent_capacity
from spdist.language.types import Type
from spdist.operators.base import Arrival
from spdist.operators.core.state_columns import Column, StructColumn, column_of
from spdist.program.parts import QueryText
from spdist.program.registry import WINDOWS
from spdist.program.running.running import Running
from spdist.program.shape import Read
from spdist.program.states.dues import load_dues, window_dues
from spdist.program.states.key_words import key_numbers
from spdist.program.states.nodes import stored_list
from spdist.program.states.window import ListStates
from spdist.program.windows.kinds import WindowCall
from spdist.program.windows.session_text import LateSessionWriter, Sessions, SessionWriter

__all__ = ["SessionStates", "SessionsOfKeys"]

#: So many buckets show all of a hash.
_ALL = 1 << 32


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
        by_key, dues = states.parts(2)
        keys, held = by_key.entries()
        owners = numpy.repeat(numbers, by_key.sizes())
        places = owners
        if self.window.key is not None and len(keys):
            table = f"{query.name}_s"
            running.reserve(f"groups {table}", len(keys))
            texts, nulls = running.values.loaded(keys, Type.STRING)
            words = [texts, nulls.astype(numpy.int64)]
            if query.keyed is not None:
                words.insert(0, owners)
            places = key_numbers(running, f"{table}_k", numpy.stack(words, axis=1))
        both = (session.parts(5) for session in held.parts(2))
        lists = {name: session[0] for name, session in zip(("head", "prev"), both, strict=True)}
        self.load_lists(running, query, lists, places, owners)
        sizes = by_key.sizes().tolist()
        running.arrays[f"{query.name}_keys"][numbers] = sizes
        running.arrays[f"{query.name}_capacity"][numbers] = list(map(concurrent_capacity, sizes))
        sessions = zip(places.tolist(), owners.tolist(), keys.values(), held.values(), strict=True)
        self._load_times(running, query, sessions)
        if query.read.timed:
            load_dues(running, query, numbers, dues, query.operator)

    def _load_times(self, running: Running, query: QueryText, sessions: Iterable[tuple[int, int, Any, Any]]) -> None:
        """Note the times of sessions, whose events are there already: of number, key of the partition and own key."""
        prefix, kernels, sessions = query.name, running.compiled.kernels, list(sessions)
        running.reserve(f"ends {prefix}", 2 * len(sessions))
        arrays = running.arrays
        for number, owner, key, (current, previous) in sessions:
            events, start, end, _, late = current
            arrays[f"{prefix}_start"][number], arrays[f"{prefix}_end"][number] = start, end
            arrays[f"{prefix}_hash"][number] = bucket_of(key, _ALL)
            if query.keyed is not None:
                arrays[f"{prefix}_owner"][number] = owner
            if late > 0:
                # The nodes of a list that was loaded follow one another, so a place in it is a distance
                arrays[f"{prefix}_last"][number] = arrays[f"{prefix}_head"][number] + late - 1
            null = int(key is None and self.window.key is not None)
            if events:
                kernels.timer_set(arrays[f"{prefix}_ends"], end, null, number)
            if self.window.latency > 0:
                earlier, arrays[f"{prefix}_started"][number], arrays[f"{prefix}_until"][number], alive, _ = previous
                if earlier:
                    kernels.timer_set(arrays[f"{prefix}_ends"], alive, null, number)

    def stored(self, running: Running, query: QueryText, count: int) -> Column:
        """Return the states of so many keys of a partition, by number; or one."""
        # Sessions keep their numbers for ever: those below the first one that was never given are all
        slots = count if self.window.key is None else int(running.arrays[f"{query.name}_s_k_meta"][0])
        held, *before = (stored_list(running, query, name, slots).values() for name in query.read.lists)
        earlier = before[0] if before else [[]] * slots
        sessions = column_of(self._sessions(running, query, held, earlier, count))
        return StructColumn(list, [sessions, window_dues(running, query, count)])

    def _sessions(
        self,
        running: Running,
        query: QueryText,
        held: Sequence[list[Arrival]],
        earlier: Sequence[list[Arrival]],
        count: int,
    ) -> list[dict[Any, Any]]:
        """Return the sessions of so many keys of a partition, by key, given the events of both of each number."""
        prefix, arrays, latency = query.name, running.arrays, self.window.latency
        numbers, owners, keys = self._keys(running, query, count)
        found: list[dict[Any, Any]] = [{} for _ in range(count)]
        for number, owner, key in zip(numbers.tolist(), owners, keys, strict=True):
            start, end = int(arrays[f"{prefix}_start"][number]), int(arrays[f"{prefix}_end"][number])
            if not held[number] and not end:
                continue  # no event has come
            late, node = -1, int(arrays[f"{prefix}_head"][number])
            last = int(arrays[f"{prefix}_last"][number])
            for place in range(len(held[number]) if last >= 0 else 0):
                if node == last:
                    late = place + 1
                    break
                node = int(arrays[f"{prefix}_next"][node])
            times = [0, 0, 0]
            if latency > 0:
                until = int(arrays[f"{prefix}_until"][number])
                times = [int(arrays[f"{prefix}_started"][number]), until, until + latency]
            found[owner][key] = [[held[number], start, end, end + latency, late], [earlier[number], *times, -1]]
        return found

    def _keys(self, running: Running, query: QueryText, count: int) -> tuple[Any, list[int], list[Any]]:
        """Return the numbers of all sessions, those of their keys of the partition, and their keys."""
        if self.window.key is None:
            return numpy.arange(count), list(range(count)), [None] * count
        table = f"{query.name}_s_k"
        slots = running.arrays[f"{table}_slots"]
        numbers = numpy.sort(slots[slots >= 0])
        words = running.arrays[f"{table}_keys"].reshape(-1, running.program.arrays.tables[table].width)[numbers]
        texts = running.texts.texts(words[:, -2]).to_pylist()
        keys = [None if null else text for text, null in zip(texts, words[:, -1].tolist(), strict=True)]
        return numbers, [0] * len(keys) if query.keyed is None else words[:, 0].tolist(), keys
