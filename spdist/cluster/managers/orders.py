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
from dataclasses import dataclass, replace
from typing import Literal

from spdist.cluster.protocol.wire import MAX_BODY_BYTES, OrderMessage, OutcomeMessage
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
    #: what is known of an outcome that comes in parts
    found: tuple[str | Undone, ...] = ()


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
                orders = self._given.get(worker, {})
                given = orders.pop(outcome.id, None)
                # Told again, since the answer to the first report got lost; or taken back meanwhile
                if given is None:
                    continue
                # A part that is told again, or by another process of the worker, replaces what was known from there on
                found = (*given.found[: outcome.after], *outcome.found)
                if outcome.left:
                    orders[outcome.id] = replace(given, found=found)
                    continue
            if outcome.error is None:
                given.outcome.set_result(outcome.with_found(found))
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
    room : int
        How many bytes of a heartbeat outcomes may take.

    State
    -----
    One entry for each order that the leader still lists.
    """

    def __init__(
        self,
        perform: Callable[[OrderMessage], OutcomeMessage],
        finished: Callable[[], None],
        room: int = MAX_BODY_BYTES // 2,
    ) -> None:
        self._perform = perform
        self._finished = finished
        self._room = room
        self._lock = threading.Lock()
        #: how many of what an order has found the leader has, and has with the heartbeat that was made last
        self._heard: dict[str, int] = {}
        self._told: dict[str, int] = {}
        self._outcomes: dict[str, OutcomeMessage | None] = {}

    def begin(self, orders: Iterable[OrderMessage]) -> None:
        """Take in the orders of the answer to the heartbeat that was made last.

        The new ones are begun, and the outcomes of those that are no longer listed are forgotten.
        """
        listed = {order.id: order for order in orders}
        with self._lock:
            # One that is under way is kept, listed or not: forgotten, it would begin again when it is listed
            self._outcomes = {key: o for key, o in self._outcomes.items() if key in listed or o is None}
            new = [order for key, order in listed.items() if key not in self._outcomes]
            self._outcomes |= {order.id: None for order in new}
            self._heard = {key: count for key, count in self._told.items() if key in listed}
            unheard = any(self._outcomes.values())
        for order in new:
            threading.Thread(target=self._carry_out, args=(order,), name=f"spdist-{order.kind}", daemon=True).start()
        if unheard:
            self._finished()

    def outcomes(self) -> list[OutcomeMessage]:
        """Return what is to be reported with the next heartbeat; what it has no room for follows with later ones."""
        parts: list[OutcomeMessage] = []
        room = self._room
        with self._lock:
            self._told = {}
            for key, outcome in self._outcomes.items():
                if outcome is None:
                    continue
                part = outcome.part(self._heard.get(key, 0), room)
                room -= len(part.to_json().encode())
                if parts and room < 0:
                    break
                parts.append(part)
                # Where it is listed though its end was told, the leader does not know it: from the beginning
                self._told[key] = part.after + len(part.found) if part.left else 0
        return parts

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
