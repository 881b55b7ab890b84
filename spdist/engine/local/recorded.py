"""Recorded events through an app in virtual time, and what its queries put out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any, Protocol

from spdist.language.checking.checked import CheckedApp

__all__ = ["PlayedApp", "Recording", "collected", "play", "written_streams"]

Row = tuple[Any, ...]

#: Events after which it is told how far it is: few, so that apps that are slow do not keep silent for long.
_TOGETHER = 2_000
#: Events of one stream in a row for which a batch costs more than it saves.
_FEW = 64


@dataclass(frozen=True, slots=True)
class Recording:
    """Events of one stream, as parallel columns.

    Parameters
    ----------
    times : sequence of int
        Timestamps, ms.
    rows : sequence of tuple
        The values.
    """

    times: Sequence[int]
    rows: Sequence[Row]


class PlayedApp(Protocol):
    """An app that recorded events are sent to; see `spdist.engine.local.app.LocalApp` for what its methods do."""

    checked: CheckedApp

    def subscribe(self, stream: str, receive: Callable[[int, Row], None], /) -> None:
        """Have each event of a stream told."""
        ...

    def send(self, stream: str, timestamp: int, row: Row, /) -> None:
        """Process one event."""
        ...

    def send_batch(self, stream: str, times: Sequence[int], rows: Sequence[Row], /) -> None:
        """Process events of one stream."""
        ...

    def advance(self, timestamp: int, /) -> None:
        """Let time pass."""
        ...


def written_streams(checked: CheckedApp) -> list[str]:
    """Return the streams that queries of an app write, without the inner ones of partitions."""
    queries = checked.queries + tuple(query for part in checked.partitions for query in part.queries)
    return list(dict.fromkeys(query.target for query in queries if query.target in checked.streams))


def collected(app: PlayedApp) -> dict[str, Recording]:
    """Return, for each stream that queries of an app write, what grows by each event that they put out from now on."""
    out: dict[str, Recording] = {}
    for stream in written_streams(app.checked):
        times: list[int] = []
        rows: list[Row] = []
        out[stream] = Recording(times, rows)
        app.subscribe(stream, _collector(times, rows))
    return out


def _collector(times: list[int], rows: list[Row]) -> Callable[[int, Row], None]:
    add_time, add_row = times.append, rows.append

    def collect(timestamp: int, row: Row) -> None:
        add_time(timestamp)
        add_row(row)

    return collect


def play(
    app: PlayedApp,
    events: Mapping[str, Recording],
    until: int | None = None,
    tell: Callable[[int], None] = lambda sent: None,
) -> None:
    """Send recorded events to an app: all streams merged by timestamp, those of one time in the order given.

    Parameters
    ----------
    app : PlayedApp
        The app.
    events : mapping of str to Recording
        What is sent, by stream.
    until : int, optional
        When to stop, ms; later timers do not fire. By default with the last event.
    tell : callable, optional
        Told now and then how many events have been sent.
    """
    streams = list(events)
    times = list(chain.from_iterable(one.times for one in events.values()))
    rows = list(chain.from_iterable(one.rows for one in events.values()))
    owners = [number for number, one in enumerate(events.values()) for _ in one.times]
    order = sorted(range(len(times)), key=times.__getitem__)  # stable; of streams in order it only merges runs
    for sent in range(0, len(order), _TOGETHER):
        for owner, run in groupby(order[sent : sent + _TOGETHER], key=owners.__getitem__):
            places = list(run)
            if len(places) < _FEW:
                for at in places:
                    app.send(streams[owner], times[at], rows[at])
            else:
                app.send_batch(streams[owner], [times[at] for at in places], [rows[at] for at in places])
        tell(min(sent + _TOGETHER, len(order)))
    if until is not None:
        app.advance(until)
