"""Running a job: its attempts as processes, the time they may take, and what becomes of them, for the history."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from spdist.clock import Clock, SystemClock
from spdist.errors import ErrorKind, NotebookError
from spdist.headless.job import Failure, Order, Report
from spdist.headless.signals import INTERRUPT_S, grace_s
from spdist.jobs.history import History
from spdist.jobs.locks import FileLock
from spdist.jobs.runs import FAILURES, JobRun, RunState, RunTrigger, notebook_name, outcome, summary
from spdist.jobs.settings import Job

__all__ = ["RunningJob", "begin_by_hand"]

_log = logging.getLogger(__name__)

_POLL_S = 0.1
#: What the process of a notebook needs to end once its kernel has, s.
_MARGIN_S = 10.0


class RunningJob:
    """A run that has begun in the history, and goes on in a thread of its own.

    Parameters
    ----------
    job : Job
        What runs.
    run : JobRun
        As it stands in the history.
    lock : FileLock
        The job's; it is let go of at the end.
    history : History
        What is told how it stands.
    clock : Clock
        What time it is.
    tell : callable
        What is called, in the same thread, at the end of a run that failed.
    """

    def __init__(
        self,
        job: Job,
        run: JobRun,
        lock: FileLock,
        *,
        history: History,
        clock: Clock,
        tell: Callable[[Job, JobRun], None],
    ) -> None:
        self.job = job
        #: How it stands.
        self.run = run
        self._lock = lock
        self._history = history
        self._clock = clock
        self._tell = tell
        self._patience_s = grace_s() + INTERRUPT_S + _MARGIN_S
        self._stops = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._go, name=f"spdist-job-{job.name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end: the notebook finishes what it does and is saved. Each further call hurries."""
        self._stops += 1
        self._stopped.set()

    def wait(self, timeout_s: float) -> bool:
        """Return whether it has ended, within so many seconds."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _go(self) -> None:
        try:
            while self._attempt() and not self._stopped.wait(self.job.retry_pause_ms / 1000):
                pass
        except Exception as error:  # a full disk, no more processes: the scheduler goes on
            _log.exception("job %s: could not be run", self.job.name)
            failure = Failure(type(error).__name__, str(error))
            self.run = replace(self.run, state=RunState.FAILED, failure=failure)
        self._end()

    def _attempt(self) -> bool:
        """Run the notebook once, and return whether it is to be run again."""
        number, began_ms = self.run.attempts + 1, self.run.started_ms or 0
        notebook = f"{self.job.folder(began_ms)}/{notebook_name(began_ms, number)}"
        self.run = replace(self.run, attempts=number, notebook=notebook)
        # Before the process is there: the history names notebook and log also where the run is cut off.
        self._history.update(self.run)
        code, report, asked = self._process(self._history.directory / notebook)
        state, failure = outcome(report, code, asked, self.job.timeout_ms)
        self.run = replace(
            self.run, state=state, exit_code=code, failure=failure, value=None if report is None else report.value
        )
        again = state in FAILURES and number <= self.job.retries and not self._stops
        if again:
            pause_s = self.job.retry_pause_ms / 1000
            _log.warning("job %s: attempt %d %s; again in %g s", self.job.name, number, summary(self.run), pause_s)
            # It goes on: cut off in the pause, it has to be found as interrupted.
            self.run = replace(self.run, state=RunState.RUNNING)
            self._history.update(self.run)
        return again

    def _end(self) -> None:
        # It was stopped in the pause before another attempt.
        state = RunState.STOPPED if self.run.state is RunState.RUNNING else self.run.state
        self.run = replace(self.run, state=state, ended_ms=self._clock.now_ms())
        failed = state in FAILURES
        level = logging.ERROR if failed else logging.INFO
        _log.log(level, "job %s: %s; %s", self.job.name, summary(self.run), self._history.directory / self.run.notebook)
        try:
            self._history.update(self.run)
        except NotebookError as error:
            _log.error("job %s: how it ended is not in the history: %s", self.job.name, error.message)
        # Not before its end is written: what stands as running, and whose lock is free, counts as interrupted.
        self._lock.close()
        # Without the lock: a slow webhook must not keep the job from running again.
        if failed:
            self._tell(self.job, self.run)

    def _process(self, output: Path) -> tuple[int, Report | None, RunState | None]:
        """Run the notebook as a process; return its exit code, what it says of itself, and why it was asked to end."""
        output.parent.mkdir(parents=True, exist_ok=True)
        order = Order(str(self.job.notebook), str(output), dict(self.job.parameters))
        with output.with_suffix(".log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "spdist.headless.job"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # Ctrl-C is for the scheduler, which then asks
                pass_fds=(self._lock.descriptor,),  # the lock ends with the last of both processes
            )
        try:
            return self._awaited(process, json.dumps({"parent": os.getpid(), **asdict(order)}))
        finally:
            process.kill()  # is nothing to one that has ended

    def _awaited(self, process: subprocess.Popen[str], order: str) -> tuple[int, Report | None, RunState | None]:
        """Give a process its order, and wait until it has ended, by itself, when it was asked, or by force."""
        given: str | None = order
        ends = time.monotonic() + self.job.timeout_ms / 1000 if self.job.timeout_ms else float("inf")
        asked: RunState | None = None
        sent = 0
        while True:
            try:
                said, _ = process.communicate(given, timeout=_POLL_S)
                return process.returncode, Report.read(said), asked
            except subprocess.TimeoutExpired:
                # `communicate` takes input once, and goes on writing what is left of it.
                given = None
            now = time.monotonic()
            if self._stops and asked is None:
                asked = RunState.STOPPED
            elif now >= ends and asked is None:
                asked = RunState.TIMEOUT
            elif now >= ends:
                process.kill()
            # A SIGTERM for each time that it was asked: each climbs one step of the engine's ladder.
            # After each there is time for all of its steps.
            if sent < self._stops + (asked is RunState.TIMEOUT):
                process.send_signal(signal.SIGTERM)
                sent, ends = sent + 1, now + self._patience_s


def begin_by_hand(job: Job, history: History, clock: Clock | None = None) -> RunningJob:
    """Begin a run of a job, of one attempt, and return it, not started yet; no webhook is told of it.

    Raises
    ------
    NotebookError
        The job runs, or the history cannot be used.
    """
    clock = clock or SystemClock()
    with history.changing() as change:
        lock = change.lock(job.name)
        if lock is None:
            hint = f"`spdist schedule history {job.name}` shows since when"
            raise NotebookError(f"the job {job.name!r} is still running", hint=hint, code=ErrorKind.JOBS)
        run = JobRun(0, job.name, RunState.RUNNING, RunTrigger.HAND, started_ms=clock.now_ms())
        run = change.add(run, job.keep)
    once = replace(job, retries=0)
    return RunningJob(once, run, lock, history=history, clock=clock, tell=lambda job, run: None)
