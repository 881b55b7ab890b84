"""The group instances of one worker: started, stopped and killed in threads of their own: none waits for another."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from spdist.cluster.protocol.messages import GroupPhase, GroupReport
from spdist.cluster.workers.state import StartGroup
from spdist.errors import SpdistError
from spdist.logs import about
from spdist.planning.topology import Assignment
from spdist.transports.base import NO_CLOCK

__all__ = ["READY", "HostedGroup", "Launcher", "Readiness", "Runtime", "RuntimeStatus", "metrics_of"]

_log = logging.getLogger("spdist.cluster.worker")
#: How long a group may take to finish its batch before it is killed.
_STOP_S = 30.0
#: Streams of one group whose rejected messages are told of each; of more the sum is. A report bounds its figures.
_MOST_STREAMS = 50


class RuntimeStatus(Protocol):
    """What a runtime tells of itself; `spdist.runtime.group.GroupStatus` has it."""

    @property
    def state(self) -> str:
        """STARTING, RUNNING (a batch was committed), STOPPED or FAILED."""
        ...

    @property
    def error(self) -> str | None:
        """Why it FAILED, or what is wrong while it runs."""
        ...

    @property
    def waiting(self) -> str | None:
        """What it waits for: a server that a source or a sink needs, an event that takes long."""
        ...

    @property
    def batches(self) -> int:
        """Batches committed since it started."""
        ...

    @property
    def events_in(self) -> int:
        """Events read since it started."""
        ...

    @property
    def events_out(self) -> int:
        """Events published since it started."""
        ...

    @property
    def clock(self) -> int | None:
        """Its engine clock: ms since epoch; None or `NO_CLOCK` before it has one."""
        ...

    @property
    def lag(self) -> int | None:
        """Records of its topics that it has not read yet; None where that is not known."""
        ...

    @property
    def rejected(self) -> Mapping[str, int]:
        """How many messages of others could not be read since it started, by stream."""
        ...

    @property
    def batch_ms(self) -> int:
        """Duration of its last batch, ms."""
        ...

    @property
    def state_bytes(self) -> int:
        """Bytes of its stored state."""
        ...

    @property
    def memory_bytes(self) -> int:
        """Size of the process with its live state."""
        ...

    @property
    def state_rows(self) -> int:
        """Rows that its state holds, about."""
        ...

    @property
    def last_revision_ms(self) -> int | None:
        """When its newest revision was taken, ms since epoch; None where it has none."""
        ...


class Runtime(Protocol):
    """One group instance that runs here; `spdist.runtime.group.GroupRuntime` is one."""

    def start(self) -> None:
        """Begin; returns immediately."""
        ...

    def status(self) -> RuntimeStatus:
        """Return how it is doing; quick."""
        ...

    def stop(self, timeout_s: float) -> object:
        """Finish and commit the running batch, then end."""
        ...

    def kill(self) -> None:
        """End now."""
        ...


#: Makes the runtime of an assignment, not yet started. May block, may raise.
Launcher = Callable[[Assignment], Runtime]


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether groups can run here.

    Parameters
    ----------
    ready : bool
        What groups need, a Spark session, is up.
    epoch : int
        How often it has come up so far.
    reason : str
        Why it is not up; empty if it is.
    warm : bool
        What groups load at their start has been loaded once.
    """

    ready: bool
    epoch: int
    reason: str = ""
    warm: bool = True


#: Of a worker whose groups need nothing.
READY = Readiness(ready=True, epoch=1)


class HostedGroup:
    """One group instance of this worker, from the order to run it until it has ended. Safe from several threads.

    It is WAITING until `start` is called.

    Parameters
    ----------
    order : StartGroup
        What to run.
    launcher : callable
        Makes its runtime.
    changed : callable
        Called, from any thread, when it has ended or failed to start.
    """

    def __init__(self, order: StartGroup, launcher: Launcher, changed: Callable[[], None]) -> None:
        self.assignment = order.assignment
        self._fingerprint = order.fingerprint
        self._launcher = launcher
        self._changed = changed
        self._lock = threading.Lock()
        self._runtime: Runtime | None = None
        self._error = ""
        #: why it is not started yet
        self.waits = ""
        self._started = False
        self._ending = False
        self._killing = False
        self._ended = threading.Event()

    @property
    def name(self) -> str:
        """The instance's name."""
        return self.assignment.name

    @property
    def about(self) -> dict[str, str]:
        """What records of the log say of it."""
        return {"app": self.assignment.app, "group": self.name}

    @property
    def to_be_started(self) -> bool:
        """True until `start` or an order to end it."""
        return not self._started and not self._ending

    def report(self) -> GroupReport:
        """Return the instance as it is now."""
        state, error, metrics = self._observe()
        return GroupReport(self.name, self.assignment.app, state, self._fingerprint, error, metrics)

    def _observe(self) -> tuple[GroupPhase, str, dict[str, float]]:
        with self._lock:
            runtime = self._runtime
        # Before the end is looked at: what could not be killed must show as FAILED, not as STOPPED
        if self._error:
            return GroupPhase.FAILED, self._error, {}
        if self._ended.is_set():
            return GroupPhase.STOPPED, "", {}
        if self._ending:
            return GroupPhase.STOPPING, "", {}
        if not self._started:
            return GroupPhase.WAITING, self.waits, {}
        # Its launcher has not returned it yet: that waits for Spark
        if runtime is None:
            return GroupPhase.STARTING, "", {}
        try:
            status = runtime.status()
        except Exception as error:
            _log.exception("group %s does not tell how it is", self.name, extra=self.about)
            return GroupPhase.FAILED, _sentence(error), {}
        metrics = metrics_of(status)
        # Not by an order, which shows above as an end or as STOPPING
        if status.state == "STOPPED":
            return GroupPhase.FAILED, "its query ended by itself", metrics
        return GroupPhase(status.state), status.error or status.waiting or "", metrics

    # ----------------------------------------------------------------------------------------------------------- orders
    def start(self) -> None:
        """Start it; returns immediately."""
        self._started = True
        self._in_thread("start", self._start)

    def stop(self) -> None:
        """Let it finish its batch, then end; returns immediately. What does not end in time is killed."""
        with self._lock:
            if self._ending:
                return
            self._ending = True
        self._in_thread("stop", self._stop)

    def stop_for(self, work: Callable[[], None]) -> bool:
        """Stop it, do `work`, and only then be STOPPED, so that nobody starts it again meanwhile; waits for all that.

        Returns
        -------
        bool
            False if it is ending anyway; then nothing was done.
        """
        with self._lock:
            if self._ending or self._error:
                return False
            self._ending = True
        try:
            if self._runtime is not None:
                self._runtime.stop(_STOP_S)
            work()
        finally:
            self._end()
        return True

    def kill(self) -> None:
        """End it now, its batch unfinished; returns immediately. May be called again, and while it is being stopped."""
        with self._lock:
            if self._killing:
                return
            self._ending = self._killing = True
        self._in_thread("kill", self._kill)

    def ended(self, timeout_s: float) -> bool:
        """Return True when it has ended, False if it has not after `timeout_s`."""
        return self._ended.wait(timeout_s)

    # ---------------------------------------------------------------------------------------------------------- threads
    def _in_thread(self, what: str, work: Callable[[], None]) -> None:
        def act() -> None:
            with about(**self.about):
                work()

        threading.Thread(target=act, name=f"spdist-{what}-{self.name}", daemon=True).start()

    def _start(self) -> None:
        try:
            runtime = self._launcher(self.assignment)
            with self._lock:
                if self._ending:  # the order to end it came while it was being made
                    return
                self._runtime = runtime
                # Under the lock: an order to end it finds it not begun, or begun, and never in between
                runtime.start()
        except Exception as error:
            self._error = _sentence(error)
            _log.error("group %s did not start: %s", self.name, self._error)
            self._changed()

    def _stop(self) -> None:
        runtime = self._runtime
        if runtime is not None:
            try:
                runtime.stop(_STOP_S)
            except Exception as error:
                _log.warning("group %s did not stop, so it is killed: %s", self.name, _sentence(error))
                self.kill()
                return
        self._end()

    def _kill(self) -> None:
        runtime = self._runtime
        if runtime is not None and not self._ended.is_set():
            try:
                runtime.kill()
            except Exception as error:
                # Still, its next append is refused once another owner has the shard.
                _log.exception("group %s could not be killed", self.name)
                self._error = f"it could not be killed: {_sentence(error)}"
        self._end()

    def _end(self) -> None:
        self._ended.set()
        self._changed()


def metrics_of(status: RuntimeStatus) -> dict[str, float]:
    """Return the figures that are known, under the names that the REST interface shows."""
    figures = {
        "batches": status.batches,
        "eventsIn": status.events_in,
        "eventsOut": status.events_out,
        "clock": None if status.clock == NO_CLOCK else status.clock,
        "lag": status.lag,
        "batchMs": status.batch_ms,
        "stateBytes": status.state_bytes,
        "memoryBytes": status.memory_bytes,
        "stateRows": status.state_rows,
        "lastRevision": status.last_revision_ms,
    }
    figures["rejected"] = sum(status.rejected.values())
    if len(status.rejected) <= _MOST_STREAMS:
        figures |= {f"rejected.{stream}": count for stream, count in status.rejected.items()}
    return {name: float(value) for name, value in figures.items() if value is not None}


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, SpdistError) else f"{type(error).__name__}: {error}"
