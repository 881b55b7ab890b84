"""Evidence: why something came out of an app, as a value that shows itself as text, HTML and a timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, Literal

from spdist.display import Shown, headline_html, table_html, table_text
from spdist.history import Seen, clock_text, history_table
from spdist.language.types import Schema
from spdist.operators.base import Row
from spdist.planning.pictures.timeline import Bar, Dot, timeline

__all__ = ["TONES", "Came", "Cause", "EventPlace", "Evidence", "Interval", "StateBefore", "shown", "value_text"]

#: What is listed of each kind, and drawn of each stream; what is more is counted.
_MOST_LISTED = 200
#: Colours of what is drawn.
TONES = {"cause": "#2f81f7", "through": "#8b949e", "alert": "#cf222e", "absence": "#bf8700", "window": "#a371f7"}


@dataclass(frozen=True, slots=True)
class Came:
    """One event: its stream, its time in ms, and its values."""

    stream: str
    timestamp: int
    row: Row


@dataclass(frozen=True, slots=True)
class EventPlace:
    """Where an event stands in a topic.

    Parameters
    ----------
    topic : str
        The topic.
    partition : int
        Its partition.
    offset : int
        That of the record that holds the event: a record of ours may hold many.
    producer : str
        Who numbered it: a group instance or its shard, or a feed; empty where nobody did.
    number : int
        Its number among those that its producer put into the partition, from 0; -1 where nobody numbered it.
    """

    topic: str
    partition: int
    offset: int
    producer: str = ""
    number: int = -1

    def __str__(self) -> str:
        number = f", number {self.number:,}" if self.number >= 0 else ""
        return f"{self.topic}, partition {self.partition}, offset {self.offset}{number}"


@dataclass(frozen=True, slots=True)
class StateBefore:
    """The state from which the replays began, of an app or a group of it: what came before that is not kept.

    Parameters
    ----------
    name : str
        Whose it is.
    clock : int
        Of when it is, ms.
    needed : bool
        Whether the causes are not enough without it.
    without : str
        What comes out when the causes are sent to an empty app; empty where it is not needed.
    """

    name: str
    clock: int
    needed: bool
    without: str = ""

    def __str__(self) -> str:
        as_of = f"the state of {self.name} as of {clock_text(self.clock)}"
        if not self.needed:
            return f"{as_of} adds nothing to it"
        return f"{as_of} already had a part of it (without it: {self.without}); events before that are no longer kept"


@dataclass(frozen=True, slots=True)
class Cause:
    """One event that was sent and cannot be left out.

    Parameters
    ----------
    stream, timestamp, row
        The event; its time in ms.
    position : int
        Its place among the events that were sent to this stream, from 0.
    without : str
        What comes out when this event alone is left out of the causes; empty where that is not known.
    place : EventPlace, optional
        Where it stands in a topic, if it came from one.
    """

    stream: str
    timestamp: int
    row: Row
    position: int
    without: str = ""
    place: EventPlace | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """A time in which something must not come, or over which a window looks back.

    Parameters
    ----------
    query : str
        Whose it is.
    kind : str
        ``absence`` or ``window``.
    text : str
        What must not come, or the window, as written.
    begin, end : int, optional
        From when to when, ms; ``begin`` is None where only its end is known.
    length_ms : int, optional
        How long it has to last; None where it lasts until something else comes.
    """

    query: str
    kind: Literal["absence", "window"]
    text: str
    begin: int | None
    end: int
    length_ms: int | None

    @property
    def what(self) -> str:
        """What it is, in a few words."""
        return f"no {self.text}" if self.kind == "absence" else f"window {self.text}"

    def __str__(self) -> str:
        between = f"from {clock_text(self.begin)} to" if self.begin is not None else "before"
        lasting = "" if self.begin is not None or self.length_ms is None else f" for {self.length_ms:,} ms"
        return f"{self.what}{lasting} {between} {clock_text(self.end)} ({self.query})"


@dataclass(frozen=True)
class Evidence(Shown):
    """The events that caused one event; in a notebook a timeline and a table.

    Replayed without all others they still cause it, with the same values at the same time; without any one of them
    they do not. There may be other such sets: the one that is found is made of the latest events.

    Parameters
    ----------
    app : str
        The app's name.
    event : Came
        What was caused.
    clock : int
        The app's time when it came out, ms.
    causes : tuple of Cause
        In the order in which they were sent; none where time alone was enough.
    intervals : tuple of Interval
        Absences that were waited for, and windows of time, in the queries that lead to the event.
    through : tuple of Came
        What queries put out on the way, when only the causes are sent.
    sent : int
        How many events had been sent when it came out.
    replays : int
        How often the app was run to find out.
    minimal : bool
        False where the budget was spent before each cause was tried: some may be needless.
    schemas : mapping of str to Schema
        The attributes of each stream.
    states : tuple of StateBefore
        From what the replays began, where that was not an empty app.
    notes : tuple of str
        What else is to be known: what could not be traced further, and why.
    """

    app: str
    event: Came
    clock: int
    causes: tuple[Cause, ...]
    intervals: tuple[Interval, ...]
    through: tuple[Came, ...]
    sent: int
    replays: int
    minimal: bool
    schemas: Mapping[str, Schema]
    states: tuple[StateBefore, ...] = ()
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; objects in rows as text."""
        return {
            "app": self.app,
            **_event_dict(self.event),
            "clock": self.clock,
            "causes": [
                {**_event_dict(one), "position": one.position, "without": one.without or None}
                | ({} if one.place is None else {"place": asdict(one.place)})
                for one in self.causes
            ],
            "intervals": [asdict(one) for one in self.intervals],
            "through": [_event_dict(one) for one in self.through],
            "sent": self.sent,
            "replays": self.replays,
            "minimal": self.minimal,
            "states": [asdict(one) for one in self.states],
            "notes": list(self.notes),
        }

    @property
    def headline(self) -> str:
        """What came out, and of how much it was made, in one line."""
        told = f"{self.event.stream} at {clock_text(self.event.timestamp)}: {self._row(self.event)}"
        before = [f"the state as of {clock_text(min(one.clock for one in self._needed))}"] if self._needed else []
        if not self.causes:
            return f"{told}, caused by {' and '.join([*before, 'time'])}{'' if before else ' alone'}"
        share = " and ".join([f"{len(self.causes):,} of {self.sent:,} events", *before])
        return f"{told}, caused by {share}{'' if self.minimal else ' or fewer: the budget was spent'}"

    @property
    def _needed(self) -> list[StateBefore]:
        return [one for one in self.states if one.needed]

    @property
    def _said(self) -> list[str]:
        return [*map(str, self.intervals), *map(str, self._needed), *self.notes]

    def _row(self, event: Came | Cause) -> str:
        return shown(self.schemas[event.stream].names, event.row)

    # --- text and HTML
    def _table(self) -> tuple[list[str], list[list[object]]]:
        seen = [Seen(one.stream, one.timestamp, one.row, sent=True) for one in self.causes]
        (time, _, *head), rows = history_table(seen, self.schemas)
        placed = any(one.place is not None for one in self.causes)
        told = [
            [time, one.position, *rest, *([str(one.place or "")] if placed else []), one.without]
            for (time, _, *rest), one in zip(rows, self.causes, strict=True)
        ]
        return [time, "event", *head, *(["stands in"] if placed else []), "without it"], told

    def __str__(self) -> str:
        table = table_text(*self._table(), title=self.headline, limit=_MOST_LISTED) if self.causes else self.headline
        return "\n".join([table, *(f"  {one}" for one in self._said)])

    def to_html(self) -> str:
        """Return headline, timeline and table as HTML with everything escaped."""
        said = "".join(f"<li>{escape(str(one))}</li>" for one in self._said)
        table = table_html(*self._table(), limit=_MOST_LISTED) if self.causes else ""
        picture = f'<div style="overflow-x:auto">{self.to_svg()}</div>'
        return f"<div>{headline_html(self.headline)}{picture}{f'<ul>{said}</ul>' if said else ''}{table}</div>"

    def _repr_html_(self) -> str:
        return self.to_html()

    # --- picture
    def to_svg(self) -> str:
        """Return the timeline: a lane for each stream with its events, and one for each absence and window."""
        came: list[tuple[Came | Cause, str]] = [(one, "cause") for one in self.causes[-_MOST_LISTED:]]
        came += [(one, "through") for one in self.through[-_MOST_LISTED:]]
        dots = [
            Dot(one.stream, one.timestamp, TONES[kind], self._told(one), filled=kind == "cause") for one, kind in came
        ]
        own = self.event
        dots.append(Dot(own.stream, own.timestamp, TONES["alert"], self._told(own), large=True))
        there = {dot.lane for dot in dots} - {own.stream}
        lanes = [*(stream for stream in self.schemas if stream in there), own.stream]
        bars = [
            Bar(one.what, one.begin, one.end, TONES[one.kind], str(one))
            for one in self.intervals
            if one.begin is not None
        ]
        return timeline(lanes, dots, bars, title=f"Why {self.headline}")

    def _told(self, one: Came | Cause) -> str:
        return f"{one.stream} {clock_text(one.timestamp)} {self._row(one)}"


def _event_dict(event: Came | Cause) -> dict[str, Any]:
    row = [value if isinstance(value, str | int | float | None) else repr(value) for value in event.row]
    return {"stream": event.stream, "timestamp": event.timestamp, "row": row}


def shown(names: Sequence[str], row: Sequence[Any]) -> str:
    """Return the values of a row with their names."""
    if len(names) != len(row):
        return repr(tuple(row))
    return ", ".join(f"{name}={value_text(value)}" for name, value in zip(names, row, strict=True))


def value_text(value: Any) -> str:
    """Return a value for people: decimals to ten digits."""
    return f"{value:.10g}" if isinstance(value, float) else repr(value)
