"""The scheduler: looks at the clock, has `due` decide, writes that to the history, and starts runs. A thin shell."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from spdist.clock import Clock, SystemClock
from spdist.errors import ErrorKind, NotebookError
from spdist.headless.signals import grace_s
from spdist.jobs.due import Action, Decision, Standing, due, next_due
from spdist.jobs.history import SCHEDULER, Change, History
from spdist.jobs.running import RunningJob
from spdist.jobs.runs import JobRun, RunState, RunTrigger, moment
from spdist.jobs.settings import Job, JobsFile
from spdist.jobs.webhook import post_failure

__all__ = ["Scheduler"]

_log = logging.getLogger(__name__)

#: A clock that was set, or a machine that has slept, is noticed so soon.
_LOOK_S = 1.0
#: Runs that somebody else has begun are looked after so often.
_OTHERS_MS = 60_000
#: How long a webhook is waited for at the end, s.
_TELL_S = 20.0
_STATES = {
    Action.START: RunState.RUNNING,
    Action.CATCH_UP: RunState.RUNNING,
    Action.SKIP: RunState.SKIPPED,
    Action.MISS: RunState.MISSED,
}


class Scheduler:
    """Runs the jobs of a file when they are due.

    Parameters
    ----------
    file : JobsFile
        The jobs.
    clock : Clock, optional
        What time it is (default: the machine's).
    tell : callable
        What is told of a run that failed.

    State
    -----
    In the history of the file's directory; in memory until when each job was decided on, and the runs that go on.
    """

    def __init__(
        self, file: JobsFile, clock: Clock | None = None, tell: Callable[[Job, JobRun], None] = post_failure
    ) -> None:
        self._jobs = {job.name: job for job in file.jobs}
        self._clock = clock or SystemClock()
        self._tell = tell
        grace_s()  # where that is wrong, the scheduler does not begin
        self._history = History(file.directory)
        self._standings: dict[str, Standing] = {}
        self._running: list[RunningJob] = []
        self._telling: list[threading.Thread] = []
        self._others_ms = 0
        self._trouble = ""

    def run(self, stop: threading.Event) -> None:
        """Run jobs until `stop` is set; then ask those that run to end, and wait for them.

        Raises
        ------
        NotebookError
            Another scheduler works in this directory, or the history cannot be used at the start.
        KeyboardInterrupt
            Never: it hurries those that run.
        """
        with contextlib.closing(self._history), self._alone():
            try:
                self._start_due()
                self._tell_plan()
                while not stop.wait(self._pause_s()):
                    self._start_due()
            # The second signal, as `stop_signal` has it: runs are asked to end all the same.
            except KeyboardInterrupt:
                pass
            finally:
                self._stop_all()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._history.changing() as change:
            lock = change.lock(SCHEDULER)
            # With the lock: from here on nobody else decides.
            self._standings = change.standings()
        if lock is None:
            raise NotebookError(
                f"another scheduler runs the jobs in {self._history.directory}",
                hint="stop that one, or give this one another schedule.directory",
                code=ErrorKind.JOBS,
            )
        with contextlib.closing(lock):
            yield

    def _pause_s(self) -> float:
        now_ms = self._clock.now_ms()
        times = [next_due(job, self._standings.get(job.name), now_ms) for job in self._jobs.values()]
        next_ms = min((time for time in times if time is not None), default=now_ms + 60_000)
        # With trouble what is due stays due, and the loop would not pause at all.
        return min(_LOOK_S, max(0.0, (next_ms - now_ms) / 1000)) if not self._trouble else _LOOK_S

    # ---------------------------------------------------------------------------------------------------------- looking
    def _start_due(self) -> None:
        """Decide on what is due, and start it; where the history cannot be used, nothing is begun."""
        now_ms = self._clock.now_ms()
        waiting = [job for job in self._jobs.values() if self._is_due(job, now_ms)]
        # Negative where the clock was put back: then it looks immediately.
        if not waiting and 0 <= now_ms - self._others_ms < _OTHERS_MS:
            return
        decisions: list[Decision] = []
        begun: list[RunningJob] = []
        try:
            with self._history.changing() as change:
                interrupted = change.interrupted()
                for run in interrupted:
                    change.update(run)
                for job in waiting:
                    begun += self._decide(change, job, now_ms, decisions)
        except NotebookError as error:
            if error.message != self._trouble:
                _log.error("%s; nothing is started until it can", error.message)
            self._trouble = error.message
            return
        self._trouble, self._others_ms = "", now_ms
        self._tell_of(interrupted)
        # Before the standings change: by them it tells which jobs begin anew.
        self._log(decisions)
        for decision in decisions:
            self._standings[decision.job] = Standing(decision.through_ms, str(self._jobs[decision.job].schedule))
        # Not before the commit: a run that the history does not know would be begun once more.
        for one in begun:
            one.start()
        self._running = [one for one in self._running if not one.wait(0)] + begun

    def _is_due(self, job: Job, now_ms: int) -> bool:
        time = next_due(job, self._standings.get(job.name), now_ms)
        return time is not None and time <= now_ms

    def _decide(self, change: Change, job: Job, now_ms: int, decisions: list[Decision]) -> list[RunningJob]:
        """Write what is decided on a job, add it to `decisions`, and return its run if one is begun."""
        # Taken to find out whether it runs: a run by hand, in another process, has it, too.
        lock = change.lock(job.name)
        known = self._standings.get(job.name)
        standings = {} if known is None else {job.name: replace(known, running=lock is None)}
        found = due([job], standings, now_ms)
        decisions += found
        # Never empty, as the job is due; the last decision reaches furthest.
        change.decide(job.name, str(job.schedule), found[-1].through_ms)
        begun = []
        for one in found:
            if one.action is Action.BEGIN:
                continue
            trigger = RunTrigger.CATCH_UP if one.action is Action.CATCH_UP else RunTrigger.SCHEDULE
            run = JobRun(0, job.name, _STATES[one.action], trigger, one.due_ms, one.through_ms)
            if run.state is not RunState.RUNNING:
                change.add(run, job.keep)
                continue
            assert lock is not None  # else it would have been skipped
            run = change.add(replace(run, started_ms=now_ms), job.keep)
            begun.append(RunningJob(job, run, lock, history=self._history, clock=self._clock, tell=self._tell))
        if lock is not None and not begun:
            lock.close()
        return begun

    # ---------------------------------------------------------------------------------------------------------- telling
    def _tell_of(self, interrupted: list[JobRun]) -> None:
        """Tell of runs whose end nobody has seen, without waiting for it."""
        for run in interrupted:
            _log.error("job %s: run %d was interrupted", run.job, run.id)
            if run.trigger is not RunTrigger.HAND and (job := self._jobs.get(run.job)) is not None:
                thread = threading.Thread(target=self._tell, args=(job, run), name="spdist-webhook", daemon=True)
                thread.start()
                self._telling = [one for one in self._telling if one.is_alive()] + [thread]

    def _log(self, decisions: list[Decision]) -> None:
        missed: dict[str, list[Decision]] = {}
        for one in decisions:
            if one.action is Action.MISS:
                missed.setdefault(one.job, []).append(one)
            elif one.action is Action.BEGIN and one.job in self._standings:
                _log.warning("job %s: begins anew, as its schedule was changed, or the clock put back", one.job)
        for name, times in missed.items():
            first, last = (moment(ms, self._jobs[name].zone) for ms in (times[0].due_ms, times[-1].through_ms))
            _log.warning("job %s: missed %s", name, first if first == last else f"all times from {first} to {last}")
        for one in decisions:
            shown = moment(one.due_ms, self._jobs[one.job].zone)
            if one.action is Action.SKIP:
                _log.warning("job %s: due %s, skipped (still running)", one.job, shown)
            elif one.action in (Action.START, Action.CATCH_UP):
                late = "" if one.action is Action.START else " (catching up)"
                _log.info("job %s: due %s, started%s", one.job, shown, late)

    def _tell_plan(self) -> None:
        now_ms = self._clock.now_ms()
        for job in self._jobs.values():
            time = next_due(job, self._standings.get(job.name), now_ms)
            shown = "never" if time is None else moment(time, job.zone)
            _log.info("job %s: %s, next %s", job.name, job.schedule, shown)
        _log.info("history and notebooks are in %s; Ctrl-C or SIGTERM stops", self._history.directory)

    def _stop_all(self) -> None:
        """Ask all runs to end, and wait for them; each KeyboardInterrupt meanwhile hurries them."""
        while True:
            try:
                for one in self._running:
                    if not one.wait(0):
                        _log.info("job %s: asked to stop", one.job.name)
                        one.stop()
                for one in self._running:
                    while not one.wait(1.0):
                        pass
                for thread in self._telling:
                    thread.join(_TELL_S)
                return
            except KeyboardInterrupt:
                _log.warning("told again to stop")
