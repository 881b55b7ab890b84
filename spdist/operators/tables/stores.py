"""What rows are kept in and conditions look into: tables, named windows, windows of a join's sides, aggregations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.checked import CheckedAggregation
from spdist.language.checking.scope import AttributeSource
from spdist.language.types import Schema
from spdist.operators.base import Arrival, Row
from spdist.operators.expressions.pushdown import Test

__all__ = [
    "BucketStore",
    "Changes",
    "Index",
    "KeptStore",
    "OutsideStores",
    "Searchable",
    "ShardStore",
    "Store",
    "StoreBatch",
    "TableStore",
    "Target",
    "tables_of",
]


@dataclass(frozen=True, slots=True)
class Index:
    """A way to find rows by the values of some attributes.

    Parameters
    ----------
    attributes : tuple of int
        Positions of the attributes, in the order of the key's parts.
    lookup : Callable
        From a key to the rows that have it, in the order of `Store.contents`. The key is the value itself where there
        is one attribute, else a tuple; it holds no null. The result is valid until the store changes.
    nulls : bool
        Whether null finds null, where nothing but the key is asked for; anywhere else null equals nothing.
    """

    attributes: tuple[int, ...]
    lookup: Callable[[Any], Iterable[Arrival]]
    nulls: bool = False


class Store(Protocol):
    """Something that holds rows and can be looked into."""

    @property
    def schema(self) -> Schema:
        """The attributes of its rows."""
        ...

    def contents(self) -> Iterable[Arrival]:
        """Yield timestamp and row of everything it holds now, in its order; valid until the store changes."""
        ...

    def index(self, attributes: tuple[int, ...]) -> Index | None:
        """Return an index on some of `attributes`, whose values a condition fixes; None where a scan is as good.

        The store keeps the index true from then on.
        """
        ...


class KeptStore(Store, Protocol):
    """A store that belongs to an app, and so to its state."""

    def snapshot(self) -> Any:
        """Return the state as plain data."""
        ...

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        ...


@runtime_checkable
class Searchable(Store, Protocol):
    """A store that looks for rows itself: a database."""

    def search(self, test: Test) -> Callable[[tuple[Any, ...]], Iterable[Arrival]]:
        """Return what finds the rows that meet `test`, given its values; it may find more, in the store's order."""
        ...


@runtime_checkable
class TableStore(KeptStore, Protocol):
    """A table, in memory or elsewhere: what queries write to (`operators.tables.table.Table` is the reference)."""

    id: str
    key: tuple[int, ...]

    @property
    def null_keys(self) -> bool:
        """Whether the primary key may be null; null finds it then."""
        ...

    def insert(self, row: Row) -> bool:
        """Add a row; False, and nothing changes, where its primary key is taken."""
        ...

    def delete(self, found: Sequence[Arrival]) -> None:
        """Remove rows, given as a search found them."""
        ...

    def change(self, found: Sequence[Arrival], rows: Sequence[Row]) -> bool:
        """Replace the rows `found` by `rows`; none, and False, where a primary key would be there twice."""
        ...


@dataclass(frozen=True, slots=True)
class StoreBatch:
    """What stores outside of an app's state need to know of a batch to apply it once.

    Parameters
    ----------
    log : str
        The log of inputs that `number` counts in: a name of this shard of this instance that no other log ever has,
        also not one that begins anew after the app was removed (`spdist.engine.shards.state.StateStore.identity`).
    number : int
        Grows from batch to batch; a batch that is replayed has its number again.
    """

    log: str
    number: int


class OutsideStores(Protocol):
    """Makes the stores of one app that are kept outside of its state (``@Store``), and applies its batches once.

    Without `begin` each change is durable immediately. Between `begin` and `commit` all changes are one transaction in
    each database, which also notes the batch's number: a batch at or below that number is a replay, and changes
    nothing. Reads see the batch's own changes; during a replay they see the store as it is, which may be later.
    """

    def table(self, definition: ast.TableDefinition, now: Callable[[], int]) -> TableStore | None:
        """Return the table of a definition; None where it has no ``@Store`` and is kept in memory.

        `now` is the app's time, ms.

        Raises
        ------
        SiddhiAppError
            The store's type is unknown, or its options are wrong.
        StoreError
            The database cannot be reached, or refuses the table.
        """
        ...

    def buckets(self, aggregation: CheckedAggregation) -> BucketStore | None:
        """Return where an aggregation keeps its closed buckets; None where that is its own state."""
        ...

    def begin(self, batch: StoreBatch) -> None:
        """Begin a batch; one that was begun and not committed is undone."""
        ...

    def commit(self) -> None:
        """Make the changes of the batch durable; call it before anything of the batch is published."""
        ...

    def close(self) -> None:
        """Undo what was not committed, and close all connections."""
        ...


class BucketStore(Protocol):
    """Where an aggregation's closed buckets are kept: by the position of their duration, and their start in ms."""

    def load(self) -> list[dict[int, list[bytes]]]:
        """Return the states of the groups in each bucket, for each duration, as when this log of inputs began."""
        ...

    def put(self, level: int, start: int, groups: Sequence[tuple[Any, Row, bytes]]) -> None:
        """Keep groups of a bucket, in place of what they had: their key, the row that is read, and the state."""
        ...

    def remove(self, level: int, before: int) -> None:
        """Remove the buckets that begin before a time, ms; of all shards, where there are several."""
        ...


class Changes(Protocol):
    """What of an aggregation has changed since it was written (`spdist.operators.aggregations.shards.ShardRows`)."""

    @property
    def pending(self) -> bool:
        """Whether anything has."""
        ...

    def changes(self) -> Iterable[tuple[int, int, list[tuple[Any, Row, bytes]]]]:
        """Yield duration, start of the bucket and groups, as `BucketStore.put` takes them; they count as written."""
        ...

    def forget(self) -> None:
        """Have all count as written."""
        ...


@runtime_checkable
class ShardStore(BucketStore, Protocol):
    """Where several nodes keep one aggregation, each in a shard of its own; `load` returns that of this one.

    Buckets that are open are kept as well. Rows of a shard are replaced as a whole.
    """

    shard: str

    def follow(self, changes: Changes) -> None:
        """Have `changes` asked for what is to be written with each batch."""
        ...

    def changed(self) -> None:
        """Take note that something has changed: outside of batches it is durable immediately."""
        ...

    def go_on(self, shard: str) -> None:
        """Write the shard that the state was of before, though the node's settings name another; warns."""
        ...

    def found(self, level: int, start: int, end: int, *key: Any) -> Iterable[tuple[int, str, bytes]]:
        """Return start, shard and state of the groups in buckets that begin in a range, or only of a key.

        They are those that were written: what this node has changed since then is not asked for.
        """
        ...


@runtime_checkable
class Target(Protocol):
    """What events can be inserted into, one or the events of one chunk: a stream or a named window."""

    def receive(self, timestamp: int, row: Row) -> None:
        """Receive one event that arrives as a chunk of its own."""
        ...

    def receive_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Receive the events of one chunk."""
        ...


def tables_of(catalog: Catalog) -> tuple[AttributeSource, ...]:
    """Return what ``in`` may name, for scopes."""
    return tuple(AttributeSource(id, id, store.schema, "table") for id, store in catalog.stores.items())
