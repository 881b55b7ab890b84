"""What a worker's heartbeat says of its groups: what is adopted, what has failed, what was lost. Pure."""

from __future__ import annotations

from spdist.cluster.leader.deployments import Deployments
from spdist.cluster.leader.instances import Instance, RestartPolicy
from spdist.cluster.leader.members import Member
from spdist.cluster.protocol.messages import Announce, GroupPhase, Level

__all__ = ["observe"]


def observe(member: Member, deployments: Deployments, now_ms: int, policy: RestartPolicy) -> list[Announce]:
    """Adopt what a worker runs and does not stop, and nobody else was meant for; count what failed there, and say so.

    What has ended together with the worker's Spark is lost and not failed: see `Instance.observe`.

    Parameters
    ----------
    member : Member
        The worker, with its latest heartbeat.
    deployments : Deployments
        Its instances are given this worker, or lose it.
    now_ms : int
        The steady clock.
    policy : RestartPolicy
        What follows from a failure.
    """
    id, report = member.report.id, member.report
    for name, seen in member.groups.items():
        instance = deployments.instances.get(name)
        if instance is None or instance.worker is not None or instance.gave_up or report.leaving:
            continue
        # What is stopping has been given up there, and may run on a worker that has not reported yet.
        if (seen.state.alive and seen.state is not GroupPhase.STOPPING) or instance.failed_in(seen):
            instance.worker = id
    lost = "" if report.ready else report.reason or "its Spark is not up"
    return [
        _announce(instance, id, policy, lost=bool(lost))
        for name, instance in deployments.instances.items()
        if instance.worker == id and instance.observe(id, member.groups.get(name), now_ms, policy, lost=lost)
    ]


def _announce(instance: Instance, id: str, policy: RestartPolicy, *, lost: bool) -> Announce:
    name = instance.assignment.name
    about = {"app": instance.assignment.app, "group": name, "worker": id, "reason": instance.error}
    if lost and not instance.failures:
        text = f"{name} is lost on worker {id} and goes elsewhere: {instance.error}"
        return Announce("group-lost", name, text, Level.WARNING, **about)
    after = "it stays so until the app is deployed again or the workers change"
    if not instance.gave_up:
        after = f"restart {instance.failures} of {policy.max_restarts} follows"
    text = f"{name} failed on worker {id}: {instance.error}; {after}"
    return Announce("group-failed", name, text, Level.ERROR if instance.gave_up else Level.WARNING, **about)
