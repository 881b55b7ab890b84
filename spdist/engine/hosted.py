"""An app of the local engine as an island hosts it: between topics, in exact order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spdist.engine.island import Island
from spdist.engine.local import LocalApp
from spdist.extension import catalog
from spdist.language.checker import check
from spdist.language.parser import parse
from spdist.operators.base import Arrival
from spdist.planning.topology import Assignment

__all__ = ["HostedApp", "build_island"]


def build_island(assignment: Assignment, merge_wait_ms: int, scripts: bool = False) -> Island:
    """Return the island of a group instance, from its SiddhiQL text, without state; `scripts`: see `catalog`.

    Raises
    ------
    SiddhiAppError
        The text is wrong.
    """
    checked = check(parse(assignment.text), catalog(scripts), assignment.text)
    return Island(assignment, HostedApp(checked), checked.streams, merge_wait_ms=merge_wait_ms)


class HostedApp(LocalApp):
    """A local app between topics: chunks go in with the clock where it is, and come out whole."""

    def approach(self, to_ms: int) -> None:
        """Let time come to `to_ms`; timers fire that are due before it, those due at `to_ms` do not."""
        self._timers.fire_until(to_ms - 1)
        self._clock.now = max(self._clock.now, to_ms)

    def deliver(self, stream: str, arrivals: Sequence[Arrival]) -> None:
        """Deliver the events of one chunk with the clock where it is, whatever their timestamps are."""
        junction = self._home.junction(stream)
        if len(arrivals) == 1:
            junction.one(*arrivals[0])
        else:
            junction.many(arrivals)

    def subscribe_chunks(self, stream_id: str, callback: Callable[[Sequence[Arrival]], None]) -> None:
        """Call `callback` with each chunk of a stream, after the stream's queries."""
        self._home.junction(stream_id).subscribe(lambda ts, row: callback(((ts, row),)), callback)
