"""The runs of a partition's keys in the text of a program, where keys are computed, or an event has several."""

from __future__ import annotations

from dataclasses import replace

from spdist.language import ast
from spdist.language.types import Schema
from spdist.program.expressions import NUMBER, Value
from spdist.program.function_text import computed_value
from spdist.program.key_text import finds
from spdist.program.partition_key import key_writer, most_keys, pairs
from spdist.program.parts import Block, Most, Whole, indent
from spdist.program.shape import Keyed
from spdist.program.text_functions import Computed

__all__ = ["ComputedKeys"]


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
    schema : Schema
        Of their stream.
    """

    def __init__(self, whole: Whole, keyed: Keyed, block: Block, schema: Schema) -> None:
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
        self._pairs = self._written(given, schema, events, has)
        begin, end = f"{events}[{self._place}]", f"({events}[{self._last} - 1] + 1)"
        #: The events of a run; what is between them has no key.
        self.run = replace(block, begin=begin, end=end, guard=f"{has}[{{}}] != 0", most=most)

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
