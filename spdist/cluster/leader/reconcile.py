"""Desired minus observed: give every instance that shall run a worker. Pure.

Only the target changes here. When a worker is told, and when another must first have stopped, is decided where
heartbeats are answered (`ManagerState`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from spdist.cluster.leader.deployments import Deployments
from spdist.cluster.leader.instances import Instance
from spdist.cluster.leader.loads import Loads
from spdist.cluster.leader.members import Member, Members
from spdist.cluster.leader.placement import PlacedGroup, PlacementAlgorithm, PlacementRequest, PlacementWorker
from spdist.cluster.protocol.messages import Announce, Move

__all__ = ["Situation", "check_placed", "plan_moves", "reconcile"]

#: An instance that was given a worker and does not run there after that long keeps others no more where they are.
_STARTING_MS = 60_000


@dataclass(frozen=True, slots=True)
class Situation:
    """What is to be placed, and where that can be.

    Parameters
    ----------
    deployments : Deployments
        What shall run.
    members : Members
        The workers.
    loads : Loads
        What each instance takes.
    cordons : mapping of str to bool
        Workers that are given nothing new; True for those that are to be emptied.
    now_ms : int
        The steady clock.
    min_resource_count : int
        With fewer workers than that, nothing is placed anew; what has a worker keeps it.
    suspect_after_ms : int
        A worker that has been silent for longer is given nothing while there are others.
    rebalance : bool
        Whether instances may be moved to even out the load.
    """

    deployments: Deployments
    members: Members
    loads: Loads
    cordons: Mapping[str, bool]
    now_ms: int
    min_resource_count: int
    suspect_after_ms: int
    rebalance: bool


def reconcile(situation: Situation, algorithm: PlacementAlgorithm) -> list[Announce]:
    """Choose the worker of every instance (`Instance.worker`; None where one has to wait), and say what changed.

    A worker that is drained gives up one instance after the other: the next one when that runs elsewhere.
    """
    out = []
    for move in _moves(situation, algorithm, paced=True):
        instance = situation.deployments.instances[move.group]
        instance.goes_to(move.target, situation.now_ms)
        # After `goes_to`, which tells by it whether somebody was running the instance
        instance.vacated = "" if move.target else move.reason
        out.append(_announce(instance, move))
    return out


def _announce(instance: Instance, move: Move) -> Announce:
    name, app, worker = move.group, instance.assignment.app, move.target or move.source or ""
    event = "group-waiting" if move.target is None else "group-placed" if move.source is None else "group-moved"
    text = f"{name} waits for a worker" if move.target is None else f"{name} goes to worker {move.target}"
    before = f" (was on {move.source})" if move.source is not None else ""
    return Announce(
        event, name, f"{text}{before}: {move.reason}", app=app, group=name, worker=worker, reason=move.reason
    )


def plan_moves(situation: Situation, algorithm: PlacementAlgorithm) -> tuple[Move, ...]:
    """Return what would be moved, all of what drained workers have included; nothing is changed."""
    return tuple(_moves(situation, algorithm, paced=False))


def _moves(situation: Situation, algorithm: PlacementAlgorithm, *, paced: bool) -> list[Move]:
    """Return the instances whose worker is to be another one, in the order of apps, groups and instances.

    What the algorithm says about workers that are not there, of the other kind, or cordoned, is not taken.
    """
    deployments, members = situation.deployments, situation.members
    enough = len(members.available(receiver=False)) >= situation.min_resource_count

    def placeable(instance: Instance) -> bool:
        # What has a worker takes part in any case: it counts in the load, and may be moved
        if instance.gave_up or instance.worker is not None:
            return not instance.gave_up
        held = deployments.held(instance.assignment.app, situation.now_ms)
        # WSO2's minResourceCount is about workers that are no receivers, and about what they are given
        return not held and (instance.assignment.receiver or enough)

    instances = [i for i in deployments.instances.values() if placeable(i)]
    request = PlacementRequest(
        groups=[_placed(i, situation) for i in instances],
        workers=_workers(situation, paced=paced),
        current={i.assignment.name: i.worker for i in instances if i.worker is not None},
        rebalance=situation.rebalance,
    )
    placement = algorithm(request)
    workers = {w.id: w for w in request.workers}
    out = []
    for instance in instances:
        name, source = instance.assignment.name, instance.worker
        target = placement.get(name)
        if target is not None and target != source:
            worker = workers.get(target)
            if worker is None or worker.receiver is not instance.assignment.receiver:
                target = None
            # A cordon keeps new instances away, and takes from none the worker that it has
            elif worker.cordoned:
                target = source
        if target != source:
            out.append(Move(name, source, target, _reason(situation, instance, target)))
    return out


def _workers(situation: Situation, *, paced: bool) -> list[PlacementWorker]:
    unreported = _unreported(situation.deployments, situation.members)
    return [
        PlacementWorker(
            m.report.id,
            m.report.is_receiver,
            m.report.metrics,
            ready=m.ready and m.silent_ms(situation.now_ms) <= situation.suspect_after_ms,
            room=_room(m, unreported[m.report.id]),
            warm=m.report.warm,
            cordoned=m.report.id in situation.cordons,
            gives_up=_gives_up(situation, m.report.id, paced=paced),
        )
        for m in situation.members
        if not m.report.leaving
    ]


def _gives_up(situation: Situation, worker: str, *, paced: bool) -> int | None:
    """Return how many instances a worker gives up now, None if it is not drained."""
    if not situation.cordons.get(worker, False):
        return None
    instances = situation.deployments.instances.values()
    if not paced:
        return len(instances)
    return 0 if any(_under_way(situation, instance, worker) for instance in instances) else 1


def _under_way(situation: Situation, instance: Instance, source: str) -> bool:
    """Return True if an instance has left a worker lately, and its new one has not reported it RUNNING."""
    return instance.came_from == source and _is_starting(situation, instance)


def _is_starting(situation: Situation, instance: Instance) -> bool:
    """Return True if an instance was given its worker lately, and that has not reported it RUNNING."""
    if instance.worker is None:
        return False
    member = situation.members.get(instance.worker)
    runs = member is not None and instance.runs_in(member.groups.get(instance.assignment.name))
    return not runs and situation.now_ms - instance.moved_ms < _STARTING_MS


def _reason(situation: Situation, instance: Instance, target: str | None) -> str:
    """Return in words why an instance goes from its worker to `target`."""
    source = instance.worker
    if source is None:
        return instance.vacated or "it has no worker yet"
    member = situation.members.get(source)
    if member is None:
        return f"worker {source} is not there any more"
    if member.report.leaving:
        return f"worker {source} is shutting down"
    if target is None:
        return f"the allocation algorithm leaves it on no worker; {source} had it"
    if situation.cordons.get(source, False):
        return f"worker {source} is drained"
    if _placed(instance, situation).waits:
        return f"worker {source} has no memory to start it: {member.report.memory}"
    return f"it evens out the load: {_carries(situation, source)}, {_carries(situation, target)}"


def _carries(situation: Situation, worker: str) -> str:
    names = [name for name, i in situation.deployments.instances.items() if i.worker == worker]
    known = [load.share for name in names if (load := situation.loads.of(name)) is not None]
    return f"{worker} has {len(names)} groups" + (f" with a load of {sum(known):.2f}" if known else "")


def _unreported(deployments: Deployments, members: Members) -> Counter[str]:
    """Count for each worker what it was given since its last heartbeat: it is not in its own count yet."""
    placed = ((name, members.get(i.worker)) for name, i in deployments.instances.items() if i.worker is not None)
    return Counter(m.report.id for name, m in placed if m is not None and name not in m.groups)


def _room(member: Member, unreported: int) -> int | None:
    memory = member.report.memory
    return None if memory is None else max(0, memory.room - unreported)


def _placed(instance: Instance, situation: Situation) -> PlacedGroup:
    assignment = instance.assignment
    member = None if instance.worker is None else situation.members.get(instance.worker)
    full = member is not None and member.report.memory is not None and member.report.memory.full
    placed = PlacedGroup(
        assignment.name,
        assignment.group,
        assignment.receiver,
        avoid=frozenset(instance.failed_on),
        interrupted=bool(instance.vacated) or (instance.resumes and _is_starting(situation, instance)),
        waits=full and member is not None and instance.waits_in(member.groups.get(assignment.name)),
    )
    load = situation.loads.of(assignment.name)
    return placed if load is None else replace(placed, load=round(load.share * 1000), steady=load.steady)


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
