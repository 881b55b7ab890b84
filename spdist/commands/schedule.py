"""``spdist schedule``: notebooks that run every so often, from a jobs file."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spdist.commands.connection import AsJson, output, print_json, table, waiting
from spdist.commands.explained import explained
from spdist.errors import NotebookError
from spdist.headless import stop_signal

if TYPE_CHECKING:
    from spdist.jobs.history import History
    from spdist.jobs.running import RunningJob
    from spdist.jobs.runs import JobRun
    from spdist.jobs.settings import JobsFile

__all__ = ["schedule_app"]

schedule_app = typer.Typer(no_args_is_help=True, help="Notebooks that run every so often, as a jobs file says.")

_File = Annotated[Path, typer.Option("--jobs", metavar="FILE", help="The jobs file.")]
_DEFAULT = Path("conf/jobs.yaml")
#: What the command ``timeout`` returns, and a shell for what Ctrl-C has ended.
_EXIT_CODES = {"succeeded": 0, "timeout": 124, "stopped": 130}


@schedule_app.command()
def run(jobs: _File = _DEFAULT) -> None:
    """Run jobs when they are due, until told to stop (SIGTERM or Ctrl-C); those that run then finish what they do."""
    from spdist.jobs.notebooks import check_job
    from spdist.jobs.scheduler import Scheduler
    from spdist.jobs.settings import load_jobs

    with explained(), stop_signal() as stop:
        file = load_jobs(jobs)
        for job in file.jobs:
            check_job(job)
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
        Scheduler(file).run(stop)


@schedule_app.command()
def check(jobs: _File = _DEFAULT) -> None:
    """Check a jobs file, its notebooks and their parameters, and show when each job is due next."""
    from spdist.jobs.notebooks import check_job
    from spdist.jobs.runs import moment
    from spdist.jobs.settings import load_jobs

    wrong = []
    with explained():
        file = load_jobs(jobs)
        for job in file.jobs:
            try:
                check_job(job)
            except NotebookError as error:
                wrong.append(str(error))
                continue
            times: list[int] = []
            while len(times) < 3 and (at := job.schedule.next_after(times[-1] if times else _now_ms())) is not None:
                times.append(at)
            shown = ", ".join(moment(one, job.zone) for one in times)
            typer.echo(f"{job.name}: {job.schedule}: {shown or 'never again'}")
        if wrong:
            raise NotebookError("\n".join(wrong))


@schedule_app.command("list")
def list_jobs(jobs: _File = _DEFAULT, as_json: AsJson = False) -> None:
    """List the jobs: when each is due next, when it ran last, and how that ended."""
    from spdist.jobs.history import SCHEDULER
    from spdist.jobs.runs import detail, elapsed, iso, moment
    from spdist.jobs.settings import load_jobs

    with explained():
        file = load_jobs(jobs, secrets=False)
        last: dict[str, JobRun] = {}
        alive = False
        with _history(file) as history:
            if history is not None:
                last = history.last_runs()
                with history.changing() as change:
                    alive = change.is_locked(SCHEDULER)
        rows, found = [], []
        for job in file.jobs:
            due_ms, ran = job.schedule.next_after(_now_ms()), last.get(job.name)
            due = "never" if due_ms is None else moment(due_ms, job.zone)
            began = "" if ran is None or ran.started_ms is None else moment(ran.started_ms, job.zone)
            ended = ("", "", "") if ran is None else (ran.state, elapsed(ran), detail(ran))
            rows.append((job.name, job.schedule, due, began, *ended))
            last_run = None if ran is None else ran.to_dict()
            found.append({"name": job.name, "schedule": str(job.schedule), "next": iso(due_ms), "last": last_run})
        if as_json:
            print_json({"schedulerRuns": alive, "jobs": found})
            return
        title = f"{file.path}: the scheduler {'runs' if alive else 'does not run'}"
        output().print(table(title, ("job", "schedule", "next", "last", "state", "elapsed", "result"), rows))


@schedule_app.command("history")
def show_history(
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="Only this one.")] = None,
    jobs: _File = _DEFAULT,
    limit: Annotated[int, typer.Option("--limit", min=1, help="So many at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show the last runs, the newest first, and the times that were skipped or missed."""
    from spdist.jobs.runs import detail, elapsed, moment
    from spdist.jobs.settings import load_jobs

    with explained():
        file = load_jobs(jobs, secrets=False)
        zones = {one.name: one.zone for one in file.jobs}
        with _history(file) as history:
            found = [] if history is None else history.runs(job, limit)
        if job is not None and not found:
            file.job(job)  # of one that was taken out of the file there may be runs
        if as_json:
            print_json([one.to_dict() for one in found])
            return
        rows = []
        for one in found:
            zone = zones.get(one.job, "UTC")
            due, through, began = (
                "" if ms is None else moment(ms, zone) for ms in (one.due_ms, one.through_ms, one.started_ms)
            )
            due += f" and all until {through}" if through != due else ""
            ended = (one.state, elapsed(one), one.attempts or "", detail(one))
            rows.append((one.id, one.job, due or one.trigger, began, *ended, one.notebook))
        head = ("run", "job", "due", "started", "state", "elapsed", "attempts", "result", "notebook")
        output().print(table(f"runs in {file.directory}", head, rows))


@schedule_app.command()
def now(
    name: Annotated[str, typer.Argument(metavar="JOB", help="The job's name.")],
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter", "-p", metavar="NAME=VALUE", help="In place of that of the file; may be given again."
        ),
    ] = None,
    jobs: _File = _DEFAULT,
) -> None:
    """Run a job once, now, and return the exit code of its notebook; 124 after its timeout."""
    from spdist.jobs.history import History
    from spdist.jobs.notebooks import with_parameters
    from spdist.jobs.running import begin_by_hand
    from spdist.jobs.runs import summary
    from spdist.jobs.settings import load_jobs

    logging.getLogger("spdist").addHandler(logging.NullHandler())  # what the scheduler logs is printed here
    with explained(), stop_signal() as stop:
        file = load_jobs(jobs, secrets=False)
        job = with_parameters(file.job(name), given or ())
        with closing(History(file.directory)) as history:
            running = begin_by_hand(job, history)
            running.start()
            typer.echo(f"{name}: run {running.run.id} started", err=True)
            with waiting(f"{name}: running"):
                _await(running, stop)
        done = running.run
        typer.echo(f"{name}: {summary(done)}", err=done.state != "succeeded")
        typer.echo(f"{name}: {file.directory / done.notebook}", err=True)
    code = done.exit_code or 0
    # Python has -n for a process that signal n has ended, shells have 128 + n.
    raise typer.Exit(_EXIT_CODES.get(done.state, code if code > 0 else 128 - code if code < 0 else 1))


def _await(running: RunningJob, stop: threading.Event) -> None:
    """Wait until a run has ended; `stop` asks it to, and each KeyboardInterrupt hurries it."""
    asked = False
    while True:
        try:
            if running.wait(0.2):
                return
            if stop.is_set() and not asked:
                asked = True
                running.stop()
        except KeyboardInterrupt:
            running.stop()


@contextmanager
def _history(file: JobsFile) -> Iterator[History | None]:
    """Give the history, or None where nothing was run yet: looking makes no files."""
    from spdist.jobs.history import FILE, History

    if not (file.directory / FILE).exists():
        yield None
        return
    with closing(History(file.directory)) as history:
        yield history


def _now_ms() -> int:
    return int(time.time() * 1000)
