"""What keeps a worker's groups in line with the leader's will: `WorkerState` with the groups it decides about.

Two threads use it, the heartbeat's and the one that tends the groups. It waits for nothing, neither for Spark nor for
the network, so that a fence is never late.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping

import psutil

from spdist.clock import Clock
from spdist.cluster.hosting import HostedGroup, Launcher
from spdist.cluster.messages import AnswerHeartbeat, GroupPhase, GroupReport, WorkerReport
from spdist.cluster.worker_state import ForgetGroup, KillGroup, StartGroup, StopGroup, WorkerInstruction, WorkerState
from spdist.errors import NotFoundError, StaleTermError

__all__ = ["Keeper", "node_metrics"]

_log = logging.getLogger("spdist.cluster.worker")


class Keeper:
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
    """

    def __init__(self, state: WorkerState, launcher: Launcher, clock: Clock, changed: Callable[[], None]) -> None:
        self._state = state
        self._launcher = launcher
        self._clock = clock
        self._changed = changed
        self._groups: dict[str, HostedGroup] = {}
        self._lock = threading.RLock()
        self._fenced = False
        self._leaving = False
        self._last_words = False
        #: True once a leader has taken note that this worker leaves and runs nothing any more
        self.said_goodbye = False
        self._seen: dict[str, GroupPhase] = {}

    # ------------------------------------------------------------------------------------------------- heartbeat's side
    def next_report(self, *, leaving: bool = False) -> WorkerReport:
        """Return the heartbeat to send now."""
        with self._lock:
            report = self._state.next_report(
                self.reports(), self._clock.steady_ms(), leaving=leaving, metrics=node_metrics()
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
            return obeyed

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
            before, self._seen = self._seen, {report.name: report.state for report in reports}
            return before != self._seen

    def due_in_ms(self) -> int | None:
        """Return in how many ms `tend` is due at the latest, because of the fence; None if there is none ahead."""
        with self._lock:
            fence_at_ms = self._state.fence_at_ms
            return None if fence_at_ms is None or self._fenced else max(0, fence_at_ms - self._clock.steady_ms())

    def _execute(self, instruction: WorkerInstruction) -> None:
        match instruction:
            case StartGroup(assignment):
                _log.info("group %s is started", assignment.name)
                group = HostedGroup(instruction, self._launcher, self._changed)
                self._groups[assignment.name] = group
                group.start()
            case StopGroup(name):
                _log.info("group %s is stopped", name)
                self._groups[name].stop()
            case KillGroup(name):
                self._groups[name].kill()
            case ForgetGroup(name):
                del self._groups[name]

    # ------------------------------------------------------------------------------------------------------- for others
    @property
    def serving(self) -> bool:
        """True while a leader is obeyed."""
        with self._lock:
            due_in_ms = self.due_in_ms()
            return due_in_ms is not None and due_in_ms > 0

    @property
    def heartbeat_interval_ms(self) -> int | None:
        """How often the leader wants to hear from this worker; None before the first answer."""
        timing = self._state.timing
        return timing.heartbeat_interval_ms if timing else None

    @property
    def known_term(self) -> int:
        """Highest term of a leader that was obeyed."""
        return self._state.known_term

    @property
    def rejected(self) -> str:
        """Why the leader does not take this worker; empty while it does."""
        return self._state.rejected

    def reports(self) -> list[GroupReport]:
        """Return all groups as they are now."""
        with self._lock:
            return [group.report() for group in self._groups.values()]

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
        if group is None or not group.stop_for(work):
            work()

    def leave(self, timeout_s: float) -> None:
        """Let all groups finish their batches, and kill what has not after `timeout_s`; nothing is started any more."""
        with self._lock:
            self._leaving = True
            groups = list(self._groups.values())
        for group in groups:
            group.stop()
        deadline_ms = self._clock.steady_ms() + int(timeout_s * 1000)
        for group in groups:
            if not group.ended(max(0, deadline_ms - self._clock.steady_ms()) / 1000):
                _log.warning("group %s did not finish its batch in %g s and is killed", group.name, timeout_s)
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


_SELF = psutil.Process()
