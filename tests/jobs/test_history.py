"""The history: what was decided stands there, whoever is killed; locks say what runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from spdist.errors import NotebookError
from spdist.headless.job import Failure
from spdist.jobs.due import Standing
from spdist.jobs.history import FILE, History
from spdist.jobs.locks import FileLock
from spdist.jobs.runs import JobRun, RunState, RunTrigger, notebook_name

RUN = JobRun(0, "a", RunState.RUNNING, RunTrigger.SCHEDULE, 1000, 1000, started_ms=1001)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    made = History(tmp_path / "out")
    yield made
    made.close()


def add(history: History, run: JobRun, keep: int = 30) -> JobRun:
    with history.changing() as change:
        return change.add(run, keep)


def test_what_is_written_is_read_after_a_restart(history: History) -> None:
    run = add(history, RUN)
    ended = replace(
        run, state=RunState.FAILED, ended_ms=2000, attempts=2, exit_code=-9, notebook="a/x.ipynb",
        failure=Failure("ValueError", "no", 3, "x = 1"), value={"rows": [1, None, "ü"]},
    )  # fmt: skip
    history.update(ended)
    with history.changing() as change:
        change.decide("a", "every 1s", 500)
        change.decide("a", "every 1s", 1000)
    history.close()
    again = History(history.directory)
    assert again.runs() == [ended]
    assert again.runs("b") == []
    with again.changing() as change:
        assert change.standings() == {"a": Standing(1000, "every 1s")}
    again.close()


def test_times_without_a_run_are_no_last_run(history: History) -> None:
    first = add(history, replace(RUN, state=RunState.SUCCEEDED))
    other = add(history, replace(RUN, job="b", state=RunState.FAILED))
    add(history, replace(RUN, state=RunState.SKIPPED))
    assert history.last_runs() == {"a": first, "b": other}
    assert [one.state for one in history.runs(limit=2)] == [RunState.SKIPPED, RunState.FAILED]


# ---------------------------------------------------------------------------------------------------------------- locks
def test_who_has_the_lock_of_a_job_runs_it(history: History) -> None:
    with history.changing() as change:
        lock = change.lock("a")
        assert lock is not None
        run = change.add(RUN, 30)
    assert history.runs() == [run]
    with history.changing() as change:
        assert change.lock("a") is None
        assert change.interrupted() == []
    lock.close()
    lock.close()  # is no harm
    assert [one.state for one in history.runs()] == [RunState.INTERRUPTED]
    with history.changing() as change:
        assert change.interrupted() == [replace(run, state=RunState.INTERRUPTED)]


def test_only_the_newest_run_of_a_job_can_still_run(history: History) -> None:
    add(history, RUN)
    with history.changing() as change:
        lock = change.lock("a")
        assert lock is not None
        change.add(RUN, 30)
    assert [one.state for one in history.runs()] == [RunState.RUNNING, RunState.INTERRUPTED]
    lock.close()


def test_a_change_that_fails_leaves_nothing(history: History) -> None:
    with pytest.raises(ZeroDivisionError), history.changing() as change:
        assert change.lock("a") is not None
        change.add(RUN, 30)
        change.decide("a", "every 1s", 1000)
        raise ZeroDivisionError
    assert history.runs() == []
    with history.changing() as change:
        assert change.standings() == {}
        assert not change.is_locked("a")


def test_a_process_that_inherits_the_lock_keeps_it_when_its_parent_is_gone(
    tmp_path: Path, eventually: Callable[..., object]
) -> None:
    """The parent ends at once; its child reads its input until that is closed."""
    code = """
import subprocess, sys
from pathlib import Path
from spdist.jobs.locks import FileLock
lock = FileLock.of(Path(sys.argv[1]))
child = [sys.executable, "-c", "import sys; sys.stdin.read()"]
subprocess.Popen(child, stdin=sys.stdin, pass_fds=(lock.descriptor,))
"""
    path = tmp_path / "lock"
    parent = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE)
    assert parent.wait(30) == 0
    assert FileLock.of(path) is None
    assert parent.stdin is not None
    parent.stdin.close()
    eventually(lambda: FileLock.of(path), "the lock is free")


# ------------------------------------------------------------------------------------------------------------ retention
def test_only_the_last_runs_are_kept_with_their_files(history: History) -> None:
    kept = []
    for number in range(5):
        run = add(history, replace(RUN, started_ms=number * 1000, state=RunState.SUCCEEDED), keep=2)
        run = replace(run, attempts=2, notebook=f"a/{number}/{notebook_name(number * 1000, 2)}")
        folder = history.directory / f"a/{number}"
        folder.mkdir(parents=True)
        for attempt in (1, 2):
            (folder / notebook_name(number * 1000, attempt)).touch()
            (folder / notebook_name(number * 1000, attempt)).with_suffix(".log").touch()
        history.update(run)
        kept.append(run)
    assert history.runs() == kept[:2:-1]
    assert sorted(path.name for path in (history.directory / "a").iterdir()) == ["3", "4"]
    assert len([*(history.directory / "a/4").iterdir()]) == 4


def test_times_without_a_run_are_kept_a_hundred_times_and_push_out_no_run(history: History) -> None:
    run = add(history, replace(RUN, state=RunState.SUCCEEDED), keep=1)
    with history.changing() as change:
        for _ in range(103):
            change.add(replace(RUN, state=RunState.MISSED), 1)
    assert len(history.runs(limit=1000)) == 101
    assert history.runs(limit=1000)[-1] == run
    other = add(history, replace(RUN, job="b", state=RunState.SUCCEEDED), keep=1)
    assert history.last_runs() == {"a": run, "b": other}


# ------------------------------------------------------------------------------------------------------------- troubles
def test_a_history_of_a_newer_version_is_left_alone(history: History) -> None:
    history.close()
    engine = create_engine(f"sqlite:///{history.directory / FILE}")
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA user_version = 99")
    engine.dispose()
    with pytest.raises(NotebookError, match="made by a newer spdist"):
        History(history.directory)


def test_a_directory_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotebookError, match=r"cannot make the directory .*file/out"):
        History(tmp_path / "file/out")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / FILE).write_text("no database, but long enough to be read as one" * 100)
    with pytest.raises(NotebookError, match="cannot be used: file is not a database"):
        History(tmp_path / "out")
