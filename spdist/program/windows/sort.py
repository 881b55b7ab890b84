"""The window ``sort`` holds the events that come first in an order.

The list of a key is as its events came until the first one is pushed out, then in that order, as joins find it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

from spdist.java.order import place_of_text
from spdist.language import ast
from spdist.language.types import Type
from spdist.operators.core.state_columns import Column, numbers_of
from spdist.program.expressions import FLAG, NUMBER, NotTyped, Value
from spdist.program.parts import QueryText, indent
from spdist.program.registry import WINDOWS
from spdist.program.running.running import Running
from spdist.program.shape import Read
from spdist.program.states.key_words import real_words
from spdist.program.states.nodes import stored_list
from spdist.program.states.window import ListStates, Loaded
from spdist.program.windows.kinds import Sliding, WindowCall, constant_of, size_of
from spdist.program.windows.sliding import Latest
from spdist.program.windows.text import WindowWriter

__all__ = ["Sorted", "SortedWriter"]


@WINDOWS.typed("sort")
@dataclass(frozen=True, slots=True)
class Sorted(Sliding):
    """A window that holds the `length` events that come first.

    Parameters
    ----------
    orders : tuple of (int, bool)
        By which attributes, and whether each is descending.
    """

    orders: tuple[tuple[int, bool], ...] = ()

    @classmethod
    def of(cls, given: WindowCall) -> Sliding:
        """Return what an app says; where it holds nothing there is no order."""
        length, *by = given.call.args
        orders: list[tuple[int, bool]] = []
        for one in by:
            if isinstance(one, ast.Variable):
                place = given.schema.index(one.name)
                assert place is not None
                if given.schema.types[place] is Type.OBJECT:
                    raise NotTyped("an order of objects", given.call.span)
                orders.append((place, False))
            elif isinstance(one, ast.Literal):
                orders[-1] = orders[-1][0], str(one.value).lower() == "desc"
        size = constant_of(length)
        assert isinstance(size, int)
        return cls(length=size, orders=tuple(orders)) if size > 0 and orders else Latest(length=size_of(size))

    @property
    def known(self) -> set[int]:
        """The attributes that must not be null."""
        return {place for place, _ in self.orders}

    @property
    def is_queue(self) -> bool:
        """Whether events leave the list in the order in which they came."""
        return False

    @property
    def writer(self) -> type[SortedWriter]:
        """What writes it."""
        return SortedWriter

    @property
    def states(self) -> SortedStates:
        """What knows its state."""
        return SortedStates(self)


class SortedWriter(WindowWriter):
    """Writes what happens in a window ``sort``; see `WindowWriter`.

    Notes
    -----
    ``q_p0``, ``q_p1``… are the places of a node in the order, by attributes that are no texts. A new one is looked for
    from both ends of the list, so it costs at most half of it, and nothing where the event is pushed out itself.
    ``q_ordered`` is whether the list is in order.
    """

    @property
    def _orders(self) -> tuple[tuple[int, bool], ...]:
        assert isinstance(self.window, Sorted)
        return self.window.orders

    def enters(self, read: Callable[[int], Value], timestamp: str, leaving: list[str]) -> list[str]:
        """Return what lets the new event enter; what it pushes out leaves after it."""
        prefix, key = self.prefix, self.key
        self.whole.arrays.declare(f"{prefix}_before", NUMBER, self._nodes, "-1")
        ordered = f"{self.whole.arrays.declare(f'{prefix}_ordered', FLAG, self._room)}[{key}]"
        fresh, rest = self.whole.name(), self.whole.name()
        links = f"{prefix}_head, {prefix}_head_end, {prefix}_before, {prefix}_next"
        places = []
        for number, (attribute, descending) in enumerate(self._orders):
            value = read(attribute)
            # Texts are compared by their bytes: their numbers say nothing of an order
            if value.type is Type.STRING:
                continue
            text = f"real_place({value.text})" if value.type in (Type.FLOAT, Type.DOUBLE) else value.text
            array = self.whole.arrays.declare(f"{prefix}_p{number}", NUMBER, self._nodes)
            # `~` turns the order of all longs round; the least one has no negative
            places.append(f"{array}[d] = {f'~({text})' if descending else text}")
        return [
            *self._holds(read, timestamp),
            *places,
            f"{prefix}_head_size[{key}] += 1",
            f"if {prefix}_head_size[{key}] <= {self.window.length}:",
            f"    append({links}, {key}, d)",
            "else:",
            f"    {fresh}, {rest} = d, -1",
            # The first event too many puts the list in order: all go in anew, the new one last, so equal ones stay
            f"    if {ordered} == 0:",
            f"        {ordered}, {rest} = 1, {prefix}_head[{key}]",
            f"        {prefix}_head[{key}], {prefix}_head_end[{key}] = -1, -1",
            "    while True:",
            f"        d = {fresh}",
            f"        if {rest} >= 0:",
            f"            d, {rest} = {rest}, {prefix}_next[{rest}]",
            *indent(indent(self._inserts())),
            f"        if d == {fresh}:",
            "            break",
        ]

    def _inserts(self) -> list[str]:
        """Return what puts node ``d`` into its place."""
        prefix, key = self.prefix, self.key
        return [
            f"low, high = {prefix}_head[{key}], {prefix}_head_end[{key}]",
            f"while high >= 0 and ({self._is_before('high')}):",
            f"    high = {prefix}_before[high]",
            f"    if {self._is_before('low')}:",
            f"        high = {prefix}_before[low]",
            "        break",
            f"    low = {prefix}_next[low]",
            f"low = {prefix}_head[{key}]",
            "if high >= 0:",
            f"    low = {prefix}_next[high]",
            f"    {prefix}_next[high] = d",
            "else:",
            f"    {prefix}_head[{key}] = d",
            f"{prefix}_before[d], {prefix}_next[d] = high, low",
            "if low >= 0:",
            f"    {prefix}_before[low] = d",
            "else:",
            f"    {prefix}_head_end[{key}] = d",
        ]

    def _is_before(self, node: str) -> str:
        """Return the condition under which the new event comes before another one: of equal ones it is the last."""
        test = ""
        # From the last one to the first: each decides unless its values are equal
        for number, (attribute, descending) in reversed(list(enumerate(self._orders))):
            is_text = self.query.read.types[attribute] is Type.STRING
            mine, other = (
                self.kept_at(attribute, one).text if is_text else f"{self.prefix}_p{number}[{one}]"
                for one in ("d", node)
            )
            less = self._text_is_less(mine, other, descending) if is_text else f"{mine} < {other}"
            test = f"{less} or ({mine} == {other} and ({test}))" if test else less
        return test

    def _text_is_less(self, mine: str, other: str, descending: bool) -> str:
        self.whole.arrays.declare("text_starts", NUMBER, "1")
        self.whole.arrays.declare("text_bytes", FLAG, "1")
        self.whole.sorts_texts = True
        return f"text_is_less(text_starts, text_bytes, {', '.join((other, mine) if descending else (mine, other))})"

    def pushes_out(self, leaving: list[str]) -> list[str]:
        """Return what lets the last event leave where there are too many; for `leaving` see `enters`."""
        prefix, key = self.prefix, self.key
        return [
            f"if {prefix}_head_size[{key}] > {self.window.length}:",
            f"    d = {prefix}_head_end[{key}]",
            f"    low = {prefix}_before[d]",
            f"    {prefix}_head_end[{key}] = low",
            "    if low >= 0:",
            f"        {prefix}_next[low] = -1",
            "    else:",
            f"        {prefix}_head[{key}] = -1",
            f"    {prefix}_head_size[{key}] -= 1",
            *indent(self._left(leaving)),
        ]


class SortedStates(ListStates):
    """The state of a window ``sort``: the events held."""

    window: Sorted

    def loaded(self, read: Read, states: Column) -> Loaded:
        """Return what is held."""
        return Loaded({"head": states})

    def stored(self, running: Running, query: QueryText, count: int) -> Column:
        """Return the states of so many keys of a partition, by number; or one."""
        return stored_list(running, query, "head", count)

    def fresh(self, read: Read) -> Any:
        """Return the state of a window that has seen nothing."""
        return []

    def load_more(self, running: Running, query: QueryText, numbers: Any, states: Column, found: Loaded) -> None:
        """Note the places of the first nodes in their order, and which full lists are in it."""
        held, prefix, arrays = found.lists["head"], query.name, running.arrays
        sizes, (_, rows) = held.sizes(), held.items_held().parts(2)
        owners, count = numpy.repeat(numpy.arange(len(sizes)), sizes), len(rows)
        attributes = rows.parts(len(query.read.types)) if count else ()
        # Which events stand behind a greater one, and of which that is not known yet
        greater, alike = numpy.zeros(max(0, count - 1), bool), numpy.ones(max(0, count - 1), bool)
        for number, (place, descending) in enumerate(self.window.orders if count else ()):
            if not attributes[place].known().all():
                raise ValueError("a null has no place in an order")
            words = _words(attributes[place], query.read.types[place])
            if query.read.types[place] is not Type.STRING:
                arrays[f"{prefix}_p{number}"][:count] = ~words if descending else words
            words = ~words if descending else words
            greater |= alike & (words[:-1] > words[1:])
            alike &= words[:-1] == words[1:]
        wrong = owners[1:][greater & (owners[:-1] == owners[1:])]
        # Where a full list is in order already, putting it in order would change nothing
        in_order = numpy.bincount(wrong, minlength=len(sizes)) == 0
        arrays[f"{prefix}_ordered"][numbers] = in_order & (sizes == self.window.length)
        arrays[f"{prefix}_before"][:count] = numpy.arange(-1, count - 1)
        heads = arrays[f"{prefix}_head"]
        arrays[f"{prefix}_before"][heads[heads >= 0]] = -1


def _words(values: Column, type: Type) -> Any:
    """Return whole numbers that are ordered as Java orders the values."""
    if type is Type.STRING:
        texts = values.values()
        ranks = {text: rank for rank, text in enumerate(sorted(set(texts), key=place_of_text))}
        return numpy.array(list(map(ranks.__getitem__, texts)), numpy.int64)
    numbers, _ = numbers_of(values)
    if type not in (Type.FLOAT, Type.DOUBLE):
        return numbers.astype(numpy.int64)
    bits = real_words(numbers)
    return numpy.where(bits >= 0, bits, bits ^ numpy.iinfo(numpy.int64).max)
