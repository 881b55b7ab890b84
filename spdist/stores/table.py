"""Tables in a database, behind the same seam as those in memory (`operators.tables.table.Table` is the reference).

With a primary key, rows are read and changed through an overlay of the batch: a row is fetched once, changed here, and
written at the end of the batch, or before a search that the database answers. Without one, equal rows cannot be told
apart and need not be: whatever a condition says of one it says of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, and_, bindparam, delete, insert, or_, select, update

from spdist.operators.base import Arrival, Row
from spdist.operators.expressions.pushdown import Compares, Every, NullTest, Some, Test
from spdist.operators.tables.stores import Index
from spdist.stores.cache import RowCache
from spdist.stores.columns import Columns, insertion, storable, upsert, value_type
from spdist.stores.database import Database, guarded

__all__ = ["StoredTable"]

#: What a search finds has no number: nothing in SiddhiQL reads the timestamp of a table's row.
_NUMBER = 0


class StoredTable:
    """A table in a database (`spdist.operators.tables.stores.TableStore`, `Searchable`).

    Parameters
    ----------
    id : str
        The table's name in the app.
    key : tuple of int
        Positions of the attributes of the primary key; empty where there is none.
    columns : Columns
        The attributes in the database.
    database : Database
        Where the table is; created there if it is missing.
    cache : RowCache, optional
        Keeps rows by their key from batch to batch (``@Cache``).

    State
    -----
    In the database the rows. Here, for a batch with a primary key, the rows it read and changed; without one, the rows
    it inserted since it last looked for any.

    Notes
    -----
    Rows come in the order of the primary key; without one, in that of the database. As in memory, and other than in
    WSO2's store, a row whose key is taken is refused and not an error.
    """

    def __init__(
        self, id: str, key: tuple[int, ...], columns: Columns, database: Database, cache: RowCache | None = None
    ) -> None:
        self.id = id
        self.key = key
        self.schema = columns.schema
        self._columns = columns
        self._database = database
        self._cache = cache
        self._key_of: Callable[[Row], Any] = itemgetter(*key) if key else lambda row: None
        # With a key. Changed rows: whether the database has the key, and what it is to have; read ones; those to be
        # inserted unless the key is there.
        self._changed: dict[Any, tuple[bool, Row | None]] = {}
        self._known: dict[Any, Row | None] = {}
        self._offered: dict[Any, Row] = {}
        # Without one.
        self._inserted: list[Row] = []
        table = columns.table
        everything = select(*(table.c[name] for name in columns.names))
        order = [table.c[columns.names[position]] for position in key]
        self._everything = everything.order_by(*order)
        self._by_key = everything.where(*(order[n] == parameter(columns, p, n) for n, p in enumerate(key)))
        self._own = [order[n] == bindparam(columns.old[p], type_=order[n].type) for n, p in enumerate(key)]
        database.create(table)
        database.members.append(self)

    # ------------------------------------------------------------------------------------------------------- reading
    @property
    def null_keys(self) -> bool:
        """False: databases have no nulls in primary keys."""
        return False

    def contents(self) -> Iterable[Arrival]:
        """Return everything in the table."""
        return guarded(lambda: self._fetch(self._everything, None))

    def index(self, attributes: tuple[int, ...]) -> Index | None:
        """Return the primary key, where `attributes` fix it; anything else is searched for."""
        return Index(self.key, self._with_key) if self.key and set(attributes).issuperset(self.key) else None

    def search(self, test: Test) -> Callable[[tuple[Any, ...]], Iterable[Arrival]]:
        """Return what finds the rows that meet `test`, given its values."""
        statement = self._everything.where(where(test, self._columns))
        return lambda values: guarded(lambda: self._fetch(statement, asked(values)))

    def _fetch(self, statement: Any, parameters: dict[str, Any] | None) -> list[Arrival]:
        self._database.flush()
        incoming = self._columns.incoming
        return [(_NUMBER, incoming(row)) for row in self._database.read(statement, parameters)]

    def _with_key(self, key: Any) -> Sequence[Arrival]:
        row = guarded(lambda: self._current(key))
        return () if row is None else ((_NUMBER, row),)

    def _current(self, key: Any) -> Row | None:
        """Return the row with a key as this batch sees it."""
        if key in self._changed:
            return self._changed[key][1]
        # Whether it is the row offered or one that was there only the database knows, once it has been written.
        if key in self._offered:
            self._database.flush()
        if key in self._known:
            return self._known[key]
        row = self._cache.get(key) if self._cache is not None else None
        if row is None:
            row = self._read(key)
            if self._cache is not None and row is not None:
                self._cache.put(key, row)
        # Outside of a batch others may change the row before the next look.
        if self._database.batch is not None:
            self._known[key] = row
        return row

    def _read(self, key: Any) -> Row | None:
        values = key if len(self.key) > 1 else (key,)
        found = self._database.read(self._by_key, asked(values))
        rows = (self._columns.incoming(row) for row in found)
        # The database may find keys equal that are not to Siddhi: the comparison here decides.
        return next((row for row in rows if self._key_of(row) == key), None)

    # ------------------------------------------------------------------------------------------------------- writing
    def insert(self, row: Row) -> bool:
        """Add a row; False, where that is known here, if its primary key is taken.

        Raises
        ------
        ValueError
            A value that its column cannot hold.
        """
        if self._skips():
            return True
        row = self._columns.taken(row)
        return guarded(lambda: self._insert(row))

    def _insert(self, row: Row) -> bool:
        if not self.key:
            self._inserted.append(row)
        else:
            key = self._key_of(row)
            # What is there is known: no question, and an answer that holds.
            if key in self._changed or key in self._known:
                if self._current(key) is not None:
                    return False
                self._set(key, row, False)
            elif key in self._offered:
                return False
            else:
                # Not read first: the database skips it at the end where the key is taken.
                self._offered[key] = row
        self._database.changed()
        return True

    def delete(self, found: Sequence[Arrival]) -> None:
        """Remove rows, given as a search found them."""
        if not self._skips():
            guarded(lambda: self._delete([row for _, row in found]))

    def _delete(self, rows: Sequence[Row]) -> None:
        if self.key:
            for row in rows:
                self._set(self._key_of(row), None, True)
        else:
            self._database.flush()
            self._remove([self._columns.outgoing(row) for row in rows])
        self._database.changed()

    def change(self, found: Sequence[Arrival], rows: Sequence[Row]) -> bool:
        """Replace the rows `found` by `rows`; none, and False, where a primary key would be there twice.

        Raises
        ------
        ValueError
            A value that its column cannot hold; nothing is changed.
        """
        if self._skips():
            return True
        taken = [self._columns.taken(row) for row in rows]
        return guarded(lambda: self._change([row for _, row in found], taken))

    def _change(self, old: Sequence[Row], new: Sequence[Row]) -> bool:
        if not self.key:
            self._database.flush()
            self._replace([self._columns.outgoing(row) for row in old], [self._columns.outgoing(row) for row in new])
        elif not self._free(old, new):
            return False
        else:
            for row in old:
                # The old keys first: a new row may have the key that another one leaves.
                self._set(self._key_of(row), None, True)
            for row in new:
                self._set(self._key_of(row), row, False)
        self._database.changed()
        return True

    def _free(self, old: Sequence[Row], new: Sequence[Row]) -> bool:
        """Tell whether the keys of changed rows are free, once the old ones have left theirs."""
        left = {self._key_of(row) for row in old}
        keys = [self._key_of(row) for row in new]
        return len(set(keys)) == len(keys) and all(key in left or self._current(key) is None for key in keys)

    def _skips(self) -> bool:
        """Tell whether the batch was applied before; another process may have changed what the cache has."""
        replaying = guarded(lambda: self._database.replaying)
        if replaying and self._cache is not None:
            self._cache.clear()
        return replaying

    def _set(self, key: Any, row: Row | None, stored: bool) -> None:
        """Note what a key is to have; `stored` says whether the database has it, where that is not known better."""
        before = self._changed.get(key)
        # A key keeps what was first known of it: an insert and a delete in one batch leave nothing to be done.
        self._changed[key] = (stored if before is None else before[0], row)
        self._known.pop(key, None)
        if self._cache is not None:
            self._cache.drop(key)

    # ---------------------------------------------------------------------------------------------- to the database
    def flush(self) -> None:
        """Write what was kept back."""
        if self._changed or self._offered or self._inserted:
            changed, self._changed = self._changed, {}
            offered, self._offered = self._offered, {}
            inserted, self._inserted = self._inserted, []
            self._write(delete(self._columns.table).where(*self._own), self._gone(changed))
            out = self._columns.outgoing
            updated = [out(row) for stored, row in changed.values() if stored and row is not None]
            rest = [p for p in range(len(self.schema)) if p not in self.key]
            if rest and updated:
                self._write(self._update(rest), [self._parameters(row, rest, self.key) for row in updated])
            fresh = [out(row) for stored, row in changed.values() if not stored and row is not None]
            self._write(self._upsert(rest), [self._parameters(row) for row in fresh])
            self._write(self._unless_there(), [self._parameters(out(row)) for row in offered.values()])
            self._write(insert(self._columns.table), [self._parameters(out(row)) for row in inserted])
            if self._database.batch is not None:
                # Not those that were offered: the database may have skipped them.
                self._known.update((key, row) for key, (_, row) in changed.items())

    def settled(self, done: bool) -> None:
        """Forget the batch; what it read may be changed by others from now on."""
        # What was undone may be in the cache as this batch has read it.
        if self._cache is not None and not done:
            self._cache.clear()
        self._changed, self._known, self._offered, self._inserted = {}, {}, {}, []

    def _gone(self, changed: dict[Any, tuple[bool, Row | None]]) -> list[dict[str, Any]]:
        keys = [key for key, (stored, row) in changed.items() if stored and row is None]
        parts = keys if len(self.key) > 1 else [(key,) for key in keys]
        return [{self._columns.old[p]: value for p, value in zip(self.key, part, strict=True)} for part in parts]

    def _write(self, statement: Any, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._database.write(statement, rows)

    def _parameters(self, row: Row, values: Sequence[int] | None = None, old: Sequence[int] = ()) -> dict[str, Any]:
        """Return an outgoing row as parameters: by names of columns, and `Columns.old` for the row it replaces."""
        names = self._columns.names
        chosen = range(len(row)) if values is None else values
        return {names[p]: row[p] for p in chosen} | {self._columns.old[p]: row[p] for p in old}

    def _update(self, positions: Sequence[int]) -> Any:
        names = [self._columns.names[position] for position in positions]
        return update(self._columns.table).where(*self._own).values({name: bindparam(name) for name in names})

    def _upsert(self, rest: Sequence[int]) -> Any:
        """Return an insertion that takes the place of a row that somebody else has inserted meanwhile."""
        table, names = self._columns.table, self._columns.names
        if not rest or not self.key:
            return self._unless_there()
        return upsert(table, [names[p] for p in self.key], [names[p] for p in rest], self._database.dialect)

    def _unless_there(self) -> Any:
        if self._database.dialect in ("mysql", "mariadb"):
            return insert(self._columns.table).prefix_with("IGNORE")
        return insertion(self._columns.table, self._database.dialect).on_conflict_do_nothing()

    # ------------------------------------------------------------------------------------------------ without a key
    def _remove(self, rows: Sequence[Row]) -> None:
        """Delete rows by their values; nulls are asked for apart, so that indexes serve."""
        for nulls, alike in _by_nulls(dict.fromkeys(rows)).items():
            # In SQL nothing equals null: each set of nulls is a statement of its own.
            parts = [self._parameters(row, (), [p for p in range(len(row)) if p not in nulls]) for row in alike]
            self._write(delete(self._columns.table).where(*self._same(nulls)), parts or [{}])

    def _replace(self, old: Sequence[Row], new: Sequence[Row]) -> None:
        changes = dict(zip(old, new, strict=True))
        alone = all(changes[before] == after for before, after in zip(old, new, strict=True))
        # Equal rows cannot be told apart: an update of one is that of all, so they must all become the same.
        if alone and set(changes).isdisjoint(new):
            for nulls, alike in _by_nulls(changes).items():
                statement = update(self._columns.table).where(*self._same(nulls))
                statement = statement.values({name: bindparam(name) for name in self._columns.names})
                parts = [p for p in range(len(self.schema)) if p not in nulls]
                rows = [self._parameters(row, (), parts) | self._parameters(changes[row]) for row in alike]
                self._write(statement, rows)
        elif list(old) != list(new):
            # A row becomes what another one was: one after the other would change it twice.
            self._remove(old)
            self._write(insert(self._columns.table), [self._parameters(row) for row in new])

    def _same(self, nulls: tuple[int, ...]) -> list[ColumnElement[bool]]:
        columns = [self._columns.table.c[name] for name in self._columns.names]
        return [
            column.is_(None) if p in nulls else column == bindparam(self._columns.old[p], type_=column.type)
            for p, column in enumerate(columns)
        ]

    # ------------------------------------------------------------------------------------------------------- the rest
    def snapshot(self) -> Any:
        """Return nothing: the rows are in the database."""
        return None

    def restore(self, state: Any) -> None:
        """Do nothing: the rows are in the database, and stay as they are."""


def _by_nulls(rows: Iterable[Row]) -> dict[tuple[int, ...], list[Row]]:
    """Return rows by the positions of their nulls."""
    groups: dict[tuple[int, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(p for p, value in enumerate(row) if value is None), []).append(row)
    return groups


# Tests of `spdist.operators.expressions.pushdown` as SQL: true for at least the rows that the test holds for.


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda column, value: column == value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
}


def where(test: Test, columns: Columns) -> ColumnElement[bool]:
    """Return a test on the columns of a table; its parameters are called as `parameter` says."""
    if isinstance(test, NullTest):
        is_null: ColumnElement[bool] = columns.table.c[columns.names[test.attribute]].is_(None)
        return is_null
    if isinstance(test, Compares):
        column = columns.table.c[columns.names[test.attribute]]
        compared: ColumnElement[bool] = _OPERATORS[test.op](column, parameter(columns, test.attribute, test.value))
        return compared
    if isinstance(test, Every):
        return and_(*(where(part, columns) for part in test.parts))
    assert isinstance(test, Some)
    return or_(*(where(part, columns) for part in test.parts))


def parameter(columns: Columns, attribute: int, number: int) -> BindParameter[Any]:
    """Return the parameter for value `number`, which an attribute is compared with."""
    return bindparam(f"v{number}", type_=value_type(columns.schema.types[attribute]))


def asked(values: tuple[Any, ...]) -> dict[str, Any]:
    """Return parameters for a search; a text that no database holds becomes null, which finds nothing."""
    return {
        f"v{number}": None if isinstance(value, str) and not storable(value) else value
        for number, value in enumerate(values)
    }
