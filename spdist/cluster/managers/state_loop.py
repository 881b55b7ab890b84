"""The thread that owns a `ManagerState`: takes events one at a time, and carries out what the state instructs.

Whoever wants something of the state, be it a route, the election or the database, puts it into one queue. So the state
is never asked twice at the same time, needs no locks, and its events have one order. Writes to the database are made by
a second thread, in their order, so that a slow database never delays the answer to a heartbeat.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from spdist.clock import Clock
from spdist.cluster.elections.probing import Prober
from spdist.cluster.leader.state import ManagerState
from spdist.cluster.protocol.messages import (
    Announce,
    AnswerHeartbeat,
    AnswerRebalance,
    AppVersion,
    CordonSaved,
    DeploymentForgotten,
    DeploymentSaved,
    Deposed,
    Event,
    ForgetDeployment,
    Instruction,
    Level,
    ProbeWorker,
    RedirectHeartbeat,
    Refuse,
    SaveCordon,
    SaveDeployment,
    SaveFailed,
    SaveWorkers,
    Tick,
    WorkerHeartbeat,
    WorkersSaved,
)
from spdist.errors import ClusterError, NotLeaderError, SpdistError, StaleTermError, StoreUnavailableError
from spdist.logs import about

__all__ = ["DeploymentStore", "Note", "StateLoop"]

T = TypeVar("T")
#: Takes what has happened, and the term.
Note = Callable[[Announce, int | None], None]
Guard = Callable[[ManagerState], SpdistError | None]

_log = logging.getLogger("spdist.cluster.manager")
_LEVELS = {Level.INFO: logging.INFO, Level.WARNING: logging.WARNING, Level.ERROR: logging.ERROR}
#: How often the state loop looks at the time, at most: a worker that is gone is noticed that much later.
_TICK_MS = 250
#: How long a caller waits for the state loop or the database before it is told to try again.
_PATIENCE_S = 10.0


class DeploymentStore(Protocol):
    """What the state loop writes to; `spdist.cluster.coordination.store.CoordinationStore` has it."""

    def save_deployment(self, term: int, node_id: str, deployment: AppVersion) -> None:
        """Write a version of an app under `term`."""
        ...

    def save_workers(self, term: int, node_id: str, workers: Mapping[str, str]) -> None:
        """Write the list of workers under `term`."""
        ...

    def save_cordon(self, term: int, node_id: str, worker: str, drain: bool | None) -> None:
        """Write that a worker is cordoned, drained, or neither, under `term`."""
        ...

    def forget_deployment(self, term: int, node_id: str, name: str, version: int) -> None:
        """Delete the row of an undeployed app."""
        ...


@dataclass(slots=True)
class _Item:
    """One thing for the state loop: an event to handle, or a question to answer."""

    event: Event | None = None
    guard: Guard | None = None
    question: Callable[[ManagerState, int], Any] | None = None
    future: Future[Any] = field(default_factory=Future)


class StateLoop:
    """A `ManagerState` with a thread of its own.

    Parameters
    ----------
    state : ManagerState
        Nobody else may touch it from here on.
    store : DeploymentStore
        Where deployments are written.
    clock : Clock
        Its steady reading is the time of all events.

    note : callable, optional
        Is told what has happened, and in which term; it returns without waiting for anything.

    State
    -----
    Whatever waits in the queue.
    """

    def __init__(
        self, state: ManagerState, store: DeploymentStore, clock: Clock, note: Note = lambda said, term: None
    ) -> None:
        self._state = state
        self._store = store
        self._clock = clock
        self._note = note
        self._queue: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._live, name="spdist-state-loop", daemon=True)
        self._writer = ThreadPoolExecutor(1, "spdist-store")
        #: to be told of connections to workers
        self.prober = Prober(self.tell)
        self._forgetting: set[tuple[str, int]] = set()
        self._ended = False
        #: the last term that this state loop held and has given up; the election must not go on renewing it
        self.given_up_term = 0
        #: heartbeats that came in
        self.heartbeats = 0
        #: why the thread ended, if by itself: a defect
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Begin to take events."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more events; writes under way are finished."""
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(_PATIENCE_S)
        self._writer.shutdown(wait=True, cancel_futures=True)
        self.prober.close()

    # ------------------------------------------------------------------------------------------------------- for others
    def tell(self, event: Event) -> None:
        """Hand in an event that nobody waits for."""
        self._queue.put(_Item(event=event))

    def give_up(self, term: int) -> None:
        """Note that this manager must not go on in `term`: the election sees it and does not renew it."""
        self.given_up_term = max(self.given_up_term, term)

    def request(self, event: Event, guard: Guard | None = None) -> Any:
        """Hand in an event and wait for the answer that the state gives to it.

        Parameters
        ----------
        event : Event
            A heartbeat, or a request for a deployment.
        guard : callable, optional
            Looks at the state just before, in the same turn; an error it returns refuses the request.

        Returns
        -------
        AnswerHeartbeat, AnswerRebalance, RedirectHeartbeat or Deployment
            For a deployment: what was durably written. None for a cordon, which was written, too.

        Raises
        ------
        SpdistError
            The state refused, or the write failed.
        ClusterError
            No answer in time.
        """
        return self._wait(_Item(event=event, guard=guard))

    def ask(self, question: Callable[[ManagerState, int], T]) -> T:
        """Return ``question(state, now_ms)``, asked on the state loop's thread: it must be quick and change nothing."""
        answer: T = self._wait(_Item(question=question))
        return answer

    def _wait(self, item: _Item) -> Any:
        self._queue.put(item)
        # The thread may have emptied the queue for the last time just before this item came
        if self._ended:
            self._turn_away()
        try:
            return item.future.result(_PATIENCE_S)
        except TimeoutError:
            if item.future.done():  # the answer itself is a timeout
                raise
            # Of effect before its turn only: then it is dropped, and asking again does nothing twice
            item.future.cancel()
            raise ClusterError(
                f"manager {self._state.node_id} did not come to an answer in {_PATIENCE_S:g} s",
                hint="try again; if it stays so, look at the manager's log and its database",
            ) from None

    # ------------------------------------------------------------------------------------------------------- the thread
    def _live(self) -> None:
        # With very short heartbeats, too, a removal is late by half of one at most
        interval_ms = min(_TICK_MS, self._state.timing.heartbeat_interval_ms // 2)
        next_tick_ms = self._clock.steady_ms()
        try:
            while True:
                now_ms = self._clock.steady_ms()
                if now_ms >= next_tick_ms:
                    next_tick_ms = now_ms + interval_ms
                    self._handle(_Item(event=Tick()))
                try:
                    # A negative timeout is an error of `SimpleQueue`; a tick may be due since the line above
                    item = self._queue.get(timeout=max(0.001, (next_tick_ms - self._clock.steady_ms()) / 1000))
                except queue.Empty:
                    continue
                if item is None:
                    return
                if item.future.set_running_or_notify_cancel():
                    self._handle(item)
        except BaseException as error:
            # A state that has raised is not to be trusted with a cluster: the manager ends, a standby takes over.
            _log.exception("the state loop of manager %s failed; this is a defect", self._state.node_id)
            self.failure = error
        finally:
            # First: whoever puts something in after the last look sees it, and turns it away
            self._ended = True
            self._turn_away()

    def _turn_away(self) -> None:
        """Answer whoever still waits after the end."""
        # Never waits: several threads do this at the same time, each of which may take the last item
        while True:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return
            if item is not None and item.future.set_running_or_notify_cancel():
                text = f"manager {self._state.node_id} is stopping"
                item.future.set_exception(NotLeaderError(text, hint="ask another manager"))

    def _handle(self, item: _Item) -> None:
        now_ms = self._clock.steady_ms()
        if item.question is not None:
            try:
                item.future.set_result(item.question(self._state, now_ms))
            except Exception as error:  # a question changes nothing: its defects are the asker's
                item.future.set_exception(error)
            return
        assert item.event is not None
        self.heartbeats += isinstance(item.event, WorkerHeartbeat)
        objection = item.guard(self._state) if item.guard else None
        if objection is not None:
            item.future.set_exception(objection)
            return
        term = self._state.term
        for instruction in self._state.handle(item.event, now_ms):
            if isinstance(instruction, Announce):
                # The end of a leadership is noted in the term that has ended
                self._tell(instruction, term if self._state.term is None else self._state.term)
            else:
                self._execute(instruction, item.future)
        if term is not None and self._state.term != term:
            # The lease may be valid still: the election must not renew what the state has ended
            self.give_up(term)

    def _tell(self, said: Announce, term: int | None) -> None:
        with about(app=said.app, group=said.group, worker=said.worker, user=said.user, term=term):
            _log.log(_LEVELS[said.level], "%s", said.message)
        self._note(said, term)

    def _execute(self, instruction: Instruction, caller: Future[Any]) -> None:
        match instruction:
            case AnswerHeartbeat() | AnswerRebalance() | RedirectHeartbeat():
                caller.set_result(instruction)
            case Refuse(error):
                caller.set_exception(error)
            case ProbeWorker():
                self.prober.probe(instruction)
            case SaveDeployment():
                self._writer.submit(self._save, instruction, caller)
            case SaveCordon():
                self._writer.submit(self._save_cordon, instruction, caller)
            case SaveWorkers():
                self._writer.submit(self._save_workers, instruction)
            case ForgetDeployment(_, name, version):
                # Each tick orders it again until the row is gone
                if (name, version) not in self._forgetting:
                    self._forgetting.add((name, version))
                    self._writer.submit(self._forget, instruction)

    # ----------------------------------------------------------------------------------------------- the writing thread
    def _save(self, order: SaveDeployment, caller: Future[Any]) -> None:
        """Write a deployment, let the state know, and only then the caller."""
        name, version = order.deployment.name, order.deployment.version
        event: Event
        error: Exception | None = None
        try:
            self._store.save_deployment(order.term, self._state.node_id, order.deployment)
            event = DeploymentSaved(name, version, order.user)
        except StaleTermError as stale:
            event, error = Deposed(stale.message), NotLeaderError(stale.message, hint="try again in a moment")
        except StoreUnavailableError as unknown:
            event, error = Deposed(f"it is not known whether {name} was written: {unknown.message}"), unknown
        except ClusterError as refused:
            event, error = SaveFailed(name, version), refused
        except Exception as defect:
            _log.exception("writing %s failed", name)
            event, error = Deposed(f"writing {name} failed: {defect!r}"), defect
        self.tell(event)
        if error is not None:
            caller.set_exception(error)
        else:
            # Through the queue, so that whoever asks next already sees it.
            self._queue.put(_Item(question=lambda state, now_ms: caller.set_result(order.deployment)))

    def _save_cordon(self, order: SaveCordon, caller: Future[Any]) -> None:
        """Write a cordon, let the state know, and only then the caller."""
        try:
            self._store.save_cordon(order.term, self._state.node_id, order.worker, order.drain)
        except StaleTermError as stale:
            self.tell(Deposed(stale.message))
            caller.set_exception(NotLeaderError(stale.message, hint="try again in a moment"))
        except StoreUnavailableError as unknown:
            self.tell(Deposed(f"it is not known whether the cordon of {order.worker} was written: {unknown.message}"))
            caller.set_exception(unknown)
        except ClusterError as refused:
            # Leaves nothing to conclude: unlike a deployment, a cordon is not pending in the state
            caller.set_exception(refused)
        except Exception as defect:
            _log.exception("writing the cordon of %s failed", order.worker)
            self.tell(Deposed(f"writing the cordon of {order.worker} failed: {defect!r}"))
            caller.set_exception(defect)
        else:
            self.tell(CordonSaved(order.term, order.worker, order.drain, order.user))
            self._queue.put(_Item(question=lambda state, now_ms: caller.set_result(None)))

    def _save_workers(self, order: SaveWorkers) -> None:
        """Write the list of workers; where that fails the state tries again, and gives new ones nothing meanwhile."""
        try:
            self._store.save_workers(order.term, self._state.node_id, order.workers)
            self.tell(WorkersSaved(order.term, order.version))
        except ClusterError as error:
            _log.warning("new workers have to wait, as the list of workers cannot be written: %s", error.message)
            self.tell(WorkersSaved(order.term, order.version, written=False))
        except Exception as defect:
            _log.exception("writing the list of workers failed")
            self.tell(Deposed(f"writing the list of workers failed: {defect!r}"))

    def _forget(self, order: ForgetDeployment) -> None:
        try:
            self._store.forget_deployment(order.term, self._state.node_id, order.name, order.version)
            self.tell(DeploymentForgotten(order.name, order.version))
        except StaleTermError as stale:
            self.tell(Deposed(stale.message))
        except ClusterError as error:
            _log.warning("%s stays in the list of apps for now: %s", order.name, error.message)
        finally:
            self._forgetting.discard((order.name, order.version))
