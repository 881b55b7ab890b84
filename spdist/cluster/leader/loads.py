"""What each group instance takes of its worker: from the figures in heartbeats to one smoothed number. Pure.

An instance takes as much as the scarcest of three things: the share of time in which its query is busy with a batch,
its events against what a core gets through, its memory against what the worker may use. A figure of one heartbeat says
little, batches come in bursts; so it is averaged over about a minute, and forgotten at that pace.

Source: dominant resource fairness (Ghodsi et al., NSDI 2011) for comparing different resources by the scarcest.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass

from spdist.cluster.protocol.reports import GroupPhase, GroupReport, WorkerReport

__all__ = ["Load", "Loads"]

#: Over how long a load is averaged, and for how long an instance must have run where it is to be moved because of it.
_SMOOTH_MS = 60_000
#: Reports closer together say nothing: a batch takes about that long.
_APART_MS = 1_000
#: Events a second that keep a core busy, about: an app that does little with each.
_CORE_EVENTS_S = 100_000
#: An instance that does nothing still wakes to look for events.
_IDLE = 0.05


@dataclass(frozen=True, slots=True)
class Load:
    """What an instance takes.

    Parameters
    ----------
    share : float
        Of a core, or of a worker's memory if that is more; > 0.
    steady : bool
        Its present run was watched for long enough to rely on it.
    """

    share: float
    steady: bool


@dataclass(slots=True)
class _Watched:
    """One instance: its present run, the counters when last looked at; the average of all runs, and their time."""

    run: tuple[str, str, int, str]
    since_ms: int
    at_ms: int
    batches: float
    events: float
    watched_ms: int = 0
    share: float | None = None


class Loads:
    """The loads of all instances that run.

    State
    -----
    A few numbers for each instance: O(instances). A new leader begins with none.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, _Watched] = {}

    def note(self, report: WorkerReport, now_ms: int) -> None:
        """Take in the figures of a heartbeat."""
        limit = report.memory.limit if report.memory is not None else 0
        for group in report.groups:
            if group.state is GroupPhase.RUNNING and "batches" in group.metrics:
                self._note(report, group, limit, now_ms)

    def of(self, name: str) -> Load | None:
        """Return what an instance takes, None where that is not known."""
        watched = self._by_name.get(name)
        if watched is None or watched.share is None:
            return None
        return Load(watched.share, watched.at_ms - watched.since_ms >= _SMOOTH_MS)

    def keep(self, names: Container[str]) -> None:
        """Forget all instances but these."""
        self._by_name = {name: watched for name, watched in self._by_name.items() if name in names}

    def _note(self, report: WorkerReport, group: GroupReport, limit: int, now_ms: int) -> None:
        run = report.id, report.incarnation, report.ready_epoch, group.fingerprint
        batches, events = group.metrics["batches"], group.metrics.get("eventsIn", 0.0)
        watched = self._by_name.get(group.name)
        # A counter that has fallen shows another start of the same query
        if watched is None or watched.run != run or batches < watched.batches or events < watched.events:
            before = (0, None) if watched is None else (watched.watched_ms, watched.share)
            self._by_name[group.name] = _Watched(run, now_ms, now_ms, batches, events, *before)
            return
        past_ms = now_ms - watched.at_ms
        if past_ms < _APART_MS:
            return
        # Only the last batch's duration is known, ms: it stands for all since the last look
        busy = (batches - watched.batches) * group.metrics.get("batchMs", 0.0) / past_ms
        rate = (events - watched.events) * 1000 / past_ms / _CORE_EVENTS_S
        memory = group.metrics.get("memoryBytes", 0.0) / limit if limit else 0.0
        share = max(_IDLE, min(1.0, busy), rate, memory)
        watched.watched_ms += past_ms
        # The plain mean of what was seen until that is more than what is forgotten.
        weight = max(past_ms / watched.watched_ms, 1 - math.exp(-past_ms / _SMOOTH_MS))
        known = share if watched.share is None else watched.share
        watched.share = known + weight * (share - known)
        watched.at_ms, watched.batches, watched.events = now_ms, batches, events
