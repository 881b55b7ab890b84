"""The scheduler as a shell around its decisions: what it writes, starts and tells, by a clock that the test moves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from spdist.clock import ManualClock
from spdist.errors import ErrorKind, NotebookError
from spdist.jobs.history import Change, History
from spdist.jobs.locks import FileLock
from spdist.jobs.runs import JobRun, RunState, RunTrigger
from spdist.jobs.scheduler import Scheduler
from spdist.jobs.settings import Job, JobsFile

HOUR = 3_600_000
START = 500_000 * HOUR + 1

Going = Callable[..., AbstractContextManager[list[JobRun]]]


def file_of(tmp_path: Path, **more: Any) -> JobsFile:
    """A job that is due every hour, whose notebook is not there."""
    job = Job("a", tmp_path / "n.ipynb", HOUR, zone="UTC", **more)
    return JobsFile(tmp_path / "jobs.yaml", tmp_path / "out", (job,))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def going(clock: ManualClock) -> Going:
    """``going(file)``: a scheduler while the block runs, and the runs that failed."""

    @contextmanager
    def run(file: JobsFile) -> Iterator[list[JobRun]]:
        told: list[JobRun] = []
        stop = threading.Event()
        scheduler = Scheduler(file, clock, lambda job, run: told.append(run))
        thread = threading.Thread(target=scheduler.run, args=(stop,), daemon=True)
        thread.start()
        try:
            yield told
        finally:
            stop.set()
            thread.join(300)
            assert not thread.is_alive()

    return run


def states(file: JobsFile) -> list[tuple[RunState, RunTrigger, int | None]]:
    history = History(file.directory)
    try:
        return [(one.state, one.trigger, one.due_ms) for one in reversed(history.runs())]
    finally:
        history.close()


def decided(file: JobsFile) -> list[str]:
    history = History(file.directory)
    try:
        with history.changing() as change:
            return list(change.standings())
    finally:
        history.close()


def test_missed_times_are_told_each_and_caught_up_once(
    tmp_path: Path, clock: ManualClock, going: Going, eventually: Callable[..., Any]
) -> None:
    file = file_of(tmp_path, catch_up=True)
    first, second = 500_001 * HOUR, 500_002 * HOUR
    with going(file) as told:
        eventually(lambda: decided(file), "it has begun")
        clock.advance(2 * HOUR + 120_000)  # the machine has slept
        eventually(lambda: told, "the run that catches up has failed", timeout_s=300)
    assert [(one.trigger, one.failure and one.failure.name) for one in told] == [
        (RunTrigger.CATCH_UP, "FileNotFoundError")
    ]
    assert states(file) == [
        (RunState.MISSED, RunTrigger.SCHEDULE, first),
        (RunState.MISSED, RunTrigger.SCHEDULE, second),
        (RunState.FAILED, RunTrigger.CATCH_UP, second),
    ]
    # Down for some hours: what was decided is not told again.
    clock.advance(HOUR)
    with going(file_of(tmp_path)):
        eventually(lambda: len(states(file)) == 4, "what was missed meanwhile is told")
    assert states(file)[3] == (RunState.MISSED, RunTrigger.SCHEDULE, 500_003 * HOUR)


def test_a_run_that_was_interrupted_is_told_of_once(
    tmp_path: Path, going: Going, eventually: Callable[..., Any]
) -> None:
    file = file_of(tmp_path)
    history = History(file.directory)
    with history.changing() as change:  # and nobody has its lock
        run = change.add(JobRun(0, "a", RunState.RUNNING, RunTrigger.SCHEDULE, 0, 0, 0), 30)
    history.close()
    with going(file) as told:
        eventually(lambda: told, "it is told")
        assert [(one.id, one.state) for one in told] == [(run.id, RunState.INTERRUPTED)]
    with going(file) as told:
        eventually(lambda: decided(file), "it has begun")
    assert told == []


def test_a_run_by_hand_that_was_interrupted_is_told_of_in_the_log_only(
    tmp_path: Path, going: Going, eventually: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    file = file_of(tmp_path)
    history = History(file.directory)
    with history.changing() as change:
        run = change.add(JobRun(0, "a", RunState.RUNNING, RunTrigger.HAND, started_ms=0), 30)
    history.close()
    with going(file) as told:
        eventually(lambda: decided(file), "it has begun")
    assert f"job a: run {run.id} was interrupted" in caplog.text
    assert states(file) == [(RunState.INTERRUPTED, RunTrigger.HAND, None)]
    assert told == []


def test_nothing_is_started_while_the_history_cannot_be_used(
    tmp_path: Path,
    clock: ManualClock,
    going: Going,
    eventually: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = file_of(tmp_path)
    refuses = threading.Event()
    decide = Change.decide

    def fails(change: Change, *given: Any) -> None:
        if refuses.is_set():
            raise NotebookError("the disk is full", code=ErrorKind.JOBS)
        decide(change, *given)

    monkeypatch.setattr(Change, "decide", fails)
    with going(file) as told:
        eventually(lambda: decided(file), "it has begun")
        refuses.set()
        clock.advance(HOUR)
        eventually(lambda: "the disk is full; nothing is started until it can" in caplog.text, "that is said")
        assert states(file) == []
        refuses.clear()
        eventually(lambda: told, "it is run after all", timeout_s=300)
    assert [one[0] for one in states(file)] == [RunState.FAILED]
    assert caplog.text.count("the disk is full") == 1


def test_a_directory_has_one_scheduler(tmp_path: Path, going: Going, eventually: Callable[..., Any]) -> None:
    file = file_of(tmp_path)
    with going(file):
        eventually(lambda: decided(file), "it has begun")
        with pytest.raises(NotebookError, match="another scheduler runs the jobs in"):
            Scheduler(file).run(threading.Event())


def test_a_clock_that_was_far_ahead_is_told(
    tmp_path: Path, clock: ManualClock, going: Going, eventually: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    file = file_of(tmp_path)
    with going(file):
        eventually(lambda: decided(file), "it has begun")
        clock.step(-24 * HOUR)
        eventually(lambda: "job a: begins anew" in caplog.text, "that is told")
    assert states(file) == []


def test_each_further_signal_hurries_what_runs(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second SIGTERM is a KeyboardInterrupt wherever the scheduler is; here it comes while it waits."""
    stop = threading.Event()

    class Stubborn:
        def __init__(self, job: Job, run: JobRun, lock: FileLock, **_: Any) -> None:
            self.job, self.stops = job, 0

        def start(self) -> None:
            stop.set()

        def stop(self) -> None:
            self.stops += 1

        def wait(self, timeout_s: float) -> bool:
            if self.stops < 3 and timeout_s:
                raise KeyboardInterrupt
            return self.stops == 3

    monkeypatch.setattr("spdist.jobs.scheduler.RunningJob", Stubborn)
    file = file_of(tmp_path)
    history = History(file.directory)
    with history.changing() as change:
        change.decide("a", "every 1h", START - 1)
    history.close()
    clock.advance(HOUR - 1)
    Scheduler(file, clock).run(stop)
    assert stop.is_set()
