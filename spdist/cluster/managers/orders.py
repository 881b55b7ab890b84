"""Orders to workers besides "run this": keep a revision, go back to one, list or delete them.

They travel with the heartbeats. The leader puts an order into every answer to its worker until the worker reports the
outcome; the worker carries out each order once, in a thread of its own, and reports its outcome until the order is no
longer in the answers. So nobody has to call a worker, and no manager shows its password to an address that somebody has
registered.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal

from spdist.cluster.protocol.wire import OrderMessage, OutcomeMessage
from spdist.cluster.protocol.wire_errors import error_body, read_error
from spdist.errors import SpdistError
from spdist.transports.retracted import Undone

__all__ = ["Kind", "OrderBook", "OrderRunner"]

_log = logging.getLogger("spdist.cluster")

Kind = Literal["backup", "restore", "revisions", "clear", "clear-stopped", "delete"]


@dataclass(frozen=True, slots=True)
class _GivenOrder:
    order: OrderMessage
    outcome: Future[OutcomeMessage]


class OrderBook:
    """The leader's side: orders that were given and not yet carried out. Safe from several threads.

    State
    -----
    One entry for each order without an outcome; whoever gave it takes it back when they wait no longer.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given: dict[str, dict[str, _GivenOrder]] = {}

    def give(
        self, worker: str, kind: Kind, instance: str, revision: str = "", undone: Sequence[Undone] = ()
    ) -> Future[OutcomeMessage]:
        """Give an order to a worker; the future has what the worker reports, or the error."""
        order = OrderMessage(id=uuid.uuid4().hex, kind=kind, instance=instance, revision=revision, undone=list(undone))
        given = _GivenOrder(order, Future())
        with self._lock:
            self._given.setdefault(worker, {})[order.id] = given
        return given.outcome

    def open_for(self, worker: str) -> list[OrderMessage]:
        """Return the orders that a worker has not yet reported on."""
        with self._lock:
            return [given.order for given in self._given.get(worker, {}).values()]

    def record(self, worker: str, outcomes: Iterable[OutcomeMessage]) -> None:
        """Take in what a worker reports."""
        for outcome in outcomes:
            with self._lock:
                given = self._given.get(worker, {}).pop(outcome.id, None)
            # Told again, since the answer to the first report got lost; or taken back meanwhile
            if given is None:
                continue
            if outcome.error is None:
                given.outcome.set_result(outcome)
            else:
                given.outcome.set_exception(read_error(outcome.error, f"{given.order.kind} on worker {worker}"))

    def take_back(self, outcomes: Iterable[Future[OutcomeMessage]]) -> None:
        """Forget orders whose outcome nobody waits for any more."""
        unwanted = {id(outcome) for outcome in outcomes}
        with self._lock:
            for worker, orders in self._given.items():
                self._given[worker] = {key: one for key, one in orders.items() if id(one.outcome) not in unwanted}


class OrderRunner:
    """A worker's side: carries out each order once, and remembers its outcome until the leader knows it.

    Parameters
    ----------
    perform : callable
        Carries out an order and returns what is to be reported; may block, may raise.
    finished : callable
        Called, from any thread, when there is an outcome to report.

    State
    -----
    One entry for each order that the leader still lists.
    """

    def __init__(self, perform: Callable[[OrderMessage], OutcomeMessage], finished: Callable[[], None]) -> None:
        self._perform = perform
        self._finished = finished
        self._lock = threading.Lock()
        self._outcomes: dict[str, OutcomeMessage | None] = {}

    def begin(self, orders: Iterable[OrderMessage]) -> None:
        """Begin the orders that are new, and forget the outcomes of those that are no longer listed."""
        listed = {order.id: order for order in orders}
        with self._lock:
            # One that is under way is kept, listed or not: forgotten, it would begin again when it is listed
            self._outcomes = {key: o for key, o in self._outcomes.items() if key in listed or o is None}
            new = [order for key, order in listed.items() if key not in self._outcomes]
            self._outcomes |= {order.id: None for order in new}
        for order in new:
            threading.Thread(target=self._carry_out, args=(order,), name=f"spdist-{order.kind}", daemon=True).start()

    def outcomes(self) -> list[OutcomeMessage]:
        """Return what is to be reported."""
        with self._lock:
            return [outcome for outcome in self._outcomes.values() if outcome is not None]

    def _carry_out(self, order: OrderMessage) -> None:
        try:
            outcome = self._perform(order)
        except SpdistError as problem:
            outcome = OutcomeMessage(id=order.id, error=error_body(problem))
        except Exception as defect:
            _log.exception("%s of %s failed", order.kind, order.instance)
            error = error_body(SpdistError(f"{order.kind} of {order.instance} failed: {defect!r}"))
            outcome = OutcomeMessage(id=order.id, error=error)
        with self._lock:
            self._outcomes[order.id] = outcome
        self._finished()
