"""What the checker hands on: an app whose names and types are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from spdist.language import ast
from spdist.language.scope import Scope
from spdist.language.scripts import Script
from spdist.language.types import Schema

__all__ = ["CheckedAggregation", "CheckedApp", "CheckedPartition", "CheckedQuery", "PurgeSetting"]


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
class PurgeSetting:
    """How an aggregation is purged.

    Parameters
    ----------
    interval : int, optional
        Between two purges, in ms; None where there are none.
    kept : mapping of str to int
        How long the buckets of each duration are kept, in ms; None: for ever.
    """

    interval: int | None
    kept: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class CheckedAggregation:
    """An aggregation with what its names mean.

    Parameters
    ----------
    id : str
        Its name.
    definition : AggregationDefinition
        As written.
    select : Selection
        What it selects.
    scope : Scope
        What its expressions may name: its stream, with what stream functions append.
    output : Schema
        The attributes that readers see: ``AGG_TIMESTAMP``, then what is selected.
    durations : tuple of str
        From the finest to the coarsest.
    purging : PurgeSetting
        What ``@purge`` says.
    """

    id: str
    definition: ast.AggregationDefinition
    select: ast.Selection
    scope: Scope
    output: Schema
    durations: tuple[str, ...]
    purging: PurgeSetting


@dataclass(frozen=True, slots=True)
class ClockSetting:
    """How the clock of an app moves.

    Parameters
    ----------
    max_jump_ms : int
        How far one event may move it in playback: ``@app:clock(max.jump='…')``. The first event sets it wherever it is.
    max_ahead_ms : int
        How far ahead of it an event may lie in a live app: a day, for clocks of other time zones, or as the same says.
    idle_ms, increment_ms : int
        ``@app:playback(idle.time='…', increment='…')``: after so long without an event it goes on by the second; 0
        where only events move it.
    """

    max_jump_ms: int = 366 * 86_400_000
    max_ahead_ms: int = 86_400_000
    idle_ms: int = 0
    increment_ms: int = 0


@dataclass(frozen=True)
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
    aggregated : mapping of str to CheckedAggregation
        The aggregations by id, in the order of the text.
    scripts : mapping of str to Script
        The functions that the app defines, by name.
    clock : ClockSetting
        How the clock moves.
    """

    app: ast.SiddhiApp
    name: str
    playback: bool
    streams: Mapping[str, Schema]
    tables: Mapping[str, Schema]
    windows: Mapping[str, Schema]
    aggregations: Mapping[str, Schema]
    elements: tuple[CheckedQuery | CheckedPartition, ...]
    aggregated: Mapping[str, CheckedAggregation] = field(default_factory=dict)
    scripts: Mapping[str, Script] = field(default_factory=dict)
    clock: ClockSetting = field(default_factory=ClockSetting)

    @cached_property
    def queries(self) -> tuple[CheckedQuery, ...]:
        """The queries outside of partitions."""
        return tuple(element for element in self.elements if isinstance(element, CheckedQuery))

    @cached_property
    def partitions(self) -> tuple[CheckedPartition, ...]:
        """The partitions."""
        return tuple(element for element in self.elements if isinstance(element, CheckedPartition))

    @property
    def joined(self) -> frozenset[str]:
        """Ids of what joins look into: the streams, tables, windows and aggregations on their sides."""
        inside = (query for partition in self.partitions for query in partition.queries)
        inputs = (query.query.input for query in (*self.queries, *inside))
        sides = (side for one in inputs if isinstance(one, ast.JoinInput) for side in (one.left, one.right))
        return frozenset(side.input.stream.id for side in sides)
