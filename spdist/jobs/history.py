"""The history of a directory of jobs: every run, and until when each job was decided on. A door to SQLAlchemy.

It is a file of SQLite, ``history.sqlite``. What is decided stands there before a notebook begins, so nothing is run
twice, whenever the scheduler is killed. A run that nobody has ended, and whose lock nobody has, was interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import tenacity
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    MetaData,
    Select,
    String,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects.sqlite import insert as insert_or_update
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from spdist.errors import ErrorKind, NotebookError
from spdist.headless.job import Failure
from spdist.jobs.due import Standing
from spdist.jobs.locks import FileLock
from spdist.jobs.runs import JobRun, RunState, RunTrigger, files_of
from spdist.stores.engines import WRITE, open_engine

__all__ = ["FILE", "SCHEDULER", "Change", "History"]

#: Its name in the directory.
FILE = "history.sqlite"
#: Its lock; no job has such a name.
SCHEDULER = ".scheduler"
_VERSION = 1
_TIMEOUT_MS = 10_000
#: How many times without a run are kept of each job, at least.
_LEAST_KEPT = 100
_NO_RUN = (RunState.SKIPPED.value, RunState.MISSED.value)

_METADATA = MetaData()
_JOB = Table(
    "spdist_job",
    _METADATA,
    Column("name", String(100), primary_key=True),
    Column("schedule", Text, nullable=False),
    Column("decided_ms", BigInteger, nullable=False),
)
_RUN = Table(
    "spdist_run",
    _METADATA,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("job", String(100), nullable=False),
    Column("state", String(16), nullable=False),
    Column("trigger", String(16), nullable=False),
    Column("due_ms", BigInteger),
    Column("through_ms", BigInteger),
    Column("started_ms", BigInteger),
    Column("ended_ms", BigInteger),
    Column("attempts", Integer, nullable=False),
    Column("exit_code", Integer),
    Column("notebook", Text, nullable=False),
    Column("failure", Text, nullable=False),
    Column("value", Text, nullable=False),
    Index("spdist_run_job", "job", "id"),
    # Else SQLite gives ids of deleted rows again, and logs and webhooks name runs by their ids.
    sqlite_autoincrement=True,
)


class History:
    """What was run in a directory, for schedulers and for people.

    Parameters
    ----------
    directory : Path
        Where executed notebooks are; it is made.

    State
    -----
    In the file: of each job as many runs as it keeps, and as many times without one, at least 100.

    Raises
    ------
    NotebookError
        The directory cannot be used, or the file is of a newer spdist.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NotebookError(
                f"cannot make the directory {directory}: {error.strerror}", code=ErrorKind.JOBS
            ) from error
        engine = open_engine(f"sqlite:///{directory / FILE}", timeout_ms=_TIMEOUT_MS, purpose="history of jobs")
        # Each transaction begins with SQLite's lock for writing: what it has read still holds when it writes.
        self._engine = engine.execution_options(**{WRITE: True})
        with self.changing() as change:
            change.prepare()

    def close(self) -> None:
        """Close the file."""
        self._engine.dispose()

    @contextmanager
    def changing(self) -> Iterator[Change]:
        """Give what reads and writes within one transaction; no other process has one meanwhile.

        Raises
        ------
        NotebookError
            The file cannot be used; nothing was written then, and no lock is kept.
        """
        with ExitStack() as undone:
            try:
                with self._engine.begin() as connection:
                    change = Change(self.directory, connection, undone)
                    yield change
            except SQLAlchemyError as error:
                reason = error.orig if isinstance(error, DBAPIError) else error
                raise NotebookError(
                    f"the history in {self.directory} cannot be used: {reason}", code=ErrorKind.JOBS
                ) from error
            # Committed: from now on locks that were taken belong to the runs.
            undone.pop_all()
        # Not before: were the commit to fail, runs would be listed whose files are gone.
        for notebook in change.forgotten:
            self._remove(notebook)

    def _remove(self, notebook: str) -> None:
        """Remove the files of a run, and their directory where it is empty then; what cannot be removed stays."""
        folder = (self.directory / notebook).parent
        for file in folder.glob(files_of(notebook)):
            with suppress(OSError):
                file.unlink()
        with suppress(OSError):
            folder.rmdir()

    def update(self, run: JobRun) -> None:
        """Write how a run stands; tried again for some seconds where the disk does not let it. Raises as `changing`."""
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(NotebookError),
            stop=tenacity.stop_after_delay(_TIMEOUT_MS / 1000),
            wait=tenacity.wait_exponential(multiplier=0.1, max=2),
            reraise=True,
        )
        for attempt in retrying:
            # `attempt` outside: an error of the commit is tried again, too.
            with attempt, self.changing() as change:
                change.update(run)

    def runs(self, job: str | None = None, limit: int = 100) -> list[JobRun]:
        """Return the last `limit` runs, of one job or of all, and times without one; the newest first."""
        query = select(_RUN).order_by(_RUN.c.id.desc()).limit(limit)
        return self._read(query if job is None else query.where(_RUN.c.job == job))

    def last_runs(self) -> dict[str, JobRun]:
        """Return the last run of each job, whether it has ended or not."""
        # Ids only rise, so the greatest is that of the newest run.
        newest = select(func.max(_RUN.c.id)).where(_RUN.c.state.not_in(_NO_RUN)).group_by(_RUN.c.job)
        return {one.job: one for one in self._read(select(_RUN).where(_RUN.c.id.in_(newest)))}

    def _read(self, query: Select[Any]) -> list[JobRun]:
        with self.changing() as change:
            # In the same transaction: finding out who runs takes locks.
            interrupted = {one.id: one for one in change.interrupted()}
            return [interrupted.get(one.id, one) for one in change.read(query)]


class Change:
    """A transaction of a history; made by `History.changing`.

    Parameters
    ----------
    directory : Path
        That of the history.
    connection : Connection
        In a transaction that nobody else has.
    undone : ExitStack
        What is done where it fails.

    Attributes
    ----------
    forgotten : list of str
        The notebooks of runs that were forgotten, within the directory.
    """

    def __init__(self, directory: Path, connection: Connection, undone: ExitStack) -> None:
        self._directory = directory
        self._connection = connection
        self._undone = undone
        self.forgotten: list[str] = []

    def prepare(self) -> None:
        """Make the tables; raises NotebookError where they are of a newer spdist."""
        found = self._connection.exec_driver_sql("PRAGMA user_version").scalar_one()
        if found > _VERSION:
            hint = "use that one, or another directory"
            raise NotebookError(f"{self._directory / FILE} was made by a newer spdist", hint=hint, code=ErrorKind.JOBS)
        _METADATA.create_all(self._connection)
        self._connection.exec_driver_sql(f"PRAGMA user_version = {_VERSION}")

    def lock(self, name: str) -> FileLock | None:
        """Return the lock of a job, or of the `SCHEDULER`; None while somebody has it, who keeps it until the end."""
        lock = FileLock.of(self._directory / ".locks" / name)
        if lock is not None:
            self._undone.callback(lock.close)
        return lock

    def is_locked(self, name: str) -> bool:
        """Return whether somebody has the lock of a job, or of the `SCHEDULER`."""
        # Trying takes it for a moment, which disturbs nobody: locks are taken in transactions, of which there is one.
        lock = FileLock.of(self._directory / ".locks" / name)
        if lock is not None:
            lock.close()
        return lock is None

    def standings(self) -> dict[str, Standing]:
        """Return until when each job was decided on; whether they run is not said."""
        return {row.name: Standing(row.decided_ms, row.schedule) for row in self._connection.execute(select(_JOB))}

    def decide(self, job: str, schedule: str, decided_ms: int) -> None:
        """Write until when a job was decided on."""
        values = {"schedule": schedule, "decided_ms": decided_ms}
        written = insert_or_update(_JOB).values(name=job, **values)
        self._connection.execute(written.on_conflict_do_update(index_elements=["name"], set_=values))

    def add(self, run: JobRun, keep: int) -> JobRun:
        """Write a new run, and return it with its id; all runs of the job before the last `keep` are forgotten."""
        (number,) = self._connection.execute(insert(_RUN), _row(run)).inserted_primary_key or (0,)
        # Counted apart: a job that is skipped again and again must not push its runs out.
        for kind, most in ((_RUN.c.state.not_in(_NO_RUN), keep), (_RUN.c.state.in_(_NO_RUN), max(keep, _LEAST_KEPT))):
            own = (_RUN.c.job == run.job, kind)
            last = select(_RUN.c.id).where(*own).order_by(_RUN.c.id.desc()).limit(most)
            old = (*own, _RUN.c.id.not_in(last))
            self.forgotten += [one.notebook for one in self.read(select(_RUN).where(*old)) if one.notebook]
            self._connection.execute(delete(_RUN).where(*old))
        return replace(run, id=int(number))

    def update(self, run: JobRun) -> None:
        """Write how a run stands."""
        self._connection.execute(update(_RUN).where(_RUN.c.id == run.id).values(_row(run)))

    def interrupted(self) -> list[JobRun]:
        """Return the runs that nobody has ended and that nobody runs any more, as interrupted; writes nothing."""
        found, jobs = [], set()
        for run in self.read(select(_RUN).where(_RUN.c.state == RunState.RUNNING.value).order_by(_RUN.c.id.desc())):
            # Of a job only the newest can still run.
            if run.job in jobs or not self.is_locked(run.job):
                found.append(replace(run, state=RunState.INTERRUPTED))
            jobs.add(run.job)
        return found

    def read(self, query: Select[Any]) -> list[JobRun]:
        """Return the runs that a query of their table finds."""
        return [_run(row) for row in self._connection.execute(query)]


def _row(run: JobRun) -> dict[str, Any]:
    """Return the columns of a run, without its id."""
    failure = "" if run.failure is None else json.dumps(asdict(run.failure))
    plain = {one.name: getattr(run, one.name) for one in _RUN.columns if one.name != "id"}
    return {
        **plain,
        "state": run.state.value,
        "trigger": run.trigger.value,
        "failure": failure,
        "value": json.dumps(run.value),
    }


def _run(row: Any) -> JobRun:
    given = dict(row._mapping)
    given["failure"] = Failure(**json.loads(given["failure"])) if given["failure"] else None
    given |= {
        "state": RunState(given["state"]),
        "trigger": RunTrigger(given["trigger"]),
        "value": json.loads(given["value"]),
    }
    return JobRun(**given)
