"""What keeps a worker's groups in line with the leader's will: `WorkerState` with the groups it decides about.

Two threads use it, the heartbeat's and the one that tends the groups. It waits for nothing, neither for Spark nor for
the network, so that a fence is never late.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import psutil

from spdist.clock import Clock
from spdist.cluster.protocol.group_lists import KnownAssignments
from spdist.cluster.protocol.messages import (
    AnswerHeartbeat,
    GroupPhase,
    GroupReport,
    MemoryReport,
    WorkerReport,
    fingerprint,
)
from spdist.cluster.workers.admission import GroupCost, Starting, StartPolicy, why_not_yet
from spdist.cluster.workers.hosting import READY, HostedGroup, Launcher, Readiness
from spdist.cluster.workers.memory import Usage
from spdist.cluster.workers.state import ForgetGroup, KillGroup, StartGroup, StopGroup, WorkerInstruction, WorkerState
from spdist.errors import NotFoundError, StaleTermError

__all__ = ["GroupSupervisor", "node_metrics"]

_log = logging.getLogger("spdist.cluster.worker")


class GroupSupervisor:
    """The groups of a worker.

    Parameters
    ----------
    state : WorkerState
        Nobody else may touch it from here on.
    launcher : callable
        Makes the runtime of a group.
    clock : Clock
        Its steady reading only.
    changed : callable
        Called when a group has ended, from any thread: `tend` has something to do.
    readiness : callable, optional
        Tells whether groups can run here; always if not given.
    policy : StartPolicy, optional
        How many groups are started at a time; all if not given.
    """

    def __init__(
        self,
        state: WorkerState,
        launcher: Launcher,
        clock: Clock,
        changed: Callable[[], None],
        *,
        readiness: Callable[[], Readiness] = lambda: READY,
        policy: StartPolicy | None = None,
    ) -> None:
        self._state = state
        self._launcher = launcher
        self._clock = clock
        self._changed = changed
        self._readiness = readiness
        self._policy = policy
        self._usage: Usage | None = None
        self._cost = GroupCost()
        self._started_ms: dict[str, int] = {}
        self._groups: dict[str, HostedGroup] = {}
        # Re-entrant: `obey` tends, and both look at the reports
        self._lock = threading.RLock()
        self._fenced = False
        self._leaving = False
        self._last_words = False
        #: True once a leader has taken note that this worker leaves and runs nothing any more
        self.said_goodbye = False
        self._seen: tuple[bool, dict[str, tuple[GroupPhase, bool]]] = True, {}

    # ------------------------------------------------------------------------------------------------- heartbeat's side
    def next_report(self, *, leaving: bool = False) -> WorkerReport:
        """Return the heartbeat to send now."""
        with self._lock:
            groups = self.reports()
            # Asked last: if a group has ended because Spark has, this says so.
            readiness = self._readiness()
            report = self._state.next_report(groups, self._clock.steady_ms(), leaving=leaving, metrics=node_metrics())
            report = replace(
                report,
                ready=readiness.ready,
                reason=readiness.reason,
                ready_epoch=readiness.epoch,
                warm=readiness.warm,
                memory=self.memory_report(report.groups),
            )
            self._last_words = leaving and not any(group.state.alive for group in report.groups)
            return report

    def obey(self, answer: AnswerHeartbeat) -> bool:
        """Take in the leader's answer and carry it out; False if it is not to be obeyed, which is logged."""
        with self._lock:
            rejected = self._state.rejected
            obeyed = self._state.on_answer(answer, self._clock.steady_ms())
            self.said_goodbye = obeyed and self._last_words
            if not obeyed:
                known = self._state.known_term
                stale = answer.term < known
                text = f"answer {answer.sequence} of term {answer.term} is not obeyed"
                reason = f"term {known} has been seen" if stale else "it came too late, or answers an earlier heartbeat"
                _log.warning("%s", StaleTermError(f"{text}: {reason}"))
            elif self._state.rejected and self._state.rejected != rejected:
                _log.error("the leader does not take this worker: %s", self._state.rejected)
            self.tend()
        # Who waits for the fence may sleep beyond the one that there is now
        self._changed()
        return obeyed

    def end_now(self) -> None:
        """Kill all groups: somebody else may run them."""
        with self._lock:
            self._state.end_now(self._clock.steady_ms())
            self.tend()

    def assignments(self) -> KnownAssignments:
        """Return the assignments that the leader need not send again."""
        with self._lock:
            listed = self._state.assignments()
            here = (*listed, *(group.assignment for group in self._groups.values()))
            return KnownAssignments(listed, {fingerprint(one): one for one in here})

    # ------------------------------------------------------------------------------------------------- groups' side
    def tend(self) -> bool:
        """Do what is due: start, stop, kill, forget. Return True if a group's state has changed since the last call."""
        with self._lock:
            now_ms = self._clock.steady_ms()
            fence_at_ms = self._state.fence_at_ms
            fenced = fence_at_ms is not None and now_ms >= fence_at_ms
            if fenced and not self._fenced and self._groups and not self._state.rejected:
                _log.error("no leader has answered in time: all %d groups are stopped here", len(self._groups))
            self._fenced = fenced
            reports = self.reports()
            for instruction in self._state.reconcile(reports, now_ms):
                # Who leaves starts nothing any more; what it has is being stopped, and killed at the fence as ever.
                if not self._leaving or isinstance(instruction, KillGroup):
                    self._execute(instruction)
            self._start_what_may(reports, now_ms)
            states = {report.name: (report.state, bool(report.error)) for report in reports}
            before, self._seen = self._seen, (self._readiness().ready, states)
            return before != self._seen

    def due_in_ms(self) -> int | None:
        """Return in how many ms `tend` is due at the latest, because of the fence; None if there is none ahead."""
        with self._lock:
            fence_at_ms = self._state.fence_at_ms
            # A fence that was carried out is no deadline: the thread that waits for it must not spin
            return None if fence_at_ms is None or self._fenced else max(0, fence_at_ms - self._clock.steady_ms())

    def _execute(self, instruction: WorkerInstruction) -> None:
        match instruction:
            case StartGroup(assignment):
                self._groups[assignment.name] = HostedGroup(instruction, self._launcher, self._changed)
            case StopGroup(name):
                _log.info("group %s is stopped", name, extra=self._groups[name].about)
                self._groups[name].stop()
            case KillGroup(name):
                self._groups[name].kill()
            case ForgetGroup(name):
                del self._groups[name]
                self._started_ms.pop(name, None)

    def _start_what_may(self, reports: list[GroupReport], now_ms: int) -> None:
        """Start the groups that wait, in their order, as far as it may be."""
        starting = [
            Starting(self._started_ms[report.name], waits=bool(report.error))
            for report in reports
            if report.state is GroupPhase.STARTING
        ]
        memory = None if self._usage is None else MemoryReport(*self._usage, self._cost.bytes)
        for name, group in self._groups.items():
            if not group.to_be_started or self._leaving:
                continue
            group.waits = "" if self._policy is None else why_not_yet(starting, memory, self._policy, now_ms)
            if not group.waits:
                _log.info("group %s is started", name, extra=group.about)
                self._started_ms[name] = now_ms
                # Counted for the next ones of this call already
                starting.append(Starting(now_ms))
                group.start()

    def note_memory(self, usage: Usage, *, fresh: bool = False) -> None:
        """Take in what this worker's processes use now; `fresh`: Spark has just come up, no group has used it yet."""
        with self._lock:
            # Groups that wait have no memory yet
            used_by = sum(not group.to_be_started for group in self._groups.values())
            self._cost.note(usage.used, 0 if fresh else used_by)
            self._usage = usage
        self._changed()

    def memory_report(self, groups: Iterable[GroupReport]) -> MemoryReport | None:
        """Return what this node uses and may use; None where it has not been measured yet."""
        if self._usage is None:
            return None
        starting = sum(group.state in (GroupPhase.WAITING, GroupPhase.STARTING) for group in groups)
        return MemoryReport(*self._usage, self._cost.bytes, starting)

    # ------------------------------------------------------------------------------------------------------- for others
    @property
    def serving(self) -> bool:
        """True while a leader is obeyed."""
        with self._lock:
            due_in_ms = self.due_in_ms()
            return due_in_ms is not None and due_in_ms > 0

    @property
    def heartbeat_interval_ms(self) -> int | None:
        """How often this worker reports to its leader; None before the first answer."""
        timing = self._state.timing
        return timing.report_interval_ms if timing else None

    @property
    def known_term(self) -> int:
        """Highest term of a leader that was obeyed."""
        return self._state.known_term

    @property
    def rejected(self) -> str:
        """Why the leader does not take this worker; empty while it does."""
        return self._state.rejected

    @property
    def readiness(self) -> Readiness:
        """Whether groups can run here."""
        return self._readiness()

    def reports(self) -> list[GroupReport]:
        """Return all groups as they are now."""
        with self._lock:
            return [group.report() for group in self._groups.values()]

    def served_reports(self) -> list[GroupReport]:
        """Return all groups as others may count on them; see `WorkerState.served`."""
        with self._lock:
            return self._state.served(self.reports(), self._clock.steady_ms())

    def age_ms(self, name: str) -> int:
        """Return how long ago a group was last told to start; 0 for one that waits or is not here."""
        with self._lock:
            return self._clock.steady_ms() - self._started_ms[name] if name in self._started_ms else 0

    def group(self, name: str) -> HostedGroup:
        """Return a group; NotFoundError if it is not here."""
        with self._lock:
            if name not in self._groups:
                raise NotFoundError(f"worker {self._state.id} has no group {name}")
            return self._groups[name]

    def while_stopped(self, name: str, work: Callable[[], None]) -> None:
        """Do `work` while a group does not run here: it finishes its batch before, and starts again afterwards.

        Raises
        ------
        Exception
            Whatever `work` raises.
        """
        with self._lock:
            group = self._groups.get(name)
        # Without the lock: a batch may take long to finish, and the fence must not wait for it
        if group is None or not group.stop_for(work):
            work()

    def leave(self, timeout_s: float) -> None:
        """Let all groups finish their batches, and kill what has not after `timeout_s`; nothing is started any more."""
        with self._lock:
            self._leaving = True
            groups = list(self._groups.values())
        for group in groups:
            # All are told before the first is waited for: they finish at the same time
            group.stop()
        deadline_ms = self._clock.steady_ms() + int(timeout_s * 1000)
        for group in groups:
            if not group.ended(max(0, deadline_ms - self._clock.steady_ms()) / 1000):
                text = "group %s did not finish its batch in %g s and is killed"
                _log.warning(text, group.name, timeout_s, extra=group.about)
                group.kill()
        for group in groups:
            group.ended(2)


def node_metrics() -> Mapping[str, float]:
    """Return WSO2's ``workerMetrics``: shares from 0 to 1, and the load average of the last minute."""
    return {
        "systemCPU": psutil.cpu_percent() / 100,
        "processCPU": _SELF.cpu_percent() / 100,
        "loadAverage": os.getloadavg()[0],
        "memoryUsage": psutil.virtual_memory().percent / 100,
    }


# One object for all calls: its cpu_percent counts since the call before
_SELF = psutil.Process()
