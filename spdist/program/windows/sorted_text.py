"""Windows of a program that hold the events that come first in an order.

The list of a key is as its events came until the first one is pushed out, then in that order, as joins find it.
"""

from __future__ import annotations

from collections.abc import Callable

from spdist.language.types import Type
from spdist.program.expressions import FLAG, NUMBER, Value
from spdist.program.parts import indent
from spdist.program.windows.text import WindowWriter

__all__ = ["SortedWriter"]


class SortedWriter(WindowWriter):
    """Writes what happens in a window ``sort``; see `WindowWriter`.

    Notes
    -----
    ``q_p0``, ``q_p1``… are the places of a node in the order, by attributes that are no texts. A new one is looked for
    from both ends of the list, so it costs at most half of it, and nothing where the event is pushed out itself.
    ``q_ordered`` is whether the list is in order.
    """

    def enters(self, read: Callable[[int], Value], timestamp: str, leaving: list[str]) -> list[str]:
        """Return what lets the new event enter; what it pushes out leaves after it."""
        prefix, key = self._prefix, self._key
        self._whole.arrays.declare(f"{prefix}_before", NUMBER, self._nodes, "-1")
        ordered = f"{self._whole.arrays.declare(f'{prefix}_ordered', FLAG, self._room)}[{key}]"
        fresh, rest = self._whole.name(), self._whole.name()
        links = f"{prefix}_head, {prefix}_head_end, {prefix}_before, {prefix}_next"
        places = []
        for number, (attribute, descending) in enumerate(self._window.orders):
            value = read(attribute)
            if value.type is Type.STRING:
                continue
            text = f"real_place({value.text})" if value.type in (Type.FLOAT, Type.DOUBLE) else value.text
            array = self._whole.arrays.declare(f"{prefix}_p{number}", NUMBER, self._nodes)
            places.append(f"{array}[d] = {f'~({text})' if descending else text}")
        return [
            *self._holds(read, timestamp),
            *places,
            f"{prefix}_head_size[{key}] += 1",
            f"if {prefix}_head_size[{key}] <= {self._window.length}:",
            f"    append({links}, {key}, d)",
            "else:",
            f"    {fresh}, {rest} = d, -1",
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
        prefix, key = self._prefix, self._key
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
        for number, (attribute, descending) in reversed(list(enumerate(self._window.orders))):
            is_text = self._query.read.types[attribute] is Type.STRING
            mine, other = (
                self.kept_at(attribute, one).text if is_text else f"{self._prefix}_p{number}[{one}]"
                for one in ("d", node)
            )
            less = self._text_is_less(mine, other, descending) if is_text else f"{mine} < {other}"
            test = f"{less} or ({mine} == {other} and ({test}))" if test else less
        return test

    def _text_is_less(self, mine: str, other: str, descending: bool) -> str:
        self._whole.arrays.declare("text_starts", NUMBER, "1")
        self._whole.arrays.declare("text_bytes", FLAG, "1")
        self._whole.sorts_texts = True
        return f"text_is_less(text_starts, text_bytes, {', '.join((other, mine) if descending else (mine, other))})"

    def pushes_out(self, leaving: list[str]) -> list[str]:
        """Return what lets the last event leave where there are too many; for `leaving` see `enters`."""
        prefix, key = self._prefix, self._key
        return [
            f"if {prefix}_head_size[{key}] > {self._window.length}:",
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
