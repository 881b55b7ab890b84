"""The context of an app: the streams, clock and timers that its queries outside of partitions use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spdist.language import ast
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.scope import undefined
from spdist.operators.base import Arrival, Timer, Timers, VirtualClock
from spdist.operators.core.faults import ErrorStore
from spdist.operators.core.feedback import CircularJunction, Rounds, circular_streams
from spdist.operators.core.junction import Failures, Junction
from spdist.transports.in_memory import IN_MEMORY

__all__ = ["BEFORE_ALL_TIME", "AppContext"]

BEFORE_ALL_TIME = -(2**63)


class AppContext:
    """The app as a place (`spdist.operators.queries.plans.Place`).

    Parameters
    ----------
    checked : CheckedApp
        The app.
    identity : str
        Keeps the UUIDs that copies of an app draw apart.
    errors : ErrorStore
        Takes what streams with ``@OnError(action='STORE')`` lose.
    """

    def __init__(self, checked: CheckedApp, identity: str, errors: ErrorStore) -> None:
        self.name = checked.name
        self.clock = VirtualClock(BEFORE_ALL_TIME, identity)
        self.timers = Timers(self.clock)
        self.failures = Failures()
        self.errors = errors
        ids = list(checked.streams)
        stored = _stored(checked)
        self._fed = _fed(checked)
        self._circular = circular_streams(checked)
        self.rounds = Rounds()
        # Before the others: a stream is given its fault stream when it is made
        faults = {id: self._made(id) for id in ids if id.startswith("!")}
        self.junctions = {
            id: faults.get(id) or self._made(id, faults.get(f"!{id}"), self._storing(id) if id in stored else None)
            for id in ids
        }

    def _made(self, id: str, *others: Any) -> Junction:
        if id in self._circular:
            return CircularJunction(self.rounds, id, self.failures, *others)
        return Junction(id, self.failures, *others)

    def inner_junction(self, stream_id: str) -> Junction:
        """Return a new inner stream of a partition, for one key."""
        return self._made(stream_id)

    def timer(self, rank: tuple[int, int], wake: Callable[[int], None], key: int = 0) -> Timer:
        """Return a timer; see `Timer`."""
        return Timer(self.timers, (*rank, key), wake)

    def junction(self, stream_id: str) -> Junction:
        """Return a stream; raises UndefinedNameError where there is none."""
        junction = self.junctions.get(stream_id)
        if junction is None:
            raise undefined("stream", stream_id, None, self.junctions)
        return junction

    def is_fed(self, stream_id: str) -> bool:
        """Tell whether events of a stream can come from inside the app: from queries, triggers or in-memory topics.

        What other sources receive is brought from outside, when its time has come.
        """
        return stream_id in self._fed

    def _storing(self, stream_id: str) -> Callable[[Sequence[Arrival], Exception], None]:
        def keep(arrivals: Sequence[Arrival], error: Exception) -> None:
            self.errors.add(self.clock, self.name, stream_id, "stream", error, arrivals)

        return keep


def _stored(checked: CheckedApp) -> set[str]:
    """Return the streams whose failing events are stored."""
    return {
        definition.name
        for definition in checked.app.definitions
        for annotation in ast.find_annotations(definition.annotations, "OnError")
        if (annotation.get("action") or "").upper() == "STORE"
    }


def _fed(checked: CheckedApp) -> set[str]:
    """Return the streams whose events do not only come by being sent."""
    inside = (query for partition in checked.partitions for query in partition.queries)
    fed = {query.target for query in (*checked.queries, *inside)}
    for definition in checked.app.definitions:
        sources = ast.find_annotations(definition.annotations, "source")
        if not isinstance(definition, ast.StreamDefinition) or any(one.get("type") == IN_MEMORY for one in sources):
            fed.add(definition.name)
    return fed | {id for id in checked.streams if id.startswith("!")}
