"""What the checker hands on: an app whose names and types are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spdist.language import ast
from spdist.language.scope import Scope
from spdist.language.types import Schema

__all__ = ["CheckedApp", "CheckedPartition", "CheckedQuery"]


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """A query with what its names mean.

    Parameters
    ----------
    name : str
        Given by ``@info(name='…')``, else ``query_<n>``: the n-th query of the app, those in partitions counted too.
    query : Query
        As written.
    scope : Scope
        What the expressions of its selection may name. The elements of a pattern are its sources, in the order of
        `spdist.language.scope.pattern_elements`; their filters are read in ``scope.of_element(position)``.
    output : Schema
        What it puts out.
    target : str
        Id of the stream, table or window it writes to; ``#S`` inside a partition is a stream of that partition.
    partition : int, optional
        Position of its partition in `CheckedApp.partitions`.
    """

    name: str
    query: ast.Query
    scope: Scope
    output: Schema
    target: str
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class CheckedPartition:
    """A partition with its inner streams.

    Parameters
    ----------
    partition : Partition
        As written.
    keys : mapping of str to PartitionKey
        By stream id. A key's expression names attributes of that stream only.
    inner : mapping of str to Schema
        Inner streams by id (``#S``).
    queries : tuple of CheckedQuery
        In the order of the text.
    """

    partition: ast.Partition
    keys: Mapping[str, ast.PartitionKey]
    inner: Mapping[str, Schema]
    queries: tuple[CheckedQuery, ...]


@dataclass(frozen=True, slots=True)
class CheckedApp:
    """An app in which every name is known and every expression has a type.

    Parameters
    ----------
    app : SiddhiApp
        As written.
    name : str
        Given by ``@app:name('…')``, else ``SiddhiApp``.
    playback : bool
        Whether only events move the clock.
    streams : mapping of str to Schema
        By id: defined streams, triggers, streams made by queries, and fault streams (``!S``).
    tables, windows, aggregations : mapping of str to Schema
        By id.
    elements : tuple of CheckedQuery or CheckedPartition
        In the order of the text.
    """

    app: ast.SiddhiApp
    name: str
    playback: bool
    streams: Mapping[str, Schema]
    tables: Mapping[str, Schema]
    windows: Mapping[str, Schema]
    aggregations: Mapping[str, Schema]
    elements: tuple[CheckedQuery | CheckedPartition, ...]

    @property
    def queries(self) -> tuple[CheckedQuery, ...]:
        """The queries outside of partitions."""
        return tuple(element for element in self.elements if isinstance(element, CheckedQuery))

    @property
    def partitions(self) -> tuple[CheckedPartition, ...]:
        """The partitions."""
        return tuple(element for element in self.elements if isinstance(element, CheckedPartition))
