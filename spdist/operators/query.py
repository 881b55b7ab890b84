"""A query at work: what is planned and compiled once, and the instances of it, one for each partition key.

A plan knows the streams it reads and the stream it writes; an instance holds state and hands its receivers to the
junctions of its place. Joins and other kinds of input are further plans with the same two methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Protocol

from spdist.extension import find
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checked import CheckedQuery
from spdist.operators.base import EXPIRED, Arrival, Row, Timer, VirtualClock, Window, WindowSetting
from spdist.operators.codegen import Bindings, Frame
from spdist.operators.expression import Reader, unsupported
from spdist.operators.handlers import FilterPlan, Flow, plan_handlers
from spdist.operators.junction import Failures, Junction, ReceiveMany, ReceiveOne
from spdist.operators.output import Held, QueryObserver, insert_into
from spdist.operators.parameters import attribute_positions, constant_values
from spdist.operators.pattern import Automaton, PatternPlan
from spdist.operators.pattern_states import Partial
from spdist.operators.readers import ElementReader, RowReader
from spdist.operators.selector import Selection, SelectorState

__all__ = ["Place", "QueryInstance", "QueryPlan", "plan_query"]


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


class QueryInstance(Protocol):
    """One instance of a query."""

    @property
    def receivers(self) -> Mapping[str, tuple[ReceiveOne, ReceiveMany]]:
        """What the streams that the query reads deliver to, by stream id."""
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


def plan_query(checked: CheckedQuery, rank: int, catalog: Catalog) -> QueryPlan:
    """Compile a query.

    Parameters
    ----------
    checked : CheckedQuery
        The query with what its names mean.
    rank : int
        Its place in the app: among timers due at the same time the query written first is first.
    catalog : Catalog
        Signatures.

    Raises
    ------
    UnsupportedFeatureError
        The query uses what is not run (yet).
    """
    query = checked.query
    if query.rate is not None:
        raise unsupported(f"'output {query.rate.kind}'", query.rate.span)
    if not isinstance(query.output, ast.InsertInto):
        raise unsupported(f"'{_verb(query.output)}'", query.output.span)
    if isinstance(query.input, ast.SingleInput):
        return SingleStreamPlan(checked, query.input, rank, catalog)
    if isinstance(query.input, ast.PatternInput):
        return StatePlan(checked, query.input, rank, catalog)
    kind = "a join" if isinstance(query.input, ast.JoinInput) else "an anonymous stream"
    raise unsupported(kind, query.input.span)


def _verb(output: ast.Output) -> str:
    words = {"Delete": "delete", "Update": "update", "Return": "return"}
    return words.get(type(output).__name__, type(output).__name__)


class _Plan:
    """What plans of all kinds of input share."""

    def __init__(self, checked: CheckedQuery, rank: int, catalog: Catalog) -> None:
        self.checked = checked
        self.rank = rank
        self.catalog = catalog
        self.name = checked.name
        self.observers: list[QueryObserver] = []
        self.events = checked.query.output.events or "current"

    def selection(
        self,
        reader: Callable[[Frame, Bindings], Reader],
        row: str,
        leaving: bool,
        filters: tuple[ast.Expression, ...] = (),
    ) -> Selection:
        """Return how the query's results are computed."""
        return Selection(
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
        )

    def timer(self, place: Place) -> Callable[[Callable[[int], None]], Timer]:
        """Return what makes the timers of one instance of this query, in the order of its operators."""
        numbers = count()
        return lambda wake: place.timer((self.rank, next(numbers)), wake)


class SingleStreamPlan(_Plan):
    """A query over one stream, with filters, stream functions and at most one window."""

    def __init__(self, checked: CheckedQuery, input: ast.SingleInput, rank: int, catalog: Catalog) -> None:
        super().__init__(checked, rank, catalog)
        self.input = input
        self.scope = checked.scope
        before = plan_handlers(self.name, input.before, self.scope, catalog)
        after = plan_handlers(self.name, input.after, self.scope, catalog)
        self.window = None if input.window is None else find("window", input.window.id).implementation
        last = after if self.window is not None else before
        # The filters next to the selector are written into it.
        filters: tuple[ast.Expression, ...] = ()
        if last and isinstance(last[-1], FilterPlan):
            filters = last[-1].conditions
            last.pop()
        self.before, self.after = before, after
        self.chosen = self.selection(self._reader, "row", self._leaving, filters)
        self.shared: dict[str, Any] = {}

    @property
    def inputs(self) -> tuple[str, ...]:
        """Ids of the streams it reads."""
        return (self.input.stream.id,)

    @property
    def _leaving(self) -> bool:
        return self.window is not None and (bool(self.window.slides) or self.events != "current")

    def _reader(self, frame: Frame, _bindings: Bindings) -> Reader:
        return RowReader(self.scope, self.catalog, frame)

    def instance(self, place: Place) -> SingleStreamQuery:
        """Return a new instance."""
        return SingleStreamQuery(self, place)

    def make_window(self, place: Place, target: Flow) -> Window | None:
        """Return the query's window, releasing to `target`."""
        call = self.input.window
        if self.window is None or call is None:
            return None
        assert target.events is not None
        window: Window = self.window(
            WindowSetting(
                constants=constant_values(call.args),
                attributes=attribute_positions(call.args, self.scope.sources[0].schema.names),
                expects_expired=self.events != "current",
                clock=place.clock,
                timer=self.timer(place),
                emit=target.events,
                shared=self.shared,
                partitioned=self.checked.partition is not None,
            )
        )
        return window


class SingleStreamQuery:
    """An instance of a query over one stream.

    State
    -----
    The selector's totals and what the window holds.
    """

    def __init__(self, plan: SingleStreamPlan, place: Place) -> None:
        self.plan = plan
        self.totals = SelectorState()
        sink = insert_into(place.junction(plan.checked.target), plan.observers)

        def select(form: str) -> Any:
            return plan.chosen.make(form, self.totals, sink, place.clock)

        if plan.window is None:
            flow = Flow(select("one"), select("arrivals"))
        else:
            flow = Flow(_unused, _unused, select("events"))
        for stage in reversed(plan.after):
            flow = stage.before(flow, place.clock)
        self.window = plan.make_window(place, flow)
        if self.window is not None:
            flow = Flow(self.window.one, self.window.many)
        for stage in reversed(plan.before):
            flow = stage.before(flow, place.clock)
        self.receivers: Mapping[str, tuple[ReceiveOne, ReceiveMany]] = {plan.inputs[0]: (flow.one, flow.many)}

    def start(self) -> None:
        """Begin; nothing waits before the first event."""

    def snapshot(self) -> Any:
        """Return the totals and the window's content."""
        return [self.totals.snapshot(), None if self.window is None else self.window.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        totals, window = state
        self.totals.restore(totals)
        if self.window is not None:
            self.window.restore(window)


def _unused(*_: Any) -> None:
    raise AssertionError("events reach a windowed query's selector through its window only")


class StatePlan(_Plan):
    """A query over a pattern or sequence."""

    def __init__(self, checked: CheckedQuery, input: ast.PatternInput, rank: int, catalog: Catalog) -> None:
        super().__init__(checked, rank, catalog)
        self.pattern = PatternPlan(self.name, input, checked.scope, catalog)
        self.chosen = self.selection(self._reader, "p", leaving=input.within is not None)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Ids of the streams it reads, each once."""
        return tuple(dict.fromkeys(self.pattern.stream_ids))

    def _reader(self, frame: Frame, bindings: Bindings) -> Reader:
        return ElementReader(self.checked.scope, self.catalog, frame, bindings, self.pattern.slots)

    def instance(self, place: Place) -> StateQuery:
        """Return a new instance."""
        return StateQuery(self, place)


class StateQuery:
    """An instance of a query over a pattern or sequence.

    State
    -----
    The selector's totals and the automaton's partial matches.
    """

    def __init__(self, plan: StatePlan, place: Place) -> None:
        self.totals = SelectorState()
        self.held = Held(insert_into(place.junction(plan.checked.target), plan.observers))
        select = plan.chosen.make("one", self.totals, self.held.sink, place.clock)
        select_events = plan.chosen.make("events", self.totals, self.held.sink, place.clock)

        def matched(partial: Partial) -> None:
            if partial.expired:
                # It became too old at one side of an `and` or `or` and was completed at the other.
                select_events([(EXPIRED, partial.timestamp, partial.slots)])
            else:
                select(partial.timestamp, partial.slots)

        self.automaton: Automaton = plan.pattern.automaton(place.clock, plan.timer(place), matched)
        self.receivers: Mapping[str, tuple[ReceiveOne, ReceiveMany]] = {
            stream_id: self._receiver(stream_id) for stream_id in plan.inputs
        }

    def _receiver(self, stream_id: str) -> tuple[ReceiveOne, ReceiveMany]:
        automaton, held = self.automaton, self.held
        if len(automaton.readers[stream_id]) == 1:

            def one(timestamp: int, row: Row) -> None:
                automaton.one(stream_id, timestamp, row)

            def many(arrivals: Sequence[Arrival]) -> None:
                automaton.many(stream_id, arrivals)

            return one, many

        def each(arrivals: Sequence[Arrival]) -> None:
            try:
                for timestamp, row in arrivals:
                    for _ in automaton.each(stream_id, timestamp, row):
                        held.begin()
            except BaseException:
                held.drop()
                raise
            held.deliver()

        return lambda timestamp, row: each(((timestamp, row),)), each

    def start(self) -> None:
        """Begin: waiting elements count from now."""
        self.automaton.start()

    def snapshot(self) -> Any:
        """Return the totals and the partial matches."""
        return [self.totals.snapshot(), self.automaton.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        totals, automaton = state
        self.totals.restore(totals)
        self.automaton.restore(automaton)
