"""Jobs as people run them: real schedulers, real notebooks, signals, ``kill -9`` and a webhook."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from typer.testing import CliRunner

from spdist.__main__ import app
from spdist.clock import SystemClock
from spdist.headless.exchange import exit_value_of
from spdist.jobs.history import History
from spdist.jobs.running import RunningJob
from spdist.jobs.runs import JobRun, RunState, RunTrigger
from spdist.jobs.settings import Job
from tests.jobs.notebooks import write
from tests.transports.receiver import Receiver

ROOT = Path(__file__).parents[2]
#: Notebooks begin within three seconds, but on machines that do much else.
PATIENCE_S = 300.0
WAIT = """\
import pathlib, spdist
with spdist.stop_signal() as stop:
    pathlib.Path("waits.begun").touch()
    stop.wait(600)
spdist.exit_value("stopped" if stop.is_set() else "waited")"""
#: The first time; later it waits, which costs the machine less.
FAIL = """\
import pathlib, spdist
failed = pathlib.Path("failed")
spdist.exit_value(1)
with spdist.stop_signal() as stop:
    if failed.exists():
        stop.wait(600)
failed.touch()"""

Command = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    """``command("run")``: ``spdist schedule run --jobs jobs.yaml`` as a process."""
    started: list[subprocess.Popen[str]] = []
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])

    def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "spdist", "schedule", *arguments, "--jobs", str(tmp_path / "jobs.yaml")]
        more = {"PYTHONPATH": path, "COLUMNS": "400", **environment}
        started.append(
            subprocess.Popen(
                words, env={**os.environ, **more}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        )
        return started[-1]

    yield start
    for one in started:
        with one:
            one.kill()


def said(process: subprocess.Popen[str]) -> tuple[int, str]:
    text, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, text


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """``quick("list")``: a command that runs no notebook, in this process."""
    monkeypatch.setenv("COLUMNS", "400")

    def run(*arguments: str) -> tuple[int, str]:
        found = CliRunner().invoke(app, ["schedule", *arguments, "--jobs", str(tmp_path / "jobs.yaml")])
        return found.exit_code, found.output

    return run


def test_a_scheduler_lives_and_is_killed_and_goes_on(
    tmp_path: Path, command: Command, quick: Callable[..., tuple[int, str]], eventually: Callable[..., Any]
) -> None:
    write(tmp_path / "waits.ipynb", WAIT)
    write(tmp_path / "fails.ipynb", FAIL, "rows = []\nraise ValueError('no rows')")
    (tmp_path / "jobs.yaml").write_text(
        """
schedule: {directory: out}
jobs:
  - {name: waits, notebook: waits.ipynb, every: 1s}
  - {name: fails, notebook: fails.ipynb, every: 1s, onFailure: {webhook: "${env:HOOK}"}}
"""
    )
    begun = tmp_path / "waits.begun"
    receiver = Receiver()

    def runs(job: str) -> list[JobRun]:
        history = History(tmp_path / "out")
        try:
            return history.runs(job, 1000)
        finally:
            history.close()

    def run(number: int) -> JobRun:
        """The run of that number of the job that waits; the first is 0."""
        own = [one for one in runs("waits") if one.state not in (RunState.SKIPPED, RunState.MISSED)]
        return own[::-1][number]

    try:
        scheduler = command("run", HOOK=f"{receiver.url}/s3cret")
        eventually(begun.exists, "the notebook waits", timeout_s=PATIENCE_S)
        eventually(lambda: receiver.got, "the webhook is told", timeout_s=PATIENCE_S)
        eventually(lambda: any(one.state is RunState.SKIPPED for one in runs("waits")), "it is skipped", PATIENCE_S)

        # A failure is told with its place.
        told = json.loads(receiver.got[0][3])
        error = {"name": "ValueError", "message": "no rows", "cell": 2, "source": "rows = []"}
        assert (told["job"], told["state"], told["error"], told["value"]) == ("fails", "failed", error, 1)
        assert (tmp_path / "out" / told["notebook"]).exists()

        # Nobody else runs it meanwhile.
        second, by_hand = command("run", HOOK=receiver.url), command("now", "waits")
        code, text = said(second)
        assert (code, "another scheduler runs the jobs in" in text) == (1, True), text
        code, text = said(by_hand)
        assert (code, "the job 'waits' is still running" in text) == (1, True), text

        # kill -9: its notebooks end by themselves, and are saved.
        assert run(0).state is RunState.RUNNING
        begun.unlink()
        scheduler.kill()
        eventually(lambda: run(0).state is RunState.INTERRUPTED, "it is known as interrupted", timeout_s=PATIENCE_S)
        saved = nbformat.read(tmp_path / "out" / run(0).notebook, as_version=4)
        assert exit_value_of(saved.cells) == "stopped"

        # Another one goes on, and ends when it is told to.
        scheduler.communicate()
        scheduler = command("run", HOOK=f"{receiver.url}/s3cret")
        eventually(begun.exists, "the notebook waits again", timeout_s=PATIENCE_S)
        scheduler.send_signal(signal.SIGTERM)
        code, text = said(scheduler)
    finally:
        receiver.close()
    assert code == 0, text
    assert f"job waits: run {run(0).id} was interrupted" in text
    assert "s3cret" not in text
    ended = run(1)
    assert (ended.state, ended.value, ended.exit_code) == (RunState.STOPPED, "stopped", 0)

    code, text = quick("list", "--json")
    assert code == 0
    found = json.loads(text)
    assert found["schedulerRuns"] is False
    assert found["jobs"][0]["last"] == ended.to_dict()
    code, text = quick("history", "waits", "--limit", "1000")
    assert code == 0
    for state in ("interrupted", "stopped", "skipped"):
        assert state in text


def test_by_hand_with_parameters_and_exit_codes(
    tmp_path: Path, command: Command, quick: Callable[..., tuple[int, str]]
) -> None:
    write(
        tmp_path / "ok.ipynb",
        "# parameters\ndays = 7",
        "import os, sys, spdist\nspdist.exit_value({'days': days, 'here': os.getcwd()})\nsys.exit(0)",
        "raise ValueError('never')",
    )
    write(tmp_path / "waits.ipynb", WAIT)
    write(tmp_path / "dies.ipynb", "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\ninput()")
    (tmp_path / "jobs.yaml").write_text(
        """
schedule: {directory: out}
jobs:
  - {name: ok, notebook: ok.ipynb, every: 1h, parameters: {days: 3}}
  - {name: dies, notebook: dies.ipynb, cron: "0 2 * * *", retries: 5}
  - {name: waits, notebook: waits.ipynb, every: 1h, timeout: 4s}
"""
    )
    code, text = quick("check")
    assert code == 0, text
    assert [line.partition(":")[0] for line in text.splitlines()] == ["ok", "dies", "waits"]
    ok, dies, waits = command("now", "ok", "-p", "days=5"), command("now", "dies"), command("now", "waits")
    code, text = said(ok)
    assert code == 0, text
    assert f"exit value {json.dumps({'days': 5, 'here': str(tmp_path)})}" in text
    code, text = said(dies)
    assert code == 128 + 9, text
    assert "ended by signal 9; the machine may have run out of memory" in text
    code, text = said(waits)
    assert code == 124, text
    assert "Timeout: it took longer than 4 s" in text
    code, text = quick("now", "ok", "-p", "dys=5")
    assert code == 1
    assert "unknown parameter 'dys': did you mean 'days'?" in text
    code, text = quick("history", "--json")
    ended = {one["job"]: (one["state"], one["attempts"]) for one in json.loads(text)}
    assert ended == {"dies": ("failed", 1), "ok": ("succeeded", 1), "waits": ("timeout", 1)}


def test_what_fails_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    attempt = """\
import pathlib, spdist
second = pathlib.Path("second").exists()
pathlib.Path("second").touch()
assert second
spdist.exit_value("again")"""
    write(tmp_path / "n.ipynb", attempt)
    history = History(tmp_path / "out")
    job = Job("shaky", tmp_path / "n.ipynb", 1000, zone="UTC", retries=3, retry_pause_ms=0)
    with history.changing() as change:
        lock = change.lock("shaky")
        assert lock is not None
        run = change.add(JobRun(0, "shaky", RunState.RUNNING, RunTrigger.SCHEDULE, 0, 0, 1000), 30)
    told: list[JobRun] = []
    running = RunningJob(job, run, lock, history=history, clock=SystemClock(), tell=lambda job, run: told.append(run))
    running.start()
    assert running.wait(PATIENCE_S)
    (ended,) = history.runs()
    history.close()
    assert ended == running.run
    assert (ended.state, ended.attempts, ended.value, ended.failure) == (RunState.SUCCEEDED, 2, "again", None)
    assert told == []
    assert "job shaky: attempt 1 failed: In [1]: AssertionError; again in 0 s" in caplog.text
    names = sorted(path.name for path in (tmp_path / "out/shaky").iterdir())
    began = "1970-01-01T000001.000Z"
    assert names == [f"{began}-2.ipynb", f"{began}-2.log", f"{began}.ipynb", f"{began}.log"]
    assert ended.notebook == f"shaky/{began}-2.ipynb"
