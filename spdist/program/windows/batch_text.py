"""Windows of a program that release batches: what they hold is a list of nodes for each key, in one pool.

A batch is put out as one chunk: the batch before leaves, all totals begin anew, and the events of the batch enter.
Until then nothing is computed of them. The event's node is ``d``.
"""

from __future__ import annotations

from collections.abc import Callable

from spdist.program.expressions import FLAG, NUMBER, TypedWriter, Value
from spdist.program.parts import Event, QueryText, Whole, indent
from spdist.program.queries.batch_groups import BatchGroups
from spdist.program.queries.result_text import ResultWriter
from spdist.program.shape import Batched
from spdist.program.timer_text import NEVER

__all__ = ["BatchWriter", "ChunkWriter"]


class CopiedEvent:
    """Writes what is known of the event of which a RESET is a copy: the first one since totals began anew.

    Parameters
    ----------
    whole, query, key
        See `BatchWriter`.
    is_gone : bool
        Whether it may be gone by then: what conditions behind the window look at is known for each key then, as
        ``q_c``.
    """

    def __init__(self, whole: Whole, query: QueryText, key: str, is_gone: bool) -> None:
        self._whole = whole
        self._query = query
        self._key = key
        self._is_gone = is_gone

    @property
    def is_read(self) -> bool:
        """Whether conditions look at it when it may be gone."""
        return bool(self._query.behind) and self._is_gone

    @property
    def noted(self) -> str:
        """Source of the timestamp of the next sign that totals begin anew, where the event is gone."""
        noted = self._whole.arrays.declare(f"{self._query.name}_reset_at", NUMBER, self._query.instances, NEVER)
        return f"{noted}[{self._key}]"

    def read(self, place: int) -> Value:
        """Return the value of an attribute."""
        type = self._query.type_at(place)
        values, nulls = self._whole.attribute(f"{self._query.name}_c", place, type, self._query.instances)
        return Value(f"{values}[{self._key}]", f"{nulls}[{self._key}] != 0", type)

    def comes(self, came: str, event: Event) -> list[str]:
        """Return what notes that an event has come since the totals began anew, and what is known of the first one."""
        first = [f"{self.noted} = {event.timestamp}"] if self._query.notes_resets else []
        first += self.takes(event)
        return [*([f"if {came} == 0:", *indent(first)] if first else []), f"{came} = 1"]

    def takes(self, event: Event) -> list[str]:
        """Return what copies an event, as far as conditions look at it."""
        lines = list[str]()
        for place in sorted(self._query.tested) if self.is_read else ():
            copy, value = self.read(place), event.read(place)
            # The condition of null compares an element of the array, and that element is what is written
            lines += [f"{copy.text} = {value.text}", f"{copy.null.removesuffix(' != 0')} = {value.null or 'False'}"]
        return lines


class BatchWriter:
    """Writes what a window does that releases batches.

    Parameters
    ----------
    whole : Whole
        The text.
    query : QueryText
        The query; it is told which attributes are kept.
    key : str
        Source of the number of the partition's key.
    groups : BatchGroups
        The totals.
    writer : callable
        From what reads an attribute, the source of a timestamp and that of a group to a writer of expressions.
    results : ResultWriter
        What is put out.

    Notes
    -----
    Of each key there are two lists: ``q_head``, the open batch, and ``q_left``, the one released last, where events
    that leave are put out.
    """

    #: Whether it is given chunks, by `block`; else events, by `takes`.
    takes_chunks = False
    #: Whether an event lets out results of others: those of a chunk are handed over together.
    goes_on = False
    #: Makes a writer of expressions over the event that comes; whoever writes the query says it.
    asked: Callable[[], TypedWriter]

    def __init__(
        self,
        whole: Whole,
        query: QueryText,
        key: str,
        groups: BatchGroups,
        writer: Callable[[Callable[[int], Value], str, str], TypedWriter],
        results: ResultWriter,
    ) -> None:
        self.whole = whole
        self.query = query
        self.window = query.read.window if isinstance(query.read.window, Batched) else Batched()
        self.key = key
        self.groups = groups
        self._writer = writer
        self._results = results
        #: What the names of its arrays begin with.
        self.prefix = query.name
        self._nodes = f"nodes {query.name}"
        self._expires = query.shows_expired
        self._copied = CopiedEvent(whole, query, key, self.window.copies)
        query.kept = query.kept_with({*self._wanted(), *self.window.known, *query.tested}, whole.needed)
        self._declare()

    @property
    def _keeps(self) -> bool:
        """Whether what was released last is kept."""
        return self._expires or (self.query.is_found and self.window.keeps) or self.window.timeout > 0

    def _wanted(self) -> list[int]:
        """Return the attributes that are read of an event behind its coming."""
        return self.query.shown if self._keeps or self.query.read.waits else []

    def _declare(self) -> None:
        arrays, prefix = self.whole.arrays, self.prefix
        lists = self.query.read.lists
        for name in lists:
            arrays.declare(f"{prefix}_{name}", NUMBER, self.query.instances, "-1")
            arrays.declare(f"{prefix}_{name}_end", NUMBER, self.query.instances, "-1")
            arrays.declare(f"{prefix}_{name}_size", NUMBER, self.query.instances)
        if lists:
            arrays.declare(f"{prefix}_next", NUMBER, self._nodes, "-1")
            arrays.declare(f"{prefix}_ts", NUMBER, self._nodes)
            arrays.free_list(f"{prefix}_free")

    def takes(self, event: Event) -> list[str]:
        """Return what is done with an event."""
        prefix, key, length = self.prefix, self.key, self.window.length
        if not self.window.passes:
            return [
                *self._holds(event, "head"),
                f"if {prefix}_head_size[{key}] >= {length}:",
                *indent(self._results.hands_over(self._chunk([*self._closes(), *self._releases()]))),
            ]
        count = self.whole.arrays.declare(f"{prefix}_count", NUMBER, self.query.instances)
        first, again = list[str](), list[str]()
        if self._copied.is_read:  # one that ends a batch is copied only where there is none of that
            came = f"{self.whole.arrays.declare(f'{prefix}_came', FLAG, self.query.instances)}[{key}]"
            first, again = self._copied.comes(came, event), [f"{came} = 0"]
        full = [f"if {count}[{key}] == {length}:", *indent([*self._closes(), *again, f"{count}[{key}] = 0"])]
        return self._results.hands_over(self._chunk([*first, *full, f"{count}[{key}] += 1", *self._passes(event)]))

    @property
    def cuts(self) -> bool:
        """Whether it is given chunks that it cuts, by `pieces`."""
        return self.window.is_cut

    def block(self, event: Event, loop: Callable[[list[str]], list[str]]) -> list[str]:
        """Return what is done with a chunk of events.

        Parameters
        ----------
        event : Event
            An event of it.
        loop : callable
            From what is done with an event to a loop over those that come to the window.
        """
        raise AssertionError("it is given events")

    def pieces(self, event: Event, loop: Callable[[list[str]], list[str]], place: str, end: str) -> list[str]:
        """Return what is done with a chunk that is cut into pieces, each a chunk of its own; see `block`.

        `place` and `end` are source of where the next piece begins, and the chunk ends; the loop begins at `place`, and
        moves on.
        """
        raise AssertionError("it cuts nothing")

    def wakes(self) -> list[str]:
        """Return what is done when the timer of a key is due, where there is one."""
        raise AssertionError("it has no timer")

    def _chunk(self, lines: list[str]) -> list[str]:
        return [*self.groups.before(), *lines, *self.groups.forgets()]

    # What is held.

    def _holds(self, event: Event, where: str) -> list[str]:
        """Return what puts an event at the end of a list, as ``d``."""
        prefix, key = self.prefix, self.key
        return [
            f"d = {prefix}_free[0]",
            "if d >= 0:",
            f"    {prefix}_free[0] = {prefix}_next[d]",
            "else:",
            f"    d = {prefix}_free[1]",
            f"    {prefix}_free[1] = d + 1",
            f"{prefix}_next[d] = -1",
            f"if {prefix}_{where}[{key}] < 0:",
            f"    {prefix}_{where}[{key}] = d",
            "else:",
            f"    {prefix}_next[{prefix}_{where}_end[{key}]] = d",
            f"{prefix}_{where}_end[{key}] = d",
            f"{prefix}_{where}_size[{key}] += 1",
            *self._writes(event),
        ]

    def _writes(self, event: Event) -> list[str]:
        """Return what writes an event into its node."""
        lines = [f"{self.prefix}_ts[d] = {event.timestamp}"]
        for place in self.query.kept:
            value = event.read(place)
            values, nulls = self.whole.attribute(f"{self.prefix}_w", place, value.type, self._nodes)
            lines += [f"{values}[d] = {value.text}", f"{nulls}[d] = {value.null}"]
        return lines

    def _frees(self, where: str) -> list[str]:
        """Return what lets all nodes of a list be free."""
        prefix, key = self.prefix, self.key
        return [
            f"if {prefix}_{where}[{key}] >= 0:",
            # The whole list goes in front of the free nodes in one step, whatever its length
            f"    {prefix}_next[{prefix}_{where}_end[{key}]] = {prefix}_free[0]",
            f"    {prefix}_free[0] = {prefix}_{where}[{key}]",
            f"    {prefix}_{where}[{key}] = -1",
            f"    {prefix}_{where}_size[{key}] = 0",
        ]

    def _each(self, where: str, body: list[str]) -> list[str]:
        """Return a loop over a list."""
        prefix = self.prefix
        if not body:
            return []
        return [f"d = {prefix}_{where}[{self.key}]", "while d >= 0:", *indent([*body, f"d = {prefix}_next[d]"])]

    def _kept(self, place: int) -> Value:
        """Return the value of an attribute of the event of node ``d``."""
        return self._kept_at(place, "d")

    def _kept_at(self, place: int, node: str) -> Value:
        """Return the value of an attribute of the event of a node."""
        type = self.query.type_at(place)
        values, nulls = self.whole.attribute(f"{self.prefix}_w", place, type, self._nodes)
        return Value(f"{values}[{node}]", f"{nulls}[{node}] != 0", type)

    # What a batch does.

    @property
    def _closed_at(self) -> str:
        """Source of the timestamp of events that leave."""
        return "now"

    def _closes(self) -> list[str]:
        """Return what lets the batch before leave, and all totals begin anew."""
        return [*self._leaves(), *self._resets()]

    def _leaves(self) -> list[str]:
        """Return what lets the batch before leave: where it is shown to nobody mostly nothing, as in Siddhi."""
        if not self._expires:
            goes = self._keeps and self.window.replaces_released
            return [*self._each("left", self._goes()), *self._frees("left")] if goes else []
        group, prefix, found = f"{self.prefix}_g[d]", self.prefix, list[str]()
        if self.window.is_cut:  # its group is gone with the piece that it came in
            group, found = self.groups.number, [*self.groups.finds(self._kept), *self.groups.joins()]
        leaves = [*found, *self.groups.removes(self._kept, f"{prefix}_ts[d]", group)]
        times, left_at = self._leaving_times()
        shown = self._results.emits(Event(self._kept, left_at, "gone"), True)
        sweeps = bool(self.query.behind) and self.groups.aggregated and self.groups.grouped
        leaves = self.groups.passes(self._kept, [*leaves, *shown, *(self.groups.empties() if sweeps else [])])
        leaves = [*self._each("left", [*times, *self._goes(), *leaves]), *self._frees("left")]
        return [*leaves, *self.groups.sweeps()] if sweeps else leaves

    def _goes(self) -> list[str]:
        """Return what else is done with an event that goes from those released last."""
        return []

    def _leaving_times(self) -> tuple[list[str], str]:
        """Return what says when event ``d`` leaves, and source of that: those somebody has looked at keep their times.

        ``q_looked`` is how many of a batch were looked at.
        """
        if not self.query.notes_looks:
            return [], self._closed_at
        looked = self.whole.arrays.declare(f"{self.prefix}_looked", NUMBER, self.query.instances)
        looked, left_at = f"{looked}[{self.key}]", self.whole.name()
        seen = f"    {left_at}, {looked} = {self.prefix}_ts[d], {looked} - 1"
        return [f"{left_at} = {self._closed_at}", f"if {looked} > 0:", seen], left_at

    def _resets(self) -> list[str]:
        """Return what lets all totals begin anew, where the first event of the batch meets the conditions behind it.

        In Siddhi a copy of that event goes through them to the totals.
        """
        renews = self._renews()
        if not (renews and self.query.behind):
            return renews
        if self._copied.is_read:
            return self.groups.passes(self._copied.read, renews)
        return [f"d = {self.prefix}_head[{self.key}]", *self.groups.passes(self._kept, renews)]

    def _renews(self) -> list[str]:
        """Return what lets all totals begin anew, whichever event the sign for it copies."""
        return [*self.groups.resets(), *self._results.resets(self._reset_at)]

    @property
    def _reset_at(self) -> str:
        """Source of the timestamp of the sign that totals begin anew."""
        return self._closed_at

    def _releases(self) -> list[str]:
        """Return what lets the events of the open batch enter; they are among those that were released last then."""
        prefix, key = self.prefix, self.key
        groups, results = self.groups, self._results
        event = Event(self._kept, f"{prefix}_ts[d]", groups.number)
        # Where only the newest result of a group is shown, it is computed once, when all are in the totals
        if results.late:
            lines = self._each(
                "head", [*groups.finds(event.read), *groups.newest(results.count, "d"), *self._adds(event)]
            )
            found = [f"d = {prefix}_newest[s]", f"{groups.number} = {prefix}_of[s]"] if groups.grouped else []
            found = found or [f"d = {prefix}_newest[s]"]
            lines += [f"for s in range({results.count}):", *indent([*found, *results.at(event)])]
        else:
            lines = self._each("head", self._enters(event, "d"))
        if not self._keeps:
            return [*lines, *self._frees("head")]
        emptied = [f"{prefix}_head[{key}] = -1", f"{prefix}_head_size[{key}] = 0"]
        if self._expires:  # the batch before is gone
            moved = [f"{prefix}_left{part}[{key}] = {prefix}_head{part}[{key}]" for part in ("", "_end", "_size")]
            return [*lines, *moved, *emptied]
        head, left = f"{prefix}_head", f"{prefix}_left"
        moves = [
            f"if {left}[{key}] < 0:",
            f"    {left}[{key}] = {head}[{key}]",
            "else:",
            f"    {prefix}_next[{left}_end[{key}]] = {head}[{key}]",
            f"{left}_end[{key}] = {head}_end[{key}]",
            f"{left}_size[{key}] += {head}_size[{key}]",
            *emptied,
        ]
        return [*lines, f"if {head}[{key}] >= 0:", *indent(moves)]

    def _passes(self, event: Event) -> list[str]:
        """Return what lets an event enter when it comes."""
        if not self._keeps:
            return self._enters(event, "")
        return [*self._holds(event, "left"), *self._enters(event, "d")]

    def _enters(self, event: Event, node: str) -> list[str]:
        """Return what adds an event to the totals, and puts its result out; `node` is where its group is noted."""
        groups = self.groups
        lines = [*groups.finds(event.read), *groups.joins()]
        if self._expires and groups.aggregated:
            group = self.whole.arrays.declare(f"{self.prefix}_g", NUMBER, self._nodes, "-1")
            lines.append(f"{group}[{node}] = {groups.number}")
        return groups.passes(event.read, [*lines, *self._adds(event), *self._results.emits(event, False)])

    def _adds(self, event: Event) -> list[str]:
        groups = self.groups
        return groups.enters(lambda: self._writer(event.read, event.timestamp, groups.number))


class ChunkWriter(BatchWriter):
    """Writes what happens in a window that has each chunk for a batch; see `BatchWriter`.

    Notes
    -----
    ``q_came`` is whether an event has come since the totals began anew. In a partition where nothing leaves they never
    do, as in Siddhi, but between the pieces of a chunk that is cut.
    """

    takes_chunks = True

    def block(self, event: Event, loop: Callable[[list[str]], list[str]]) -> list[str]:
        """Return what is done with a chunk of events; see `BatchWriter.block`."""
        some = self.whole.name()
        # A chunk of which no event meets the filters is no batch, and lets none leave
        first = [f"if {some} == 0:", f"    {some} = 1", *indent(self._closes())]
        came = [] if self._goes_on else self._copied.comes(self._came, event)
        return self._results.hands_over(
            self._chunk([f"{some} = 0", *loop([*first, *came, *self._passes(event)])]),
        )

    def pieces(self, event: Event, loop: Callable[[list[str]], list[str]], place: str, end: str) -> list[str]:
        """Return what is done with a chunk that is cut into pieces; see `BatchWriter.pieces`."""
        some, size = self.whole.name(), self.whole.name()
        first = [f"if {some} == 0:", f"    {some} = 1", *indent(self._leaves())] if self._expires else []
        body = [
            f"if {size} == 0:",
            *indent([*first, *self._resets()]),
            *self._copied.comes(self._came, event),
            *self._passes(event),
            f"{size} += 1",
            f"if {size} == {self.window.length}:",
            "    break",
        ]
        piece = self._results.hands_over(self._chunk([f"{size} = 0", *loop(body)]))
        # Where totals go on, they begin anew between the pieces, but not with the next chunk
        forgets = [f"{self._came} = 0"] if self._goes_on else []
        return [f"{some} = 0", f"while {place} < {end}:", *indent(piece), *forgets]

    @property
    def _goes_on(self) -> bool:
        return self.query.keyed is not None and not (self._expires or self.query.is_found)

    @property
    def _came(self) -> str:
        came = self.whole.arrays.declare(f"{self.prefix}_came", FLAG, self.query.instances)
        return f"{came}[{self.key}]"

    def _resets(self) -> list[str]:
        """Return what lets all totals begin anew, where an event has come since they did."""
        return [f"if {self._came} != 0:", *indent([f"{self._came} = 0", *super()._resets()])]

    @property
    def _reset_at(self) -> str:
        return self._copied.noted
