"""A worker: the shell that reports to the leader and runs what the leader tells it to (`workers.group_supervisor`).

Its heartbeat is a thread of its own, which Spark must not starve; the other threads are those of a `HostNode`.
"""

from __future__ import annotations

import logging
from typing import Any

from spdist.clock import Clock
from spdist.cluster.api import Server, worker_app
from spdist.cluster.elections.timing import LOST_RETRY_MS
from spdist.cluster.host_node import HostNode
from spdist.cluster.managers.orders import OrderRunner
from spdist.cluster.protocol.group_lists import ToldGroups, assignments_digest
from spdist.cluster.protocol.messages import WorkerTiming
from spdist.cluster.protocol.wire import HeartbeatRequest
from spdist.cluster.workers.group_revisions import RevisionStore
from spdist.cluster.workers.group_supervisor import GroupSupervisor
from spdist.cluster.workers.hosting import Launcher
from spdist.cluster.workers.known_managers import KnownManagers
from spdist.cluster.workers.link import LeaderLink, jittered
from spdist.cluster.workers.node_facts import node_statistics
from spdist.config import Config
from spdist.errors import UnauthorizedError

__all__ = ["Worker"]

Json = dict[str, Any]

_log = logging.getLogger("spdist.cluster.worker")
#: Least pause between heartbeats that are sent because something changed.
_BREATH_S = 0.1
#: Tries to tell the leader that nothing runs here any more: the first may still have to learn what it wanted to run.
_GOODBYES = 3


class Worker(HostNode):
    """One worker node; the parameters are those of `HostNode`.

    Raises
    ------
    ConfigError
        The settings do not make a worker; nothing was opened.
    """

    kind = "worker"

    def __init__(
        self,
        config: Config,
        *,
        launcher: Launcher | None = None,
        revisions: RevisionStore | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(config, launcher=launcher, revisions=revisions, clock=clock)
        self._orders = OrderRunner(lambda order: self._known_revisions().perform(order), self._beat_now.set)
        self._link = LeaderLink(
            self.config,
            _call_timeout_s(_own_timing(config)),
            lambda: self._known_supervisor().assignments(),
            KnownManagers(config.state_persistence.directory / "workers", self.id),
        )
        self._told = ToldGroups()

    def _answer(self, server: Server) -> None:
        server.start(worker_app(self))

    def _work(self) -> None:
        self._begin("heartbeat", self._report)

    def _let_go(self) -> None:
        self._link.close()

    def _report(self) -> None:
        """Send heartbeats until the worker has stopped, and then the one that says so."""
        supervisor = self._known_supervisor()
        while not self._over.is_set():
            # Cleared before the report is made: what changes meanwhile is told with the next one
            self._beat_now.clear()
            began_ms = self._clock.steady_ms()
            answered = self._beat(supervisor)
            pause_s = self._pause_ms(supervisor, began_ms, answered=answered) / 1000
            # `_beat_now` does not cut this pause short, so a burst of changes becomes one heartbeat
            self._over.wait(min(_BREATH_S, pause_s))
            self._beat_now.wait(max(0, pause_s - _BREATH_S))
        for _ in range(_GOODBYES):
            if supervisor.serving and not supervisor.said_goodbye:
                self._beat(supervisor)

    def _pause_ms(self, supervisor: GroupSupervisor, began_ms: int, *, answered: bool) -> float:
        """Return how long to wait after a round that began at `began_ms`.

        A lost leader is looked for about every 250 ms as long as groups run that the fence would stop, whatever
        ``leaderRetryInterval`` says: it only holds while nothing is at stake.
        """
        retry_ms = self.config.deployment.leader_retry_interval_ms
        if answered:
            return supervisor.heartbeat_interval_ms or retry_ms
        pause_ms = jittered(min(retry_ms, LOST_RETRY_MS) if supervisor.serving else retry_ms)
        return max(0.0, began_ms + pause_ms - self._clock.steady_ms())

    def _beat(self, supervisor: GroupSupervisor) -> bool:
        """Send one heartbeat; return True if it was answered by a leader that is obeyed and takes this worker."""
        leaving = self._leaving.is_set()
        try:
            reached = self._link.send(
                lambda: HeartbeatRequest.from_report(
                    self._told.next(supervisor.next_report(leaving=leaving)),
                    self._orders.outcomes(),
                    assignments_digest(supervisor.assignments().listed),
                )
            )
        except UnauthorizedError:
            # Without groups nothing is at stake: wrong credentials end the node, with their reason
            if not supervisor.serving and not leaving:
                raise
            return False
        if reached is None or not supervisor.obey(reached[0]):
            return False
        answer, orders = reached
        self._link.set_timeout(_call_timeout_s(answer.timing))
        self._look_now.set()
        if supervisor.rejected:
            return False
        self._orders.begin(orders)
        # Only here: a leader that rejects a heartbeat has not recorded its groups, so the next one names all
        self._told.answered()
        return True

    def statistics(self) -> Json:
        """Return WSO2's ``/statistics`` of this node, as far as it means something here, and whom it obeys."""
        supervisor = self._known_supervisor()
        return {
            **node_statistics("Active", self.incarnation, supervisor.rejected or supervisor.readiness.reason),
            "term": supervisor.known_term,
            "serving": supervisor.serving,
            "ready": supervisor.readiness.ready,
        }


def _own_timing(config: Config) -> WorkerTiming:
    """Return the times that hold until a leader imposes its own."""
    return WorkerTiming.from_config(config.deployment.heartbeat_interval_ms, config.deployment.heartbeat_max_retry)


def _call_timeout_s(timing: WorkerTiming) -> float:
    """Return how long a manager may take to answer, so that a stuck one leaves time for others before the fence."""
    return min(5.0, max(0.1, timing.fence_after_ms / 3000))
