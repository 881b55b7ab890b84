"""The leader of a node that has no managers: what its apps are, and which of them run. Pure.

It answers the heartbeats of the node's own `WorkerState`, in the same words as a manager
(`spdist.cluster.protocol.messages`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spdist.cluster.elections.election import Lease
from spdist.cluster.leader.instances import Instance, RestartPolicy
from spdist.cluster.protocol.messages import AnswerHeartbeat, JoinedState, WorkerReport, WorkerTiming
from spdist.errors import NotFoundError
from spdist.planning.topology import Assignment

__all__ = ["OwnApp", "OwnLeader"]


@dataclass(slots=True)
class OwnApp:
    """An app of a server.

    Parameters
    ----------
    name : str
        Its name.
    text : str
        What its file holds.
    instance : Instance, optional
        What runs; None where no text of it was ever right.
    error : str
        What is wrong with `text`: then the text before goes on, if there was one. Empty where it is right.
    """

    name: str
    text: str
    instance: Instance | None = None
    error: str = ""


class OwnLeader:
    """The apps of a server.

    Parameters
    ----------
    worker : str
        Id of the node.
    heartbeat_interval_ms : int
        How often it reports.
    policy : RestartPolicy, optional
        What becomes of an app that fails.

    State
    -----
    The apps: O(texts).
    """

    def __init__(self, worker: str, heartbeat_interval_ms: int, policy: RestartPolicy | None = None) -> None:
        self._worker = worker
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._term = 0
        self._policy = policy or RestartPolicy()
        self._apps: dict[str, OwnApp] = {}
        #: the apps that were found to have failed by the last answer
        self.failed: tuple[OwnApp, ...] = ()

    def __contains__(self, name: object) -> bool:
        return name in self._apps

    def __iter__(self) -> Iterator[OwnApp]:
        return iter([self._apps[name] for name in sorted(self._apps)])

    def app(self, name: str) -> OwnApp:
        """Return an app; NotFoundError where there is none of that name."""
        if name not in self._apps:
            raise NotFoundError(f"there is no app {name}")
        return self._apps[name]

    def running(self, name: str) -> Assignment | None:
        """Return what is to run of an app; None where there is none, or no text of it was ever right."""
        app = self._apps.get(name)
        return None if app is None or app.instance is None else app.instance.assignment

    # --------------------------------------------------------------------------------------------------------- requests
    def deploy(self, text: str, assignment: Assignment) -> None:
        """Let an app run, in place of the one of its name; the same one anew is forgiven its failures."""
        self._apps[assignment.name] = OwnApp(assignment.name, text, Instance(assignment))

    def refuse(self, name: str, text: str, error: str) -> None:
        """Note what is wrong with a text of an app; what runs of it goes on."""
        before = self._apps.get(name)
        self._apps[name] = OwnApp(name, text, before.instance if before else None, error)

    def retry(self, name: str) -> None:
        """Forget the failures of an app, so that it is started at the next occasion."""
        if (instance := self.app(name).instance) is not None:
            instance.forgive()

    def undeploy(self, name: str) -> None:
        """Let an app run no more; NotFoundError where there is none of that name."""
        self.app(name)
        del self._apps[name]

    # ------------------------------------------------------------------------------------------------------- heartbeats
    def answer(self, report: WorkerReport, now_ms: int, lease: Lease) -> AnswerHeartbeat:
        """Return what the node shall run, given what it reports, and until the end of the lease.

        In a new term all begin anew, as others may have run them meanwhile. One that has failed is left out until the
        node has forgotten it and its pause is over; then it is started again. One that has failed too often stays where
        it is, FAILED, until it is deployed anew or retried.

        Parameters
        ----------
        report : WorkerReport
            All its groups.
        now_ms : int
            The steady clock, read after the report was made: the fence that follows from the answer is counted from
            then, so it is never later than the end of the lease.
        lease : Lease
            That by which this node is the active one; valid at `now_ms`.
        """
        if lease.term != self._term:
            self._begin(lease.term)
        seen = {group.name: group for group in report.groups}
        lost = "" if report.ready else report.reason or "its Spark is not up"
        wanted: list[Assignment] = []
        failed: list[OwnApp] = []
        for app in self:
            if (instance := app.instance) is None:
                continue
            here = seen.get(app.name)
            if instance.worker is None and now_ms >= instance.retry_at_ms and not instance.failed_in(here):
                # There is no other worker to go to, and the next failure here is a new one
                instance.begins_anew(self._worker)
                instance.goes_to(self._worker, now_ms)
            elif instance.worker is not None and instance.observe(self._worker, here, now_ms, self._policy, lost=lost):
                failed.append(app)
            # One that gave up stays on the list, so that the node does not forget why it is FAILED
            if instance.worker is not None or instance.gave_up:
                wanted.append(instance.assignment)
        self.failed = tuple(failed)
        return AnswerHeartbeat(
            worker=self._worker,
            sequence=report.sequence,
            term=self._term,
            joined=JoinedState.EXISTS if report.known_term else JoinedState.NEW,
            assignments=tuple(wanted),
            timing=self._timing(lease.until_ms - now_ms),
        )

    def _begin(self, term: int) -> None:
        """Forget what became of the apps in the term before."""
        self._term = term
        for app in self._apps.values():
            if app.instance is not None:
                app.instance = Instance(app.instance.assignment)

    def _timing(self, left_ms: int) -> WorkerTiming:
        """Return the times that impose the end of the lease as the fence; nobody removes this node but by the lease."""
        return WorkerTiming(self._heartbeat_interval_ms, left_ms, remove_after_ms=left_ms + 1, margin_ms=1)
