"""The window of a query in a program: a queue of nodes for each key of the partition, in one pool."""

from __future__ import annotations

from collections.abc import Callable

from spdist.program.expressions import NUMBER, TypedWriter, Value
from spdist.program.parts import QueryText, Whole, indent
from spdist.program.queries.group_text import GroupWriter
from spdist.program.queries.result_text import ResultWriter
from spdist.program.shape import Read, Sliding
from spdist.program.timer_text import NEVER, TimerWriter

__all__ = ["WindowWriter"]


class WindowWriter:
    """Writes what happens in a window that events leave one by one, oldest first; the event's node is ``d``.

    A window of its own changes `enters`, and what else it does in another way.

    Parameters
    ----------
    whole : Whole
        The text.
    query : QueryText
        The query; it is told which attributes are kept.
    window : Sliding
        The window.
    key : str
        Source of the number of the partition's key.
    groups : GroupWriter
        The totals, which events that leave are taken off.
    """

    #: Makes a writer of expressions over the event that enters; whoever writes the query says it.
    asked: Callable[[], TypedWriter]

    def __init__(self, whole: Whole, query: QueryText, window: Sliding, key: str, groups: GroupWriter) -> None:
        self.whole = whole
        self.query = query
        self.window = window
        self.key = key
        self.groups = groups
        #: What the names of its arrays begin with.
        self.prefix = query.name
        self._nodes = f"nodes {query.name}"
        self._timer = TimerWriter(whole.arrays, query, key, query.operator) if query.read.timed else None
        query.kept = query.kept_with({*self._wanted(), *window.compared, *query.tested}, whole.needed)

    def _wanted(self) -> list[int]:
        """Return the attributes that are read of an event behind its entering."""
        query, groups = self.query, self.groups
        read, whole = query.read, query.read.puts_out_expired or groups.conditions
        # What leaves and is shown to nobody is only taken off the totals: their arguments are enough
        return query.shown if whole or (isinstance(read, Read) and read.shows_held) else groups.attributes()

    @property
    def left_at(self) -> str:
        """Source of the timestamp of an event that leaves."""
        return "now"

    def enters(self, read: Callable[[int], Value], timestamp: str, leaving: list[str]) -> list[str]:
        """Return what lets the events leave that the new one drives out, and the new one enter.

        Parameters
        ----------
        read : callable
            From an attribute's place to its value in the event.
        timestamp : str
            Source of the event's timestamp.
        leaving : list of str
            What is done for an event that leaves, once it is off the totals.
        """
        return [*self.leaves(leaving, enters=True), *self._comes_last(read, timestamp)]

    def _comes_last(self, read: Callable[[int], Value], timestamp: str) -> list[str]:
        """Return what puts the new event at the end of the list, as ``d``."""
        prefix, key = self.prefix, self.key
        return [
            *self._holds(read, timestamp),
            f"{prefix}_next[d] = -1",
            f"if {prefix}_head_end[{key}] < 0:",
            f"    {prefix}_head[{key}] = d",
            "else:",
            f"    {prefix}_next[{prefix}_head_end[{key}]] = d",
            f"{prefix}_head_end[{key}] = d",
            f"{prefix}_head_size[{key}] += 1",
            *self._asks(timestamp),
        ]

    def changes(self) -> list[str]:
        """Return what lets events leave once the new one's group is known."""
        return []

    def pushes_out(self, leaving: list[str]) -> list[str]:
        """Return what lets an event leave after the new one has entered; for `leaving` see `enters`."""
        return []

    def ends_chunk(self, leaving: list[str]) -> list[str]:
        """Return what lets events leave behind all those of a chunk; for `leaving` see `enters`."""
        return []

    @property
    def _room(self) -> str:
        """The room of lists."""
        return self.query.instances

    def _holds(self, read: Callable[[int], Value], timestamp: str) -> list[str]:
        """Return what lets a node, ``d``, be that of the new event."""
        arrays, prefix = self.whole.arrays, self.prefix
        for name in ("head", "head_end"):
            arrays.declare(f"{prefix}_{name}", NUMBER, self._room, "-1")
        arrays.declare(f"{prefix}_head_size", NUMBER, self._room)
        arrays.declare(f"{prefix}_next", NUMBER, self._nodes, "-1")
        arrays.free_list(f"{prefix}_free")
        return [
            # As `machine.kernels.allot`, but written out: a call that is given arrays costs more than what it does
            f"d = {prefix}_free[0]",
            "if d >= 0:",
            f"    {prefix}_free[0] = {prefix}_next[d]",
            "else:",
            f"    d = {prefix}_free[1]",
            f"    {prefix}_free[1] = d + 1",
            *self._writes(read, timestamp),
        ]

    def _writes(self, read: Callable[[int], Value], timestamp: str) -> list[str]:
        """Return what writes the new event into node ``d``."""
        lines = [f"{self.whole.arrays.declare(f'{self.prefix}_ts', NUMBER, self._nodes)}[d] = {timestamp}"]
        for place in self.query.kept:
            value = read(place)
            values, nulls = self.whole.attribute(f"{self.prefix}_w", place, value.type, self._nodes)
            lines += [f"{values}[d] = {value.text}", f"{nulls}[d] = {value.null}"]
        return lines

    def _asks(self, timestamp: str) -> list[str]:
        """Return what asks for a wake-up when the event leaves, where it is later than all before."""
        if self._timer is None:
            return []
        asks = self._timer.asks(f"{timestamp} + {self.window.span}")
        if self.window.length:  # each event is waited for
            return [asks]
        latest = self.whole.arrays.declare(f"{self.prefix}_latest", NUMBER, self.query.instances, NEVER)
        return [
            f"if {timestamp} > {latest}[{self.key}]:",
            f"    {latest}[{self.key}] = {timestamp}",
            f"    {asks}",
        ]

    def wakes(self, results: ResultWriter, leaving: list[str]) -> list[str]:
        """Return what is done when the timer of a key is due; for `leaving` see `enters`."""
        assert self._timer is not None
        groups, prefix, key = self.groups, self.prefix, self.key
        lines = self.leaves(leaving)
        body = results.hands_over([*groups.before(), *lines, *groups.forgets()])
        # In a partition a window that is empty forgets the latest timestamp, as its operator does
        if self.query.keyed is not None and not self.window.length and self.window.unique is None:
            body += [f"if {prefix}_head[{key}] < 0:", f"    {prefix}_latest[{key}] = {NEVER}"]
        return self._timer.wakes(body)

    def leaves(self, leaving: list[str], enters: bool = False) -> list[str]:
        """Return what lets the events leave whose time is over, or the oldest where there are enough; see `enters`."""
        window, prefix, key = self.window, self.prefix, self.key
        full = f"if {prefix}_head_size[{key}] >= {window.length}:"
        # Only the oldest arrival is looked at: a late event waits behind it, as in Siddhi's TimeWindowProcessor
        due = f"while {prefix}_head[{key}] >= 0 and {prefix}_ts[{prefix}_head[{key}]] <= now - {window.span}:"
        # What is too old goes first: only then is it known whether there are still too many
        tests = [*([due] if window.span else []), *([full] if enters and window.length else [])]
        return [line for test in tests for line in self._leaves(test, leaving)]

    def _leaves(self, test: str, leaving: list[str]) -> list[str]:
        return [test, *indent([*self._oldest(), *self._left(leaving)])]

    def _oldest(self) -> list[str]:
        """Return what takes the oldest event off the list, as ``d``."""
        prefix, key = self.prefix, self.key
        return [
            f"d = {prefix}_head[{key}]",
            f"{prefix}_head[{key}] = {prefix}_next[d]",
            f"if {prefix}_head[{key}] < 0:",
            f"    {prefix}_head_end[{key}] = -1",
            f"{prefix}_head_size[{key}] -= 1",
        ]

    def _left(self, leaving: list[str]) -> list[str]:
        """Return what is done for the event of node ``d``, which is in no list any more."""
        return [*self._off(leaving), *self._frees()]

    def _off(self, leaving: list[str]) -> list[str]:
        """Return what takes the event of node ``d`` off the totals, and tells of that."""
        prefix, groups = self.prefix, self.groups
        return groups.passes(self.kept, groups.leaves(self.kept, f"{prefix}_ts[d]", f"{prefix}_g[d]", leaving))

    def _frees(self, node: str = "d") -> list[str]:
        """Return what lets a node be free."""
        prefix = self.prefix
        return [f"{prefix}_next[{node}] = {prefix}_free[0]", f"{prefix}_free[0] = {node}"]

    def remembers(self) -> list[str]:
        """Return what notes the group of the event that has entered."""
        if not self.groups.aggregated:
            return []
        group = self.whole.arrays.declare(f"{self.prefix}_g", NUMBER, self._nodes, "-1")
        # Noted in the node, so that an event that leaves needs no lookup of its group's key
        return [f"{group}[d] = {self.groups.number}", *self.groups.counts()]

    def kept(self, place: int) -> Value:
        """Return the value of an attribute of the event of node ``d``."""
        return self.kept_at(place, "d")

    def kept_at(self, place: int, node: str) -> Value:
        """Return the value of an attribute of the event of a node."""
        type = self.query.type_at(place)
        values, nulls = self.whole.attribute(f"{self.prefix}_w", place, type, self._nodes)
        return Value(f"{values}[{node}]", f"{nulls}[{node}] != 0", type)
