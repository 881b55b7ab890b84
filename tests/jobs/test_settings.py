"""Jobs files: what they say, what is refused and how, and the one that is shipped."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from spdist.config.binding import keys
from spdist.errors import ConfigError, NotebookError
from spdist.headless.job import notebook_parameters
from spdist.jobs.notebooks import check_job, with_parameters
from spdist.jobs.schedules import Crontab, Period, Quartz
from spdist.jobs.settings import Job, JobsFile, _Defaults, load_jobs
from tests.jobs.notebooks import PARAMETERS, write
from tests.test_config import shown_keys

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "conf/jobs.yaml"

Load = Callable[..., JobsFile]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a file with one job made of the least that is needed and `more`."""

    def make(more: str = "", least: str = "name: a, notebook: n.ipynb", **options: object) -> JobsFile:
        file = tmp_path / "jobs.yaml"
        file.write_text(f"schedule: {{timezone: Europe/Berlin}}\njobs:\n  - {{{least}{more and ', '}{more}}}\n")
        return load_jobs(file, environment={"HOOK": "https://h.example/s3cret"}, **options)  # type: ignore[arg-type]

    return make


# ----------------------------------------------------------------------------------------------------- the shipped file
@pytest.fixture
def live(tmp_path: Path) -> Path:
    """The shipped file with what is commented out switched on."""
    text = SHIPPED.read_text()
    switched = text.replace("# onFailure:", "onFailure:").replace("#   webhook:", "  webhook:")
    assert switched != text
    (tmp_path / "live.yaml").write_text(switched)
    return tmp_path / "live.yaml"


def test_the_shipped_file_shows_every_key_and_no_other(live: Path) -> None:
    known = {f"schedule.{path}" for path, _ in keys(_Defaults)} | {f"jobs[].{path}" for path, _ in keys(Job)}
    assert {path.removesuffix(".hours") for path in shown_keys(live)} == known


def test_the_shipped_jobs_can_be_run_and_show_the_defaults() -> None:
    file = load_jobs(SHIPPED, environment={})
    for job in file.jobs:
        check_job(job)
    shown, other = file.jobs
    defaults = ("retries", "retry_pause_ms", "catch_up", "output", "keep")
    assert [getattr(shown, name) for name in defaults] == [getattr(other, name) for name in defaults]
    assert isinstance(shown.schedule, Period)
    assert isinstance(other.schedule, Crontab)
    assert file.directory == ROOT / "out/jobs"


def test_the_webhook_of_the_shipped_file_works_when_it_is_switched_on(live: Path) -> None:
    file = load_jobs(live, environment={"SPDIST_JOBS_WEBHOOK": "https://h.example/x"})
    assert file.jobs[1].webhook is not None


def test_the_example_of_the_guide_is_one(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", (ROOT / "docs/guides/jobs.md").read_text(), flags=re.DOTALL)
    assert example
    (tmp_path / "jobs.yaml").write_text(example.group(1))
    (job,) = load_jobs(tmp_path / "jobs.yaml", environment={"OPS_WEBHOOK": "https://h.example/x"}).jobs
    assert job.schedule == Crontab("0 2 * * *", "Europe/Berlin")


# ------------------------------------------------------------------------------------------------------------- reading
def test_what_is_written_is_what_holds(load: Load, tmp_path: Path) -> None:
    more = (
        "cron: '0 0 2 * * ?', timeout: 2h, retries: 2, parameters: {days: 7, tags: [a, {b: 1.5}], on: true, no: null}"
    )
    (job,) = load(f"{more}, onFailure: {{webhook: '${{env:HOOK}}'}}, output: '{{job}}/{{year}}-{{month}}'").jobs
    assert job.notebook == tmp_path / "n.ipynb"
    assert job.schedule == Quartz("0 0 2 * * ?", "Europe/Berlin")
    assert (job.timeout_ms, job.retries) == (7_200_000, 2)
    assert job.parameters == {"days": 7, "tags": ["a", {"b": 1.5}], "on": True, "no": None}
    assert job.webhook is not None
    assert job.webhook.reveal() == "https://h.example/s3cret"
    assert "s3cret" not in repr(job)
    # By the clocks of its zone, in which the year has begun.
    assert job.folder(1_798_758_000_000) == "a/2027-01"


def test_times_in_parameters_stay_text_and_quotes_make_it(load: Load) -> None:
    (job,) = load("every: 1s, parameters: {day: 2026-01-01, number: '5', app: 'p=${secret:P}'}").jobs
    assert job.parameters == {"day": "2026-01-01", "number": "5", "app": "p=${secret:P}"}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("evry: 1s", r"jobs.yaml:3: jobs\[0\].evry is not a key .*\n.*did you mean jobs\[0\].every\?"),
        ("onFailure: {hook: x}", r"did you mean jobs\[0\].onFailure.webhook\?"),
        ("", r":3: the job 'a' has neither every nor cron"),
        ("every: 1s, cron: 0 2 * * *", r"the job 'a' has every and cron"),
        ("every: 999", r":3: jobs\[0\].every must be a time of at least 1000 ms"),
        ("cron: 0 0 2 * * *", r":3: jobs\[0\].cron must be six or seven fields as in SiddhiQL"),
        ("every: 1s, timezone: Europe/Berln", "must be a time zone such as Europe/Berlin, not 'Europe/Berln'"),
        ("every: 1s, parameters: [1]", r"jobs\[0\].parameters must be a mapping of names to values"),
        ("every: 1s, parameters: {p: {q: '${env:HOOK}'}}", r"parameters.p.q has the reference .* stored in clear"),
        ("every: 1s, output: '../{job}'", r"output must be a directory within schedule.directory"),
        ("every: 1s, output: x", r"with \{job\} for the name"),
        ("every: 1s, output: '{job.__class__}'", "must be a directory"),
        ("every: 1s, output: '{job:>9}'", "must be a directory"),
        ("every: 1s, output: '{job'", "must be a directory"),
        ("every: 1s, retries: -1", "must be a whole number from 0 to 100"),
    ],
)
def test_what_is_wrong_is_said_with_line_and_repair(load: Load, more: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load(more)


@pytest.mark.parametrize("name", ["../x", "a b", ".scheduler", "", "x" * 101])
def test_a_name_can_be_one_of_a_directory(load: Load, name: str) -> None:
    with pytest.raises(ConfigError, match=r"jobs\[0\].name"):
        load("every: 1s", least=f"name: '{name}', notebook: n.ipynb")


@pytest.mark.parametrize(
    "url", ["http://h.example/s3cret", "ftp://h/s3cret", "s3cret", "https:///s3cret", "https://[s3cret"]
)
def test_an_address_of_a_webhook_is_checked_and_not_shown(tmp_path: Path, url: str) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text("jobs: [{name: a, notebook: n, every: 1s, onFailure: {webhook: '${env:HOOK}'}}]")
    with pytest.raises(ConfigError, match="must be an address such as https://host/path") as caught:
        load_jobs(file, environment={"HOOK": url})
    assert "s3cret" not in str(caught.value)
    with pytest.raises(ConfigError, match="HOOK, which is not set"):
        load_jobs(file, environment={})
    assert load_jobs(file, environment={}, secrets=False).jobs[0].name == "a"
    file.write_text(f"jobs: [{{name: a, notebook: n, every: 1s, onFailure: {{webhook: '{url}'}}}}]")
    with pytest.raises(ConfigError, match="must be a reference") as caught:
        load_jobs(file, environment={})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "jobs must be a list of jobs"),
        ("jobs: []", "jobs must be a list of jobs"),
        ("jobs: x", "jobs must be a list of jobs"),
        ("jobs: [x]", r"jobs\[0\] must be a mapping"),
        ("schedul: {}", r"schedul is not a section .*\n.*did you mean schedule\?"),
        ("- x", "must be a mapping of sections"),
        ("jobs: [{name: a, notebook: n, every: 1s}, {name: A, notebook: n, every: 1s}]", "there is a job 'a' already"),
    ],
)
def test_files_that_are_none_are_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "jobs.yaml").write_text(text)
    with pytest.raises(ConfigError, match=says):
        load_jobs(tmp_path / "jobs.yaml")


def test_a_job_that_is_not_there_is_said_with_the_nearest(load: Load) -> None:
    file = load("every: 1s", least="name: nightly, notebook: n")
    with pytest.raises(NotebookError, match=r"has no job 'nigthly'\n.*did you mean nightly\?"):
        file.job("nigthly")


# ------------------------------------------------------------------------------------------------------------ notebooks
def test_parameters_are_checked_against_the_notebook(load: Load, tmp_path: Path) -> None:
    write(tmp_path / "n.ipynb", PARAMETERS)
    check_job(load("every: 1s, parameters: {days: 3, title: '5'}").jobs[0])
    with pytest.raises(NotebookError, match=r"job a: unknown parameter 'dys': did you mean 'days'\?"):
        check_job(load("every: 1s, parameters: {dys: 3}").jobs[0])
    with pytest.raises(NotebookError, match=r"'title' must be str, not int \(5\); quotes make text of it"):
        check_job(load("every: 1s, parameters: {title: 5}").jobs[0])


def test_parameters_by_hand_have_the_types_of_the_notebook(load: Load, tmp_path: Path) -> None:
    write(tmp_path / "n.ipynb", PARAMETERS)
    (job,) = load("every: 1s, parameters: {days: 3, title: x}").jobs
    assert with_parameters(job, ["days=4", "title=5"]).parameters == {"days": 4, "title": "5"}
    assert with_parameters(job, ["title=a=b"]).parameters == {"days": 3, "title": "a=b"}
    with pytest.raises(NotebookError, match="'days' must be int, not str"):
        with_parameters(job, ["days=many"])
    with pytest.raises(NotebookError, match="'days' is no parameter"):
        with_parameters(job, ["days"])


@pytest.mark.parametrize("content", ["", "x", "[]", "3", "{}", '{"cells": 3}', '{"nbformat": 4, "cells": [1]}'])
def test_a_file_that_is_no_notebook_is_said(tmp_path: Path, content: str) -> None:
    (tmp_path / "n.ipynb").write_text(content)
    with pytest.raises(NotebookError, match=r"cannot read the notebook .*n\.ipynb: it is no notebook"):
        notebook_parameters(tmp_path / "n.ipynb")
    with pytest.raises(NotebookError, match="No such file"):
        notebook_parameters(tmp_path / "other.ipynb")
