"""The apps a leader has accepted, and the instances that follow from them. Pure.

A deployment is installed only once it is durable, so that what runs is always what a new leader would find. One that is
undeployed stays (REMOVED) until nobody can be running its groups: whoever sees no row may start an app of that name at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import MappingProxyType

from spdist.cluster.leader.instances import Instance, RestartPolicy
from spdist.cluster.protocol.messages import AppVersion, Desired
from spdist.errors import ClusterError, ErrorKind, NotFoundError
from spdist.planning.updates.succession import Ends, with_origins

__all__ = ["Deployments"]

_NO_ENDS: Ends = MappingProxyType({})


class Deployments:
    """All deployments of a leader.

    State
    -----
    `by_name`, `instances` (all of those that shall run), what is being written, and until when the groups of an app may
    still run on workers that have not reported to this leader: O(deployments + instances).
    """

    def __init__(self) -> None:
        self.by_name: dict[str, AppVersion] = {}
        self.instances: dict[str, Instance] = {}
        self.held_until_ms: dict[str, int] = {}
        self._pending: dict[str, AppVersion] = {}

    def load(self, stored: Iterable[AppVersion], held_until_ms: int) -> None:
        """Install what was deployed before this leadership; of two apps that claim one instance the later fails."""
        for deployment in sorted(stored, key=lambda d: d.name):
            clash = self._clash(deployment)
            self._install(replace(deployment, assignments=(), error=clash) if clash else deployment)
            # Undeployed apps, too: workers that have not reported may be running their groups
            self.held_until_ms[deployment.name] = held_until_ms

    def propose(self, deployment: AppVersion, update: str = "", ends: Ends = _NO_ENDS) -> AppVersion | ClusterError:
        """Return the version to be written so that an app runs as requested, or why it cannot be.

        Where it updates a running app its instances get their origins; for `update` and `ends` see `DeployRequested`.
        """
        clash = self._clash(deployment)
        if clash:
            return ClusterError(clash, hint="rename the app or the group")
        known = self.by_name.get(deployment.name)
        if known is not None and known.assignments:
            made = with_origins(known.assignments, deployment.assignments, update, ends)
            deployment = replace(deployment, assignments=made)
        return self._propose(deployment)

    def running(self, name: str) -> AppVersion | None:
        """Return the deployment of an app that is to run; None where there is none."""
        known = self.by_name.get(name)
        return None if known is None or known.desired is Desired.REMOVED else known

    def propose_removal(self, name: str) -> AppVersion | ClusterError:
        """Return the version to be written so that an app is gone, or why it cannot be."""
        known = self.running(name)
        if known is None:
            return NotFoundError(f"no app {name} is deployed")
        return self._propose(AppVersion(name, known.text, desired=Desired.REMOVED))

    def _propose(self, deployment: AppVersion) -> AppVersion | ClusterError:
        if deployment.name in self._pending:
            return ClusterError(
                f"app {deployment.name} is being changed by another request", hint="try again", code=ErrorKind.CONFLICT
            )
        known = self.by_name.get(deployment.name)
        pending = replace(deployment, version=1 if known is None else known.version + 1)
        self._pending[deployment.name] = pending
        return pending

    def conclude(self, name: str, version: int, *, written: bool) -> AppVersion | None:
        """Install a proposed version if it was written, drop it if not; None if it was not awaited."""
        pending = self._pending.get(name)
        # Otherwise it answers a write of an earlier leadership, whose proposals are forgotten
        if pending is None or pending.version != version:
            return None
        del self._pending[name]
        if written:
            self._install(pending)
        return pending

    def held(self, app: str, now_ms: int) -> bool:
        """Return True while workers that did not yet report to this leader may be running groups of an app."""
        return now_ms < self.held_until_ms.get(app, 0)

    def release(self) -> None:
        """Note that all workers have reported which may be running anything: everything may be started."""
        self.held_until_ms.clear()

    def retry(self, now_ms: int, policy: RestartPolicy, *, anew: str | None = None) -> None:
        """Try once more what has failed for good, as the workers have changed; `anew` is one that begins afresh."""
        for instance in self.instances.values():
            if anew is not None:
                instance.begins_anew(anew)
            instance.revive(now_ms, policy)

    def removable(self, now_ms: int, runs: Callable[[str], bool]) -> list[AppVersion]:
        """Return the undeployed apps of which nothing can be running; `runs` tells whether a worker may run an app."""
        return [
            d
            for d in self.by_name.values()
            if d.desired is Desired.REMOVED
            # Its row is about to be that of a new version
            and d.name not in self._pending
            and not self.held(d.name, now_ms)
            and not runs(d.name)
        ]

    def forget(self, name: str, version: int) -> None:
        """Drop an undeployed app whose row is deleted, unless it was deployed again."""
        known = self.by_name.get(name)
        if known is not None and known.desired is Desired.REMOVED and known.version == version:
            del self.by_name[name]

    def _install(self, deployment: AppVersion) -> None:
        """Make a version the desired one: an instance that did not change runs on, a changed one keeps its worker."""
        before = {n: i for n, i in self.instances.items() if i.assignment.app == deployment.name}
        for name in before:
            del self.instances[name]
        for assignment in deployment.assignments:
            old = before.get(assignment.name)
            if old is not None and old.assignment == assignment:
                old.forgive()  # deploying again is how a user asks for another try
                self.instances[assignment.name] = old
            else:
                self.instances[assignment.name] = Instance(assignment, worker=old.worker if old else None)
        self.by_name[deployment.name] = deployment

    def _clash(self, deployment: AppVersion) -> str:
        """Return why the instances of an app cannot be told from others by name; empty if they can."""
        taken = {name: i.assignment.app for name, i in self.instances.items()}
        # Versions that are being written count: they may be installed before this one
        taken |= {a.name: p.name for p in self._pending.values() for a in p.assignments}
        seen: set[str] = set()
        for assignment in deployment.assignments:
            name = assignment.name
            if name in seen or assignment.app != deployment.name:
                return f"app {deployment.name} has no unique instance {name} of its own"
            seen.add(name)
            if taken.get(name, deployment.name) != deployment.name:
                return f"instance {name} of app {deployment.name} also exists in app {taken[name]}"
        return ""

    def check_invariants(self) -> None:
        """Raise `AssertionError` if deployments and instances contradict each other."""
        wanted = {a.name for d in self.by_name.values() for a in d.assignments}
        assert set(self.instances) == wanted, f"instances {set(self.instances) ^ wanted} follow from no deployment"
        for name, instance in self.instances.items():
            assert name == instance.assignment.name, f"{name} is filed under another name"
            assert instance.assignment.app in self.by_name, f"{name} belongs to no deployment"
            assert not (instance.gave_up and instance.worker), f"{name} has failed for good but is placed"
        for deployment in self.by_name.values():
            gone = deployment.desired is Desired.REMOVED or deployment.error
            assert not (gone and deployment.assignments), f"{deployment.name} is gone but wants groups"
