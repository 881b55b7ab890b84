"""Desired minus observed: give every instance that shall run a worker. Pure.

Only the target changes here. When a worker is told, and when another must first have stopped, is decided where
heartbeats are answered (`ManagerState`).
"""

from __future__ import annotations

from collections import Counter

from spdist.cluster.deployments import Deployments
from spdist.cluster.instances import Instance
from spdist.cluster.members import Member, Members
from spdist.cluster.messages import Announce
from spdist.cluster.placement import PlacedGroup, PlacementAlgorithm, PlacementWorker, Request

__all__ = ["check_placed", "reconcile"]


def reconcile(
    deployments: Deployments,
    members: Members,
    algorithm: PlacementAlgorithm,
    *,
    now_ms: int,
    min_resource_count: int,
    suspect_after_ms: int,
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
    suspect_after_ms : int
        A worker that has been silent for longer is given nothing while there are others.
    rebalance : bool
        Whether instances may be moved to even out the load.
    """
    enough = len(members.available(receiver=False)) >= min_resource_count

    def placeable(instance: Instance) -> bool:
        if instance.gave_up or instance.worker is not None:
            return not instance.gave_up
        held = deployments.held(instance.assignment.app, now_ms)
        return not held and (instance.assignment.receiver or enough)

    instances = [i for i in deployments.instances.values() if placeable(i)]
    unreported = _unreported(deployments, members)
    workers = [
        PlacementWorker(
            m.report.id,
            m.report.is_receiver,
            m.report.metrics,
            ready=m.ready and m.silent_ms(now_ms) <= suspect_after_ms,
            room=_room(m, unreported[m.report.id]),
        )
        for m in members
        if not m.report.leaving
    ]
    placement = algorithm(
        Request(
            groups=[_placed(i, members) for i in instances],
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
            said = _announce(instance, target, members)
            instance.worker, instance.vacated = target, "" if target else said.reason
            out.append(said)
    return out


def _unreported(deployments: Deployments, members: Members) -> Counter[str]:
    """Count for each worker what it was given since its last heartbeat: it is not in its own count yet."""
    placed = ((name, members.get(i.worker)) for name, i in deployments.instances.items() if i.worker is not None)
    return Counter(m.report.id for name, m in placed if m is not None and name not in m.groups)


def _room(member: Member, unreported: int) -> int | None:
    memory = member.report.memory
    return None if memory is None else max(0, memory.room - unreported)


def _placed(instance: Instance, members: Members) -> PlacedGroup:
    assignment = instance.assignment
    member = None if instance.worker is None else members.get(instance.worker)
    full = member is not None and member.report.memory is not None and member.report.memory.full
    return PlacedGroup(
        assignment.name,
        assignment.group,
        assignment.receiver,
        avoid=frozenset(instance.failed_on),
        waits=full and member is not None and instance.waits_in(member.groups.get(assignment.name)),
    )


def _announce(instance: Instance, target: str | None, members: Members) -> Announce:
    name, before = instance.assignment.name, instance.worker
    event = "group-waiting" if target is None else "group-placed" if before is None else "group-moved"
    text = f"{name} waits for a worker" if target is None else f"{name} goes to worker {target}"
    reason = instance.vacated
    if before is not None:
        member = members.get(before)
        text += f" (was on {before})"
        reason = f"worker {before} leaves" if member is None or member.report.leaving else "the load is evened out"
    return Announce(
        event, name, text, app=instance.assignment.app, group=name, worker=target or before or "", reason=reason
    )


def check_placed(deployments: Deployments, members: Members) -> None:
    """Raise `AssertionError` if an instance is meant for a worker that cannot have it. For tests."""
    siblings: set[tuple[str, str]] = set()
    for name, instance in deployments.instances.items():
        if instance.worker is None:
            continue
        member = members.get(instance.worker)
        assert member is not None, f"{name} is meant for {instance.worker}, who is not there"
        receiver = instance.assignment.receiver
        assert member.report.is_receiver is receiver, f"{name} is on the wrong kind of worker"
        key = (instance.assignment.group, instance.worker)
        assert not (receiver and key in siblings), f"two receivers of {key[0]} on {key[1]}"
        siblings.add(key)
