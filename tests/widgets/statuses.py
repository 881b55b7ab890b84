"""Statuses of a cluster at different moments, for what looks at one after the other."""

from __future__ import annotations

from collections.abc import Mapping

from spdist.cluster.clients.overview import AppStatus, ClusterStatus, GroupStatus, ManagerStatus, WorkerStatus

__all__ = ["group", "status", "worker"]


def group(name: str, state: str = "RUNNING", worker: str = "worker-1", **metrics: float) -> GroupStatus:
    """Return a group instance ``App-group-i`` with its figures."""
    return GroupStatus(name, name.rpartition("-")[0], state, "", worker, 0, metrics)


def worker(
    id: str, silent_ms: int = 0, state: str = "READY", metrics: Mapping[str, float] | None = None
) -> WorkerStatus:
    """Return a worker that was heard so long ago."""
    return WorkerStatus(id, f"http://{id}", False, state == "LEAVING", silent_ms, (), state, metrics=metrics or {})


def status(
    *groups: GroupStatus,
    workers: tuple[WorkerStatus, ...] | None = None,
    leader: str = "manager-1",
    lost: tuple[WorkerStatus, ...] = (),
) -> ClusterStatus:
    """Return a cluster with these groups, all of one app."""
    managers = tuple(ManagerStatus(id, f"http://{id}", id == leader) for id in {leader: 0, "manager-2": 0})
    app = AppStatus("Shop", "RUNNING", "", 1, groups)
    there = (worker("worker-1"),) if workers is None else workers
    return ClusterStatus("test", leader, 1, managers, there, (app,) if groups else (), lost)
