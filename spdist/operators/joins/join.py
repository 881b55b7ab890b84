"""Joins: each event of a side looks for partners in what the other side keeps.

An event passes its own side's window first. What the window releases then looks into the other side: an entering event
gives current pairs, a leaving one expired pairs. The pairs of one event are one chunk for the selector; the results of
all that was released together go out together. A side without a window keeps nothing: each of its events leaves as soon
as it has entered, so that totals start anew with each event.

Source: io.siddhi.core.query.input.stream.join.JoinProcessor and util.parser.JoinInputStreamParser.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.checked import CheckedQuery
from spdist.operators.base import RESET, Arrival, Event, Row, WindowSetting
from spdist.operators.core.handlers import Flow
from spdist.operators.core.junction import Receive, ReceiveChunk
from spdist.operators.expressions.codegen import Bindings, Frame
from spdist.operators.expressions.lookup import Finder, FindingPlan
from spdist.operators.joins.sides import ROWS, TIMES, JoinReader, SidePlan, plan_sides, search
from spdist.operators.queries.plans import Place, Plan, QueryInstance, ReceiveEvents
from spdist.operators.selection.aggregates import totals_in
from spdist.operators.selection.output import DeferredResults
from spdist.operators.selection.selector import SelectorOutput, SelectorState
from spdist.operators.tables.stores import Store
from spdist.operators.windows.store import WindowStore

__all__ = ["JoinPlan", "JoinQuery"]


class JoinPlan(Plan):
    """A query over a join."""

    def __init__(
        self,
        checked: CheckedQuery,
        input: ast.JoinInput,
        rank: int,
        catalog: Catalog,
        stores: Mapping[str, Store],
    ) -> None:
        super().__init__(checked, rank, catalog, stores)
        self.input = input
        self.sides = plan_sides(checked, input, catalog)
        self.expects_expired = self.events != "current"
        #: Whether a RESET means anything: to totals, or to a snapshot, which it empties.
        self.resets = self.shows_snapshots or totals_in(checked.query.select)
        self.nothing = (self.sides[0].nothing, self.sides[1].nothing)
        slides = self.expects_expired or any(side.slides for side in self.sides)
        leaving = slides or any(side.kind == "window" for side in self.sides)
        #: Whether pairs carry the times of both events.
        self.timed = any(isinstance(node, ast.EventTime) for node in checked.query.select.walk())
        names = (*ROWS, *TIMES) if self.timed else ROWS
        # Siddhi's `min` and `max` keep nothing to fall back to where only a named window expires events.
        self.chosen = self.selection(self.reader, ", ".join(names), leaving, falls_back=slides)
        self.searches = tuple(self._search(side) for side in self.sides)

    @property
    def same(self) -> bool:
        """Whether both sides read the same stream or named window."""
        return self.sides[0].source.stream_id == self.sides[1].source.stream_id

    @property
    def inputs(self) -> tuple[str, ...]:
        """Ids of the streams and named windows whose events it takes; in a partition, named windows cause nothing."""
        kinds = ("stream",) if self.checked.partition is not None else ("stream", "window")
        return tuple(dict.fromkeys(side.source.stream_id for side in self.sides if side.kind in kinds))

    def reader(self, frame: Frame, bindings: Bindings) -> JoinReader:
        """Return what reads pairs in generated code."""
        left, right = (bindings.bind(row, f"no_{name}") for row, name in zip(self.nothing, ROWS, strict=True))
        return JoinReader(self.checked.scope, self.catalog, frame, (left, right))

    def _seeking_reader(self, frame: Frame, bindings: Bindings) -> JoinReader:
        """Return what reads the event that looks into the other side."""
        reader = self.reader(frame, bindings)
        reader.times = ("ts", "ts")
        return reader

    def _search(self, side: SidePlan) -> FindingPlan:
        """Return how the events of `side` look into the other one."""
        return FindingPlan(
            title=self.name,
            condition=self.input.on,
            scope=self.checked.scope,
            position=1 - side.position,
            catalog=self.catalog,
            parameters=f"ts, {ROWS[side.position]}",
            outer=self._seeking_reader,
        )

    def instance(self, place: Place) -> QueryInstance:
        """Return a new instance."""
        return JoinQuery(self, place)


class JoinQuery:
    """An instance of a query over a join.

    State
    -----
    The selector's totals, what the windows of the sides hold and what the rate limit holds back.
    """

    def __init__(self, plan: JoinPlan, place: Place) -> None:
        self.plan = plan
        self.place = place
        self.totals = SelectorState()
        self.timer = plan.timer(place)
        self.limit = plan.limit(place)
        self.processors = plan.processors(place)
        self.deferred = DeferredResults(self.limit.sink)
        self.out: list[Event] = []
        collecting = SelectorOutput(lambda kind, timestamp, row: self.out.append((kind, timestamp, row)), self._collect)
        self.select = plan.chosen.make("events", self.totals, collecting, place.clock)
        self.windows: list[WindowStore | None] = [None, None]
        self.finders: list[Finder | None] = [None, None]
        self.looks: list[Callable[[], None] | None] = [None, None]
        #: What the events of each side go through behind the handlers.
        self.inner: list[Flow] = []
        flows = [self._flow(side) for side in plan.sides]
        # Only here are the windows of both sides there to be searched.
        self._bind()
        self.receivers: Mapping[str, tuple[Receive, ReceiveChunk]] = {}
        self.event_receivers: Mapping[str, ReceiveEvents] = {}
        self._receive(flows)

    def _collect(self, events: list[Event]) -> None:
        self.out += events

    def _flow(self, side: SidePlan) -> Flow | None:
        """Return what the events of a side go through; None for a table."""
        place, plan = self.place, self.plan
        probe = self._probe(side)
        if side.kind != "stream":
            flow = Flow(_unused, _unused, probe)
            self.inner.append(flow)
            return flow if side.kind == "window" else None
        if side.call is None:
            flow = side.passing(probe, plan.expects_expired, place.clock)
        else:
            if not side.findable:
                probe = side.leaving_immediately(probe, plan.expects_expired, place.clock)
            window = self.windows[side.position] = side.window(
                functools.partial(
                    WindowSetting,
                    expects_expired=plan.expects_expired,
                    clock=place.clock,
                    timer=self.timer,
                    emit=probe,
                    partitioned=plan.checked.partition is not None,
                )
            )
            flow = Flow(window.receive, window.receive_chunk)
        self.inner.append(flow)
        return side.entry(flow, place.clock, self.processors)

    def _bind(self) -> None:
        for side in self.plan.sides:
            other = self.plan.sides[1 - side.position]
            store = self.windows[other.position] or self.plan.stores.get(other.source.stream_id)
            store = store if other.findable else None
            if isinstance(store, WindowStore) and store.notes_looks:
                self.looks[side.position] = store.note_lookup
            if store is not None:
                plan = self.plan.searches[side.position]
                self.finders[side.position] = search(plan, self.plan.input, store, self.place.clock)

    def _probe(self, side: SidePlan) -> Callable[[list[Event]], None]:
        """Return what takes the chunks that a side releases."""
        if not side.triggers:
            return lambda chunk: None
        position, outer, resets = side.position, side.outer, self.plan.resets
        nothing = self.plan.nothing[1 - position]
        finders, looks, left = self.finders, self.looks, position == 0
        timed = self.plan.timed

        def probe(chunk: list[Event]) -> None:
            # Looked up at each chunk: the lists are filled after the sides are made.
            find, look = finders[position], looks[position]
            if look is not None:
                look()
            pieces: list[list[tuple[Any, ...]]] = []
            for kind, timestamp, row in chunk:
                found: Sequence[tuple[int | None, Row]] = ()
                if find is not None and kind != RESET:
                    found = find(timestamp, row)
                if timed:
                    if not found and (resets if kind == RESET else outer):
                        found = ((None, nothing),)
                    if found:
                        pieces.append(_with_times(kind, timestamp, row, found, left))
                elif found:
                    if left:
                        pieces.append([(kind, timestamp, row, partner) for _, partner in found])
                    else:
                        pieces.append([(kind, timestamp, partner, row) for _, partner in found])
                # A RESET goes on without a partner where totals need it, an event where its side is the outer one.
                elif resets if kind == RESET else outer:
                    pieces.append([(kind, timestamp, row, nothing) if left else (kind, timestamp, nothing, row)])
            if pieces:
                self._select(pieces)

        return probe

    def _select(self, pieces: list[list[tuple[Any, ...]]]) -> None:
        """Select from the pairs of each event, and put out all results together."""
        # Also where an event before failed half-way and left results.
        self.out = []
        for pairs in pieces:
            self.select(pairs)
        # Taken off first: what is put out may come back to this join.
        out, self.out = self.out, []
        if out:
            self.deferred.sink.receive_chunk(out)

    # Receiving.

    def _receive(self, flows: Sequence[Flow | None]) -> None:
        if self.plan.same:
            self._receive_twice([flow for flow in flows if flow is not None])
            return
        partitioned = self.plan.checked.partition is not None
        receivers, events = {}, {}
        for side, flow in zip(self.plan.sides, flows, strict=True):
            if flow is None:
                continue
            if side.kind == "stream":
                receivers[side.source.stream_id] = (flow.process, flow.process_chunk)
            elif not partitioned:
                assert flow.process_events is not None
                events[side.source.stream_id] = flow.process_events
        self.receivers, self.event_receivers = receivers, events

    def _receive_twice(self, legs: Sequence[Flow]) -> None:
        """Take each event through the left side, then through the right one; what they give is put out afterwards."""
        deferred = self.deferred
        side = self.plan.sides[0]

        def receive_chunk(arrivals: Sequence[Arrival]) -> None:
            try:
                for timestamp, row in arrivals:
                    for leg in legs:
                        deferred.begin()
                        leg.process(timestamp, row)
            # Also `ObserverFailed`: what is deferred must not go out with a later event.
            except BaseException:
                deferred.drop()
                raise
            deferred.deliver()

        def receive_events(chunk: list[Event]) -> None:
            # Siddhi forgets the right side of a named window that is joined with itself.
            left = legs[0].process_events
            assert left is not None
            try:
                for event in chunk:
                    deferred.begin()
                    left([event])
            except BaseException:
                deferred.drop()
                raise
            deferred.deliver()

        if side.kind == "stream":
            self.receivers = {
                side.source.stream_id: (lambda timestamp, row: receive_chunk(((timestamp, row),)), receive_chunk)
            }
        elif self.plan.checked.partition is None:
            self.event_receivers = {side.source.stream_id: receive_events}

    # State.

    def start(self) -> None:
        """Begin: a rate limit by time and stream processors count from now."""
        self.limit.start()
        self.processors.start()

    def snapshot(self) -> Any:
        """Return the totals, what the rate limit holds and the content of the windows."""
        windows = [None if window is None else window.snapshot() for window in self.windows]
        return [self.totals.snapshot(), self.limit.snapshot(), self.processors.snapshot(), *windows]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        totals, limit, processors, *windows = state
        self.processors.restore(processors)
        self.totals.restore(totals)
        self.limit.restore(limit)
        for window, stored in zip(self.windows, windows, strict=True):
            if window is not None:
                window.restore(stored)


def _with_times(
    kind: int, timestamp: int, row: Row, found: Iterable[tuple[int | None, Row]], left: bool
) -> list[tuple[Any, ...]]:
    """Return the pairs of one event, each with the times of its left and of its right event behind the rows."""
    if left:
        return [(kind, timestamp, row, partner, timestamp, time) for time, partner in found]
    return [(kind, timestamp, partner, row, time, timestamp) for time, partner in found]


def _unused(*_: Any) -> None:
    raise AssertionError("a named window hands over its events with their kinds")
