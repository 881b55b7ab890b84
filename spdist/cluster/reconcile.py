"""Desired minus observed: give every instance that shall run a worker. Pure.

Only the target changes here. When a worker is told, and when another must first have stopped, is decided where
heartbeats are answered (`ManagerState`).
"""

from __future__ import annotations

from spdist.cluster.deployments import Deployments
from spdist.cluster.instances import Instance
from spdist.cluster.members import Members
from spdist.cluster.messages import Announce
from spdist.cluster.placement import PlacedGroup, PlacementAlgorithm, PlacementWorker, Request

__all__ = ["reconcile"]


def reconcile(
    deployments: Deployments,
    members: Members,
    algorithm: PlacementAlgorithm,
    *,
    now_ms: int,
    min_resource_count: int,
    rebalance: bool,
) -> list[Announce]:
    """Choose the worker of every instance, and say what changed.

    Parameters
    ----------
    deployments : Deployments
        Its instances are given their `Instance.worker`; None where one has to wait.
    members : Members
        The workers.
    algorithm : PlacementAlgorithm
        Proposes; what it says about workers that are not there, or of the other kind, is not taken.
    now_ms : int
        The steady clock.
    min_resource_count : int
        With fewer workers than that, nothing is placed anew; what has a worker keeps it.
    rebalance : bool
        Whether instances may be moved to even out the load.
    """
    enough = len(members.ready(receiver=False)) >= min_resource_count

    def placeable(instance: Instance) -> bool:
        if instance.gave_up or instance.worker is not None:
            return not instance.gave_up
        held = deployments.held(instance.assignment.app, now_ms)
        return not held and (instance.assignment.receiver or enough)

    instances = [i for i in deployments.instances.values() if placeable(i)]
    workers = [
        PlacementWorker(m.report.id, m.report.is_receiver, m.report.metrics) for m in members if not m.report.leaving
    ]
    placement = algorithm(
        Request(
            groups=[
                PlacedGroup(i.assignment.name, i.assignment.group, i.assignment.receiver, frozenset(i.failed_on))
                for i in instances
            ],
            workers=workers,
            current={i.assignment.name: i.worker for i in instances if i.worker is not None},
            rebalance=rebalance,
        )
    )
    kinds = {w.id: w.receiver for w in workers}
    out = []
    for instance in instances:
        target = placement.get(instance.assignment.name)
        if target is not None and kinds.get(target) is not instance.assignment.receiver:
            target = None
        if target != instance.worker:
            out.append(_announce(instance, target))
            instance.worker = target
    return out


def _announce(instance: Instance, target: str | None) -> Announce:
    name = instance.assignment.name
    text = f"{name} waits for a worker" if target is None else f"{name} goes to worker {target}"
    return Announce("group-placed", name, text if instance.worker is None else f"{text} (was on {instance.worker})")
