"""Where the events of one stream meet those who receive them.

Delivery is depth first: what a receiver inserts into other streams is processed before the next receiver gets the
event. A receiver that fails ends the delivery of that event: the receivers after it do not see it.

Source: io.siddhi.core.stream.StreamJunction, described in our own words.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from spdist.operators.base import Arrival, Row

__all__ = ["Failures", "Junction", "ObserverFailed"]

log = logging.getLogger(__name__)

ReceiveOne = Callable[[int, Row], None]
ReceiveMany = Callable[[Sequence[Arrival]], None]


class ObserverFailed(BaseException):
    """Carries an error of an observer past the queries, whose own failures only cost the event.

    It is no `Exception` so that nothing between the observer and the app's entry takes it for a failure of a query.
    """

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


class Failures:
    """Counts the events that were lost because a query failed on them, as Siddhi's log does."""

    __slots__ = ("count", "latest")

    def __init__(self) -> None:
        self.count = 0
        self.latest: str | None = None

    def add(self, where: str, events: Sequence[Arrival], error: Exception) -> None:
        """Count a failure; the first one is logged with its traceback, later ones briefly."""
        self.count += len(events)
        self.latest = f"{where}: {type(error).__name__}: {error}"
        brief = "dropping %d event(s) of %s, a query failed: %s"
        if self.count == len(events):
            log.warning(brief, len(events), where, error, exc_info=error)
        else:
            log.info(brief, len(events), where, error)


class Junction:
    """One stream of a running app.

    Parameters
    ----------
    id : str
        The stream's id.
    failures : Failures
        Where events are counted that a query failed on.
    fault : Junction, optional
        The fault stream ``!id``, which gets the event and the error instead (``@OnError(action='STREAM')``).
    """

    __slots__ = ("_many", "_one", "failures", "fault", "id", "observers")

    def __init__(self, id: str, failures: Failures, fault: Junction | None = None) -> None:
        self.id = id
        self.failures = failures
        self.fault = fault
        self.observers: list[Callable[[int, Row], None]] = []
        self._one: list[ReceiveOne] = []
        self._many: list[ReceiveMany] = []

    def subscribe(self, one: ReceiveOne, many: ReceiveMany) -> None:
        """Add a receiver, after those already there: `one` takes single events, `many` the events of one chunk."""
        self._one.append(one)
        self._many.append(many)

    def one(self, timestamp: int, row: Row) -> None:
        """Deliver one event."""
        try:
            for receive in self._one:
                receive(timestamp, row)
        except Exception as error:
            self._failed(((timestamp, row),), error)
            return
        if self.observers:
            self._observe(((timestamp, row),))

    def many(self, arrivals: Sequence[Arrival]) -> None:
        """Deliver the events of one chunk."""
        try:
            for receive in self._many:
                receive(arrivals)
        except Exception as error:
            self._failed(arrivals, error)
            return
        if self.observers:
            self._observe(arrivals)

    def _observe(self, arrivals: Sequence[Arrival]) -> None:
        try:
            for observer in self.observers:
                for timestamp, row in arrivals:
                    observer(timestamp, row)
        except Exception as error:
            raise ObserverFailed(error) from error

    def _failed(self, arrivals: Sequence[Arrival], error: Exception) -> None:
        if self.fault is None:
            self.failures.add(f"stream '{self.id}'", arrivals, error)
            return
        told = f"{type(error).__name__}: {error}"
        self.fault.many([(timestamp, (*row, told)) for timestamp, row in arrivals])
