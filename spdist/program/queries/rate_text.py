"""Rate limits of a program: ``output all|first|last every``, by number or by time, between results and their readers.

What is held back is a list of nodes for each key of the partition, in one pool. Groups have numbers of their own here,
since a limit may know them longer than the totals do. The meaning is that of `spdist.operators.selection.rates`.
"""

from __future__ import annotations

from dataclasses import replace

from spdist.program.expressions import NUMBER
from spdist.program.key_text import finds
from spdist.program.parts import Most, QueryText, Whole, indent
from spdist.program.queries.chunk_text import Buffers
from spdist.program.timer_text import NEVER, RATE_LIMIT, TimerWriter

__all__ = ["RateWriter"]


class RateWriter:
    """Writes the rate limit of a query.

    Parameters
    ----------
    whole, query
        The text, and the query.
    results : Buffers
        Where the results of a chunk are.
    key : str
        Source of the number of the partition's key.

    Notes
    -----
    ``q_l`` has what is held back, ``q_e`` what goes on as one chunk. By number, ``q_l_seen`` is how many results of the
    open number came, of each group for ``first``; by time, ``q_l_passed`` is when a group's last result went on, and
    ``q_l_tick`` the next time at which results go on. A tick that lets nothing go on is the last one until some come.
    """

    def __init__(self, whole: Whole, query: QueryText, results: Buffers, key: str) -> None:
        rate = query.read.checked.query.rate
        assert rate is not None
        self._whole = whole
        self._query = query
        self._results = results
        self._key = key
        self._kind = rate.kind
        self._number = rate.events
        self._span = 0 if rate.time is None else rate.time.milliseconds
        self._grouped = bool(query.grouped) and self._by_group
        self._prefix = f"{query.name}_l"
        self._nodes = f"nodes {self._prefix}"
        #: Source of how many results go on.
        self.count = whole.name()
        #: Source of the number of a result's group; of the key where there are no groups.
        self._group = whole.name() if self._grouped else key
        # What is held back for later does not come from this call's events.
        kept = tuple(one for one in results.more if one == ("kind" if query.holds_back else "source"))
        self.buffers = replace(results, owner=f"{query.name}_e", room=f"chunk {query.name}_e", more=kept)
        self._held = replace(self.buffers, owner=self._prefix, room=self._nodes)
        self._timer = TimerWriter(whole.arrays, query, key, RATE_LIMIT) if query.ticks else None
        self._declare()

    @property
    def _by_group(self) -> bool:
        """Whether results are told apart by their groups, where there are some."""
        return self._kind != "all"

    def _declare(self) -> None:
        arrays, prefix, instances = self._whole.arrays, self._prefix, self._query.instances
        self.buffers.declare()
        arrays.declare(f"{self.buffers.owner}_source", NUMBER, self.buffers.room)
        by_group = f"groups {prefix}" if self._grouped else instances
        if self._query.holds_back:
            self._held.declare()
            for name in ("head", "head_end"):
                arrays.declare(f"{prefix}_{name}", NUMBER, instances, "-1")
            arrays.declare(f"{prefix}_head_size", NUMBER, instances)
            arrays.declare(f"{prefix}_next", NUMBER, self._nodes, "-1")
            arrays.free_list(f"{prefix}_free")
            if self._grouped:
                arrays.declare(f"{prefix}_of", NUMBER, self._nodes)
                self._declare_groups(by_group)
        if self._number is not None and self._kind != "all":
            arrays.declare(f"{prefix}_seen", NUMBER, instances if self._query.holds_back else by_group)
        if self._span and self._kind == "first":
            arrays.declare(f"{prefix}_passed", NUMBER, by_group, NEVER)
        if self._timer is not None:
            arrays.declare(f"{prefix}_tick", NUMBER, instances, NEVER)

    def _declare_groups(self, room: str) -> None:
        """Declare what is known of each group."""
        self._whole.arrays.declare(f"{self._prefix}_node", NUMBER, room, "-1")

    def counts(self, most: Most) -> Most:
        """Take note of how many results there may be, and return how many of them go on in one call."""
        for room in (self._nodes, f"groups {self._prefix}"):
            self._whole.count(room, most)
        if self._timer is not None:
            for room in (f"dues {self._prefix}", "timers"):
                self._whole.count(room, most + most)
        going = self.going(most)
        if self._timer is None:
            self._whole.count(self.buffers.room, going)
        return going

    def going(self, most: Most) -> Most:
        """Return how many of so many results, and of those held back, go on in one call."""
        return most + Most({self._prefix: 1}) if self._query.holds_back else most

    def limits(self, begin: str, end: str) -> list[str]:
        """Return what is done with a chunk of results; what goes on is in the buffers then."""
        if self._kind == "first":
            return [f"{self.count} = 0", *(self._first_in_time if self._span else self._first)(begin, end)]
        each = self._each(begin, end, self._holds())
        if self._timer is not None:
            return self._awake(begin, end, each)
        if self._kind == "last":
            return [f"{self.count} = 0", *each]
        size = f"{self._prefix}_head_size[{self._key}]"
        # Only whole numbers of results go on; the rest waits for more.
        full = f"{size} - {size} % {self._number}"
        going = [f"full = {full}", f"while {self.count} < full:", *indent(self._goes_on())]
        return [*each, f"{self.count} = 0", f"if {size} >= {self._number}:", *indent(going)]

    def _each(self, begin: str, end: str, body: list[str]) -> list[str]:
        return [f"for k in range({begin}, {end}):", *indent(body)]

    # Results go on immediately.

    def _first(self, begin: str, end: str) -> list[str]:
        seen, table = f"{self._prefix}_seen[{self._group}]", self._table
        gone = [f"    release({table}, {self._group}, {self._width})"] if self._grouped else []
        body = [
            *self._finds(),
            f"if {seen} == 0:",
            *indent(self._passes()),
            f"{seen} += 1",
            f"if {seen} == {self._number}:",
            f"    {seen} = 0",
            *gone,
        ]
        return self._each(begin, end, body)

    def _first_in_time(self, begin: str, end: str) -> list[str]:
        passed = f"{self._prefix}_passed[{self._group}]"
        may = f"if {passed} == {NEVER} or {passed} + {self._span} <= now:"
        body = [*self._finds(), may, f"    {passed} = now", *indent(self._passes())]
        # Without groups only the first result of a chunk can go on.
        return self._each(begin, end if self._grouped else f"min({begin} + 1, {end})", body)

    def _passes(self) -> list[str]:
        return [*self._results.copied("k", self.buffers, self.count), f"{self.count} += 1"]

    # Results are held back.

    def _holds(self) -> list[str]:
        """Return what holds the result at ``k`` back, and lets the last ones go on where there are enough."""
        prefix, key = self._prefix, self._key
        fresh, copied = self._appends(), self._results.copied("k", self._held, "d")
        if self._kind == "all":
            return [*fresh, *copied]
        node = f"{prefix}_node[{self._group}]" if self._grouped else f"{prefix}_head[{key}]"
        if self._grouped:
            fresh += [f"{node} = d", f"{prefix}_of[d] = {self._group}"]
        lines = [*self._finds(), f"d = {node}", "if d < 0:", *indent(fresh), *copied]
        if self._number is None:
            return lines
        seen = f"{prefix}_seen[{key}]"
        return [
            *lines,
            f"{seen} += 1",
            f"if {seen} == {self._number}:",
            f"    {seen} = 0",
            *indent(self._all_go_on()),
        ]

    def _appends(self) -> list[str]:
        """Return what puts a new node, ``d``, behind all that is held back."""
        prefix, key = self._prefix, self._key
        return [
            f"d = allot({prefix}_free, {prefix}_next)",
            f"{prefix}_next[d] = -1",
            f"if {prefix}_head[{key}] < 0:",
            f"    {prefix}_head[{key}] = d",
            "else:",
            f"    {prefix}_next[{prefix}_head_end[{key}]] = d",
            f"{prefix}_head_end[{key}] = d",
            f"{prefix}_head_size[{key}] += 1",
        ]

    def _all_go_on(self) -> list[str]:
        """Return what lets all go on that is held back."""
        return [f"while {self._prefix}_head[{self._key}] >= 0:", *indent(self._goes_on())]

    def _goes_on(self) -> list[str]:
        """Return what lets the first one go on that is held back."""
        prefix, key = self._prefix, self._key
        lines = [
            f"d = {prefix}_head[{key}]",
            f"{prefix}_head[{key}] = {prefix}_next[d]",
            f"{prefix}_head_size[{key}] -= 1",
            *self._held.copied("d", self.buffers, self.count),
            f"{self.count} += 1",
        ]
        if self._grouped:
            lines += [
                f"{prefix}_node[{prefix}_of[d]] = -1",
                # A limit knows a group as long as it holds a result of it.
                f"release({self._table}, {prefix}_of[d], {self._width})",
            ]
        return [*lines, f"give_back({prefix}_free, {prefix}_next, d)"]

    # Time.

    def _awake(self, begin: str, end: str, each: list[str]) -> list[str]:
        """Return what asks for the next tick where none was asked for, since there was nothing to go on."""
        assert self._timer is not None
        tick = f"{self._prefix}_tick[{self._key}]"
        until, span = self._whole.until(self._query.read, RATE_LIMIT), self._span
        asks = [
            f"if {self._prefix}_due[{self._key}] < 0:",
            f"    if {tick} <= {until}:",
            # The first one behind all that has fired, in one step: time may have gone past very many.
            f"        {tick} += (({until} - {tick}) // {span} + 1) * {span}",
            f"    {self._timer.asks(tick)}",
        ]
        return [f"if {begin} < {end}:", *indent([*asks, *each])]

    def wakes(self, readers: list[str]) -> list[str]:
        """Return what is done at a tick of a key, given the blocks of who reads what goes on."""
        assert self._timer is not None
        tick = f"{self._prefix}_tick[{self._key}]"
        going = [
            f"{self.count} = 0",
            *self._all_go_on(),
            f"{tick} += {self._span}",
            self._timer.asks(tick),
            *readers,
        ]
        return self._timer.wakes([f"if {self._prefix}_head[{self._key}] >= 0:", *indent(going)])

    # Groups.

    def _finds(self) -> list[str]:
        """Return what finds the number of the group of the result at ``k``."""
        if not self._grouped:
            return []
        return finds(self._whole.arrays, f"{self._prefix}_k", f"groups {self._prefix}", self._words, self._group)

    @property
    def _words(self) -> list[str]:
        """Source of the words of the group's key of the result at ``k``."""
        words = [f"{self._results.owner}_w{number}[k]" for number in range(len(self._query.grouped) + 1)]
        return [*([self._key] if self._query.keyed is not None else []), *words]

    @property
    def _width(self) -> int:
        return len(self._query.grouped) + 1 + (self._query.keyed is not None)

    @property
    def _table(self) -> str:
        if not self._grouped:
            return ""
        return self._whole.arrays.table(f"{self._prefix}_k", self._width, f"groups {self._prefix}")
