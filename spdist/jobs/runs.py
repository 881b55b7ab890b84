"""Runs of jobs as plain values: their states, what became of one, and how they are written as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any
from zoneinfo import ZoneInfo

from spdist.headless.job import Failure, Report

__all__ = [
    "FAILURES",
    "JobRun",
    "RunState",
    "RunTrigger",
    "detail",
    "elapsed",
    "files_of",
    "iso",
    "moment",
    "notebook_name",
    "outcome",
    "summary",
]


class RunState(StrEnum):
    """How a run stands."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMEOUT = "timeout"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    SKIPPED = "skipped"
    MISSED = "missed"


#: What somebody should be told of.
FAILURES = frozenset({RunState.FAILED, RunState.TIMEOUT, RunState.INTERRUPTED})


class RunTrigger(StrEnum):
    """What a run began by."""

    SCHEDULE = "schedule"
    CATCH_UP = "catch up"
    HAND = "by hand"


@dataclass(frozen=True, slots=True)
class JobRun:
    """A run of a job, or a time at which there was none.

    Parameters
    ----------
    id : int
        Counts all runs of a history.
    job : str
        The job's name.
    state : RunState
        How it stands.
    trigger : RunTrigger
        What it began by.
    due_ms : int, optional
        When it was due, ms since epoch; None where it was started by hand.
    through_ms : int, optional
        It stands for all times from `due_ms` to this one.
    started_ms, ended_ms : int, optional
        When it began and ended, ms since epoch.
    attempts : int
        How many processes there have been.
    exit_code : int, optional
        That of the last one; negative where a signal ended it.
    notebook : str
        The executed notebook of the last attempt, within the directory of the history; empty where there was none. Its
        log has the same name with ``.log``.
    failure : Failure, optional
        Why it failed.
    value : any
        What the notebook has given back.
    """

    id: int
    job: str
    state: RunState
    trigger: RunTrigger
    due_ms: int | None = None
    through_ms: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    attempts: int = 0
    exit_code: int | None = None
    notebook: str = ""
    failure: Failure | None = None
    value: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it; times as ISO 8601 in UTC."""
        return {
            "id": self.id,
            "job": self.job,
            "state": self.state.value,
            "trigger": self.trigger.value,
            "due": iso(self.due_ms),
            **({"through": iso(self.through_ms)} if self.through_ms != self.due_ms else {}),
            "started": iso(self.started_ms),
            "ended": iso(self.ended_ms),
            "attempts": self.attempts,
            "exitCode": self.exit_code,
            "notebook": self.notebook or None,
            "log": str(PurePosixPath(self.notebook).with_suffix(".log")) if self.notebook else None,
            "error": None if self.failure is None else asdict(self.failure),
            "value": self.value,
        }


def iso(ms: int | None) -> str | None:
    """Return a time, ms since epoch, as ISO 8601 in UTC."""
    if ms is None:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(ms: int, zone: str) -> str:
    """Return a time for people, by the clocks of a zone: ``2026-11-25 02:00:00 CET``."""
    return f"{datetime.fromtimestamp(ms / 1000, ZoneInfo(zone)):%Y-%m-%d %H:%M:%S %Z}"


def notebook_name(began_ms: int, attempt: int) -> str:
    """Return the file name of an executed notebook: when the run began, in UTC, and the attempt from the second on."""
    began = datetime.fromtimestamp(began_ms // 1000, UTC)
    return f"{began:%Y-%m-%dT%H%M%S}.{began_ms % 1000:03}Z{'' if attempt == 1 else f'-{attempt}'}.ipynb"


def files_of(notebook: str) -> str:
    """Return the pattern of the names of all files of a run, one of whose notebooks this is."""
    return PurePosixPath(notebook).name.partition("Z")[0] + "Z*"


def elapsed(run: JobRun) -> str:
    """Return how long a run took, with its unit; empty where it has not ended."""
    return "" if run.started_ms is None or run.ended_ms is None else f"{(run.ended_ms - run.started_ms) / 1000:.1f} s"


def detail(run: JobRun) -> str:
    """Return in one line why a run failed, and what the notebook has given back: ``In [3]: ValueError: no rows``."""
    told = []
    if run.state is RunState.SKIPPED:
        told.append("still running")
    if run.failure is not None:
        where = "" if run.failure.cell is None else f"In [{run.failure.cell}]: "
        told.append(where + ": ".join(filter(None, (run.failure.name, " ".join(run.failure.message.split())))))
    if run.value is not None:
        told.append(f"exit value {json.dumps(run.value, ensure_ascii=False)}")
    return ", ".join(told)


def summary(run: JobRun) -> str:
    """Return in one line how a run has ended: ``failed after 2.4 s: In [3]: ValueError: no rows``."""
    state = f"{run.state} after {elapsed(run)}" if elapsed(run) else str(run.state)
    return f"{state}: {detail(run)}" if detail(run) else state


def outcome(
    report: Report | None, exit_code: int, asked: RunState | None, timeout_ms: int = 0
) -> tuple[RunState, Failure | None]:
    """Return how a process has ended, and why it failed.

    Parameters
    ----------
    report : Report, optional
        What it said of itself.
    exit_code : int
        Its exit code; negative where a signal ended it.
    asked : RunState, optional
        ``TIMEOUT`` or ``STOPPED`` where it was asked to end for that.
    timeout_ms : int
        How long it might take.
    """
    failure = None if report is None else report.failure
    if asked is RunState.TIMEOUT:
        cell, source = (None, "") if failure is None else (failure.cell, failure.source)
        return asked, Failure("Timeout", f"it took longer than {timeout_ms / 1000:g} s", cell, source)
    if asked is not None:
        return asked, failure
    if report is None:
        how = f"by signal {-exit_code}" if exit_code < 0 else f"with exit code {exit_code}"
        # 9 is SIGKILL, with which Linux ends processes where memory is short.
        why = "; the machine may have run out of memory" if exit_code == -9 else ""
        return RunState.FAILED, Failure("ProcessDied", f"the process of the notebook ended {how}{why}; see its log")
    return (RunState.SUCCEEDED if failure is None and exit_code == 0 else RunState.FAILED), failure
