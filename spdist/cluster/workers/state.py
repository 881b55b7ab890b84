"""The state of a worker: which answers it obeys, what it must run, and when it has to stop by itself. Pure.

The worker's side of the protocol that `spdist.cluster.protocol.messages` describes. The shell (`spdist.cluster.worker`)
sends what `WorkerState.next_report` returns, hands in the answer, and carries out what `WorkerState.reconcile` returns:
after every answer, whenever a group changes its state, and at `WorkerState.fence_at_ms` at the latest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from spdist.cluster.protocol.messages import (
    AnswerHeartbeat,
    GroupPhase,
    GroupReport,
    JoinedState,
    WorkerReport,
    WorkerTiming,
    fingerprint,
)
from spdist.planning.topology import Assignment

__all__ = ["ForgetGroup", "KillGroup", "StartGroup", "StopGroup", "WorkerInstruction", "WorkerState"]


@dataclass(frozen=True, slots=True)
class StartGroup:
    """Start this instance; report it as STARTING with this fingerprint immediately."""

    assignment: Assignment
    fingerprint: str


@dataclass(frozen=True, slots=True)
class StopGroup:
    """Let the instance finish and commit its batch, then end it; report it as STOPPING, then STOPPED."""

    name: str


@dataclass(frozen=True, slots=True)
class KillGroup:
    """End the instance now, its batch unfinished: it must be dead within the margin of `WorkerTiming`."""

    name: str


@dataclass(frozen=True, slots=True)
class ForgetGroup:
    """Drop an instance that has ended: it is reported no more."""

    name: str


WorkerInstruction = StartGroup | StopGroup | KillGroup | ForgetGroup


class WorkerState:
    """What one worker process knows of the leader's will.

    Parameters
    ----------
    id : str
        ``wso2.carbon.id``.
    url : str
        Base URL at which others reach this worker.
    is_receiver : bool
        ``isReceiverNode``.
    incarnation : str
        A new random name for every start of the process.

    State
    -----
    The assignments of the last answer: O(groups of this worker).
    """

    def __init__(self, id: str, url: str, is_receiver: bool, incarnation: str) -> None:
        self.id = id
        self.url = url
        self.is_receiver = is_receiver
        self.incarnation = incarnation
        self.known_term = 0
        #: why the leader does not want this worker; empty while it does
        self.rejected = ""
        self.timing: WorkerTiming | None = None
        self._sequence = 0
        self._sent_ms = 0
        self._fence_at_ms: int | None = None
        self._outlived = False  #: the fence was due when the last answer came: what runs may have been given away
        self._desired: dict[str, StartGroup] = {}

    @property
    def fence_at_ms(self) -> int | None:
        """When everything here is to be stopped unless an answer comes (steady ms); None before the first answer."""
        return self._fence_at_ms

    @property
    def desired(self) -> tuple[str, ...]:
        """Names of the instances this worker shall run, in the leader's order."""
        return tuple(self._desired)

    def assignments(self) -> tuple[Assignment, ...]:
        """Return the assignments of the last answer, in its order; none where the fence has ended them."""
        return tuple(start.assignment for start in self._desired.values())

    def next_report(
        self,
        groups: Iterable[GroupReport],
        now_ms: int,
        *,
        leaving: bool = False,
        metrics: Mapping[str, float] | None = None,
    ) -> WorkerReport:
        """Return the heartbeat to send now. Answers to earlier ones will be ignored from here on.

        What the fence should have ended by now is STOPPING, whether or not anybody has looked at the fence: it may run
        elsewhere, and a new leader must not leave it here.

        Parameters
        ----------
        groups : iterable of GroupReport
            The instances as they are **now**.
        now_ms : int
            The steady clock, read before the heartbeat is sent.
        leaving : bool
            The process is shutting down.
        metrics : mapping of str to float, optional
            WSO2's ``workerMetrics``.
        """
        self._sequence += 1
        self._sent_ms = now_ms
        if self._is_due(now_ms):
            self._outlived, self._desired = True, {}
        return WorkerReport(
            id=self.id,
            url=self.url,
            is_receiver=self.is_receiver,
            incarnation=self.incarnation,
            sequence=self._sequence,
            known_term=self.known_term,
            groups=self._with_wanted(self.served(groups, now_ms)),
            leaving=leaving,
            metrics=metrics or {},
        )

    def served(self, groups: Iterable[GroupReport], now_ms: int) -> list[GroupReport]:
        """Return the instances as others may count on them: STOPPING where the fence should have ended them by now."""
        due = self._is_due(now_ms)
        return [replace(g, state=GroupPhase.STOPPING) if due and g.state.alive else g for g in groups]

    def _with_wanted(self, groups: Iterable[GroupReport]) -> tuple[GroupReport, ...]:
        """Add what may be started before the answer comes: the leader must not take it for absent and give it away."""
        out = {g.name: g for g in groups}
        for name, start in self._desired.items():
            seen = out.get(name)
            if seen is None or self._restarts(seen, start):
                out[name] = GroupReport(name, start.assignment.app, GroupPhase.STARTING, start.fingerprint)
        return tuple(out.values())

    def _is_due(self, now_ms: int) -> bool:
        """Tell whether the fence is due: no leader may count on what runs here."""
        return self._fence_at_ms is not None and now_ms >= self._fence_at_ms

    @staticmethod
    def _restarts(seen: GroupReport, wanted: StartGroup) -> bool:
        """Return True if an instance that has ended is to be started again without asking the leader."""
        failed = seen.state is GroupPhase.FAILED and seen.fingerprint == wanted.fingerprint
        return not seen.state.alive and not failed

    def on_answer(self, answer: AnswerHeartbeat, now_ms: int) -> bool:
        """Take in the leader's answer; to be followed by `reconcile`.

        Returns
        -------
        bool
            False if it is not to be obeyed: it answers an earlier heartbeat, comes from a leadership that has been
            succeeded, or comes so late that the leader may already count this worker as gone.
        """
        if answer.worker != self.id or answer.sequence != self._sequence or answer.term < self.known_term:
            return False
        fence_at_ms = self._sent_ms + answer.timing.fence_after_ms
        if now_ms >= fence_at_ms:
            return False
        self.known_term = answer.term
        # A machine that stood still may hear from the leader before anybody has looked at the fence.
        self._outlived = self._outlived or self._is_due(now_ms)
        if answer.joined is JoinedState.REJECTED:
            self.rejected = answer.reason
            # Nothing may run under an id that another process has: the fence is due now
            self._fence_at_ms = now_ms
            return True
        self.rejected = ""
        self.timing = answer.timing
        self._fence_at_ms = fence_at_ms
        self._desired = {a.name: StartGroup(a, fingerprint(a)) for a in answer.assignments}
        return True

    def end_now(self, now_ms: int) -> None:
        """Bring the fence forward to `now_ms`, as somebody else may run what is here; to be followed by `reconcile`."""
        # Without one no answer has come yet, and nothing runs
        if self._fence_at_ms is not None:
            self._fence_at_ms = min(self._fence_at_ms, now_ms)

    def reconcile(self, observed: Iterable[GroupReport], now_ms: int) -> list[WorkerInstruction]:
        """Return what to do so that the instances here become what the leader wants. May be called at any time.

        A changed instance is stopped first and started by a later call, when it has ended. What the fence should have
        ended is killed, though a leader has answered since: it may run elsewhere by now. An instance that FAILED is
        left as it is: the leader decides whether it is tried again (and first has it forgotten).

        Parameters
        ----------
        observed : iterable of GroupReport
            The instances as they are now.
        now_ms : int
            The steady clock.
        """
        if self._is_due(now_ms):
            self._desired = {}
            return [KillGroup(g.name) if g.state.alive else ForgetGroup(g.name) for g in observed]
        out: list[WorkerInstruction] = []
        missing = dict(self._desired)
        for group in observed:
            wanted = self._desired.get(group.name)
            if group.state.alive:
                missing.pop(group.name, None)
                unwanted = wanted is None or wanted.fingerprint != group.fingerprint
                if self._outlived:
                    out.append(KillGroup(group.name))
                elif unwanted and group.state is not GroupPhase.STOPPING:
                    out.append(StopGroup(group.name))
            elif wanted is None or self._restarts(group, wanted):
                out.append(ForgetGroup(group.name))
            else:
                missing.pop(group.name)
        self._outlived = False
        return [*out, *missing.values()]
