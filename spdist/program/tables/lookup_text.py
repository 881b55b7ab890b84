"""A join of a stream with a table of a program by the table's primary key: an event finds one row at most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from spdist.language import ast
from spdist.program.expressions import TypedWriter, Value, either, zero_of
from spdist.program.parts import Whole, tested
from spdist.program.shape import Looked
from spdist.program.tables.text import TableText

__all__ = ["LookupText"]


class LookupText:
    """Writes how an event finds its row.

    Parameters
    ----------
    whole : Whole
        The text.
    read : Looked
        The query.
    """

    def __init__(self, whole: Whole, read: Looked) -> None:
        self._read = read
        self._rows = TableText(whole.arrays, read.table, whole.name)
        self._row, self._hit = whole.name(), whole.name()

    def value(self, place: int) -> Value:
        """Return an attribute of the row that was found."""
        value = self._rows.value(place, self._row)
        if not self._read.outer:
            return value
        text = f"({value.text} if {self._row} >= 0 else {zero_of(value.type)})"
        return replace(value, text=text, null=either(f"{self._row} < 0", value.null))

    def missing(self, node: ast.IsNullEvent) -> str:
        """Return source of whether a side has no event."""
        of_table = self._read.checked.scope.find(node.stream) != self._read.own
        return f"{self._row} < 0" if of_table and self._read.outer else "False"

    def lines(self, writer: Callable[[], TypedWriter], body: list[str]) -> list[str]:
        """Return what is done with an event and its row; with one that finds none only in an outer join."""
        search, own = self._read.search, writer()
        keys = [own.kept(own.write(value)) for value in search.values]
        found = [f"{self._hit} = True"] if self._read.outer else body
        found = tested(search.rest, writer, found)
        looks = [*own.lines, *self._rows.found(search.index, keys, search.nulls, self._row, found)]
        if not self._read.outer:
            return looks
        return [f"{self._hit} = False", *looks, f"if not {self._hit}:", f"    {self._row} = -1", *body]
