"""What the checker hands on: an app whose names and types are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from textwrap import shorten

from spdist.display import Shown, headline_html, number_of, table_html, table_text
from spdist.language import ast
from spdist.language.checking.scope import Scope
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
        `spdist.language.checking.scope.pattern_elements`; their filters are read in ``scope.of_element(position)``.
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

    def selected(self, source: int = 0) -> tuple[int, ...]:
        """Return the positions of the attributes of a source that are selected as they are, in order."""
        items = self.query.select.items
        if not items:
            return tuple(range(len(self.scope.sources[source].schema)))
        found = [self.scope.resolve(one.expression) for one in items if isinstance(one.expression, ast.Variable)]
        return tuple(reference.attribute for reference in found if reference.source == source)


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
    by_id : bool
        Whether ``@PartitionById`` asks for a shard of each node.
    """

    id: str
    definition: ast.AggregationDefinition
    select: ast.Selection
    scope: Scope
    output: Schema
    durations: tuple[str, ...]
    purging: PurgeSetting
    by_id: bool = False


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
class CheckedApp(Shown):
    """An app in which every name is known and every expression has a type; shows itself as a table of its parts.

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
    picture : callable, optional
        Draws the app in its HTML; planning knows how, a layer above, so `spdist.check` gives it.
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
    picture: Callable[[CheckedApp], str] | None = field(default=None, compare=False)

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
        inputs = (query.query.input for query in self._all_queries())
        sides = (side for one in inputs if isinstance(one, ast.JoinInput) for side in (one.left, one.right))
        return frozenset(side.input.stream.id for side in sides)

    def _all_queries(self) -> Iterator[CheckedQuery]:
        """Yield the queries, those of partitions too, in the order of the text."""
        for element in self.elements:
            yield from element.queries if isinstance(element, CheckedPartition) else (element,)

    # How it shows itself.

    def __repr__(self) -> str:
        return f"CheckedApp({self._headline()})"

    def __str__(self) -> str:
        rows = [(*row[:2], shorten(row[2], _SHOWN, placeholder=" …)"), row[3]) for row in self._rows()]
        return table_text(_HEAD, rows, title=self._headline())

    def _repr_html_(self) -> str:
        table = headline_html(self._headline()) + table_html(_HEAD, self._rows())
        return table + (self.picture(self) if self.picture is not None else "")

    def _headline(self) -> str:
        counts = [number_of(len(ids), kind) for kind, ids in self._defined() if ids]
        counts.append(number_of(sum(1 for _ in self._all_queries()), "query", "queries"))
        return f"{self.name} ({'event time' if self.playback else 'live'}): {', '.join(counts)}"

    def _defined(self) -> tuple[tuple[str, Mapping[str, Schema]], ...]:
        return (
            ("stream", self.streams),
            ("table", self.tables),
            ("window", self.windows),
            ("aggregation", self.aggregations),
        )

    def _rows(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield kind, name, attributes and flow of everything that is defined, then of the queries."""
        triggers = {one.name for one in self.app.definitions if isinstance(one, ast.TriggerDefinition)}
        for kind, ids in self._defined():
            for id, schema in ids.items():
                yield "trigger" if id in triggers else kind, id, str(schema), ""
        for query in self._all_queries():
            inputs = (node.stream.id for node in query.query.input.walk() if isinstance(node, ast.SingleInput))
            yield "query", query.name, str(query.output), f"{', '.join(dict.fromkeys(inputs))} → {query.target}"


_HEAD = ("kind", "name", "attributes", "flow")
#: Characters of attributes that the text shows.
_SHOWN = 80
