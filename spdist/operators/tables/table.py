"""Tables in memory: rows that queries insert, change, delete and look up.

Without a primary key a table is a list that may hold equal rows, in the order of their insertion. With one, a row whose
key is taken is refused, and rows are in the order of Siddhi's maps: where the only key is a number, in that of the key,
else in that of hash codes (`spdist.operators.tables.order`). Conditions find rows by the key, by ``@Index`` attributes,
and by hash indexes made where queries ask for equalities; none of them changes what is found, or in which order.

Source: io.siddhi.core.table.InMemoryTable and holder.IndexEventHolder, described in our own words.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

from spdist.errors import ErrorKind, UndefinedNameError
from spdist.language import ast
from spdist.language.types import Schema
from spdist.operators.base import Arrival, Row
from spdist.operators.tables.index import HashIndex
from spdist.operators.tables.order import KeyOrder, key_of, key_order
from spdist.operators.tables.stores import Index

__all__ = ["Table", "keyed_attributes", "make_table"]

log = logging.getLogger(__name__)


class Table:
    """A table in memory (`spdist.operators.tables.stores.Store`).

    Each row has a number, which grows with each insertion and stays when the row is changed, unless its key is; it
    stands where streams have the timestamp, which nothing in SiddhiQL reads of a table's row.

    Parameters
    ----------
    id : str
        The table's name.
    schema : Schema
        Its attributes.
    key : tuple of int
        Positions of the attributes of the primary key; empty where there is none.
    indexed : Sequence of int
        Positions of the attributes that have an ``@Index``.

    State
    -----
    The rows, the number of the next one, and how many there ever were at a time: O(rows). ``refused`` counts rows whose
    key was taken.
    """

    def __init__(self, id: str, schema: Schema, key: tuple[int, ...] = (), indexed: Sequence[int] = ()) -> None:
        self.id = id
        self.schema = schema
        self.key = key
        self.refused = 0
        self._order: KeyOrder | None = key_order(schema, key) if key else None
        self._key_of: Callable[[Row], Any] | None = key_of(schema, key) if key else None
        self._next = 0
        # How many rows there were before some were deleted, where those were more.
        self._most = 0
        # Generated code holds these very objects.
        self.rows: dict[int, Arrival] = {}
        self.keys: dict[Any, int] = {}
        self.indexes: dict[tuple[int, ...], HashIndex] = {(p,): HashIndex((p,)) for p in indexed}
        # Numbers of the rows in the order of the key, where that is known.
        self._sorted: list[int] | None = None

    def _fill(self, rows: Iterable[Arrival]) -> None:
        """Have these rows, each given with its number, and no others."""
        self.rows.clear()
        self.rows.update((number, (number, row)) for number, row in rows)
        self.keys.clear()
        if self._key_of is not None:
            self.keys.update((self._key_of(row), number) for number, row in self.rows.values())
        self._sorted = None
        for index in self.indexes.values():
            index.fill(self.rows.values())

    # Reading.

    def __len__(self) -> int:
        return len(self.rows)

    def held_rows(self) -> int:
        """Return how many rows there are."""
        return len(self.rows)

    def contents(self) -> Iterable[Arrival]:
        """Return number and row of everything in the table, in its order."""
        if self._order is None:
            return self.rows.values()
        if self._sorted is None:
            self._sorted = self._arranged(self.rows)
        rows = self.rows
        return [rows[number] for number in self._sorted]

    def _arranged(self, numbers: Iterable[int]) -> list[int]:
        """Return numbers of rows, ascending, in the order of the key."""
        rows, values = self.rows, itemgetter(*self.key)
        assert self._order is not None
        rank = self._order.rank(max(self._most, len(rows)))
        # Stable: within a bucket of Java's map rows are in the order in which they came, that of their numbers.
        return sorted(numbers, key=lambda number: rank(values(rows[number][1])))

    @property
    def null_keys(self) -> bool:
        """Whether the primary key may be null; null finds it then, other than anything else in SiddhiQL."""
        return self._order is not None and not self._order.by_value

    def index(self, attributes: tuple[int, ...]) -> Index:
        """Return the index that serves a condition which fixes `attributes`; makes one where there is none."""
        known = self.known_index(attributes)
        if known is None:
            # One index for a set of attributes, in whatever order conditions name them.
            wanted = tuple(sorted(attributes))
            made = self.indexes[wanted] = HashIndex(wanted, self.rows.values())
            known = self._answering(made)
        return known

    def known_index(self, attributes: tuple[int, ...]) -> Index | None:
        """Return an index that is there already and serves a condition which fixes `attributes`."""
        fixed = set(attributes)
        if self.key and fixed.issuperset(self.key):
            return Index(self.key, self._with_key, nulls=self.null_keys)
        serving = [index for index in self.indexes.values() if fixed.issuperset(index.attributes)]
        return self._answering(max(serving, key=lambda index: len(index.attributes))) if serving else None

    def _answering(self, index: HashIndex) -> Index:
        rows = self.rows
        if self._order is not None:

            def lookup(key: Any) -> Iterable[Arrival]:
                return [rows[number] for number in self._arranged(index.numbers(key))]
        else:

            def lookup(key: Any) -> Iterable[Arrival]:
                return [rows[number] for number in index.numbers(key)]

        return Index(index.attributes, lookup)

    def _with_key(self, key: Any) -> tuple[Arrival, ...]:
        number = self.keys.get(key)
        return () if number is None else (self.rows[number],)

    # Writing.

    def insert(self, row: Row) -> bool:
        """Add a row; returns False, and leaves the table as it is, where the row's primary key is taken.

        Raises
        ------
        ValueError
            The primary key is a number and is null.
        """
        number = self._next
        if self._key_of is not None:
            key = self._key_of(row)
            if key in self.keys:
                self._refuse(key)
                return False
            self._check_key(key)
            self.keys[key] = number
            self._sorted = None
        self._next = number + 1
        self.rows[number] = (number, row)
        for index in self.indexes.values():
            index.add(number, row)
        return True

    def delete(self, found: Iterable[Arrival]) -> None:
        """Remove rows, given as `contents` or an index gave them."""
        # Java's map does not shrink, so its order depends on the most rows it has held.
        self._most = max(self._most, len(self.rows))
        for number, row in found:
            del self.rows[number]
            if self._key_of is not None:
                del self.keys[self._key_of(row)]
                self._sorted = None
            for index in self.indexes.values():
                index.remove(number, row)

    def change(self, found: Sequence[Arrival], rows: Sequence[Row]) -> bool:
        """Replace the rows `found` by `rows`; all of them or, where a primary key would be there twice, none.

        A row keeps its place, unless its key changes: then it comes where a row with that key would be inserted.
        """
        moved = {} if self._key_of is None else self._free(self._key_of, found, rows)
        if moved is None:
            return False
        for (number, old), row in zip(found, rows, strict=True):
            place = moved.get(number)
            if place is None:
                self.rows[number] = (number, row)
                for index in self.indexes.values():
                    index.replace(number, old, row)
            else:
                del self.rows[number]
                self.rows[place] = (place, row)
                for index in self.indexes.values():
                    index.remove(number, old)
                    index.add(place, row)
        return True

    def _free(
        self, key_of: Callable[[Row], Any], found: Sequence[Arrival], rows: Sequence[Row]
    ) -> dict[int, int] | None:
        """Move the keys of rows that are about to change; returns new numbers of rows, None where it cannot be done."""
        moves = [
            (number, before, after)
            for (number, old), row in zip(found, rows, strict=True)
            if (before := key_of(old)) != (after := key_of(row))
        ]
        if not moves:
            return {}
        keys = self.keys
        # A key that another of these rows gives up is free.
        left = {before for _, before, _ in moves}
        seen: set[Any] = set()
        for _, _, after in moves:
            if after in seen or (after in keys and after not in left):
                self._refuse(after)
                return None
            self._check_key(after)
            seen.add(after)
        self._sorted = None
        # All old keys go before a new one comes, as rows may exchange theirs.
        for before in left:
            del keys[before]
        places = {number: self._next + rank for rank, (number, _, _) in enumerate(moves)}
        self._next += len(moves)
        for number, _, after in moves:
            keys[after] = places[number]
        return places

    def _check_key(self, key: Any) -> None:
        if key is None and not self.null_keys:
            raise ValueError(f"the primary key of table '{self.id}' is a number and cannot be null")

    def _refuse(self, key: Any) -> None:
        self.refused += 1
        note = log.warning if self.refused == 1 else log.debug
        note("table '%s' keeps its row with the primary key %r and refuses another one", self.id, key)

    def clear(self) -> None:
        """Remove all rows."""
        self._most = max(self._most, len(self.rows))
        self._fill(())

    # State.

    def snapshot(self) -> Any:
        """Return the rows as plain data."""
        return [self._next, self.refused, list(self.rows.values()), self._most]

    def restore(self, state: Any) -> None:
        """Take over the rows of a snapshot, in place."""
        self._next, self.refused, rows, *most = state  # older snapshots do not say how many there were
        self._most = most[0] if most else 0
        self._fill(rows)


def make_table(definition: ast.TableDefinition) -> Table:
    """Return an empty table as an app defines it, with its ``@PrimaryKey`` and ``@Index``.

    Raises
    ------
    UndefinedNameError
        Its rows are to be kept elsewhere (``@Store``).
    """
    for store in ast.find_annotations(definition.annotations, "Store"):
        message = f"There is no store '{store.get('type') or store.get('ref')}'"
        raise UndefinedNameError(
            message,
            span=store.span,
            hint="Without '@Store' a table is kept in memory.",
            code=ErrorKind.UNKNOWN_EXTENSION,
        )
    key, indexed = (keyed_attributes(definition, annotation) for annotation in ("PrimaryKey", "Index"))
    return Table(definition.name, definition.schema, key, indexed)


def keyed_attributes(definition: ast.TableDefinition, annotation: str) -> tuple[int, ...]:
    """Return the positions of the attributes that ``@PrimaryKey`` or the ``@Index`` annotations name, as written."""
    names = definition.schema.names
    found = ast.find_annotations(definition.annotations, annotation)
    written = [element.value.strip() for each in found for element in each.elements]
    return tuple(dict.fromkeys(names.index(name) for name in written))
