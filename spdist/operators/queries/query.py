"""A query at work: what is planned and compiled once, and the instances of it, one for each partition key.

A plan knows the streams it reads and the stream it writes; an instance holds state and hands its receivers to the
junctions of its place. Joins and other kinds of input are further plans with the same two methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from spdist.extension import find
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.checked import CheckedQuery
from spdist.operators.base import EXPIRED, Arrival, Event, Row, Window, WindowSetting
from spdist.operators.core.arguments import prepared_window
from spdist.operators.core.handlers import FilterPlan, Flow, plan_handlers
from spdist.operators.core.junction import LoopMaker, Receive, ReceiveChunk
from spdist.operators.core.parameters import attribute_positions, constant_values
from spdist.operators.core.processors import Processors
from spdist.operators.expressions.codegen import Bindings, Frame, when_needed
from spdist.operators.expressions.expression import unsupported
from spdist.operators.expressions.readers import ElementReader, InputReader, RowReader
from spdist.operators.joins.lazy_expiry import LazyExpiryJoinPlan
from spdist.operators.patterns.loops import pattern_loop
from spdist.operators.patterns.pattern import Automaton, PatternPlan
from spdist.operators.patterns.sequence_loops import sequence_loop
from spdist.operators.patterns.states import Partial
from spdist.operators.queries.loops import LoopPlan
from spdist.operators.queries.plans import Place, Plan, QueryInstance, QueryPlan, ReceiveEvents
from spdist.operators.selection.output import DeferredResults
from spdist.operators.selection.selector import SelectorOutput, SelectorState
from spdist.operators.tables.stores import Store
from spdist.operators.windows.sliding_columns import plain_query

__all__ = ["Place", "QueryInstance", "QueryPlan", "SingleStreamPlan", "SingleStreamQuery", "StateQuery", "plan_query"]


def plan_query(checked: CheckedQuery, rank: int, catalog: Catalog, stores: Mapping[str, Store]) -> QueryPlan:
    """Compile a query.

    Parameters
    ----------
    checked : CheckedQuery
        The query with what its names mean.
    rank : int
        Its place in the app: among timers due at the same time the query written first is first.
    catalog : Catalog
        Signatures.
    stores : Mapping[str, Store]
        What the app keeps rows in, by id.

    Raises
    ------
    SiddhiAppError
        The query uses what is not run (yet).
    """
    query = checked.query
    if isinstance(query.input, ast.SingleInput):
        return SingleStreamPlan(checked, query.input, rank, catalog, stores)
    if isinstance(query.input, ast.PatternInput):
        return StatePlan(checked, query.input, rank, catalog, stores)
    if isinstance(query.input, ast.JoinInput):
        return LazyExpiryJoinPlan(checked, query.input, rank, catalog, stores)
    raise unsupported("an anonymous stream", query.input.span)


class SingleStreamPlan(Plan):
    """A query over one stream, with filters, stream functions and at most one window."""

    def __init__(
        self,
        checked: CheckedQuery,
        input: ast.SingleInput,
        rank: int,
        catalog: Catalog,
        stores: Mapping[str, Store],
    ) -> None:
        super().__init__(checked, rank, catalog, stores)
        self.input = input
        self.scope = checked.scope
        #: Whether it reads a named window, which hands over expired events too.
        self.reads_window = self.scope.sources[0].kind == "window"
        before = plan_handlers(self.name, input.before, self.scope, catalog)
        after = plan_handlers(self.name, input.after, self.scope, catalog)
        self.window = None if input.window is None else find("window", input.window.id).implementation
        self.prepared = None
        if self.window is not None and input.window is not None:
            self.prepared = prepared_window(self.name, input.window, self.scope, catalog)
        last = after if self.window is not None else before
        # The filters next to the selector are written into it.
        filters: tuple[ast.Expression, ...] = ()
        if last and isinstance(last[-1], FilterPlan):
            filters = last[-1].conditions
            last.pop()
        self.before, self.after = before, after
        self.chosen = self.selection(
            self._reader,
            "row",
            self._leaving,
            filters,
            falls_back=not self.reads_window or self.events != "current",
            renews=self.window is not None and not self._leaving and not after,
        )
        self.shared: dict[str, Any] = {}

    @property
    def inputs(self) -> tuple[str, ...]:
        """Ids of the streams it reads."""
        return (self.input.stream.id,)

    @property
    def _leaving(self) -> bool:
        if self.window is None:
            return self.reads_window
        return bool(self.window.slides) or self.events != "current"

    def _reader(self, frame: Frame, _bindings: Bindings) -> InputReader:
        return RowReader(self.scope, self.catalog, frame)

    @cached_property
    def loop(self) -> LoopPlan | None:
        """How the query is written into a loop over single events; None where it is not."""
        filters = tuple(c for stage in self.before if isinstance(stage, FilterPlan) for c in stage.conditions)
        if self.reads_window or any(not isinstance(stage, FilterPlan) for stage in self.before):
            return None
        window = None if self.window is None else self.window.loop(self._arguments[0])
        if window is not None and window.releases:
            return LoopPlan(self.chosen, filters, window)
        if self.after or self.events != "current" or self.chosen.conditions_aggregate or self.rate is not None:
            return None
        return LoopPlan(self.chosen, filters, window) if window is not None or self.window is None else None

    def instance(self, place: Place) -> SingleStreamQuery:
        """Return a new instance."""
        return SingleStreamQuery(self, place)

    @cached_property
    def _arguments(self) -> tuple[tuple[Any, ...], tuple[int | None, ...]]:
        """The window's arguments: the values of literals, and the positions of attributes."""
        assert self.input.window is not None
        arguments = self.input.window.args
        return constant_values(arguments), attribute_positions(arguments, self.scope.sources[0].schema.names)

    @cached_property
    def _selected(self) -> tuple[int, ...]:
        # Once, not for each key of a partition
        return self.checked.selected()

    @cached_property
    def waits(self) -> bool:
        """Whether an instance makes what takes its events only when it is asked: loops over batches do without."""
        filters = all(isinstance(stage, FilterPlan) for stage in (*self.before, *self.after))
        return self.checked.partition is not None and filters and self.window is not None and self.loop is not None

    def make_window(self, place: Place, emit: ReceiveEvents) -> Window | None:
        """Return the query's window, releasing to `emit`."""
        if self.window is None:
            return None
        constants, attributes = self._arguments
        window: Window = self.window(
            WindowSetting(
                constants=constants,
                attributes=attributes,
                expects_expired=self.events != "current",
                clock=place.clock,
                timer=self.timer(place),
                emit=emit,
                shared=self.shared,
                partitioned=self.checked.partition is not None,
                selected=self._selected,
                prepared=self.prepared,
            )
        )
        return window


class SingleStreamQuery:
    """An instance of a query over one stream.

    Parameters
    ----------
    plan : SingleStreamPlan
        The query.
    place : Place
        Where it lives.
    sink : SelectorOutput, optional
        Where results go in place of the query's own target.

    State
    -----
    The selector's totals, what the window and stream processors hold and what the rate limit holds back.
    """

    def __init__(self, plan: SingleStreamPlan, place: Place, sink: SelectorOutput | None = None) -> None:
        self.plan = plan
        self.place = place
        self.totals = SelectorState()
        self.limit = plan.limit(place)
        self.sink = sink or self.limit.sink
        self.processors = _NO_PROCESSORS
        self.window: Window | None = None
        if plan.waits:
            # One of many keys: what loops do not need is made when it is needed.
            plan.chosen.fill(self.totals)
            self.window = plan.make_window(place, self._release)
        else:
            self.processors = plan.processors(place)
            assert self._flow is not None

    def _release(self, events: list[Event]) -> None:
        release = self._behind.process_events
        assert release is not None
        # Made with the first release: from then on the window hands over directly.
        if self.window is not None:
            self.window.emit = release
        release(events)

    @cached_property
    def _behind(self) -> Flow:
        """What comes behind the window, or after all handlers where there is none."""
        plan, place = self.plan, self.place

        def select(form: str) -> Any:
            return plan.chosen.make(form, self.totals, self.sink, place.clock)

        if plan.window is None and not plan.reads_window:
            flow = Flow(select("event"), when_needed(lambda: select("arrivals")))
        else:
            flow = Flow(_unused, _unused, select("events"))
        for stage in reversed(plan.after):
            flow = stage.before(flow, place.clock, self.processors)
        return flow

    @cached_property
    def _flow(self) -> Flow:
        """The whole way of an event."""
        flow, plan = self._behind, self.plan
        # A query that waits has its window already, with its state.
        if self.window is None and plan.window is not None:
            assert flow.process_events is not None
            self.window = plan.make_window(self.place, flow.process_events)
        if self.window is not None:
            flow = Flow(self.window.process, self.window.process_chunk)
        for stage in reversed(plan.before):
            flow = stage.before(flow, self.place.clock, self.processors)
        return flow

    @cached_property
    def receivers(self) -> Mapping[str, tuple[Receive, ReceiveChunk]]:
        """What the stream that the query reads delivers to."""
        if self.plan.reads_window:
            return {}
        return {self.plan.inputs[0]: (self._flow.process, self._flow.process_chunk)}

    @cached_property
    def event_receivers(self) -> Mapping[str, ReceiveEvents]:
        """What a named window delivers to."""
        if not self.plan.reads_window:
            return {}
        assert self._flow.process_events is not None
        return {self.plan.inputs[0]: self._flow.process_events}

    @property
    def loops(self) -> Mapping[str, LoopMaker]:
        """What takes many single events of a stream faster than `receivers` do, by stream id."""
        plan = self.plan.loop
        return {} if plan is None else {self.plan.inputs[0]: lambda drive: plan.loop(self, self.sink, drive)}

    def start(self) -> None:
        """Begin: a rate limit by time and stream processors count from now."""
        self.limit.start()
        self.processors.start()

    def snapshot(self) -> Any:
        """Return the totals, the window's content and what the rate limit and stream processors hold."""
        window = None if self.window is None else self.window.snapshot()
        return [self.totals.snapshot(), window, self.limit.snapshot(), self.processors.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        totals, window, limit, processors = plain_query(state)
        self.processors.restore(processors)
        self.totals.restore(totals)
        if self.window is not None:
            self.window.restore(window)
        self.limit.restore(limit)


def _no_timer(*_: Any) -> Any:
    raise AssertionError("a query without stream processors makes no timers for them")


_NO_PROCESSORS = Processors(_no_timer)


def _unused(*_: Any) -> None:
    raise AssertionError("events reach a windowed query's selector through its window only")


class StatePlan(Plan):
    """A query over a pattern or sequence."""

    def __init__(
        self,
        checked: CheckedQuery,
        input: ast.PatternInput,
        rank: int,
        catalog: Catalog,
        stores: Mapping[str, Store],
    ) -> None:
        super().__init__(checked, rank, catalog, stores)
        self.pattern = PatternPlan(self.name, input, checked.scope, catalog)
        self.chosen = self.selection(self._reader, "p", leaving=input.within is not None)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Ids of the streams it reads, each once."""
        return tuple(dict.fromkeys(self.pattern.stream_ids))

    def _reader(self, frame: Frame, bindings: Bindings) -> InputReader:
        return ElementReader(self.checked.scope, self.catalog, frame, bindings, self.pattern.slots)

    def instance(self, place: Place) -> StateQuery:
        """Return a new instance."""
        return StateQuery(self, place)


class StateQuery:
    """An instance of a query over a pattern or sequence.

    State
    -----
    The selector's totals, the automaton's partial matches and what the rate limit holds back.
    """

    def __init__(self, plan: StatePlan, place: Place) -> None:
        self.totals = SelectorState()
        self.limit = plan.limit(place)
        self.deferred = DeferredResults(self.limit.sink)
        self.event_receivers: Mapping[str, ReceiveEvents] = {}
        select = plan.chosen.make("event", self.totals, self.deferred.sink, place.clock)
        select_events = when_needed(lambda: plan.chosen.make("events", self.totals, self.deferred.sink, place.clock))

        def matched(partial: Partial) -> None:
            if partial.expired:
                # It became too old at one side of an `and` or `or` and was completed at the other.
                select_events([(EXPIRED, partial.timestamp, partial.slots)])
            else:
                select(partial.timestamp, partial.slots)

        self.automaton: Automaton = plan.pattern.automaton(place.clock, plan.timer(place), matched)
        self.receivers: Mapping[str, tuple[Receive, ReceiveChunk]] = {
            stream_id: self._receiver(stream_id) for stream_id in plan.inputs
        }

    @property
    def loops(self) -> Mapping[str, LoopMaker]:
        """What takes many single events of a stream faster than `receivers` do, by stream id."""
        maker = sequence_loop if self.automaton.plan.strict else pattern_loop
        found = {id: maker(self.automaton, id, receive) for id, (receive, _) in self.receivers.items()}
        return {id: maker for id, maker in found.items() if maker is not None}

    def _receiver(self, stream_id: str) -> tuple[Receive, ReceiveChunk]:
        automaton, deferred = self.automaton, self.deferred
        # Where one element reads the stream, nothing else is offered the event, so nothing is deferred.
        if len(automaton.readers[stream_id]) == 1:
            return automaton.offering(stream_id), partial(automaton.process_chunk, stream_id)

        offer = automaton.offering(stream_id, deferred.begin)

        def receive(timestamp: int, row: Row) -> None:
            try:
                offer(timestamp, row)
            # Also `ObserverFailed`: what is deferred must not go out with a later event.
            except BaseException:
                deferred.drop()
                raise
            if deferred.holds:
                deferred.deliver()

        def receive_chunk(arrivals: Sequence[Arrival]) -> None:
            try:
                for timestamp, row in arrivals:
                    offer(timestamp, row)
            except BaseException:
                deferred.drop()
                raise
            if deferred.holds:
                deferred.deliver()

        return receive, receive_chunk

    def start(self) -> None:
        """Begin: waiting elements and a rate limit by time count from now."""
        self.limit.start()
        self.automaton.start()

    def snapshot(self) -> Any:
        """Return the totals, the partial matches and what the rate limit holds."""
        return [self.totals.snapshot(), self.automaton.snapshot(), self.limit.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        totals, automaton, limit = state
        self.totals.restore(totals)
        self.automaton.restore(automaton)
        self.limit.restore(limit)
