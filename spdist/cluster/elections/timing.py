"""The times that workers keep, and whether a new leader can be there before they stop their groups. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spdist.cluster.elections.election import ElectionTiming
from spdist.errors import ConfigError

__all__ = ["LOST_RETRY_MS", "WorkerTiming", "failover_doubt"]

#: Pause between a worker's rounds over the managers while its groups run and none answers as leader, ms.
LOST_RETRY_MS = 250
#: How long telling all groups of a worker to stop may take.
_STOPPING_MS = 1_000


@dataclass(frozen=True, slots=True)
class WorkerTiming:
    """When a silent worker stops by itself, and when the leader counts on it. Made by `from_config` on both sides.

    Parameters
    ----------
    heartbeat_interval_ms : int
        ``heartbeatInterval``: how long a worker may be silent without anybody taking note; it reports more often.
    fence_after_ms : int
        A worker begins to stop its groups this long after it sent the last heartbeat that was answered.
    remove_after_ms : int
        The leader removes a worker after this long without a heartbeat.
    margin_ms : int
        What must lie between the two: time to stop groups, and clocks that run at different speed.

    Raises
    ------
    ConfigError
        ``fence_after_ms + margin_ms`` is later than ``remove_after_ms``, or a value is out of range.
    """

    heartbeat_interval_ms: int
    fence_after_ms: int
    remove_after_ms: int
    margin_ms: int

    def __post_init__(self) -> None:
        if min(self.heartbeat_interval_ms, self.fence_after_ms, self.margin_ms) < 1:
            raise ConfigError(f"times of workers must be positive: {self}")
        if self.fence_after_ms + self.margin_ms > self.remove_after_ms:
            raise ConfigError(
                f"a worker stops {self.fence_after_ms} ms after its last answered heartbeat and needs up to "
                f"{self.margin_ms} ms for it, but would be removed after {self.remove_after_ms} ms already",
                hint="make the removal deadline later, so that no group ever runs twice",
            )

    @classmethod
    def from_config(cls, heartbeat_interval_ms: int, heartbeat_max_retry: int) -> WorkerTiming:
        """Return the times that follow from ``deployment.config``; the leader's values are imposed on the workers.

        With interval h and retry R: the worker stops (R+1)h after its last answered heartbeat, so R may fail. The
        leader removes it after the margin: h/2, which is for clocks that run at different speed, and for telling the
        groups to stop, so a second at least or 2h. A batch that is under way then does no harm: the state has another
        owner, and what it puts out is checked against that. WSO2's upper bound is (R+3)h.

        Parameters
        ----------
        heartbeat_interval_ms : int
            ``heartbeatInterval``, >= 20.
        heartbeat_max_retry : int
            ``heartbeatMaxRetry``, >= 1.

        Raises
        ------
        ConfigError
            A value is out of range.
        """
        if heartbeat_interval_ms < 20 or heartbeat_max_retry < 1:
            raise ConfigError(
                f"deployment.config: heartbeatInterval {heartbeat_interval_ms} and heartbeatMaxRetry "
                f"{heartbeat_max_retry} must be at least 20 ms and 1",
                hint="WSO2 ships 2000 and 2",
            )
        h, r = heartbeat_interval_ms, heartbeat_max_retry
        fence_ms, margin_ms = (r + 1) * h, max(h // 2, min(2 * h, _STOPPING_MS))
        return cls(h, fence_after_ms=fence_ms, remove_after_ms=fence_ms + margin_ms, margin_ms=margin_ms)

    @property
    def report_interval_ms(self) -> int:
        """How often a worker sends its heartbeat: twice per interval, so that an interval of silence says something."""
        # Not more than four in a second, unless the interval itself is shorter
        return max(min(self.heartbeat_interval_ms, 250), self.heartbeat_interval_ms // 2)

    @property
    def probe_after_ms(self) -> int:
        """After how much silence a worker's address is probed: a heartbeat is overdue."""
        return self.report_interval_ms * 3 // 2

    @property
    def suspect_after_ms(self) -> int:
        """After how much silence a worker is shown as UNREACHABLE: one interval, where that is not tiny."""
        return max(self.heartbeat_interval_ms, min(1000, self.fence_after_ms))

    def hurried(self, workers: int) -> WorkerTiming:
        """Return the same times, with heartbeats as often as a lost leader is looked for.

        For when the leader waits to hear again from its `workers`, or has something for them, so that groups start that
        much sooner; all workers together send 100 heartbeats a second at most.
        """
        return replace(self, heartbeat_interval_ms=min(self.heartbeat_interval_ms, max(LOST_RETRY_MS, 10 * workers)))


def failover_doubt(election: ElectionTiming, workers: WorkerTiming) -> str:
    """Return why workers may stop their groups when the leader is lost; empty if they need not.

    A worker has ``fence_after_ms`` from when it sent the last heartbeat that was answered. In the worst case the leader
    goes just before the next one is due, so one heartbeat interval of that is gone. What is left must be enough

    * for the leader's row to expire: ``max_age_ms``;
    * for another manager to see that and take over: it looks when the row expires, and one of its looks may fail, so
      one round more;
    * for the worker to find it: a question every `LOST_RETRY_MS`, of which one may get lost.

    Whatever the times are, no group ever runs twice; this is about whether it goes on.

    Parameters
    ----------
    election, workers : ElectionTiming, WorkerTiming
        The settings of the managers.
    """
    left_ms = workers.fence_after_ms - workers.heartbeat_interval_ms
    needed_ms = election.max_age_ms + election.round_ms + 2 * LOST_RETRY_MS
    if needed_ms <= left_ms:
        return ""
    return (
        f"when the leader is lost another one can take {needed_ms} ms to be found, but workers stop their groups after "
        f"{left_ms} ms (deployment.config.heartbeatInterval x heartbeatMaxRetry); shorten "
        "cluster.config.strategyConfig.heartbeatInterval or heartbeatMaxRetry, or let workers wait longer"
    )
