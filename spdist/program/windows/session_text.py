"""Windows of a program that hold the sessions of keys: a list of nodes for each key that came, in one pool."""

from __future__ import annotations

from collections.abc import Callable

from spdist.program.expressions import FLAG, NUMBER, Value
from spdist.program.key_text import finds
from spdist.program.parts import indent
from spdist.program.queries.result_text import ResultWriter
from spdist.program.shape import Sessions
from spdist.program.windows.text import WindowWriter

__all__ = ["SessionWriter"]


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
        assert isinstance(self._window, Sessions)
        return self._window

    @property
    def _room(self) -> str:
        if self._sessions.key is None:
            return self._query.instances
        return f"groups {self._prefix}_s"

    def _declare(self) -> None:
        arrays, prefix, room = self._whole.arrays, self._prefix, self._room
        for name in ("start", "end", "place", "due_keys", "due_other"):
            arrays.declare(f"{prefix}_{name}", NUMBER, room)
        arrays.declare(f"{prefix}_hash", NUMBER, room, "-1")
        arrays.declare(f"{prefix}_keys", NUMBER, self._query.instances)
        arrays.declare(f"{prefix}_capacity", NUMBER, self._query.instances, "16")
        arrays.declare(f"{prefix}_due_known", FLAG, room)
        arrays.declare(f"{prefix}_last", NUMBER, room, "-1")
        arrays.declare(f"{prefix}_ends", NUMBER, f"ends {prefix}", width=3)
        arrays.declare("text_starts", NUMBER, "1")
        arrays.declare("text_bytes", FLAG, "1")
        self._whole.sorts_texts = True

    @property
    def _owner(self) -> str:
        """The array of the numbers of the partition's keys."""
        return self._whole.arrays.declare(f"{self._prefix}_owner", NUMBER, self._room)

    @property
    def _capacity(self) -> str:
        """Source of how many buckets the map of the keys has."""
        return f"{self._prefix}_capacity[{self._key}]"

    @property
    def left_at(self) -> str:
        """Source of the timestamp of an event that leaves."""
        return f"{self._prefix}_ts[d]"

    def enters(self, read: Callable[[int], Value], timestamp: str, leaving: list[str]) -> list[str]:
        """Return what lets the new event join a session, as ``d``; -1 where it only passes. One too late is dropped."""
        self._declare()
        assert self._timer is not None
        prefix, gap, place, found, null = self._prefix, self._window.span, self._key, list[str](), "0"
        if self._sessions.key is not None:
            value, place = read(self._sessions.key), f"s{self._prefix}"
            null = f"(1 if {value.null} else 0)"
            owner = [self._key] if self._query.keyed is not None else []
            words = [*owner, f"0 if {value.null} else {value.text}", null]
            found = finds(self._whole.arrays, f"{prefix}_s_k", self._room, words, place)
            hashed, size, capacity = f"{prefix}_hash[{place}]", f"{prefix}_keys[{self._key}]", self._capacity
            found += [
                f"if {hashed} < 0:",
                f"    {hashed} = 0 if {value.null} else text_hash(0, text_starts, text_bytes, {value.text})",
                f"    {hashed} = {hashed} ^ ({hashed} >> 16)",
                f"    {size} += 1",
                f"    if 4 * {size} >= 3 * {capacity}:",
                f"        {capacity} *= 2",
            ]
        if self._query.keyed is not None:
            found.append(f"{self._owner}[{place}] = {self._key}")
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
        groups, prefix = self._groups, self._prefix
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
        if self._query.keyed is not None:
            at = self._whole.arrays.declare(f"{prefix}_stays", NUMBER, f"ends {prefix}", width=3)
            noted = f"{at}[3 * high], {at}[3 * high + 1], {at}[3 * high + 2] = when, void, low"
            stays = [f"if {self._owner}[low] != {self._key}:", f"    {noted}", "    high += 1", "    continue"]
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
