"""What a run of an app on recorded events gives: the events that came out, and what became of those that went in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from spdist.display import Shown, headline_html, number_of, problem_html
from spdist.frames import StreamEvents, arrow_table
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.scope import suggestion

if TYPE_CHECKING:
    import pyarrow as pa

    from spdist.engine.replay.evidence import Evidence
    from spdist.engine.replay.stepping import Stepper

__all__ = ["EventCount", "Result", "run_recorded"]


class EventCount(int):
    """A number of events, with the reasons of the first of them.

    Parameters
    ----------
    count : int
        How many.
    reasons : sequence of str
        What happened to the first ones, five at most.
    """

    reasons: tuple[str, ...]

    def __new__(cls, count: int, reasons: Sequence[str] = ()) -> EventCount:
        """Return the number, with its reasons."""
        made = super().__new__(cls, count)
        made.reasons = tuple(reasons)
        return made


# `Mapping` brings the equality; no slots, as `tables` is cached in the instance's dictionary.
@dataclass(frozen=True, eq=False, repr=False)
class Result(Mapping[str, StreamEvents], Shown):
    """What came out of a run, by stream, as `spdist.run` returns it; equal to a dictionary with the same events.

    Parameters
    ----------
    checked : CheckedApp
        The app that was run.
    events : mapping of str to StreamEvents
        What was sent to each stream, in the order of time; `spdist.run` takes it again.
    until : int, optional
        The time at which it was stopped, ms since epoch; None: that of the last event.
    outputs : mapping of str to StreamEvents
        What queries have put out, by stream, in the order in which it came.
    table_rows : mapping of str to list of tuple
        The rows of the app's tables at the end, without those that are kept outside (``@Store``).
    lost : EventCount
        How many events were lost because a query failed on them; ``lost.reasons`` says why.
    refused : EventCount
        How many events lay too far ahead of the clock (``@app:clock``); ``refused.reasons`` names them.

    State
    -----
    All of that, and as columns what somebody wanted as columns: O(events).

    Examples
    --------
    >>> import spdist
    >>> app = "define stream S (v int); from S[v > 1] select v * 10 as w insert into Out;"
    >>> result = spdist.run(app, {"S": {"ts": [1000, 1001], "v": [1, 2]}})
    >>> result["Out"]
    [(1001, (20,))]
    >>> result["Out"].to_pandas()["w"].tolist(), dict(result.sent), result.lost
    ([20], {'S': 2}, 0)
    """

    checked: CheckedApp
    events: Mapping[str, StreamEvents]
    until: int | None
    outputs: Mapping[str, StreamEvents]
    table_rows: Mapping[str, list[tuple[Any, ...]]]
    lost: EventCount
    refused: EventCount

    @property
    def sent(self) -> dict[str, int]:
        """How many events were sent to each stream."""
        return {stream: len(events) for stream, events in self.events.items()}

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """The app's tables at the end, as Arrow tables; those that are kept outside (``@Store``) are left out."""
        return {id: arrow_table(self.checked.tables[id], rows) for id, rows in self.table_rows.items()}

    def explain(
        self,
        stream: str,
        which: int | Sequence[Any] = -1,
        *,
        attributes: Sequence[str] | None = None,
        budget: int | None = None,
    ) -> Evidence:
        """Return why an event came out: the events that caused it, none of which can be left out.

        They are found by running the app again and again without the others, in virtual time; a line says how far it
        is where that takes more than a second. Nothing is sent anywhere: sinks are left out, tables are in memory.

        Parameters
        ----------
        stream : str
            Where it came out.
        which : int or sequence
            Which of ``result[stream]``: its place, from the end where negative; or its values, of which the first are
            meant.
        attributes : sequence of str, optional
            Those whose values matter, by default all; leave out what is never the same, such as a UUID.
        budget : int, optional
            How many events may be sent to the app again, by default two million, about a minute's work. Where they do
            not suffice, ``minimal`` of the result is False.

        Raises
        ------
        NotFoundError
            There is no such event.
        StateError
            Another event comes out now: the app depends on a database, or on a function with a state of its own.

        Examples
        --------
        >>> import spdist
        >>> app = "define stream S (v int); from S#window.length(2) select sum(v) as s insert into Out;"
        >>> print(spdist.run(app, {"S": [(1, (1,)), (2, (2,)), (3, (3,))]}).explain("Out"))
        Out at 3 ms: s=5, caused by 2 of 3 events
          ms  event  stream  v  without it
           2      1  S       2  s=3
           3      2  S       3  nothing
        """
        from spdist.engine.replay.causes import BUDGET, explain
        from spdist.engine.replay.input_log import InputLog

        log = InputLog.of(self.checked, self.events, self.until)
        out = self.outputs.get(stream, ())
        known = isinstance(which, int) and -len(out) <= which < len(out)
        expected = out[which] if known and isinstance(which, int) else None
        most = BUDGET if budget is None else budget
        return explain(log, stream, which, expected=expected, attributes=attributes, budget=most)

    def stepper(self) -> Stepper:
        """Return a debugger that goes through this run step by step, forwards and back; it is at the start."""
        from spdist.engine.replay.input_log import InputLog
        from spdist.engine.replay.stepping import Stepper

        return Stepper(InputLog.of(self.checked, self.events, self.until))

    @property
    def problem(self) -> str:
        """What became of events that were lost or refused, in a sentence; else nothing."""
        said = []
        if self.lost:
            said.append(f"{number_of(self.lost, 'event')} lost because a query failed: {self.lost.reasons[0]}")
        if self.refused:
            said.append(f"{number_of(self.refused, 'event')} refused: {self.refused.reasons[0]}")
        return "; ".join(said)

    # --- a mapping
    def __getitem__(self, stream: str) -> StreamEvents:
        try:
            return self.outputs[stream]
        except KeyError:
            hint = suggestion(stream, self.outputs) or f"There are: {', '.join(self.outputs)}"
            raise KeyError(f"no query writes a stream '{stream}'. {hint}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.outputs)

    def __len__(self) -> int:
        return len(self.outputs)

    # --- how it shows itself
    def __repr__(self) -> str:
        return repr(dict(self.outputs))

    def _repr_html_(self) -> str:
        counts = ", ".join(f"{number_of(count, 'event')} into {stream}" for stream, count in self.sent.items())
        parts = [headline_html(f"{self.checked.name}: {counts or 'nothing sent'}")]
        if self.problem:
            parts.append(problem_html(self.problem))
        parts += [events.to_html(f"{stream}: {number_of(len(events), 'event')}") for stream, events in self.items()]
        return "".join(parts)

    def to_dict(self, most: int | None = 10) -> dict[str, Any]:
        """Return it as plain data for JSON.

        Parameters
        ----------
        most : int, optional
            So many events of each stream at most, the first ones; None: all.
        """
        streams = {stream: events.to_dict(most) for stream, events in self.items()}
        failed = {"lost": self.lost, "refused": self.refused}
        told = {name: {"count": int(count), "reasons": list(count.reasons)} for name, count in failed.items()}
        return {"app": self.checked.name, "sent": self.sent, "until": self.until, "streams": streams, **told}


def run_recorded(
    checked: CheckedApp,
    events: Mapping[str, StreamEvents],
    until: int | None = None,
    tell: Callable[[int], None] = lambda sent: None,
) -> Result:
    """Run a checked app on recorded events in virtual time.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    events : mapping of str to StreamEvents
        What is sent to each stream.
    until : int, optional
        When to stop, ms since epoch; by default with the last event.
    tell : callable, optional
        Told now and then how many events have been sent.
    """
    from spdist.engine.local.app import LocalApp, table_rows
    from spdist.engine.local.external_stores import external_stores
    from spdist.engine.local.recorded import Recording, collected, play

    app = LocalApp(checked, stores=external_stores(checked))
    try:
        out = collected(app)
        play(app, {stream: Recording(given.times, given.rows) for stream, given in events.items()}, until, tell)
        tables = table_rows(app)
    finally:
        app.stop()
    failures = app.failures
    return Result(
        checked,
        events,
        until,
        {stream: StreamEvents(checked.streams[stream], one.times, one.rows) for stream, one in out.items()},
        tables,
        EventCount(failures.count - failures.refused, failures.reasons),
        EventCount(failures.refused, failures.refusals),
    )
