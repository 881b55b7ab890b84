"""Sessions in a program: a list of nodes for each key that came, in one pool, and the block of their window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spdist.program.expressions import FLAG, NUMBER, Value
from spdist.program.key_text import finds
from spdist.program.parts import indent
from spdist.program.queries.result_text import ResultWriter
from spdist.program.windows.kinds import Found, Sliding
from spdist.program.windows.text import WindowWriter

__all__ = ["LateSessionWriter", "SessionWriter", "Sessions"]


@dataclass(frozen=True, slots=True)
class Sessions(Sliding):
    """A window that events leave together, once there was none of their key for `span` ms.

    Parameters
    ----------
    key : int, optional
        The place of the key; None where all events have one.
    latency : int
        For how long a session that is over is kept for events that come late, as the previous one of its key, ms.
    """

    key: int | None = None
    latency: int = 0

    @property
    def lists(self) -> tuple[str, ...]:
        """What it holds: the sessions that are open, and the previous ones."""
        return ("head", "prev") if self.latency > 0 else ("head",)

    @property
    def asks_again(self) -> bool:
        """Whether events that it holds ask for a wake-up again: when their session becomes the previous one."""
        return self.latency > 0

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
        """The rooms of sessions, and of their ends: with an event one may become the previous one, and one open."""
        return ("groups {}_s", *["ends {}"] * (2 if self.latency > 0 else 1))


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

    @property
    def _place(self) -> str:
        """Source of the number of the event's session."""
        return self.key if self._sessions.key is None else f"s{self.prefix}"

    def _finds(self, read: Callable[[int], Value]) -> tuple[list[str], str]:
        """Return what finds the number of the event's session, and source of whether its key is null."""
        prefix, place, found, null = self.prefix, self._place, list[str](), "0"
        if self._sessions.key is not None:
            value = read(self._sessions.key)
            null = f"(1 if {value.null} else 0)"
            owner = [self.key] if self.query.keyed is not None else []
            # Null and the text 'null' are two sessions, but both have the number 0: so a word says which it is
            words = [*owner, f"0 if {value.null} else {value.text}", null]
            found = finds(self.whole.arrays, f"{prefix}_s_k", self._room, words, place)
            hashed, size, capacity = f"{prefix}_hash[{place}]", f"{prefix}_keys[{self.key}]", self._capacity
            found += [
                f"if {hashed} < 0:",
                f"    {hashed} = 0 if {value.null} else text_hash(0, text_starts, text_bytes, {value.text})",
                # As Java's maps spread a hash code, whose lower bits choose the bucket
                f"    {hashed} = {hashed} ^ ({hashed} >> 16)",
                f"    {size} += 1",
                # A ConcurrentHashMap doubles at three quarters, where a HashMap does so behind them
                f"    if 4 * {size} >= 3 * {capacity}:",
                f"        {capacity} *= 2",
            ]
        if self.query.keyed is not None:
            found.append(f"{self._owner}[{place}] = {self.key}")
        return found, null

    def _of(self, *names: str) -> list[str]:
        """Return source of what is known of the event's session."""
        return [f"{self.prefix}_{name}[{self._place}]" for name in names]

    def _joins(self, timestamp: str, null: str) -> list[str]:
        """Return what puts event ``d`` at the end of its session, or begins one with it."""
        assert self._timer is not None
        size, start, end, last = self._of("head_size", "start", "end", "last")
        return [
            f"if {size} == 0:",
            f"    {last}, {start} = -1, {timestamp}",
            *self._appends("head", self._place, "d", "d", "1"),
            f"{end} = {timestamp} + {self.window.span}",
            # Earlier ends of the session stay in the heap: whoever finds one looks whether it is over
            f"timer_set({self.prefix}_ends, {end}, {null}, {self._place})",
            self._timer.asks(end),
        ]

    def _appends(self, name: str, place: str, first: str, last: str, size: str) -> list[str]:
        """Return what puts a chain of events at the end of a list."""
        head, end, many = (f"{self.prefix}_{name}{part}[{place}]" for part in ("", "_end", "_size"))
        return [
            f"if {head} < 0:",
            f"    {head} = {first}",
            "else:",
            f"    {self.prefix}_next[{end}] = {first}",
            f"{end} = {last}",
            f"{many} += {size}",
        ]

    def _comes_late(self, first: str, last: str, size: str) -> list[str]:
        """Return what puts a chain of events that come late into the session.

        Where some came before, it goes in one event behind the latest of them.
        """
        head, end, many, latest = self._of("head", "head_end", "head_size", "last")
        following = f"{self.prefix}_next"
        return [
            f"low, {latest} = {latest}, {last}",
            # SessionWindowProcessor goes on with one pass through the session: the place moves on by one event
            f"if low >= 0 and {following}[low] >= 0 and {following}[{following}[low]] >= 0:",
            f"    low = {following}[low]",
            "if low < 0:",
            f"    {following}[{last}], {head} = {head}, {first}",
            "else:",
            f"    {following}[{last}], {following}[low] = {following}[low], {first}",
            f"    if {following}[{last}] < 0:",
            f"        {end} = {last}",
            f"{many} += {size}",
        ]

    def enters(self, read: Callable[[int], Value], timestamp: str, leaving: list[str]) -> list[str]:
        """Return what lets the new event join a session, as ``d``; -1 where it only passes. One too late is dropped."""
        self._declare()
        found, null = self._finds(read)
        size, start, end = self._of("head_size", "start", "end")
        return [
            *found,
            f"if {size} > 0 and {timestamp} < {start} - {self.window.span}:",
            "    continue",
            # A session that is over, but was not woken yet, takes no event: this one only passes, as in Siddhi
            f"if {size} > 0 and {timestamp} > {end}:",
            "    d = -1",
            "else:",
            *indent([*self._holds(read, timestamp), f"{self.prefix}_next[d] = -1"]),
            f"    if {size} == 0 or {timestamp} >= {start}:",
            *indent(indent(self._joins(timestamp, null))),
            "    else:",
            f"        {start} = {timestamp}",
            *indent(indent(self._comes_late("d", "d", "1"))),
        ]

    def remembers(self) -> list[str]:
        """Return what notes the group of the event, where a session has it."""
        lines = super().remembers()
        return ["if d >= 0:", *indent(lines)] if lines else []

    def wakes(self, results: ResultWriter, leaving: list[str]) -> list[str]:
        """Return what ends the sessions that are over, in the order of their ends, then of the map of their keys."""
        self._declare()
        assert self._timer is not None
        prefix = self.prefix
        known = [
            # Several ends of one session may be due: it is looked at a single time
            f"if {prefix}_due_known[low] == 0:",
            f"    {prefix}_due_known[low] = 1",
            f"    {prefix}_due_keys[n] = low",
            # The bucket in the upper bits, the session's number in the lower ones: keys of a bucket are as they came
            f"    {prefix}_place[low] = ({prefix}_hash[low] & ({self._capacity} - 1)) << 32 | low",
            "    n += 1",
        ]
        stays, again = list[str](), list[str]()
        if self.query.keyed is not None:
            at = self.whole.arrays.declare(f"{prefix}_stays", NUMBER, f"ends {prefix}", width=3)
            noted = f"{at}[3 * high], {at}[3 * high + 1], {at}[3 * high + 2] = when, void, low"
            # Ends of other keys of the partition go back into the heap behind the loop, which would meet them again
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
            *self._over(results, leaving),
        ]
        return self._timer.wakes(body)

    def _sorts(self, by: str) -> list[str]:
        """Return what puts the sessions that may be over in the order of their ends, then of the map of their keys."""
        keys = f"{self.prefix}_due_keys, {self.prefix}_due_other"
        # The sort is stable, so what matters less comes first
        sorts = [f"sort_places({keys}, {self.prefix}_{one}, text_starts, text_bytes, 0, n, 0)" for one in ("place", by)]
        return ["if n > 1:", *indent(sorts)]

    def _over(self, results: ResultWriter, leaving: list[str]) -> list[str]:
        """Return what ends those sessions of ``n`` that are over."""
        groups, prefix = self.groups, self.prefix
        chunk = [
            "for k in range(n):",
            f"    low = {prefix}_due_keys[k]",
            f"    {prefix}_due_known[low] = 0",
            f"    if {prefix}_head_size[low] > 0 and {prefix}_end[low] <= due:",
            *indent(indent(self._ends("head", "low", leaving))),
        ]
        # All sessions that are over are one chunk, as in Siddhi
        return [*self._sorts("end"), *results.hands_over([*groups.before(), *chunk, *groups.forgets()])]

    def _ends(self, name: str, place: str, leaving: list[str]) -> list[str]:
        """Return what lets all events of a list leave."""
        head, end, size = (f"{self.prefix}_{name}{part}[{place}]" for part in ("", "_end", "_size"))
        return [
            f"d, {head}, {end}, {size} = {head}, -1, -1, 0",
            "while d >= 0:",
            # A node that becomes free is linked to other free ones, so the next event is read before
            f"    following = {self.prefix}_next[d]",
            *indent(self._left(leaving)),
            "    d = following",
        ]


class LateSessionWriter(SessionWriter):
    """Writes what happens in a window ``session`` with a latency; see `SessionWriter`.

    Notes
    -----
    ``q_prev`` is the previous session of a key, with ``q_started`` and ``q_until``, ms; ``q_over`` what has left it
    and is put out behind the events of the chunk that has let it go.
    """

    def _declare(self) -> None:
        super()._declare()
        for list, room in (("prev", self._room), ("over", self.query.instances)):
            for name, first in ((list, "-1"), (f"{list}_end", "-1"), (f"{list}_size", "0")):
                self.whole.arrays.declare(f"{self.prefix}_{name}", NUMBER, room, first)
        for name in ("started", "until"):
            self.whole.arrays.declare(f"{self.prefix}_{name}", NUMBER, self._room)

    def enters(self, read: Callable[[int], Value], timestamp: str, leaving: list[str]) -> list[str]:
        """Return what lets the new event join a session of its key, as ``d``. One that is too late is dropped."""
        self._declare()
        found, null = self._finds(read)
        gap, lasts, place = self.window.span, self.window.span + self._sessions.latency, self._place
        size, start, end = self._of("head_size", "start", "end")
        before, more, started, until = self._of("prev", "prev_size", "started", "until")
        last = f"{self.prefix}_prev_end[{place}]"
        early = f"{size} > 0 and {timestamp} < {start} - {gap}"
        return [
            *found,
            f"if {early} and ({more} == 0 or {timestamp} < {started} - {gap}):",
            "    continue",
            *self._holds(read, timestamp),
            f"{self.prefix}_next[d] = -1",
            f"if {early}:",
            *indent(self._appends("prev", place, "d", "d", "1")),
            f"    if {timestamp} <= {until} - {gap} and {timestamp} < {started}:",
            f"        {started} = {timestamp}",
            "    else:",
            f"        {until} = {timestamp} + {gap}",
            f"        timer_set({self.prefix}_ends, {timestamp} + {lasts}, {null}, {place})",
            *indent(indent(self._merges())),
            f"elif {size} > 0 and {timestamp} < {start}:",
            f"    {start} = {timestamp}",
            *indent([*self._comes_late("d", "d", "1"), *self._merges()]),
            "else:",
            f"    if {size} > 0 and {timestamp} > {end}:",
            f"        if {more} > 0:",
            *indent(indent(indent([*self._appends("over", self.key, before, last, more), *self._forgets()]))),
            *indent(indent(self._moves(place, null))),
            *indent(self._joins(timestamp, null)),
        ]

    def ends_chunk(self, leaving: list[str]) -> list[str]:
        """Return what lets the events leave whose session the events of the chunk have ended."""
        return self._ends("over", self.key, leaving)

    def _forgets(self) -> list[str]:
        """Return what lets the key's previous session have no events."""
        before, last, more = self._of("prev", "prev_end", "prev_size")
        return [f"{before}, {last}, {more} = -1, -1, 0"]

    def _merges(self) -> list[str]:
        """Return what lets both sessions of the key be one, where they have come near each other."""
        start, started, until = self._of("start", "started", "until")
        before, last, more = self._of("prev", "prev_end", "prev_size")
        merged = [*self._comes_late(before, last, more), f"{start} = {started}", *self._forgets()]
        return [f"if {more} > 0 and {until} >= {start} - {self.window.span}:", *indent(merged)]

    def _moves(self, place: str, null: str) -> list[str]:
        """Return what lets a session be the previous one of its key."""
        assert self._timer is not None
        names = ("head", "head_end", "head_size", "last", "start", "end", "started", "until")
        head, tail, size, last, start, end, started, until = (f"{self.prefix}_{name}[{place}]" for name in names)
        alive = f"{until} + {self._sessions.latency}"
        return [
            *self._appends("prev", place, head, tail, size),
            f"{started}, {until} = {start}, {end}",
            f"{head}, {tail}, {size}, {last} = -1, -1, 0, -1",
            f"timer_set({self.prefix}_ends, {alive}, {null}, {place})",
            self._timer.asks(alive),
        ]

    def _over(self, results: ResultWriter, leaving: list[str]) -> list[str]:
        groups, prefix = self.groups, self.prefix
        moves = [
            "for k in range(n):",
            f"    low = {prefix}_due_keys[k]",
            f"    {prefix}_due_known[low] = 0",
            f"    if {prefix}_head_size[low] > 0 and {prefix}_end[low] <= due:",
            *indent(indent(self._moves("low", "0"))),
        ]
        chunk = [
            "for k in range(n):",
            f"    low = {prefix}_due_keys[k]",
            f"    if {prefix}_prev_size[low] > 0 and {prefix}_until[low] + {self._sessions.latency} <= due:",
            *indent(indent(self._ends("prev", "low", leaving))),
        ]
        over = results.hands_over([*groups.before(), *chunk, *groups.forgets()])
        # As in the operator all that is over becomes previous before any previous session ends: one may do both
        return [*self._sorts("end"), *moves, *self._sorts("until"), *over]
