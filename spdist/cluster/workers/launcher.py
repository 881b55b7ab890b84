"""How a worker makes its groups: one Spark session for all, started in the background and again whenever it ends."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spdist.clock import Clock
from spdist.cluster.leader.instances import RestartPolicy
from spdist.cluster.workers.hosting import Readiness, Runtime
from spdist.config import Config
from spdist.errors import EngineError, StateError
from spdist.planning.topology import Assignment

if TYPE_CHECKING:
    from spdist.engine.spark.session import SparkHost

__all__ = ["SparkLauncher"]

_log = logging.getLogger("spdist.cluster.worker")
# It tells of every connection that is closed, in the notebook of the worker.
logging.getLogger("py4j").setLevel(logging.WARNING)
#: How often it is seen whether the JVM still runs.
_LOOK_S = 0.2
#: A worker that gets groups by then is warmed up by those.
_WARM_AFTER_S = 2.0
#: How long the end of a worker waits for one that is just being warmed up.
_WARM_END_S = 5.0
#: A Spark that ended more often than this, with less than ten minutes of work after each start, ends the worker.
_RESTARTS = RestartPolicy(max_restarts=3, first_delay_ms=1_000, max_delay_ms=30_000, forgive_after_ms=600_000)


class SparkLauncher:
    """Makes runtimes of group instances, which share this process's Spark session.

    Parameters
    ----------
    config : Config
        Spark, topics and state of this worker.
    clock : Clock
        Its steady reading only.
    changed : callable
        Called with whether the session has come up (or ended), before the groups that wait for it go on.
    """

    def __init__(self, config: Config, clock: Clock, changed: Callable[[bool], None]) -> None:
        self._config = config
        self._clock = clock
        self._changed = changed
        self._up = threading.Condition()
        self._readiness = Readiness(ready=False, epoch=0, reason="its Spark is starting")
        self._closed = threading.Event()
        self._host: SparkHost | None = None
        #: Whether a group has come since Spark ended last.
        self._used = False
        self._warming: threading.Thread | None = None

    def readiness(self) -> Readiness:
        """Return whether groups can be started without delay."""
        host, known = self._host, self._readiness
        # Groups learn from their own connections that the JVM has gone; they must not tell it before this worker does.
        why = host.why_gone() if known.ready and host is not None else ""
        return Readiness(ready=False, epoch=known.epoch, reason=_sentence(why)) if why else known

    @property
    def copies(self) -> Path | None:
        """A directory for copies of states, which goes with Spark; None while that is not up."""
        host = self._host
        with contextlib.suppress(EngineError):
            return None if host is None else host.copies
        return None

    def keep_up(self) -> None:
        """Start Spark, and start it again when it has ended; returns when `close` is called.

        Raises
        ------
        EngineError
            It cannot be started here, or ends again and again; says why.
        """
        from spdist.engine.spark.session import SparkHost

        self._await_place()
        quick = self._config.spark.optimize_for == "start"
        self._host = host = SparkHost(self._config, archives=quick)
        failures = 0
        while not self._closed.is_set():
            began_ms = self._clock.steady_ms()
            host.start()
            self._tell(Readiness(ready=True, epoch=self._readiness.epoch + 1, warm=False))
            warming = threading.Thread(
                target=self._warm_up, args=(host, self._readiness), name="spdist-warming", daemon=True
            )
            warming.start()
            self._warming = warming  # only now: `close` waits for its end, which takes a thread that was started
            if not (why := self._await_end(host)):
                host.stop()  # also one that came up while `close` had nothing to stop
                return
            self._used = False
            if self._clock.steady_ms() - began_ms >= _RESTARTS.forgive_after_ms:
                failures = 0
            failures += 1
            self._tell(Readiness(ready=False, epoch=self._readiness.epoch, reason=_sentence(why)))
            if failures > _RESTARTS.max_restarts:
                raise EngineError(
                    f"the Spark of worker {self._config.carbon.id} ended {failures} times, lastly: {why}",
                    hint="its log says more; a JVM that is killed often needs memory that the machine does not have "
                    "(spark.driverMemory, spark.memoryLimit)",
                )
            _log.error("%s", self._readiness.reason)
            host.stop()
            self._closed.wait(_RESTARTS.delay_ms(failures) / 1000)

    def _await_place(self) -> None:
        """Return when the place of states is seen to keep two owners of one apart, which not every bucket does."""
        from spdist.engine.shards.places import check_fence, place_of

        failures = 0
        while not self._closed.is_set():
            try:
                check_fence(place_of(self._config.state_persistence.location))
                return
            except StateError as error:
                failures += 1
                why = f"no group is started here: {error.message}"
                if self._readiness.reason != why:
                    _log.error("%s", f"{why}: {error.hint}" if error.hint else why)
                self._tell(Readiness(ready=False, epoch=0, reason=why))
            self._closed.wait(_RESTARTS.delay_ms(failures) / 1000)

    def __call__(self, assignment: Assignment) -> Runtime:
        """Return the runtime of `assignment`, not yet started; waits until Spark is up.

        Raises
        ------
        EngineError
            The worker ends instead.
        """
        from spdist.runtime.command_topics import commanded
        from spdist.runtime.realtime import runtime_of

        self._used = True
        with self._up:
            self._up.wait_for(lambda: self._readiness.ready or self._closed.is_set())
            host = self._host
        if self._closed.is_set() or host is None:
            raise EngineError(f"group {assignment.name} is not started: its worker ends")
        host.has_run = True
        return runtime_of(commanded(assignment), host, self._config.carbon.id)

    def close(self) -> None:
        """End Spark, once it has come up; what still runs ends with it."""
        self._closed.set()
        with self._up:
            self._up.notify_all()
        if (warming := self._warming) is not None:
            warming.join(_WARM_END_S)
        if self._host is not None:
            self._host.stop()

    def _warm_up(self, host: SparkHost, cold: Readiness) -> None:
        """Have Spark load what groups need, where there are none: of a worker that fails they come here in a hurry."""
        try:
            if not self._closed.wait(_WARM_AFTER_S) and not self._used:
                from spdist.runtime.warm_up import warm_up

                host.has_run |= warm_up(host, self._closed)
        except Exception as error:
            if not self._closed.is_set():
                _log.warning("the first group here will start slowly: %s", error)
        with self._up:
            # Another one by now where Spark has ended meanwhile, or has begun anew and is as cold
            if self._readiness is cold:
                self._readiness = replace(cold, warm=True)

    def _await_end(self, host: SparkHost) -> str:
        """Return why the session has ended, nothing if the worker ends before."""
        while not self._closed.wait(_LOOK_S):
            if why := host.why_ended():
                return why
        return ""

    def _tell(self, readiness: Readiness) -> None:
        self._changed(readiness.ready)
        with self._up:
            self._readiness = readiness
            self._up.notify_all()


def _sentence(why: str) -> str:
    return f"its Spark ended and is started again: {why}"
