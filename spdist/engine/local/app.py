"""Runs an app in virtual time: no Spark, no threads, no clock of its own; the reference for everything else.

Meaning is Siddhi's, on a stepped clock: before an event with time T is delivered every timer due at or before T fires,
in the order of the due times, with the clock at its due time; then the clock is at T. The clock never goes back, and
nothing here reads the machine's clock, so the same input gives the same output, wherever it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from spdist.engine.local.app_context import BEFORE_ALL_TIME, AppContext
from spdist.engine.local.clock_jumps import Jumps
from spdist.engine.local.contents import Inside
from spdist.engine.local.elements import AppElements
from spdist.engine.local.endpoints import Endpoints
from spdist.engine.local.external_stores import external_stores
from spdist.engine.local.make_stores import catalog_of, make_stores
from spdist.engine.local.recorded import Recording, collected, play
from spdist.engine.local.rows import HoldsRows, count_rows
from spdist.engine.local.state_transfer import carry_over, read_state, write_state
from spdist.engine.local.stateful_parts import AppParts, StatefulPart
from spdist.errors import StateError
from spdist.extension import catalog
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.checker import check
from spdist.language.checking.scope import undefined
from spdist.language.parsing.parser import parse
from spdist.operators.aggregations.aggregation import Aggregation
from spdist.operators.base import Arrival, Row
from spdist.operators.core.faults import ErrorStore
from spdist.operators.core.junction import Failures, ObserverFailed, guarded
from spdist.operators.core.triggers import Triggers
from spdist.operators.queries.plans import ReceiveEvents
from spdist.operators.selection.output import QueryObserver
from spdist.operators.tables.on_demand import Answer, OnDemandQueries
from spdist.operators.tables.stores import OutsideStores
from spdist.operators.tables.table import Table
from spdist.planning.updates.change import ElementChange
from spdist.transports.delivery import Outbox
from spdist.transports.in_memory import InMemoryBroker

__all__ = ["LocalApp", "run", "table_rows"]

#: Rank of the wake-up that starts the app.
_FIRST = (-1, 0)


class LocalApp:
    """One running app.

    Parameters
    ----------
    checked : CheckedApp
        The app with what its names mean.
    identity : str, optional
        Keeps the UUIDs that copies of an app draw apart; by default the app's name.
    errors : ErrorStore, optional
        Takes what ``@OnError(action='STORE')`` keeps; by default one of this app's own.
    broker : InMemoryBroker, optional
        The in-memory topics that sources and sinks use; by default some of this app's own. Apps that are to hear each
        other get the same one.
    time_zone : str
        In which the hours, days, months and years of aggregations begin (``aggTimeZone`` in Siddhi).
    outbox : Outbox, optional
        Takes what sinks of all types put out, for somebody who sends it later; see `spdist.engine.local.endpoints`.
    stores : OutsideStores, optional
        Makes what has ``@Store`` (`spdist.stores.opening.open_stores`), for this app alone; without it such an app is
        refused.

    Raises
    ------
    SiddhiAppError
        The app uses what is not run (yet); says what and where.

    Notes
    -----
    Events are trusted: a row is a tuple with as many values as the stream has attributes, of their types. A query that
    fails on an event loses it, for itself and for the receivers after it; `failures` counts such
    events, unless the stream's ``@OnError`` takes them: then they are in the fault stream, or in `errors`.
    """

    def __init__(
        self,
        checked: CheckedApp,
        identity: str | None = None,
        errors: ErrorStore | None = None,
        broker: InMemoryBroker | None = None,
        time_zone: str = "GMT",
        outbox: Outbox | None = None,
        stores: OutsideStores | None = None,
    ) -> None:
        self.checked = checked
        self.errors = ErrorStore() if errors is None else errors
        self._context = AppContext(checked, checked.name if identity is None else identity, self.errors)
        self._clock, self._timers = self._context.clock, self._context.timers
        self._heap = self._timers.heap
        self.jumps = Jumps(checked, self._clock, self._context.junctions)
        self._outside = stores
        self._stores = make_stores(checked, self._context, time_zone, stores)
        known = catalog_of(checked, self._stores)
        self._on_demand = OnDemandQueries(checked, self._stores, known, self._clock)
        self._elements = AppElements(checked, known, self._stores, self._context)
        self._triggers = Triggers(checked.app.definitions, self._context)
        self.broker = InMemoryBroker() if broker is None else broker
        self._endpoints = Endpoints(checked, self._context, self.broker, outbox)
        self.inside = Inside(checked, self._context, self._elements.plans, self._stores, lambda: self._parts.states())
        self._entries = {id: junction.receive for id, junction in self._context.junctions.items()}
        self._started = False
        # Due before all time, so that the first event takes the slow way, which starts the app.
        self._context.timer(_FIRST, lambda _due: None).notify_at(BEFORE_ALL_TIME)

    # Time.

    @property
    def clock(self) -> int:
        """The app's time in ms; before the start, a time before all others."""
        return self._clock.now

    @property
    def next_timer(self) -> int | None:
        """When the next timer is due, in ms; None where none is."""
        due = self._timers.next_due if self._started else None
        return due if due != BEFORE_ALL_TIME else self.clock

    @property
    def failures(self) -> Failures:
        """The events that were lost because a query failed on them."""
        return self._context.failures

    def start(self, now_ms: int) -> None:
        """Start the app at `now_ms`: patterns that begin with an absence wait from here.

        Without it the app starts at the time of its first event. Starting twice does nothing.
        """
        if self._started:
            return
        self._started = True
        self._timers.clear()  # of the wake-up of before all time
        self._clock.now = now_ms
        for store in self._stores.values():
            if isinstance(store, Aggregation):
                store.start()
        self._elements.start()
        self._triggers.start()
        self._endpoints.start()

    def stop(self) -> None:
        """Leave the broker and the databases, which may outlive the app: sources hear nothing from now on."""
        self._endpoints.stop()
        if self._outside is not None:
            self._outside.close()

    def advance(self, to_ms: int) -> None:
        """Let time pass until `to_ms`; what is due fires. A time that is past does nothing."""
        guarded(self._move, to_ms)

    def _move(self, to_ms: int) -> None:
        self.start(to_ms)
        self._fire(to_ms)
        self._clock.now = max(self._clock.now, to_ms)

    def _fire(self, to_ms: int) -> None:
        """Wake all that is due until then."""
        self._timers.fire_until(to_ms)

    # Events.

    def send(self, stream: str, timestamp: int, row: Row) -> None:
        """Let time pass until `timestamp`, then deliver one event as a chunk of its own.

        Parameters
        ----------
        stream : str
            Id of a stream.
        timestamp : int
            The event's time in ms; one that is past leaves the clock alone, one too far ahead is refused.
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
            # Its error names the streams that there are
            self._context.junction(stream)
            raise
        clock, heap = self._clock, self._heap
        try:
            # Two comparisons here, so that most events need no call for them
            if timestamp - clock.now > self.jumps.limit and self.jumps.refuses(stream, ((timestamp, row),)):
                return
            if heap and heap[0][0] <= timestamp:
                self._move(timestamp)
            elif timestamp > clock.now:
                clock.now = timestamp
            entry(timestamp, row)
        except ObserverFailed as failed:
            raise failed.cause from None

    def send_batch(self, stream: str, timestamps: Sequence[int], rows: Sequence[Row]) -> None:
        """Send events one after the other, each a chunk of its own: the same as `send` for each, only faster."""
        if len(timestamps) != len(rows):
            raise ValueError(f"there are {len(timestamps)} timestamps for {len(rows)} rows")
        loop = self._context.junction(stream).loop(self._clock, self._heap, self._move)
        try:
            for run in self.jumps.runs(stream, timestamps, rows):
                loop(*run)
        except ObserverFailed as failed:
            raise failed.cause from None

    def send_chunk(self, stream: str, arrivals: Sequence[Arrival]) -> None:
        """Deliver events as one chunk, with the clock at the last one's timestamp."""
        if not arrivals or self.jumps.refuses(stream, arrivals):
            return
        guarded(self._move, arrivals[-1][0])
        guarded(self._context.junction(stream).receive_chunk, list(arrivals))

    def query(self, text: str) -> Answer:
        """Put a query to the running app, such as ``from T on a > 1 select *`` or ``delete T on T.a == 1``.

        Parameters
        ----------
        text : str
            Reads a table, a named window or an aggregation, or changes a table.

        Returns
        -------
        Answer
            ``schema`` and ``rows``; no rows where nothing was found, or where the query writes.

        Raises
        ------
        SiddhiSyntaxError
            The text does not follow the grammar.
        OnDemandQueryError
            The query means nothing in this app, or fails on a row.

        Examples
        --------
        >>> text = "define stream S (v int); define table T (v int); from S insert into T;"
        >>> app = LocalApp(check(parse(text), catalog(), text))
        >>> app.send("S", 1000, (7,))
        >>> app.query("from T select v * 2 as w").rows
        [(14,)]
        """
        return self._on_demand.answer(text)

    # Observers.

    def subscribe(self, stream_id: str, callback: Callable[[int, Row], None]) -> None:
        """Call `callback` with timestamp and row of each event of a stream, after the stream's queries.

        An error that it raises comes out of the call that let the event in; the app should not be used after that.
        """
        self._context.junction(stream_id).observers.append(callback)

    def subscribe_window(self, window_id: str, callback: ReceiveEvents) -> None:
        """Call `callback` with each chunk that a named window puts out: kind, timestamp and row of its events."""
        self._elements.window(window_id).observers.append(callback)

    def subscribe_query(self, name: str, callback: QueryObserver) -> None:
        """Call `callback` with each chunk of a query's results: timestamp of the last one, current and expired ones."""
        plans = self._elements.plans
        if name not in plans:
            raise undefined("query", name, None, plans)
        plans[name].observers.append(callback)

    # State.

    @cached_property
    def _parts(self) -> AppParts:
        triggers = {
            ("trigger", name): StatefulPart(one.snapshot, one.restore, one.start) for name, one in self._triggers
        }
        found = {**self._elements.parts(), **triggers, **self._endpoints.parts()}
        return AppParts(self.checked, self._clock, found)

    def snapshot(self) -> bytes:
        """Return the whole state as bytes for `restore`.

        Raises
        ------
        StateError
            An object attribute holds something that cannot be stored.
        """
        own = {"started": self._started, "began": self.jumps.began, "put_out": self._endpoints.put_out}
        return write_state({**self._parts.snapshot(), **own, "stopped_rounds": self._context.rounds.stopped})

    def held_rows(self) -> int:
        """Return how many rows windows, tables, patterns, aggregations and keys hold; see `count_rows`."""
        rows = (s.held_rows() if isinstance(s, HoldsRows) else count_rows(s.snapshot()) for s in self._stores.values())
        return sum(rows, self._elements.held_rows())

    def restore(self, data: bytes) -> None:
        """Replace the whole state by that of a snapshot; the app goes on from there.

        An app that was not started goes on where the snapshot was taken, its clock and its triggers too. In one that
        runs, the clock does not go back, and triggers and sinks go on as they are, as in Siddhi.

        Raises
        ------
        StateError
            The bytes are damaged, or belong to another app: see `carry_over`.
        """
        state = read_state(data, columns=True)
        self._parts.must_be_ours(state["fingerprints"])
        self._take_over(state)

    def carry_over(self, data: bytes) -> tuple[ElementChange, ...]:
        """Go on from a snapshot of an app of another text, as an update of a running app does; call it before `start`.

        Time goes on, and what has not changed keeps its state. What has changed begins empty at the time of the
        snapshot: windows fill, patterns that begin with an absence wait, triggers count from there.

        Returns
        -------
        tuple of ElementChange
            What became of each element.

        Raises
        ------
        StateError
            The bytes are damaged, or this app has started.
        """
        if self._started:
            raise StateError("a state is carried over into an app that has not started", hint="make a new app for it")
        carried, changes = carry_over(data, self.checked)
        self._take_over(read_state(carried, columns=True))
        return changes

    def _take_over(self, state: Mapping[str, Any]) -> None:
        running = self._started
        fresh = self._parts.take_over(state, running, self._timers.clear)
        self._started = running or state["started"]
        self.jumps.began = self.jumps.began or bool(state["began"])
        if not running:
            self._endpoints.put_out = state["put_out"]
            self._context.rounds.stopped = state.get("stopped_rounds", 0)  # older states do not tell it
            if self._started:
                self._endpoints.start()
        # As at the beginning: the first event takes the slow way, which begins what has no state
        if fresh or not self._started:
            self._context.timer(_FIRST, lambda _due: self._parts.start_fresh()).notify_at(BEFORE_ALL_TIME)


def table_rows(app: LocalApp) -> dict[str, list[Row]]:
    """Return the rows of an app's tables in memory, by id; of those with ``@Store`` nothing."""
    kept = app._stores.items()
    return {id: [row for _, row in store.contents()] for id, store in kept if isinstance(store, Table)}


def run(
    text: str,
    events: Mapping[str, Iterable[Arrival]],
    until: int | None = None,
    scripts: bool | None = None,
) -> dict[str, list[Arrival]]:
    """Run an app on recorded events and return what its queries put out.

    Parameters
    ----------
    text : str
        The app.
    events : mapping of str to iterable of (timestamp, row)
        What is sent, by stream; all streams are merged by timestamp, those of one time in the order given.
    until : int, optional
        When to stop; later timers do not fire. By default with the last event.
    scripts : bool, optional
        Whether the app may define functions in Python; see `spdist.extension.catalog`.

    Returns
    -------
    dict of str to list of (timestamp, row)
        The events of each stream that queries write, in the order in which they came.
    """
    checked = check(parse(text), catalog(scripts), text)
    app = LocalApp(checked, stores=external_stores(checked))
    out = collected(app)
    given = {}
    for stream, arrivals in events.items():
        listed = list(arrivals)
        given[stream] = Recording([ts for ts, _ in listed], [tuple(row) for _, row in listed])
    play(app, given, until)
    return {stream: list(zip(one.times, one.rows, strict=True)) for stream, one in out.items()}
