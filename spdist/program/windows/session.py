"""The window ``session`` holds the sessions of keys."""

from __future__ import annotations

from collections.abc import Sequence
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
from spdist.program.states.dues import window_dues
from spdist.program.states.key_words import key_numbers
from spdist.program.states.nodes import stored_list
from spdist.program.states.window import Lists, ListStates
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

    def held(
        self, running: Running, query: QueryText, states: Sequence[tuple[int, Any]]
    ) -> list[tuple[int, int, Lists]]:
        """Return the events of each session, behind the number that it gets, and that of its key of the partition."""
        owners = [number for number, (sessions, _) in states for _ in sessions]
        numbers = owners
        if self.window.key is not None and owners:
            table = f"{query.name}_s"
            running.reserve(f"groups {table}", len(owners))
            keys, nulls = running.values.taken([key for _, (sessions, _) in states for key in sessions], Type.STRING)
            words = [keys, nulls.astype(numpy.int64)]
            if query.keyed is not None:
                words.insert(0, numpy.array(owners, numpy.int64))
            numbers = key_numbers(running, f"{table}_k", numpy.stack(words, axis=1)).tolist()
        both = [one for _, (sessions, _) in states for one in sessions.values()]
        held = [{"head": current[0], "prev": previous[0]} for current, previous in both]
        return list(zip(numbers, owners, held, strict=True))

    def load_more(
        self,
        running: Running,
        query: QueryText,
        states: Sequence[tuple[int, Any]],
        held: Sequence[tuple[int, int, Lists]],
    ) -> None:
        """Note the times of sessions, whose events are there already."""
        prefix, kernels = query.name, running.compiled.kernels
        running.reserve(f"ends {prefix}", 2 * len(held))
        arrays = running.arrays
        sessions = [session for _, (own, _) in states for session in own.items()]
        for owner, (own, _) in states:
            arrays[f"{prefix}_keys"][owner], arrays[f"{prefix}_capacity"][owner] = (
                len(own),
                concurrent_capacity(len(own)),
            )
        for (number, owner, _), (key, (current, previous)) in zip(held, sessions, strict=True):
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
