"""Hash indexes over the rows of a table: from attribute values to the numbers of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

from spdist.operators.base import Arrival, Row

__all__ = ["HashIndex"]


class HashIndex:
    """The rows of a table by the values of some attributes.

    Parameters
    ----------
    attributes : tuple of int
        Positions of the attributes, in the order of the key's parts.
    rows : Iterable of (number, row)
        What the table holds already.

    State
    -----
    ``buckets``: key → numbers of the rows that have it; O(rows). It follows from the table's rows and is never stored.
    """

    __slots__ = ("_moved", "attributes", "buckets", "key_of")

    def __init__(self, attributes: tuple[int, ...], rows: Iterable[Arrival] = ()) -> None:
        self.attributes = attributes
        self.key_of: Callable[[Row], Any] = itemgetter(*attributes)
        self.buckets: dict[Any, dict[int, None]] = {}
        # Keys whose bucket got a row that is older than its last one.
        self._moved: set[Any] = set()
        self.fill(rows)

    def fill(self, rows: Iterable[Arrival]) -> None:
        """Forget everything and take in `rows`."""
        self.buckets.clear()
        self._moved.clear()
        for number, row in rows:
            self.add(number, row)

    def add(self, number: int, row: Row) -> None:
        """Take in a row."""
        key = self.key_of(row)
        bucket = self.buckets.get(key)
        if bucket is None:
            self.buckets[key] = {number: None}
            return
        # A row whose values changed comes with its old number; its place is found when somebody looks.
        if number < next(reversed(bucket)):
            self._moved.add(key)
        bucket[number] = None

    def remove(self, number: int, row: Row) -> None:
        """Forget a row."""
        key = self.key_of(row)
        bucket = self.buckets[key]
        del bucket[number]
        if not bucket:
            del self.buckets[key]
            self._moved.discard(key)

    def replace(self, number: int, old: Row, new: Row) -> None:
        """Take note that a row has changed."""
        if self.key_of(old) != self.key_of(new):
            self.remove(number, old)
            self.add(number, new)

    def numbers(self, key: Any) -> Iterable[int]:
        """Return the numbers of the rows that have `key`, in ascending order."""
        if key in self._moved:
            self.buckets[key] = dict.fromkeys(sorted(self.buckets[key]))
            self._moved.discard(key)
        return self.buckets.get(key, ())
