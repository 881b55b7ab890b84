"""What went into an app in virtual time and came out of it, event by event, and how it is shown. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spdist.display import time_text
from spdist.language.types import Schema

__all__ = ["SHOWN", "Seen", "clock_text", "history_table"]

#: Events that are shown at most.
SHOWN = 200
#: A time from here on, ms, is a date and shown as one; below it is virtual. A year after 1970.
_DATED = 365 * 86_400_000


@dataclass(frozen=True, slots=True)
class Seen:
    """One event that went in or came out.

    Parameters
    ----------
    stream : str
        Its stream.
    timestamp : int
        Its time, ms.
    row : tuple
        Its values.
    sent : bool
        Whether the test sent it; what a query inserts into a stream that is also sent to counts as put out.
    """

    stream: str
    timestamp: int
    row: tuple[Any, ...]
    sent: bool


def clock_text(ms: int) -> str:
    """Return a clock for people: a date where it is one, else ms."""
    return f"{time_text(ms, 'milliseconds')} UTC" if ms >= _DATED else f"{ms:,} ms"


def history_table(events: Sequence[Seen], streams: Mapping[str, Schema]) -> tuple[list[str], list[list[object]]]:
    """Return head and rows of a table of events, with a column for each attribute; those of one name share it.

    Parameters
    ----------
    events : sequence of Seen
        In the order in which they are shown.
    streams : mapping of str to Schema
        Attributes by stream. Values of an event that does not fit are numbered: an update may have changed its stream.
    """
    # One virtual time makes all of them virtual: a column has one form.
    dated = bool(events) and min(seen.timestamp for seen in events) >= _DATED
    named = [(seen, _named(seen, streams.get(seen.stream))) for seen in events]
    columns = list(dict.fromkeys(name for _, values in named for name in values))
    rows = [
        [
            time_text(seen.timestamp, "milliseconds") if dated else seen.timestamp,
            "in" if seen.sent else "out",
            seen.stream,
            *(_cell(values[name]) if name in values else "" for name in columns),
        ]
        for seen, values in named
    ]
    return ["time (UTC)" if dated else "ms", "", "stream", *columns], rows


def _named(seen: Seen, schema: Schema | None) -> dict[str, Any]:
    fits = schema is not None and len(schema) == len(seen.row)
    names = schema.names if schema is not None and fits else map(str, range(1, len(seen.row) + 1))
    return dict(zip(names, seen.row, strict=True))


def _cell(value: Any) -> object:
    return "null" if value is None else value if isinstance(value, str | int | float) else repr(value)
