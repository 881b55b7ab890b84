"""``jobs.yaml``: which notebooks run when, with which parameters; ``conf/jobs.yaml`` shows every key with a comment."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from string import Formatter
from typing import Annotated, Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, Field

from spdist.config.binding import Binder, setting, tree
from spdist.config.kinds import Secret
from spdist.config.source import ValueNode, read
from spdist.config.types import Place, Written, as_written, duration, read_by, that
from spdist.errors import ConfigError, ErrorKind, NotebookError
from spdist.jobs.schedules import Period, Schedule, cron_schedule

__all__ = ["Job", "JobsFile", "load_jobs"]

_PLACES = ("job", "year", "month", "day")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def _cron(text: str) -> str:
    cron_schedule(text, "UTC")
    return text


# `available_timezones` opens many files.
@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def _zone(text: str) -> str:
    if text not in _zones():
        near = difflib.get_close_matches(text, _zones(), n=1)
        raise ValueError(f"a time zone such as {near[0] if near else 'Europe/Berlin'}")
    return text


def _is_output(text: str) -> bool:
    pattern = PurePosixPath(text)
    try:
        # Neither width nor conversion: `{job:>99999}` would make a name of any length.
        places = [(name, bool(form or conversion)) for _, name, form, conversion in Formatter().parse(text)]
    except ValueError:
        # Refused below, as a place that is not known.
        places = [("{", False)]
    known = all(name is None or (name in _PLACES and not formed) for name, formed in places)
    inside = not pattern.is_absolute() and ".." not in pattern.parts and "\0" not in text
    return known and inside and ("job", False) in places


def _webhook(written: Written) -> Secret:
    if not written.whole:
        raise ValueError("a reference, as an address that opens something is a secret: ${env:NAME} or ${file:path}")
    try:
        # Here `port` raises ValueError where it is no number.
        parts = urlsplit(written.text)
        host, usable = parts.hostname, parts.port != 0
    except ValueError:
        host, usable = None, False
    if not (host and usable and (parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK))):
        raise ValueError("an address such as https://host/path; http is only for this machine")
    return Secret(written.text)


JobName = Annotated[
    str,
    as_written,
    Field(
        pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
        description="a name of letters, digits, '.', '_' and '-', as it becomes one of a directory",
    ),
]
Cron = Annotated[str, as_written, AfterValidator(_cron)]
Zone = Annotated[str, as_written, AfterValidator(_zone)]
Output = Annotated[
    str,
    as_written,
    that(_is_output),
    Field(
        description="a directory within schedule.directory, with {job} for the name, and possibly {year}, {month} and "
        "{day}"
    ),
]
Webhook = Annotated[Secret, read_by(_webhook)]


# No slots: `cached_property` keeps the schedule in the instance's dictionary.
@dataclass(frozen=True)
class Job:
    """One of ``jobs``: a notebook and when it runs.

    Parameters
    ----------
    name : str
        Unique in the file.
    notebook : Path
        The file.
    every_ms : int
        The period, ms; 0 where `cron` says when.
    cron : str
        The expression; empty where `every_ms` says when.
    zone : str
        Whose clocks `cron` goes by, and in which times are shown.
    parameters : mapping of str to any
        What the notebook is given.
    timeout_ms : int
        How long an attempt may take, ms; 0: as long as it does.
    retries : int
        How many further attempts there are where one fails.
    retry_pause_ms : int
        The pause before each, ms.
    catch_up : bool
        Whether the job is run once, late, where times were missed.
    webhook : Secret, optional
        The address that is told of a failure.
    output : str
        The directory of its executed notebooks, within that of the file; a pattern.
    keep : int
        How many runs are kept.
    """

    name: JobName = setting("name")
    notebook: Place = setting("notebook")
    every_ms: Annotated[int, duration(1000)] = setting("every", 0)
    cron: Cron = setting("cron", "")
    zone: Zone = setting("timezone", "")
    parameters: Mapping[str, Any] = tree("parameters")
    timeout_ms: Annotated[int, duration(1000)] = setting("timeout", 0)
    retries: Annotated[int, Field(ge=0, le=100)] = setting("retries", 0)
    retry_pause_ms: Annotated[int, duration(0)] = setting("retryPause", 60_000)
    catch_up: bool = setting("catchUp", False)
    webhook: Webhook | None = setting("onFailure.webhook", None)
    output: Output = setting("output", "{job}")
    keep: Annotated[int, Field(ge=1, le=100_000)] = setting("keep", 30)

    @cached_property
    def schedule(self) -> Schedule:
        """When it is due."""
        return Period(self.every_ms) if self.every_ms else cron_schedule(self.cron, self.zone)

    def folder(self, ms: int) -> str:
        """Return the directory of what begins at `ms` since epoch, within that of the file."""
        day = datetime.fromtimestamp(ms / 1000, ZoneInfo(self.zone))
        return self.output.format(job=self.name, year=f"{day:%Y}", month=f"{day:%m}", day=f"{day:%d}")


@dataclass(frozen=True, slots=True)
class _Defaults:
    directory: Place = setting("directory", Path("out/jobs"))
    zone: Zone = setting("timezone", "UTC")


@dataclass(frozen=True, slots=True)
class JobsFile:
    """All that a jobs file says.

    Parameters
    ----------
    path : Path
        The file.
    directory : Path
        Where executed notebooks and the history are.
    jobs : tuple of Job
        In their order.
    """

    path: Path
    directory: Path
    jobs: tuple[Job, ...]

    def job(self, name: str) -> Job:
        """Return the job of that name; raises NotebookError, with the nearest name, where there is none."""
        for job in self.jobs:
            if job.name == name:
                return job
        names = [job.name for job in self.jobs]
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"jobs: {', '.join(names)}"
        raise NotebookError(f"{self.path} has no job {name!r}", hint=hint, code=ErrorKind.JOBS)


def load_jobs(
    file: str | os.PathLike[str], *, environment: Mapping[str, str] | None = None, secrets: bool = True
) -> JobsFile:
    """Read and check a jobs file.

    Parameters
    ----------
    file : str or path
        Relative names in it start from its directory.
    environment : mapping of str to str, optional
        Variables for references (default: those of this process).
    secrets : bool
        Whether they are needed; else one that cannot be read is left out.

    Raises
    ------
    ConfigError
        Names the file and line, the key, the value, and what would be right.
    """
    path = Path(file)
    root = read(path).content
    assert isinstance(root, dict)
    binder = Binder(path, os.environ if environment is None else environment, {})
    binder.explaining = not secrets
    for name, node in root.items():
        if name not in ("schedule", "jobs"):
            binder.unknown_section(name, node, ["schedule", "jobs"])
    defaults = binder.bind(_Defaults, root.get("schedule") or ValueNode({}, str(path)), "schedule")
    listed = root["jobs"].content if "jobs" in root else []
    if not isinstance(listed, list) or not listed:
        raise ConfigError(f"{path}: jobs must be a list of jobs", hint="- name: …, with notebook, and every or cron")
    found: dict[str, tuple[Job, str]] = {}
    for number, node in enumerate(listed):
        job = binder.bind(Job, node, f"jobs[{number}]")
        if bool(job.every_ms) == bool(job.cron):
            said = "has every and cron, and" if job.every_ms else "has neither every nor cron, and"
            raise ConfigError(f"{node.origin}: the job {job.name!r} {said} needs one of the two")
        # Where names of files do not differ by case, neither do directories.
        if (same := found.get(job.name.casefold())) is not None:
            raise ConfigError(f"{node.origin}: there is a job {same[0].name!r} already", hint=f"it is at {same[1]}")
        found[job.name.casefold()] = (replace(job, zone=job.zone or defaults.zone), node.origin)
    return JobsFile(path, defaults.directory, tuple(job for job, _ in found.values()))
