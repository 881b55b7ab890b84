"""In which order the rows of an aggregation are read: that of the maps in which Siddhi keeps them.

What is closed is a table whose key is the start of a bucket and its group, what is open a map by group. All are hash
maps of texts, which iterate bucket by bucket: within one a table has what came first in front, a map what came last,
because Siddhi enters it with ``computeIfAbsent``, which also makes a map grow one entry later. What is aggregated by a
time of the events goes through one more map when it is read; where keys meet in one bucket of that, their order is not
followed up. Without groups closed rows are in the order of time here, in Siddhi in that of a set of objects without
hash codes of their own.

Source: io.siddhi.core.aggregation (BaseIncrementalValueStore, IncrementalDataAggregator,
OutOfOrderEventsDataAggregator), io.siddhi.core.util.snapshot.state.PartitionStateHolder and java.util.HashMap,
described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from spdist.java.numbers import text_of, text_of_float32
from spdist.java.objects import bucket_of, capacity_for
from spdist.language.types import Type
from spdist.operators.aggregations.buckets import Groups

__all__ = ["Found", "GroupOrder"]

#: A row to be: the start of its bucket, the key of its group, and the group's slots.
Found: TypeAlias = tuple[int, Any, list[Any]]


class GroupOrder:
    """The order of one aggregation.

    Parameters
    ----------
    types : tuple of Type
        Of the attributes of ``group by``.
    by_time : bool
        Whether it aggregates by a time of the events.
    """

    def __init__(self, types: tuple[Type, ...], by_time: bool) -> None:
        self._texts = [_real32 if kind is Type.FLOAT else text_of for kind in types]
        self._by_time = by_time

    def _text(self, key: Any) -> str:
        """Return the text of a group's key, each part with a mark behind it."""
        parts = (key,) if len(self._texts) == 1 else key
        return "".join([f"{text(part)}:-:" for text, part in zip(self._texts, parts, strict=True)])

    def code(self, key: Any) -> int:
        """Return the hash of a group's key, of which a map uses as many of the lowest bits as it has buckets for."""
        return bucket_of(self._text(key), 1 << 31)

    def places(self, codes: Any) -> Any:
        """Return where groups stand in the order of their map, given an array of hashes as the groups came."""
        mask = capacity_for(len(codes)) - 1
        latest = codes[::-1] & mask
        # Numbers of two bytes are sorted by counting them.
        return len(codes) - 1 - latest.astype("u2" if mask < 1 << 16 else "i8").argsort(kind="stable")

    def groups(self, groups: Groups) -> Groups:
        """Return the groups of a bucket, given in the order in which they came, in that of their map."""
        mask = capacity_for(len(groups)) - 1
        latest = list(groups)[::-1]
        return {key: groups[key] for key in sorted(latest, key=lambda key: self.code(key) & mask)}

    def closed(self, rows: list[Found], most: int) -> list[Found]:
        """Put the rows of closed buckets, the oldest bucket first, in the order of their table.

        Parameters
        ----------
        rows : list
            The rows.
        most : int
            How many rows the table ever held at a time.
        """
        capacity = capacity_for(most)
        if not self._texts:
            return rows
        return sorted(rows, key=lambda row: bucket_of(f"{row[0]}:-:{self._text(row[1])}", capacity))

    def open(self, rows: list[Found]) -> list[Found]:
        """Put the rows of open buckets, as they are found, in the order of the map they are added up in."""
        capacity = capacity_for(len(rows) - 1)
        latest = rows[::-1]
        return sorted(latest, key=lambda row: bucket_of(f"{self._text(row[1])}-{row[0]}", capacity))

    def read(self, rows: list[Found], size: Callable[[], int]) -> list[Found]:
        """Put all rows that are read in the order in which they leave.

        Parameters
        ----------
        rows : list
            The rows, in the order in which they are found.
        size : Callable
            Tells how many rows are found where only those of one key are given.
        """
        if not self._by_time or len(rows) < 2:
            return rows
        capacity = capacity_for(size() - 1)
        latest = rows[::-1]
        return sorted(latest, key=lambda row: bucket_of(f"{row[0]}:-:{self._text(row[1])}", capacity))


def _real32(text: str) -> str:
    return text if text == "null" else text_of_float32(float(text))
