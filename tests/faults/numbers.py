"""Numbers that go into an app while things fail, and what comes of them at a sink."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from spdist.errors import SpdistError
from spdist.language.types import Schema
from spdist.transports.base import Repeats, Transport
from spdist.transports.payloads.payload import Payload
from tests.faults.failovers import wait_for
from tests.faults.results import longest_silence_s

__all__ = ["NumberSender", "Tally", "Turning", "follow_topic", "wait_until_through"]


class Turning:
    """A thread that does something again and again, until it is told to stop.

    Parameters
    ----------
    turn : callable
        What it does.
    pace_s : float
        How long it waits in between, s.
    """

    def __init__(self, turn: Callable[[], object], pace_s: float) -> None:
        self._turn, self._pace_s = turn, pace_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(self._pace_s):
            self._turn()

    def stop(self) -> None:
        """Return after the turn that runs."""
        self._end.set()
        self._thread.join()


class NumberSender:
    """Sends the numbers from 0 on, each until somebody has it.

    Parameters
    ----------
    send : callable
        Sends one number, and tells whether it cannot be lost any more.
    pace_s : float
        How long it waits between two, s.

    State
    -----
    ``fed``: how many numbers somebody has.
    """

    def __init__(self, send: Callable[[int], bool], pace_s: float) -> None:
        self._send = send
        self.fed = 0
        self._turning = Turning(self._turn, pace_s)

    def _turn(self) -> None:
        if self._send(self.fed):
            self.fed += 1

    def stop(self) -> None:
        """Send no more."""
        self._turning.stop()


class Tally:
    """What has come out at one sink, by the source of each number.

    Parameters
    ----------
    sources : sequence of str
        Their names.

    State
    -----
    How often each number came and when, for each source; ``repeated``: deliveries that came again under their id.
    """

    def __init__(self, sources: Sequence[str]) -> None:
        self.seen: dict[str, Counter[int]] = {source: Counter() for source in sources}
        self.at = {source: [time.monotonic()] for source in sources}
        self.repeated = 0

    def note(self, results: Iterable[tuple[str, int]]) -> None:
        """Count results: source and number of each."""
        now_s, came = time.monotonic(), set()
        for source, number in results:
            self.seen[source][number] += 1
            came.add(source)
        for source in came:
            self.at[source].append(now_s)

    def silence_s(self, source: str, since_s: float) -> float:
        """Return the longest time without a result that was not over at `since_s`."""
        return longest_silence_s(self.at[source], since_s)

    def has(self, source: str, numbers: range) -> bool:
        """Tell whether all of some numbers have come."""
        return not self.lost(source, numbers)

    def lost(self, source: str, numbers: range) -> set[int]:
        """Return which of some numbers have not come."""
        return {number for number in numbers if not self.seen[source][number]}

    def doubled(self, source: str, numbers: range) -> set[int]:
        """Return which of some numbers have come more than once."""
        return {number for number in numbers if self.seen[source][number] > 1}


def follow_topic(
    transport: Transport, topic: str, schema: Schema, result: Callable[[tuple[Any, ...]], tuple[str, int]], tally: Tally
) -> Turning:
    """Count what comes out in a topic of ours, as its readers see it: they drop what has come under its id before."""
    payload, repeats, offset = Payload(schema), Repeats(), 0

    def look() -> None:
        nonlocal offset
        with contextlib.suppress(SpdistError):
            for record in transport.read(topic, 0, offset, 500):
                offset = record.offset + 1
                if record.count:
                    skip = repeats.fresh(record)
                    tally.repeated += skip
                    tally.note([result(row) for *_, row in payload.decode(record.value).part(skip, record.count)])

    return Turning(look, 0.1)


def wait_until_through(tallies: Iterable[Tally], spans: Mapping[str, range], timeout_s: float) -> None:
    """Wait until some numbers of each source have come out at all sinks; SystemExit where they do not."""
    every = [*tallies]

    def through() -> bool:
        return all(tally.has(source, span) for tally in every for source, span in spans.items())

    wait_for(through, "all events are through", timeout_s)
