"""One group instance as the leader wants it: where, in which version, and what happens when it fails. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from spdist.cluster.protocol.messages import GroupPhase, GroupReport, fingerprint
from spdist.errors import ConfigError
from spdist.planning.topology import Assignment

__all__ = ["Instance", "RestartPolicy"]


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often, and after which pauses, an instance that failed is started again.

    Parameters
    ----------
    max_restarts : int
        Restarts before it stays FAILED, >= 0.
    first_delay_ms, max_delay_ms : int
        Pause before the first restart; it doubles each time up to the maximum.
    forgive_after_ms : int
        Running that long without a failure clears the count.

    Raises
    ------
    ConfigError
        A value is out of range.
    """

    max_restarts: int = 5
    first_delay_ms: int = 1_000
    max_delay_ms: int = 60_000
    forgive_after_ms: int = 600_000

    def __post_init__(self) -> None:
        if self.max_restarts < 0 or not 0 < self.first_delay_ms <= self.max_delay_ms or self.forgive_after_ms < 1:
            raise ConfigError(f"a restart policy of {self} makes no sense", hint="0 < first delay <= maximum delay")

    def delay_ms(self, failures: int) -> int:
        """Return the pause after the n-th failure in a row (n from 1)."""
        # Bounded: after thousands of failures the shift would make a number of thousands of bits
        return min(self.max_delay_ms, self.first_delay_ms << min(failures - 1, 30))


@dataclass(slots=True)
class Instance:
    """What the leader wants of one group instance, and what has happened to it.

    Parameters
    ----------
    assignment : Assignment
        What it is to run.
    worker : str, optional
        Id of the worker it is meant for; None while it waits for one.
    failures : int
        Failures in a row.
    losses : int
        How often it ended together with the Spark of its worker. The first time is nobody's fault and costs nothing;
        an instance that it keeps happening to may be what ends them, so later ones count as failures.
    error : str
        Why it failed last; empty once that is forgiven.
    gave_up : bool
        True once the restarts are used up: it stays FAILED until the app is deployed again, or the workers change.
    retry_at_ms : int
        Not to be started before (steady clock).
    failed_on : set of str
        Workers on which it failed since it last ran well; avoided while there are others, until they begin anew.
    vacated : str
        Why it has no worker any more; empty where it never had one, or has one.
    came_from : str, optional
        The worker from which it was moved to this one, at `moved_ms` (steady clock).
    resumes : bool
        Whether nobody had run it any more when it was given its worker.
    """

    assignment: Assignment
    worker: str | None = None
    failures: int = 0
    losses: int = 0
    error: str = ""
    gave_up: bool = False
    retry_at_ms: int = 0
    failed_on: set[str] = field(default_factory=set)
    came_from: str | None = None
    moved_ms: int = 0
    resumes: bool = False
    fingerprint: str = ""
    vacated: str = ""
    _counted_on: str | None = None
    _running_since_ms: int | None = None
    _revivals: int = 0

    def __post_init__(self) -> None:
        self.fingerprint = fingerprint(self.assignment)

    def goes_to(self, worker: str | None, now_ms: int) -> None:
        """Give it another worker, or none."""
        self.came_from, self.moved_ms, self.resumes = self.worker, now_ms, bool(self.vacated)
        self.worker = worker

    def failed_in(self, seen: GroupReport | None) -> bool:
        """Return True if a worker's report shows that this version ended by itself there."""
        return seen is not None and seen.state is GroupPhase.FAILED and seen.fingerprint == self.fingerprint

    def runs_in(self, seen: GroupReport | None) -> bool:
        """Return True if a worker's report shows this version RUNNING."""
        return seen is not None and seen.state is GroupPhase.RUNNING and seen.fingerprint == self.fingerprint

    def waits_in(self, seen: GroupReport | None) -> bool:
        """Return True if a worker's report shows that this version waits there to be started."""
        return seen is not None and seen.state is GroupPhase.WAITING and seen.fingerprint == self.fingerprint

    def observe(
        self, worker: str, seen: GroupReport | None, now_ms: int, policy: RestartPolicy, *, lost: str = ""
    ) -> bool:
        """Take in what its worker reported of it.

        Parameters
        ----------
        worker : str
            Its worker.
        seen : GroupReport, optional
            What that reported; None where it reported nothing.
        now_ms : int
            The steady clock.
        policy : RestartPolicy
            What follows from a failure.
        lost : str
            Why the worker's Spark is not up: if this instance has ended, it was with that. Empty where it is up.

        Returns
        -------
        bool
            True if this is a new failure: `worker` was cleared, and either a restart is due at `retry_at_ms` or
            `gave_up` is set.
        """
        if not self.failed_in(seen):
            # Not reported as failed any more: the next failure there is a new one
            if self._counted_on == worker:
                self._counted_on = None
            self._note_health(self.runs_in(seen), now_ms, policy)
            return False
        self._running_since_ms = None
        if self._counted_on == worker:  # the same failure, reported again because our answer got lost
            return False
        self._counted_on = worker
        self.failed_on.add(worker)
        # Where its Spark is gone, what the group tells of its own end only follows from that
        self.error = lost or (seen.error if seen is not None else "") or "it ended without a reason"
        self.worker = None
        self.vacated = f"it {'was lost' if lost else 'failed'} on worker {worker}: {self.error}"
        if lost:
            self.losses += 1
            if self.losses == 1:
                self.retry_at_ms = now_ms
                return True
        self.failures += 1
        self.gave_up = self.failures > policy.max_restarts
        self.retry_at_ms = now_ms + policy.delay_ms(self.failures)
        return True

    def begins_anew(self, worker: str) -> None:
        """Note that a worker has another process or another Spark: what failed in the former may work in this one."""
        self.failed_on.discard(worker)
        if self._counted_on == worker:
            self._counted_on = None

    def revive(self, now_ms: int, policy: RestartPolicy) -> None:
        """Give it one more try if it gave up, because there are other workers than when it did.

        Each such try waits longer than the one before: what ends every worker it is put on must not do so in a loop.
        """
        if self.gave_up:
            self._revivals += 1
            self.gave_up = False
            self.retry_at_ms = now_ms + policy.delay_ms(self._revivals)

    def forgive(self) -> None:
        """Forget all failures: it may be started immediately, anywhere."""
        self.failures = self.losses = self._revivals = 0
        self.error = ""
        self.gave_up = False
        self.retry_at_ms = 0
        self.failed_on.clear()

    def _note_health(self, runs: bool, now_ms: int, policy: RestartPolicy) -> None:
        if not runs:
            self._running_since_ms = None
        elif self._running_since_ms is None:
            self._running_since_ms = now_ms
        elif self.error and now_ms - self._running_since_ms >= policy.forgive_after_ms:
            self.forgive()
