"""What plans and instances of queries of all kinds share; the kinds are in `query` and `join`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Protocol

from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.checked import CheckedQuery
from spdist.operators.base import Event, Timer, VirtualClock
from spdist.operators.core.junction import Failures, Junction, Receive, ReceiveChunk
from spdist.operators.core.processors import Processors
from spdist.operators.expressions.codegen import Bindings, Frame
from spdist.operators.expressions.readers import InputReader
from spdist.operators.selection.output import QueryObserver, insert_into, sink_for
from spdist.operators.selection.rates import NoLimit, RateLimit, limit_by_number, limit_by_time
from spdist.operators.selection.selector import SelectClause, SelectorOutput, is_aggregator
from spdist.operators.selection.snapshot import limit_by_snapshot
from spdist.operators.tables.stores import Store, TableStore
from spdist.operators.tables.writes import TableWriter, table_writer

__all__ = ["Place", "Plan", "QueryInstance", "QueryPlan", "ReceiveEvents", "without_kinds"]

#: Among the timers of a query that of its rate limit comes last.
_LAST = 1_000_000

#: Takes a chunk that a named window puts out.
ReceiveEvents = Callable[[list[Event]], None]


def without_kinds(receive: ReceiveChunk) -> ReceiveEvents:
    """Return what lets the chunks of a named window be received like those of a stream: all events are new ones."""
    return lambda chunk: receive([(timestamp, row) for _, timestamp, row in chunk])


class Place(Protocol):
    """Where an instance lives: the app, or one key of a partition."""

    clock: VirtualClock
    failures: Failures

    def timer(self, rank: tuple[int, int], wake: Callable[[int], None], key: int = 0) -> Timer:
        """Return a timer of the operator with this rank; `key` is the number of a partition key, in order of coming."""
        ...

    def junction(self, stream_id: str) -> Junction:
        """Return a stream: an inner one of this place, or one of the app."""
        ...

    def inner_junction(self, stream_id: str) -> Junction:
        """Return a new inner stream of a partition, for one key."""
        ...

    def is_fed(self, stream_id: str) -> bool:
        """Tell whether events of a stream can come from inside the app, not only by being sent."""
        ...


class QueryInstance(Protocol):
    """One instance of a query."""

    @property
    def receivers(self) -> Mapping[str, tuple[Receive, ReceiveChunk]]:
        """What the streams that the query reads deliver to, by stream id."""
        ...

    @property
    def event_receivers(self) -> Mapping[str, ReceiveEvents]:
        """What named windows deliver to whose expired events stay expired ones for the query, by id."""
        ...

    def start(self) -> None:
        """Begin: waiting elements of patterns count from now."""
        ...

    def snapshot(self) -> Any:
        """Return the state as plain data."""
        ...

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        ...


class QueryPlan(Protocol):
    """A query that is compiled and not bound to a place."""

    name: str
    #: Those who watch the query's results; may grow at any time.
    observers: list[QueryObserver]

    @property
    def inputs(self) -> tuple[str, ...]:
        """Ids of the streams it reads, each once."""
        ...

    def instance(self, place: Place) -> QueryInstance:
        """Return a new instance."""
        ...


class Plan:
    """What plans of all kinds of input share."""

    def __init__(self, checked: CheckedQuery, rank: int, catalog: Catalog, stores: Mapping[str, Store]) -> None:
        self.checked = checked
        self.rank = rank
        self.catalog = catalog
        self.stores = stores
        self.name = checked.name
        self.observers: list[QueryObserver] = []
        self.rate = checked.query.rate
        self.shows_snapshots = self.rate is not None and self.rate.kind == "snapshot"
        self.events = checked.query.output.events or ("all" if self.shows_snapshots else "current")
        # What writes into a table serves all partition keys.
        self._writer: TableWriter | None = None
        self._way: tuple[Junction, SelectorOutput] | None = None
        self._unlimited: NoLimit | None = None

    def selection(
        self,
        reader: Callable[[Frame, Bindings], InputReader],
        row: str,
        leaving: bool,
        filters: tuple[ast.Expression, ...] = (),
        falls_back: bool = True,
        renews: bool = False,
    ) -> SelectClause:
        """Return how the query's results are computed."""
        return SelectClause(
            title=self.name,
            clause=self.checked.query.select,
            output=self.checked.output,
            target=self.checked.target,
            catalog=self.catalog,
            reader=reader,
            row=row,
            events=self.events,
            leaving=leaving,
            partitioned=self.checked.partition is not None,
            filters=filters,
            keyed=self.rate is not None and bool(self.checked.query.select.group_by),
            every_row=self.shows_snapshots,
            falls_back=falls_back,
            renews=renews,
        )

    def sink(self, place: Place) -> SelectorOutput:
        """Return where the results of one instance go."""
        table = self.stores.get(self.checked.target)
        if table is None:
            # All keys of a partition share the way to a stream of the app.
            stream = place.junction(self.checked.target)
            if self._way is None or self._way[0] is not stream:
                self._way = stream, sink_for(self.checked, place, self.stores, self.observers)
            return self._way[1]
        if not isinstance(table, TableStore):
            return sink_for(self.checked, place, self.stores, self.observers)
        if self._writer is None:
            output = self.checked.query.output
            self._writer = table_writer(self.name, output, self.checked.output, table, self.catalog, place.clock)
        return insert_into(self._writer, self.observers)

    def limit(self, place: Place) -> RateLimit:
        """Return the rate limit of one instance, with what the results go to behind it."""
        rate, query, target = self.rate, self.checked.query, self.sink(place)
        if rate is None:
            if self._unlimited is None or self._unlimited.target is not target:
                self._unlimited = NoLimit(target)
            return self._unlimited

        def timer(wake: Callable[[int], None]) -> Timer:
            return place.timer((self.rank, _LAST), wake)

        grouped = bool(query.select.group_by)
        if rate.events is not None:
            return limit_by_number(rate.kind, rate.events, grouped, target)
        assert rate.time is not None
        span = rate.time.milliseconds
        if rate.kind != "snapshot":
            return limit_by_time(rate.kind, span, grouped, target, place.clock, timer)
        windowed = isinstance(query.input, ast.JoinInput) or (
            isinstance(query.input, ast.SingleInput) and query.input.window is not None
        )
        aggregates = tuple(i for i, item in enumerate(query.select.items) if is_aggregator(item.expression))
        width = len(self.checked.output.names)
        return limit_by_snapshot(span, grouped, windowed, aggregates, width, target, place.clock, timer)

    def processors(self, place: Place) -> Processors:
        """Return what the stream processors of one instance are made in; their timers come before those of windows."""
        return Processors(self.timer(place, -_LAST))

    def timer(self, place: Place, first: int = 0) -> Callable[[Callable[[int], None]], Timer]:
        """Return what makes the timers of one instance of this query, in the order of its operators."""
        numbers = count(first)
        return lambda wake: place.timer((self.rank, next(numbers)), wake)
