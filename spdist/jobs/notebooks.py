"""Notebooks of jobs: whether they are there and take the parameters that they are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spdist.config.source import scalar
from spdist.errors import ErrorKind, NotebookError
from spdist.headless.job import notebook_parameters
from spdist.headless.parameters import check_parameters
from spdist.jobs.settings import Job

__all__ = ["check_job", "with_parameters"]


def check_job(job: Job) -> None:
    """Check that the notebook of a job is there and takes its parameters; raises NotebookError."""
    try:
        check_parameters(notebook_parameters(job.notebook), job.parameters, "quotes make text of it")
    except NotebookError as error:
        raise NotebookError(f"job {job.name}: {error.message}", hint=error.hint) from error


def with_parameters(job: Job, given: Sequence[str]) -> Job:
    """Return a job with further parameters, each written ``name=value``.

    A value is what it is in YAML (``7``, ``true``, ``null``), or text where the notebook has text there.

    Raises
    ------
    NotebookError
        One is not written so, or the notebook does not take it, or is not there.
    """
    known = notebook_parameters(job.notebook)
    parameters = dict(job.parameters)
    for one in given:
        name, equals, text = one.partition("=")
        if not equals:
            raise NotebookError(f"{one!r} is no parameter", hint="-p name=value", code=ErrorKind.JOBS)
        value = scalar(text)
        # `7` stays text for a parameter of text; what fits in neither form is refused as the value that it is.
        fits = name not in known or known[name].accepts(value) or not known[name].accepts(text)
        parameters[name] = value if fits else text
    job = replace(job, parameters=parameters)
    check_job(job)
    return job
