"""A table of a program as a side of a join: the rows that an event of the other side finds, in the table's order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spdist.program.expressions import Value
from spdist.program.joins.shape import Side
from spdist.program.parts import Whole, indent
from spdist.program.tables.shape import RowSearch
from spdist.program.tables.text import TableText

__all__ = ["TableSide"]


class TableSide:
    """Writes how an event looks into a table; as `spdist.program.joins.side_text.SideRows` does for a window.

    Parameters
    ----------
    whole : Whole
        The text.
    side : Side
        The side that is the table.
    """

    def __init__(self, whole: Whole, side: Side) -> None:
        assert side.table is not None and isinstance(side.search, RowSearch)
        self._rows = TableText(whole, side.table)
        self._search = side.search
        self._name = whole.name

    def value(self, place: int, row: str) -> Value:
        """Return the value of an attribute of a row, given source of its node."""
        return self._rows.value(place, row)

    def found(
        self,
        keys: Sequence[Value],
        row: str,
        asks: Callable[[str, list[str]], list[str]],
        test: Callable[[list[str]], list[str]],
        body: list[str],
    ) -> list[str]:
        """Return what is done with each row that an event finds; for the parameters see `SideRows.found`.

        Where there may be several, they are looked for before anything is done with one: then it is known how many.
        """
        rows, search = self._rows, self._search
        if rows.table.key and search.index == rows.table.key:
            # One row at most, so nothing is gathered to be counted first
            asking = asks("1", [f"{row} = -1"])
            one = [*asking, f"if {row} >= 0:", *indent(body)] if asking else body
            return rows.found(search.index, keys, search.nulls, row, test(one))
        count, place = self._name(), self._name()
        return [
            *rows.gathered(search, keys, row, test, count),
            f"if {count} > 0:",
            *indent(asks(count, [f"{count} = 0"])),
            f"for {place} in range({count}):",
            f"    {row} = {rows.rows}[{place}]",
            *indent(body),
        ]
