"""A test kit for apps: send events, move the clock, expect rows; in virtual time, so a test takes milliseconds.

Works in pytest and in a notebook cell, where an app under test shows itself as a table of what went in and came out.

Examples
--------
>>> from spdist.testing import VirtualApp
>>> app = VirtualApp('''
...     define stream Requests (user string);
...     from every r=Requests -> not Requests[user == r.user] for 5 sec
...     select r.user as user insert into Silent;
... ''')
>>> app.send("Requests", "ann", at=1000)
>>> app.advance(to=5999)
>>> app.expect_nothing("Silent")
>>> app.advance(to=6000)
>>> app.expect("Silent", ("ann",))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from spdist.display import Shown, number_of, table_html, table_text
from spdist.engine.local.app import LocalApp
from spdist.engine.local.external_stores import external_stores
from spdist.engine.replay.causes import BUDGET, explain
from spdist.engine.replay.equality import same_values
from spdist.engine.replay.evidence import Evidence
from spdist.engine.replay.input_log import InputLog, InputRecorder
from spdist.engine.replay.stepping import Moment, Stepper
from spdist.errors import NotFoundError, SiddhiTypeError, StateError
from spdist.extension import catalog
from spdist.frames import to_row
from spdist.history import SHOWN, Seen, clock_text, history_table
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.checker import check
from spdist.language.checking.scope import undefined
from spdist.language.parsing.parser import parse, parse_on_demand, read_time
from spdist.language.types import Schema
from spdist.planning.updates.change import ElementChanges

__all__ = ["Moment", "Seen", "Stepper", "VirtualApp"]

Row = tuple[Any, ...]


class VirtualApp(Shown):
    """An app under test, in virtual time.

    Parameters
    ----------
    text : str
        The app, in SiddhiQL.
    start : int, optional
        Its clock when it starts, ms; triggers and absence count from here. By default 0, or for an ``@app:playback``
        app the time of its first event.
    scripts : bool, optional
        Whether it may define functions in Python; see `spdist.extension.catalog`.

    Raises
    ------
    SiddhiAppError
        The app is wrong; ``errors`` holds everything that was found.

    State
    -----
    ``history``: everything that went in and came out, in order, for as long as the object lives; what went in is
    kept once more for `explain`.
    """

    def __init__(self, text: str, start: int | None = None, scripts: bool | None = None) -> None:
        self.checked = check(parse(text), catalog(scripts), text)
        self.history: list[Seen] = []
        self._read: dict[str, int] = {}
        #: Rows that were sent and that the observers have not seen yet: they are in the history already.
        self._sent: list[tuple[str, Row]] = []
        #: None before the app has started.
        self._recorder: InputRecorder | None = None
        self._scripts = scripts
        self._closed = False
        self._app = self._made(self.checked)
        if start is not None or not self.checked.playback:  # else the first event says what time it is
            self._recorder = InputRecorder(self.checked, start or 0)
            self._app.start(start or 0)

    def _made(self, checked: CheckedApp) -> LocalApp:
        app = LocalApp(checked, stores=external_stores(checked))
        for stream in checked.streams:
            app.subscribe(stream, self._observer(stream))
        return app

    def _observer(self, stream: str) -> Any:
        def see(timestamp: int, row: Row) -> None:
            # By identity: a query may put an equal row into the stream that it was sent to.
            sent = next((i for i, (to, one) in enumerate(self._sent) if to == stream and one is row), None)
            if sent is None:
                self.history.append(Seen(stream, timestamp, row, False))
            else:
                del self._sent[sent]
            if self._recorder is not None:
                self._recorder.came(stream, timestamp, row, sent is not None)

        return see

    @property
    def _live(self) -> LocalApp:
        if self._closed:
            raise StateError(
                f"{self.checked.name} is closed", hint="make a new VirtualApp; what came out is still here"
            )
        return self._app

    @property
    def clock(self) -> int:
        """The app's time, ms; 0 before it has started."""
        return self._app.clock if self._recorder is not None else 0

    # What a test does.

    def send(self, stream: str, *values: Any, at: int | None = None) -> None:
        """Send one event.

        Parameters
        ----------
        stream : str
            A stream of the app.
        *values
            Its values, in the order of the stream's attributes; or one mapping with a value for each attribute.
        at : int, optional
            Its time, ms; what is due until then happens before. By default now. An ``@app:playback`` app refuses one
            that lies too far ahead, which counts as `lost`.

        Raises
        ------
        UndefinedNameError
            The app has no such stream.
        MappingError
            The values do not fit the stream.
        """
        row = values[0] if len(values) == 1 and isinstance(values[0], Mapping) else values
        self.send_together(stream, [row], at)

    def send_together(
        self, stream: str, rows: Iterable[Sequence[Any] | Mapping[str, Any]], at: int | None = None
    ) -> None:
        """Send several events together, as one chunk: of those an aggregating query puts out the last result only."""
        schema = _schema_of(self.checked, stream)
        made = [to_row(values, schema, stream) for values in rows]
        time = self.clock if at is None else at
        if not self._live.jumps.is_too_far(time):  # else the app refuses and counts it, at the time that it is
            self.advance(to=time)
        assert self._recorder is not None
        self._recorder.sent(stream, time, made, self.clock)
        self.history += [Seen(stream, time, row, True) for row in made]  # before what comes out of them
        self._sent = [(stream, row) for row in made]
        if len(made) == 1:
            self._app.send(stream, time, made[0])
        else:
            self._app.send_chunk(stream, [(time, row) for row in made])
        self._sent = []

    def advance(self, to: int | None = None, by: int | str | None = None) -> None:
        """Let time pass, so that windows expire, absence is noticed and triggers fire.

        Parameters
        ----------
        to : int, optional
            Until when, ms; a time that is past does nothing.
        by : int or str, optional
            How long instead: ms, or as SiddhiQL writes it: ``"5 sec"``.
        """
        if (to is None) == (by is None):
            raise TypeError("say either until when (to=…) or how long (by=…)")
        if by is not None:
            to = self.clock + (_duration(by) if isinstance(by, str) else by)
        assert to is not None
        app = self._live
        if self._recorder is None:
            self._recorder = InputRecorder(self.checked, to)
        app.advance(to)

    def snapshot(self) -> bytes:
        """Return the app's whole state."""
        return self._live.snapshot()

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot; the history stays."""
        self._live.restore(state)
        # What came before is in this state and in no log: causes are looked for from here on.
        self._recorder = InputRecorder(self.checked, self._app.clock, self._app.snapshot())

    def update(self, text: str) -> ElementChanges:
        """Go on with another text from where the app is, as an update of a deployed app does; the history stays.

        Queries, tables, windows and all else that has not changed keep their state; what has changed begins empty.

        Parameters
        ----------
        text : str
            The app, in SiddhiQL.

        Returns
        -------
        ElementChanges
            What became of each element: a tuple of `ElementChange` that shows itself as a table.

        Raises
        ------
        SiddhiAppError
            The text is wrong; the app stays as it is.
        """
        checked = check(parse(text), catalog(self._scripts), text)
        state = self._live.snapshot()
        self._app.stop()
        self.checked, self._app = checked, self._made(checked)
        changes = self._app.carry_over(state)
        self._recorder = InputRecorder(self.checked, self._app.clock, self._app.snapshot())
        return ElementChanges(changes)

    def close(self) -> None:
        """Let go of databases and of the in-memory broker, as the end of ``with VirtualApp(…) as app:`` does.

        What came out, and why, can still be asked. A second call does nothing.
        """
        if not self._closed:
            self._closed = True
            self._app.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What a test looks at.

    def rows(self, stream: str) -> list[Row]:
        """Return the rows that came out on a stream so far, without those that were sent to it."""
        _schema_of(self.checked, stream)
        return [seen.row for seen in self.history if seen.stream == stream and not seen.sent]

    def take(self, stream: str) -> list[Row]:
        """Return the rows that came out on a stream since the last time one asked, with `take` or `expect`."""
        rows = self.rows(stream)
        new = rows[self._read.get(stream, 0) :]
        self._read[stream] = len(rows)
        return new

    def expect(self, stream: str, *rows: Sequence[Any]) -> None:
        """Assert that exactly these rows came out on a stream, in this order, since the last time one asked.

        Decimals may differ by a millionth: a ``float`` has 32 bits. An assertion that fails shows both sides.

        Raises
        ------
        AssertionError
            Something else came out.
        """
        __tracebackhide__ = True  # pytest shows the line of the test instead
        found = self.take(stream)
        expected = [tuple(row) for row in rows]
        if len(found) != len(expected) or not all(map(same_values, expected, found)):
            raise AssertionError(_difference(stream, _schema_of(self.checked, stream), expected, found))

    def expect_nothing(self, stream: str) -> None:
        """Assert that nothing came out on a stream since the last time one asked."""
        __tracebackhide__ = True
        self.expect(stream)

    def query(self, text: str) -> list[Row]:
        """Return the rows of an on-demand query, such as ``from Stock on price > 5.0 select name``."""
        rows: list[Row] = self._live.query(text).rows
        if self._recorder is not None and parse_on_demand(text).output is not None:  # a replay has to write, too
            self._recorder.wrote(text, self.clock)
        return rows

    def explain(
        self,
        stream: str,
        which: int | Sequence[Any] = -1,
        *,
        attributes: Sequence[str] | None = None,
        budget: int = BUDGET,
    ) -> Evidence:
        """Return why an event came out: the events that caused it, none of which can be left out.

        Parameters
        ----------
        stream : str
            Where it came out.
        which : int or sequence
            Which of `rows`: a place among them, or its values, of which the last are meant. By default the last one.
        attributes : sequence of str, optional
            Those whose values matter, by default all; leave out what is never the same, such as a UUID.
        budget : int
            How many events may be sent again to find out.

        Raises
        ------
        NotFoundError
            There is no such event, or it came before `restore` or `update`, from where on there is a log.

        Examples
        --------
        >>> app = VirtualApp("define stream S (v int); from S#window.length(2) select sum(v) as s insert into Out;")
        >>> for value in (1, 2, 3):
        ...     app.send("S", value)
        >>> [cause.row for cause in app.explain("Out", (5,)).causes]
        [(2,), (3,)]
        """
        _schema_of(self.checked, stream)
        log = self._log()
        assert self._recorder is not None
        number, expected = self._recorder.find(stream, which)
        return explain(log, stream, number, expected=expected, attributes=attributes, budget=budget)

    def stepper(self) -> Stepper:
        """Return a debugger that goes through what this app was given, from the start, or the last restore or update.

        Raises
        ------
        NotFoundError
            The app has not started.
        """
        return Stepper(self._log())

    def _log(self) -> InputLog:
        if self._recorder is None:
            raise NotFoundError("the app has not started, so nothing came out", hint="send an event, or let time pass")
        return self._recorder.log(self.clock)

    @property
    def lost(self) -> int:
        """How many events were lost because a query failed on them."""
        return self._app.failures.count

    # How it shows itself.

    def __repr__(self) -> str:
        return f"VirtualApp({_headline(self)})"

    def __str__(self) -> str:
        return table_text(*history_table(self.history[-SHOWN:], self.checked.streams), title=_headline(self))

    def _repr_html_(self) -> str:
        return table_html(*history_table(self.history[-SHOWN:], self.checked.streams), caption=_headline(self))


def _headline(app: VirtualApp) -> str:
    left_out = len(app.history) - SHOWN
    last = f", the last {SHOWN:,} of {len(app.history):,} events" if left_out > 0 else ""
    return f"{app.checked.name} at {clock_text(app.clock)}, {number_of(app.lost, 'event')} lost{last}"


def _schema_of(checked: CheckedApp, stream: str) -> Schema:
    schema = checked.streams.get(stream)
    if schema is None:
        raise undefined("stream", stream, None, checked.streams)
    return schema


def _duration(text: str) -> int:
    milliseconds = read_time(text)
    if milliseconds is None:
        raise SiddhiTypeError(f"'{text}' is no duration", hint="For example: '5 sec', '1 min 30 sec', '500 millisec'")
    return milliseconds


def _shown(row: Row) -> str:
    return f"({', '.join(map(repr, row))})"


def _difference(stream: str, schema: Schema, expected: Sequence[Row], found: Sequence[Row]) -> str:
    lines = [f"'{stream}' {schema}: {len(expected)} row(s) expected, {len(found)} came out"]
    for number in range(max(len(expected), len(found))):
        wanted = _shown(expected[number]) if number < len(expected) else "nothing"
        got = _shown(found[number]) if number < len(found) else "nothing"
        equal = number < len(expected) and number < len(found) and same_values(expected[number], found[number])
        lines.append(
            f"  {number + 1}. {wanted}" if equal else f"  {number + 1}. expected {wanted}\n     found    {got}"
        )
    return "\n".join(lines)
