"""The window ``session`` holds the sessions of keys: a list of nodes for each key that came, in one pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from spdist.java.objects import bucket_of, concurrent_capacity
from spdist.language.types import Type
from spdist.operators.base import Arrival
from spdist.program.expressions import FLAG, NUMBER, NotTyped, Value
from spdist.program.key_text import finds
from spdist.program.parts import QueryText, indent
from spdist.program.queries.result_text import ResultWriter
from spdist.program.registry import WINDOWS
from spdist.program.running.running import Running
from spdist.program.shape import Read
from spdist.program.states.key_words import key_numbers
from spdist.program.states.nodes import stored_list
from spdist.program.states.window import Lists, ListStates
from spdist.program.windows.kinds import Found, Sliding, WindowCall, constant_of
from spdist.program.windows.text import WindowWriter

__all__ = ["SessionWriter", "Sessions"]

#: So many buckets show all of a hash.
_ALL = 1 << 32


@WINDOWS.typed("session")
@dataclass(frozen=True, slots=True)
class Sessions(Sliding):
    """A window that events leave together, once there was none of their key for `span` ms.

    Parameters
    ----------
    key : int, optional
        The place of the key; None where all events have one.
    """

    key: int | None = None

    @classmethod
    def of(cls, given: WindowCall) -> Sessions:
        """Return what an app says."""
        gap, *more = given.call.args
        span = constant_of(gap)
        if not isinstance(span, int) or span < 1 or (more[1:] and constant_of(more[1]) != 0):
            raise NotTyped("the window session with a latency", given.call.span)
        return cls(span=span, key=given.place(1))

    @property
    def writer(self) -> type[SessionWriter]:
        """What writes it."""
        return SessionWriter

    @property
    def states(self) -> SessionStates:
        """What knows its state."""
        return SessionStates(self)

    @property
    def found(self) -> Found:
        """How a join finds what it holds: as in Siddhi it does not."""
        return Found.NOTHING

    @property
    def is_even(self) -> bool:
        """Whether all events leave that come: one that is too late does not."""
        return False

    @property
    def is_woken(self) -> bool:
        """Whether events may leave by time behind others that stay."""
        return True

    @property
    def rooms(self) -> tuple[str, ...]:
        """The rooms of sessions, and of their ends."""
        return ("groups {}_s", "ends {}")


class SessionWriter(WindowWriter):
    """Writes what happens in a window ``session``; see `WindowWriter`.

    Notes
    -----
    A session has a number, and under it ``q_head`` and what belongs to that, ``q_start`` and ``q_end`` in ms,
    ``q_hash``, the hash of its key, and ``q_last``, the event that came late last. ``q_ends`` is a heap of when
    sessions may be over; those that are over together leave in the order of Java's map, which has ``q_capacity``
    buckets for ``q_keys`` keys. In a partition ``q_owner`` is the number of a session's key there: what others have in
    the heap stays for them.
    """

    @property
    def _sessions(self) -> Sessions:
        assert isinstance(self.window, Sessions)
        return self.window

    @property
    def _room(self) -> str:
        if self._sessions.key is None:
            return self.query.instances
        return f"groups {self.prefix}_s"

    def _declare(self) -> None:
        arrays, prefix, room = self.whole.arrays, self.prefix, self._room
        for name in ("start", "end", "place", "due_keys", "due_other"):
            arrays.declare(f"{prefix}_{name}", NUMBER, room)
        arrays.declare(f"{prefix}_hash", NUMBER, room, "-1")
        arrays.declare(f"{prefix}_keys", NUMBER, self.query.instances)
        arrays.declare(f"{prefix}_capacity", NUMBER, self.query.instances, "16")
        arrays.declare(f"{prefix}_due_known", FLAG, room)
        arrays.declare(f"{prefix}_last", NUMBER, room, "-1")
        arrays.declare(f"{prefix}_ends", NUMBER, f"ends {prefix}", width=3)
        arrays.declare("text_starts", NUMBER, "1")
        arrays.declare("text_bytes", FLAG, "1")
        self.whole.sorts_texts = True

    @property
    def _owner(self) -> str:
        """The array of the numbers of the partition's keys."""
        return self.whole.arrays.declare(f"{self.prefix}_owner", NUMBER, self._room)

    @property
    def _capacity(self) -> str:
        """Source of how many buckets the map of the keys has."""
        return f"{self.prefix}_capacity[{self.key}]"

    @property
    def left_at(self) -> str:
        """Source of the timestamp of an event that leaves."""
        return f"{self.prefix}_ts[d]"

    def enters(self, read: Callable[[int], Value], timestamp: str, leaving: list[str]) -> list[str]:
        """Return what lets the new event join a session, as ``d``; -1 where it only passes. One too late is dropped."""
        self._declare()
        assert self._timer is not None
        prefix, gap, place, found, null = self.prefix, self.window.span, self.key, list[str](), "0"
        if self._sessions.key is not None:
            value, place = read(self._sessions.key), f"s{self.prefix}"
            null = f"(1 if {value.null} else 0)"
            owner = [self.key] if self.query.keyed is not None else []
            words = [*owner, f"0 if {value.null} else {value.text}", null]
            found = finds(self.whole.arrays, f"{prefix}_s_k", self._room, words, place)
            hashed, size, capacity = f"{prefix}_hash[{place}]", f"{prefix}_keys[{self.key}]", self._capacity
            found += [
                f"if {hashed} < 0:",
                f"    {hashed} = 0 if {value.null} else text_hash(0, text_starts, text_bytes, {value.text})",
                f"    {hashed} = {hashed} ^ ({hashed} >> 16)",
                f"    {size} += 1",
                f"    if 4 * {size} >= 3 * {capacity}:",
                f"        {capacity} *= 2",
            ]
        if self.query.keyed is not None:
            found.append(f"{self._owner}[{place}] = {self.key}")
        start, end, last = (f"{prefix}_{name}[{place}]" for name in ("start", "end", "last"))
        opens = [
            f"{end} = {timestamp} + {gap}",
            f"timer_set({prefix}_ends, {end}, {null}, {place})",
            self._timer.asks(end),
        ]
        return [
            *found,
            f"if {prefix}_head_size[{place}] > 0 and {timestamp} < {start} - {gap}:",
            "    continue",
            f"if {prefix}_head_size[{place}] > 0 and {timestamp} > {end}:",
            "    d = -1",
            "else:",
            *indent(self._holds(read, timestamp)),
            f"    if {prefix}_head_size[{place}] == 0:",
            f"        {prefix}_head[{place}], {prefix}_next[d], {prefix}_last[{place}] = d, -1, -1",
            f"        {prefix}_head_end[{place}], {start} = d, {timestamp}",
            *indent(indent(opens)),
            f"    elif {timestamp} >= {start}:",
            f"        {prefix}_next[{prefix}_head_end[{place}]], {prefix}_next[d] = d, -1",
            f"        {prefix}_head_end[{place}] = d",
            *indent(indent(opens)),
            "    else:",
            f"        low, {last}, {start} = {last}, d, {timestamp}",
            # Where late events came before, it goes in one event behind the latest of them.
            f"        if low >= 0 and {prefix}_next[low] >= 0 and {prefix}_next[{prefix}_next[low]] >= 0:",
            f"            low = {prefix}_next[low]",
            "        if low < 0:",
            f"            {prefix}_next[d], {prefix}_head[{place}] = {prefix}_head[{place}], d",
            "        else:",
            f"            {prefix}_next[d], {prefix}_next[low] = {prefix}_next[low], d",
            f"            if {prefix}_next[d] < 0:",
            f"                {prefix}_head_end[{place}] = d",
            f"    {prefix}_head_size[{place}] += 1",
        ]

    def remembers(self) -> list[str]:
        """Return what notes the group of the event, where a session has it."""
        lines = super().remembers()
        return ["if d >= 0:", *indent(lines)] if lines else []

    def wakes(self, results: ResultWriter, leaving: list[str]) -> list[str]:
        """Return what ends the sessions that are over, in the order of their ends, then of the map of their keys."""
        self._declare()
        assert self._timer is not None
        groups, prefix = self.groups, self.prefix
        keys = f"{prefix}_due_keys, {prefix}_due_other"
        sorts = [f"sort_places({keys}, {prefix}_{by}, text_starts, text_bytes, 0, n, 0)" for by in ("place", "end")]
        ends = [
            f"d = {prefix}_head[low]",
            f"{prefix}_head[low], {prefix}_head_end[low], {prefix}_head_size[low] = -1, -1, 0",
            "while d >= 0:",
            f"    following = {prefix}_next[d]",
            *indent(self._left(leaving)),
            "    d = following",
        ]
        chunk = [
            "for k in range(n):",
            f"    low = {prefix}_due_keys[k]",
            f"    {prefix}_due_known[low] = 0",
            f"    if {prefix}_head_size[low] > 0 and {prefix}_end[low] <= due:",
            *indent(indent(ends)),
        ]
        known = [
            f"if {prefix}_due_known[low] == 0:",
            f"    {prefix}_due_known[low] = 1",
            f"    {prefix}_due_keys[n] = low",
            f"    {prefix}_place[low] = ({prefix}_hash[low] & ({self._capacity} - 1)) << 32 | low",
            "    n += 1",
        ]
        stays, again = list[str](), list[str]()
        if self.query.keyed is not None:
            at = self.whole.arrays.declare(f"{prefix}_stays", NUMBER, f"ends {prefix}", width=3)
            noted = f"{at}[3 * high], {at}[3 * high + 1], {at}[3 * high + 2] = when, void, low"
            stays = [f"if {self._owner}[low] != {self.key}:", f"    {noted}", "    high += 1", "    continue"]
            again = [
                "for k in range(high):",
                f"    timer_set({prefix}_ends, {at}[3 * k], {at}[3 * k + 1], {at}[3 * k + 2])",
            ]
        body = [
            "n, high = 0, 0",
            f"while {prefix}_ends[0] > 0 and {prefix}_ends[3] <= due:",
            f"    when, void, low = {prefix}_ends[3], {prefix}_ends[4], {prefix}_ends[5]",
            f"    timer_gone({prefix}_ends)",
            *indent(stays),
            *indent(known),
            *again,
            "if n > 1:",
            *indent(sorts),
            *results.hands_over([*groups.before(), *chunk, *groups.forgets()]),
        ]
        return self._timer.wakes(body)


class SessionStates(ListStates):
    """The state of a window ``session``: the sessions of each key of a partition by their own key, and the wake-ups."""

    window: Sessions

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
        held = [current[0] for _, (sessions, _) in states for current, _ in sessions.values()]
        return [(number, owner, {"head": own}) for number, owner, own in zip(numbers, owners, held, strict=True)]

    def load_more(
        self,
        running: Running,
        query: QueryText,
        states: Sequence[tuple[int, Any]],
        held: Sequence[tuple[int, int, Lists]],
    ) -> None:
        """Note the times of sessions, whose events are there already."""
        prefix, kernels = query.name, running.compiled.kernels
        running.reserve(f"ends {prefix}", len(held))
        arrays = running.arrays
        sessions = [session for _, (own, _) in states for session in own.items()]
        for owner, (own, _) in states:
            arrays[f"{prefix}_keys"][owner], arrays[f"{prefix}_capacity"][owner] = (
                len(own),
                concurrent_capacity(len(own)),
            )
        for (number, owner, _), (key, (current, _)) in zip(held, sessions, strict=True):
            events, start, end, _, late = current
            arrays[f"{prefix}_start"][number], arrays[f"{prefix}_end"][number] = start, end
            arrays[f"{prefix}_hash"][number] = bucket_of(key, _ALL)
            if query.keyed is not None:
                arrays[f"{prefix}_owner"][number] = owner
            if late > 0:
                arrays[f"{prefix}_last"][number] = arrays[f"{prefix}_head"][number] + late - 1
            if events:
                null = int(key is None and self.window.key is not None)
                kernels.timer_set(arrays[f"{prefix}_ends"], end, null, number)

    def stored(self, running: Running, query: QueryText, count: int) -> list[Any]:
        """Return the states of so many keys of a partition, by number; or one."""
        slots = count if self.window.key is None else int(running.arrays[f"{query.name}_s_k_meta"][0])
        held = stored_list(running, query, "head", slots)
        sessions, rests = self._sessions(running, query, held, count), self.rests(running, query, count)
        return [[own, rest.due] for own, rest in zip(sessions, rests, strict=True)]

    def _sessions(
        self, running: Running, query: QueryText, held: Sequence[list[Arrival]], count: int
    ) -> list[dict[Any, Any]]:
        """Return the sessions of so many keys of a partition, by key, given the events of each number."""
        prefix, arrays = query.name, running.arrays
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
            found[owner][key] = [[held[number], start, end, end, late], [[], 0, 0, 0, -1]]
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
