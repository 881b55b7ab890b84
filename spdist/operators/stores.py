"""What rows are kept in and conditions look into: tables, named windows, windows of a join's sides, aggregations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from spdist.language.catalog import Catalog
from spdist.language.scope import Source
from spdist.language.types import Schema
from spdist.operators.base import Arrival, Row

__all__ = ["Index", "KeptStore", "Store", "Target", "tables_of"]


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
class Target(Protocol):
    """What events can be inserted into, one or the events of one chunk: a stream or a named window."""

    def one(self, timestamp: int, row: Row) -> None:
        """Take one event that arrives as a chunk of its own."""
        ...

    def many(self, arrivals: Sequence[Arrival]) -> None:
        """Take the events of one chunk."""
        ...


def tables_of(catalog: Catalog) -> tuple[Source, ...]:
    """Return what ``in`` may name, for scopes."""
    return tuple(Source(id, id, store.schema, "table") for id, store in catalog.stores.items())
