"""Partitions in the text of a program: runs of a key, where keys are computed or several; keys that were idle."""

from __future__ import annotations

from dataclasses import replace

from spdist.language import ast
from spdist.language.types import Schema
from spdist.operators.core.triggers import PURGE_RANK
from spdist.operators.partitions.purging import MOST_PHASES
from spdist.program.expressions import FLAG, NUMBER, NotTyped, Value
from spdist.program.functions.computed import Computed
from spdist.program.functions.text import computed_value
from spdist.program.joins.demand_text import Demand
from spdist.program.key_text import finds
from spdist.program.partition_key import key_writer, most_keys, pairs
from spdist.program.parts import Block, Most, QueryText, Whole, asked, indent
from spdist.program.patterns.state_text import begins_waiting
from spdist.program.processors.text import begins_reordering
from spdist.program.queries.limit_text import begins_ticking
from spdist.program.shape import Keyed, Shape
from spdist.program.timer_text import NEVER, declares_timers, rank

__all__ = ["ComputedKeys", "EveryKey", "Purging", "new_key", "ordered_partition", "purge_rank"]


class ComputedKeys:
    """Writes the loop over the runs of one key, one after the other.

    Parameters
    ----------
    whole : Whole
        The text.
    keyed : Keyed
        The partition.
    block : Block
        The events.
    """

    def __init__(self, whole: Whole, keyed: Keyed, block: Block) -> None:
        self._whole = whole
        self._table = f"p{keyed.number}"
        self._keys = f"keys {keyed.number}"
        self._block = block
        given = keyed.computed[block.stream]
        prefix = f"{self._table}_{block.owner}"
        room = f"runs {prefix}"
        self._words, events, has = (
            whole.arrays.declare(f"{prefix}_{one}", NUMBER, room) for one in ("words", "events", "has")
        )
        most = Most({one: number * most_keys(given) for one, number in block.most.items()})
        whole.count(room, most)
        whole.count(self._keys, most)
        self._count, self._place, self._last = (whole.name() for _ in range(3))
        #: Source of the number of the key.
        self.key = whole.name()
        self._pairs = self._written(given, keyed.schemas[block.stream], events, has)
        begin, end = f"{events}[{self._place}]", f"({events}[{self._last} - 1] + 1)"
        #: The events of a run; what is between them has no key.
        self.run = replace(block, begin=begin, end=end, guard=f"{has}[{{}}] != 0", most=most, single=False)

    def _written(self, given: ast.PartitionKey, schema: Schema, events: str, has: str) -> list[str]:
        """Return what writes the keys of each event, and how many it has."""
        block, whole, count, event = self._block, self._whole, self._count, self._whole.name()

        def read(attribute: int) -> Value:
            values, nulls = whole.attribute(block.owner, attribute, block.types[attribute], block.room)
            return Value(f"{values}[{event}]", f"{nulls}[{event}] != 0", block.types[attribute])

        def function(given: Computed) -> Value | None:
            return computed_value(whole, block, event, given)

        writer = key_writer(schema, read, f"{block.timestamp}[{event}]", whole.name, whole.text_number, function)
        body = pairs(writer, given, event, self._words, events, count)
        return [
            f"{count} = 0",
            f"for {event} in range({block.begin}, {block.end}):",
            f"    {has}[{event}] = {count}",
            *indent(body),
            # Before it had where its keys begin, so this is how many it has
            f"    {has}[{event}] = {count} - {has}[{event}]",
        ]

    def lines(self, begins: list[str], queries: list[str]) -> list[str]:
        """Return the loop, given what begins with a key's first event, and the blocks of the queries over a run."""
        words, place, last, count = self._words, self._place, self._last, self._count
        return [
            *self._pairs,
            f"{place} = 0",
            f"while {place} < {count}:",
            *indent(finds(self._whole.arrays, self._table, self._keys, [f"{words}[{place}]"], self.key)),
            *indent(begins),
            f"    {last} = {place} + 1",
            f"    while {last} < {count} and {words}[{last}] == {words}[{place}]:",
            f"        {last} += 1",
            *indent(queries),
            f"    {place} = {last}",
        ]


class EveryKey:
    """Writes the loop over all keys that there are: what has no key goes to each, in the order of Java's set of them.

    How many there are is known when it comes: so it asks for room. That order is asked for where keys have come, or
    gone, since: ``p_sorted`` is how many had come, and were there.

    Parameters
    ----------
    whole : Whole
        The text.
    keyed : Keyed
        The partition.
    block : Block
        The events.
    shape : Shape
        The app's queries.
    """

    def __init__(self, whole: Whole, keyed: Keyed, block: Block, shape: Shape) -> None:
        if shape.leads_back(keyed, block.stream):
            raise NotTyped("a stream without a key that a partition may write to", keyed.queries[0].checked.query.span)
        arrays, prefix, keys = whole.arrays, f"p{keyed.number}", f"keys {keyed.number}"
        arrays.table(prefix, 1, keys)
        self._prefix = prefix
        self._block = block
        self._order = arrays.declare(f"{prefix}_order", NUMBER, keys)
        self._sorted = arrays.declare(f"{prefix}_sorted", NUMBER, "2", "-1")
        self._site = arrays.asks(_order_name(keyed.number), keys)
        self._demand = Demand(arrays, f"{prefix}_every", f"every {prefix}")
        #: Source of the number of a key, and what it gets.
        self.key = whole.name()
        self.run = replace(block, most=Most({asked(f"{prefix}_every"): 1}), single=False)
        self._count, self._place = whole.name(), whole.name()

    def lines(self, queries: list[str]) -> list[str]:
        """Return the loop, given the blocks of the queries over what a key gets."""
        count, meta, none = self._count, f"{self._prefix}_meta", [f"{self._count} = 0"]
        ask = f"if called(callback, {self._site}, 0, 0) != 0:"
        bound = f"{count} * ({self._block.end} - {self._block.begin})"
        return [
            f"{count} = {meta}[2]",
            f"if {self._sorted}[0] != {meta}[0] or {self._sorted}[1] != {count}:",
            *indent([ask, *indent(none)]),
            *self._demand.asks(bound, "0", none),
            f"for {self._place} in range({count}):",
            f"    {self.key} = {self._order}[{self._place}]",
            *indent(queries),
        ]


class Purging:
    """Writes what lets keys of a partition go that were idle; for the arrays see `machine.purge_kernels`.

    A key that is gone is found no more, and its timers do nothing. What it has left stays where it is, under its
    number, until there is much of that (`spdist.program.states.partition.forget_keys`).

    Parameters
    ----------
    whole : Whole
        The text.
    keyed : Keyed
        The partition.
    """

    def __init__(self, whole: Whole, keyed: Keyed) -> None:
        assert keyed.purge is not None
        arrays, keys = whole.arrays, f"keys {keyed.number}"
        self._prefix = prefix = f"p{keyed.number}"
        declares_timers(arrays)
        self._used = arrays.declare(f"{prefix}_used", NUMBER, keys, NEVER)
        #: The array of whether each key is gone.
        self.gone = arrays.declare(f"{prefix}_gone", FLAG, keys)
        self._ends = arrays.declare(f"{prefix}_ends", NUMBER, f"ends {prefix}", width=3)
        #: How many series of looks there are, and each; when the next look is, and when an event was last noted.
        self._looks = arrays.declare(f"{prefix}_looks", NUMBER, str(2 * MOST_PHASES + 1))
        self._due = arrays.declare(f"{prefix}_due", NUMBER, "2", NEVER)
        # Without the list of free numbers: those of keys that are gone are not given again
        self._table = arrays.table(prefix, 1, keys).rpartition(", ")[0]
        self._interval, self._idle = keyed.purge
        self.rank = purge_rank(keyed)

    def uses(self, whole: Whole, most: Most, key: str) -> list[str]:
        """Return what notes that a key gets events, given how many keys may, and source of its number."""
        for room in (f"ends {self._prefix}", "timers"):
            whole.count(room, most)
        due, since = f"{self._due}[0]", f"longest_idle({self._ends}, {self._used}) + {self._idle}"
        return [
            f"if {self._used}[{key}] == {NEVER}:",
            # One entry for each key, brought up to date only by who asks for the oldest: no heap for each event
            f"    timer_set({self._ends}, now, {key}, 0)",
            f"{self._used}[{key}] = now",
            # Once for each time of the clock is enough
            f"if now != {self._due}[1] or {due} == {NEVER}:",
            f"    {self._due}[1] = now",
            f"    if look_begins({self._looks}, now % {self._interval}, now) or {due} == {NEVER}:",
            f"        look = look_after({self._looks}, {self._interval}, {since})",
            f"        if {due} == {NEVER} or look < {due}:",
            f"            {due} = look",
            f"            timer_set(timers, look, {self.rank}, 0)",
        ]

    def wakes(self) -> list[str]:
        """Return what is done when idle keys are to be looked for; a look that another came before does nothing."""
        due, ends = f"{self._due}[0]", self._ends
        return [
            f"if due == {due}:",
            f"    while {ends}[0] > 0 and longest_idle({ends}, {self._used}) + {self._idle} < due:",
            f"        {self.gone}[{ends}[4]] = 1",
            f"        forgotten({self._table}, {ends}[4], 1)",
            f"        timer_gone({ends})",
            f"    {due} = {NEVER}",
            f"    if {ends}[0] > 0:",
            f"        {due} = look_after({self._looks}, {self._interval}, {ends}[3] + {self._idle})",
            f"        timer_set(timers, {due}, {self.rank}, 0)",
        ]


_ORDER = "order "


def _order_name(number: int) -> str:
    """Return who asks for the order of a partition's keys."""
    return f"{_ORDER}{number}"


def ordered_partition(name: str) -> int | None:
    """Return the number of the partition whose keys' order somebody asks for; None where one asks for room."""
    return int(name.removeprefix(_ORDER)) if name.startswith(_ORDER) else None


def purge_rank(keyed: Keyed) -> int:
    """Return the rank of the timer that looks for idle keys."""
    return rank(PURGE_RANK + keyed.number)


def new_key(whole: Whole, keyed: Keyed, most: Most, key: str) -> list[str]:
    """Return what begins with the first event of a key, and notes that it gets one; `most`: how many may come."""
    lines: list[str] = []
    for query in (QueryText(read, keyed) for read in keyed.queries):
        for begins in (begins_ticking, begins_waiting, begins_reordering):
            lines += begins(whole, query, key)
    return lines if keyed.purge is None else [*lines, *Purging(whole, keyed).uses(whole, most, key)]
