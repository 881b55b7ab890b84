"""What a leader knows for placing: loads, cordons, and from when on groups may be moved to even out the load. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from spdist.cluster.leader.deployments import Deployments
from spdist.cluster.leader.loads import Loads
from spdist.cluster.leader.members import Members
from spdist.cluster.leader.placement import PlacementAlgorithm
from spdist.cluster.leader.reconcile import Situation, plan_moves, reconcile
from spdist.cluster.protocol.messages import (
    Announce,
    CordonRequested,
    CordonSaved,
    Instruction,
    Move,
    Refuse,
    SaveCordon,
    WorkerTiming,
)
from spdist.errors import NotFoundError

__all__ = ["Placing"]


class Placing:
    """The placement of one leadership.

    Parameters
    ----------
    algorithm : PlacementAlgorithm
        ``allocationAlgorithm``.
    timing : WorkerTiming
        When workers are suspected.
    min_resource_count : int
        ``minResourceCount``.
    deployments, members : Deployments, Members
        The leader's.

    State
    -----
    The loads of the instances, and the cordons: O(instances + workers).
    """

    def __init__(
        self,
        algorithm: PlacementAlgorithm,
        timing: WorkerTiming,
        min_resource_count: int,
        deployments: Deployments,
        members: Members,
    ) -> None:
        self._algorithm = algorithm
        self._timing = timing
        self._min_resource_count = min_resource_count
        self._deployments = deployments
        self._members = members
        self._rebalance_from_ms = 0
        self.loads = Loads()
        #: workers that are given nothing new; True for those that are drained
        self.cordons: Mapping[str, bool] = {}

    def begin(self, cordons: Mapping[str, bool], until_ms: int) -> None:
        """Take over the cordons, and move nothing before `until_ms` (steady clock) only to even out the load."""
        self.cordons = cordons
        self.wait(until_ms)

    def wait(self, until_ms: int) -> None:
        """Move nothing before `until_ms` (steady clock) only to even out the load."""
        self._rebalance_from_ms = max(self._rebalance_from_ms, until_ms)

    def reconcile(self, now_ms: int, *, rebalance: bool = False) -> list[Announce]:
        """Choose the worker of every instance; with `rebalance`, do not wait before the load is evened out."""
        return reconcile(self._situation(now_ms, rebalance=rebalance), self._algorithm)

    def plan(self, now_ms: int) -> tuple[Move, ...]:
        """Return what would be moved if nothing had to wait; changes nothing."""
        return plan_moves(self._situation(now_ms, rebalance=True), self._algorithm)

    def _situation(self, now_ms: int, *, rebalance: bool) -> Situation:
        return Situation(
            self._deployments,
            self._members,
            self.loads,
            self.cordons,
            now_ms=now_ms,
            min_resource_count=self._min_resource_count,
            suspect_after_ms=self._timing.suspect_after_ms,
            rebalance=rebalance or now_ms >= self._rebalance_from_ms,
        )

    def propose_cordon(self, event: CordonRequested, term: int) -> Instruction:
        """Have a cordon written first, as it must outlive this leader; or refuse it."""
        known = event.worker in self.cordons or any(one.id == event.worker for one in self._members.lost)
        if not known and event.worker not in self._members:
            return Refuse(NotFoundError(f"no worker {event.worker} has joined", hint="see GET /managers/nodes"))
        return SaveCordon(term, event.worker, event.drain, event.user)

    def note_cordon(self, event: CordonSaved) -> Announce:
        """Let a cordon that is durable hold from now on."""
        others = {id: drain for id, drain in self.cordons.items() if id != event.worker}
        self.cordons = others if event.drain is None else {**others, event.worker: event.drain}
        kind = {None: "worker-uncordoned", False: "worker-cordoned", True: "worker-drained"}[event.drain]
        more = ", and what it has goes elsewhere one by one" if event.drain else ""
        what = "is given groups again" if event.drain is None else f"is given nothing new{more}"
        text = f"worker {event.worker} {what}"
        return Announce(kind, event.worker, text, worker=event.worker, user=event.user)
