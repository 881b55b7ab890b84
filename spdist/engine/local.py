"""Runs an app in virtual time: no Spark, no threads, no clock of its own; the reference for everything else.

Meaning is Siddhi's, on a stepped clock: before an event with time T is delivered every timer due at or before T fires,
in the order of the due times, with the clock at its due time; then the clock is at T. The clock never goes back, and
nothing here reads the machine's clock, so the same input gives the same output, wherever it runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from spdist.errors import StateError
from spdist.extension import catalog
from spdist.language import ast
from spdist.language.checked import CheckedApp, CheckedPartition
from spdist.language.checker import check
from spdist.language.format import format_app
from spdist.language.parser import parse
from spdist.language.scope import undefined
from spdist.operators import codec
from spdist.operators.base import Arrival, Row, Timer, Timers, VirtualClock
from spdist.operators.expression import unsupported
from spdist.operators.junction import Failures, Junction, ObserverFailed, ReceiveMany, ReceiveOne
from spdist.operators.output import QueryObserver
from spdist.operators.partition import PartitionPlan, PartitionRuntime
from spdist.operators.query import QueryInstance, QueryPlan, plan_query

__all__ = ["LocalApp", "run"]

_BEFORE_ALL_TIME = -(2**63)
#: Among timers due at the same time, periodic ones come after those of queries.
_PERIODIC = 1_000_000
#: Rank of the wake-up that starts the app.
_FIRST = (-1, 0)

_NOT_YET = {
    ast.TableDefinition: "a table",
    ast.WindowDefinition: "a named window",
    ast.TriggerDefinition: "a trigger",
    ast.FunctionDefinition: "a function defined in a script",
    ast.AggregationDefinition: "an aggregation",
}


class _Home:
    """Where the queries outside of partitions live (`spdist.operators.query.Place`): streams, clock and timers."""

    def __init__(self, stream_ids: Iterable[str], identity: str) -> None:
        self.clock = VirtualClock(_BEFORE_ALL_TIME, identity)
        self.timers = Timers(self.clock)
        self.failures = Failures()
        ids = list(stream_ids)
        faults = {id: Junction(id, self.failures) for id in ids if id.startswith("!")}
        self.junctions = {id: faults.get(id) or Junction(id, self.failures, faults.get(f"!{id}")) for id in ids}

    def timer(self, rank: tuple[int, int], wake: Callable[[int], None], key: int = 0) -> Timer:
        return Timer(self.timers, (*rank, key), wake)

    def junction(self, stream_id: str) -> Junction:
        junction = self.junctions.get(stream_id)
        if junction is None:
            raise undefined("stream", stream_id, None, self.junctions)
        return junction


class LocalApp:
    """One running app.

    Parameters
    ----------
    checked : CheckedApp
        The app with what its names mean.
    identity : str, optional
        Keeps the UUIDs that copies of an app draw apart; by default the app's name.

    Raises
    ------
    UnsupportedFeatureError
        The app uses what is not run (yet); says what and where.

    Notes
    -----
    Events are trusted: a row is a tuple with as many values as the stream has attributes, of their types. A query that
    fails on an event loses it, for itself and for the receivers after it; `failures` counts such events.

    Examples
    --------
    >>> from spdist.engine.local import run
    >>> app = "define stream S (v int); from S[v > 1] select v * 10 as w insert into Out;"
    >>> run(app, {"S": [(1000, (1,)), (1001, (2,))]})
    {'Out': [(1001, (20,))]}
    """

    def __init__(self, checked: CheckedApp, identity: str | None = None) -> None:
        for definition in checked.app.definitions:
            if type(definition) in _NOT_YET:
                raise unsupported(_NOT_YET[type(definition)], definition.span)
        self.checked = checked
        self._home = _Home(checked.streams, checked.name if identity is None else identity)
        self._clock = self._home.clock
        self._timers = self._home.timers
        self._heap = self._timers.heap
        self._plans: dict[str, QueryPlan] = {}
        self._queries: dict[str, QueryInstance] = {}
        self._partitions: list[PartitionRuntime] = []
        self._make_elements()
        self._entries = {id: junction.one for id, junction in self._home.junctions.items()}
        self._started = False
        # Due before all time, so that the first event takes the slow way, which starts the app.
        self._home.timer(_FIRST, lambda _due: None).notify_at(_BEFORE_ALL_TIME)

    def _make_elements(self) -> None:
        known = catalog()
        rank = 0
        for element in self.checked.elements:
            if isinstance(element, CheckedPartition):
                position = len(self._partitions)
                ranks = [*range(rank, rank + len(element.queries)), _PERIODIC + position]
                plan = PartitionPlan(element, position, ranks, self.checked.streams, known)
                rank += len(element.queries)
                self._plans |= {query.name: query for query in plan.queries}
                runtime = PartitionRuntime(plan, self._home)
                self._partitions.append(runtime)
                self._subscribe(runtime.receivers)
            else:
                query = self._plans[element.name] = plan_query(element, rank, known)
                rank += 1
                instance = self._queries[element.name] = query.instance(self._home)
                self._subscribe(instance.receivers)

    def _subscribe(self, receivers: Mapping[str, tuple[ReceiveOne, ReceiveMany]]) -> None:
        for stream_id, (one, many) in receivers.items():
            self._home.junction(stream_id).subscribe(one, many)

    # Time.

    @property
    def clock(self) -> int:
        """The app's time in ms; before the start, a time before all others."""
        return self._clock.now

    @property
    def next_timer(self) -> int | None:
        """When the next timer is due, in ms; None where none is."""
        return self._timers.next_due if self._started else None

    @property
    def failures(self) -> Failures:
        """The events that were lost because a query failed on them."""
        return self._home.failures

    def start(self, now_ms: int) -> None:
        """Start the app at `now_ms`: patterns that begin with an absence wait from here.

        Without it the app starts at the time of its first event. Starting twice does nothing.
        """
        if self._started:
            return
        self._started = True
        self._timers.clear()
        self._clock.now = now_ms
        for query in self._queries.values():
            query.start()

    def advance(self, to_ms: int) -> None:
        """Let time pass until `to_ms`; what is due fires. A time that is past does nothing."""
        self._guarded(self._move, to_ms)

    def _move(self, to_ms: int) -> None:
        self.start(to_ms)
        self._timers.fire_until(to_ms)
        if to_ms > self._clock.now:
            self._clock.now = to_ms

    # Events.

    def send(self, stream: str, timestamp: int, row: Row) -> None:
        """Let time pass until `timestamp`, then deliver one event as a chunk of its own.

        Parameters
        ----------
        stream : str
            Id of a stream.
        timestamp : int
            The event's time in ms; one that is past is delivered with the clock where it is.
        row : tuple
            The event's values.

        Raises
        ------
        UndefinedNameError
            The app has no such stream.
        """
        try:
            entry = self._entries[stream]
        except KeyError:
            self._home.junction(stream)
            raise
        clock, heap = self._clock, self._heap
        try:
            if heap and heap[0][0] <= timestamp:
                self._move(timestamp)
            elif timestamp > clock.now:
                clock.now = timestamp
            entry(timestamp, row)
        except ObserverFailed as failed:
            raise failed.cause from None

    def send_batch(self, stream: str, timestamps: Sequence[int], rows: Sequence[Row]) -> None:
        """Send events one after the other, each a chunk of its own: the same as `send` for each, only faster."""
        entry = self._home.junction(stream).one
        clock, heap, move = self._clock, self._heap, self._move
        try:
            for timestamp, row in zip(timestamps, rows, strict=True):
                if heap and heap[0][0] <= timestamp:
                    move(timestamp)
                elif timestamp > clock.now:
                    clock.now = timestamp
                entry(timestamp, row)
        except ObserverFailed as failed:
            raise failed.cause from None

    def send_chunk(self, stream: str, arrivals: Sequence[Arrival]) -> None:
        """Deliver events as one chunk, with the clock at the last one's timestamp."""
        if not arrivals:
            return
        self._guarded(self._move, arrivals[-1][0])
        self._guarded(self._home.junction(stream).many, list(arrivals))

    @staticmethod
    def _guarded(call: Callable[[Any], None], argument: Any) -> None:
        try:
            call(argument)
        except ObserverFailed as failed:
            raise failed.cause from None

    # Observers.

    def subscribe(self, stream_id: str, callback: Callable[[int, Row], None]) -> None:
        """Call `callback` with timestamp and row of each event of a stream, after the stream's queries.

        An error that it raises comes out of the call that let the event in; the app should not be used after that.
        """
        self._home.junction(stream_id).observers.append(callback)

    def subscribe_query(self, name: str, callback: QueryObserver) -> None:
        """Call `callback` with each chunk of a query's results: timestamp of the last one, current and expired ones."""
        if name not in self._plans:
            raise undefined("query", name, None, self._plans)
        self._plans[name].observers.append(callback)

    # State.

    @property
    def _fingerprint(self) -> str:
        return hashlib.sha256(format_app(self.checked.app).encode()).hexdigest()

    def snapshot(self) -> bytes:
        """Return the whole state as bytes for `restore`.

        Raises
        ------
        StateError
            An object attribute holds something that cannot be stored.
        """
        state = {
            "app": self._fingerprint,
            "clock": self._clock.now,
            "drawn": self._clock.drawn,
            "started": self._started,
            "queries": {name: query.snapshot() for name, query in self._queries.items()},
            "partitions": [partition.snapshot() for partition in self._partitions],
        }
        return codec.encode(state)

    def restore(self, data: bytes) -> None:
        """Replace the whole state by that of a snapshot; the app goes on from there.

        Raises
        ------
        StateError
            The bytes are damaged, or belong to another app.
        """
        state = codec.decode(data)
        if not isinstance(state, dict) or state.get("app") != self._fingerprint:
            raise StateError(
                f"this state was not made by the app '{self.checked.name}' as it is written now",
                hint="a changed app starts with empty state; restore the text that the state was made with",
            )
        self._timers.clear()
        self._clock.now, self._clock.drawn = state["clock"], state["drawn"]
        self._started = state["started"]
        for name, query in self._queries.items():
            query.restore(state["queries"][name])
        for partition, stored in zip(self._partitions, state["partitions"], strict=True):
            partition.restore(stored)
        if not self._started:
            self._home.timer(_FIRST, lambda _due: None).notify_at(_BEFORE_ALL_TIME)


def run(text: str, events: Mapping[str, Iterable[Arrival]], until: int | None = None) -> dict[str, list[Arrival]]:
    """Run an app on recorded events and return what its queries put out.

    Parameters
    ----------
    text : str
        The app.
    events : mapping of str to iterable of (timestamp, row)
        What is sent, by stream; all streams are merged by timestamp, those of one time in the order given.
    until : int, optional
        When to stop; later timers do not fire. By default with the last event.

    Returns
    -------
    dict of str to list of (timestamp, row)
        The events of each stream that queries write, in the order in which they came.
    """
    app = LocalApp(check(parse(text), catalog(), text))
    out: dict[str, list[Arrival]] = {}
    for query in app.checked.queries + tuple(q for p in app.checked.partitions for q in p.queries):
        if query.target in app.checked.streams and query.target not in out:
            collected = out[query.target] = []
            app.subscribe(query.target, lambda ts, row, into=collected: into.append((ts, row)))  # type: ignore[misc]
    merged = [(ts, stream, tuple(row)) for stream, arrivals in events.items() for ts, row in arrivals]
    for timestamp, stream, row in sorted(merged, key=lambda event: event[0]):
        app.send(stream, timestamp, row)
    if until is not None:
        app.advance(until)
    return out
