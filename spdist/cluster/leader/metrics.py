"""What a manager is like in numbers, for Prometheus. Pure; made on the thread of the state loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from spdist.cluster.leader.state import ManagerState
from spdist.cluster.leader.status import DeploymentState, deployment_statuses

__all__ = ["ClusterFigures", "cluster_figures"]


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """What a leader knows in numbers; a standby knows nothing.

    Parameters
    ----------
    leads : bool
        Whether this manager leads.
    term : int
        In which term; 0 on a standby.
    heartbeat_age_ms : mapping of str to int
        Worker → how long ago its last heartbeat came.
    apps : mapping of str to int
        State → apps that are in it.
    groups_waiting, groups_failed : int
        Group instances that have no worker, and those that have failed for good.
    """

    leads: bool
    term: int = 0
    heartbeat_age_ms: Mapping[str, int] = field(default_factory=dict)
    apps: Mapping[str, int] = field(default_factory=dict)
    groups_waiting: int = 0
    groups_failed: int = 0


def cluster_figures(state: ManagerState, now_ms: int) -> ClusterFigures:
    """Return the figures of a manager at `now_ms` (steady clock)."""
    if state.term is None or not state.leads(now_ms):
        return ClusterFigures(leads=False)
    apps = Counter({one.value: 0 for one in DeploymentState})
    apps.update(status.state.value for status in deployment_statuses(state, now_ms))
    instances = state.deployments.instances.values()
    return ClusterFigures(
        leads=True,
        term=state.term,
        heartbeat_age_ms={member.report.id: member.silent_ms(now_ms) for member in state.members},
        apps=apps,
        groups_waiting=sum(one.worker is None and not one.gave_up for one in instances),
        groups_failed=sum(one.gave_up for one in instances),
    )
