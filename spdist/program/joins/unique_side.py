"""What a join finds on a side that has one event of each key: in the order of the map in which Siddhi keeps them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spdist.program.expressions import FLAG, NUMBER, Value
from spdist.program.joins.side_text import SideRows, SideText
from spdist.program.parts import Whole, indent
from spdist.program.windows.kinds import Found
from spdist.program.windows.unique_keys import UniqueKeys

__all__ = ["BucketRows", "MapRows", "found_rows", "ordered_map"]

_ORDER = "map "


def ordered_map(name: str) -> str | None:
    """Return the prefix of the window that asks for the order of its keys; None where one asks for something else."""
    return name.removeprefix(_ORDER) if name.startswith(_ORDER) else None


def found_rows(whole: Whole, text: SideText, key: str) -> SideRows:
    """Return what lets the events of a side be found, in the order in which its window has them."""
    window = text.own.window
    make = {Found.BUCKETS: BucketRows, Found.MAP: MapRows}.get(Found.LIST if window is None else window.found, SideRows)
    return make(whole, text, key)


def _room_for(count: str, asks: Callable[[str, list[str]], list[str]]) -> list[str]:
    """Return what asks for room for so many results, where there are any; without room there are none."""
    asking = asks(count, [f"{count} = 0"])
    return [f"if {count} > 0:", *indent(asking)] if asking else []


class BucketRows(SideRows):
    """Finds events in the order of the buckets of their keys, which the window knows; see `SideRows`."""

    def found(
        self,
        keys: Sequence[Value],
        row: str,
        asks: Callable[[str, list[str]], list[str]],
        test: Callable[[list[str]], list[str]],
        body: list[str],
    ) -> list[str]:
        """Return what is done with each event that meets the condition: they are gathered, and sorted, before."""
        arrays, name, key, nodes = self._whole.arrays, self._text.name, self._key, self._nodes
        order, spare, bucket, hashed = (
            arrays.declare(f"{name}_{one}", NUMBER, nodes) for one in ("order", "spare", "bucket", "hash")
        )
        # A `HashMap` begins with 16 buckets.
        capacity = arrays.declare(f"{name}_capacity", NUMBER, self._text.instances, "16")
        arrays.declare("text_starts", NUMBER, "1")
        arrays.declare("text_bytes", FLAG, "1")
        count, place = self._whole.name(), self._whole.name()
        gathers = [
            f"{order}[{count}], {bucket}[{row}] = {row}, {hashed}[{row}] & ({capacity}[{key}] - 1)",
            f"{count} += 1",
        ]
        return [
            f"{count}, {row} = 0, {name}_{self.list}[{key}]",
            f"while {row} >= 0:",
            *indent([*test(gathers), f"{row} = {name}_next[{row}]"]),
            f"if {count} > 1:",
            # A stable sort: events of one bucket stay in the order of the list.
            f"    sort_places({order}, {spare}, {bucket}, text_starts, text_bytes, 0, {count}, 0)",
            *_room_for(count, asks),
            f"for {place} in range({count}):",
            f"    {row} = {order}[{place}]",
            *indent(body),
        ]


class MapRows(SideRows):
    """Finds the event of each key, in the order of a ``ConcurrentHashMap`` that keys never leave; see `SideRows`.

    Notes
    -----
    The loop asks Python for that order where keys have come since: ``q_shown`` and ``q_after`` are a list of their
    numbers in it, and ``q_shown_of`` is how many there were (`UniqueKeys.listed`), for each key of a partition.
    """

    def found(
        self,
        keys: Sequence[Value],
        row: str,
        asks: Callable[[str, list[str]], list[str]],
        test: Callable[[list[str]], list[str]],
        body: list[str],
    ) -> list[str]:
        """Return what is done with each event that meets the condition; for the parameters see `SideRows.found`."""
        arrays, name, unique = self._whole.arrays, self._text.name, self._text.unique
        assert unique is not None
        known = UniqueKeys(self._whole, self._text, unique, self._key)
        shown, of, many, room = known.of_key("shown"), known.of_key("shown_of"), known.of_key("owned"), known.room
        after, site = arrays.declare(f"{name}_after", NUMBER, room, "-1"), arrays.asks(f"{_ORDER}{name}", room)
        count, number = self._whole.name(), self._whole.name()
        return [
            # Keys never leave, so as many as before are the same ones.
            f"if {of} != {many}:",
            f"    called(callback, {site}, {self._key}, 0)",
            f"{count}, {number} = {of}, {shown}",
            *_room_for(count, asks),
            f"for _ in range({count}):",
            f"    {row}, {number} = {name}_{self.list}[{number}], {after}[{number}]",
            *indent(test(body)),
        ]
