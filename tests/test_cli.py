"""The command line: what it prints, and its exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import spdist
from spdist.__main__ import app
from spdist.services.process import free_port
from spdist.transports.log import LogTransport

ROOT = Path(__file__).parents[1]
GOOD = """\
@App:name('Speed')
define stream Cars (plate string, speed double);
@info(name='fast') from Cars[speed > 130.0] select plate, speed insert into Fast;
"""
BAD = """\
@App:name('Speed')
define stream Cars (plate string, speed double);
from Cars[sped > 130.0] select plate insert into Fast;
from Car select plate insert into Other;
"""


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=text)


@pytest.fixture
def good(tmp_path: Path) -> str:
    file = tmp_path / "good.siddhi"
    file.write_text(GOOD)
    return str(file)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    file = tmp_path / "bad.siddhi"
    file.write_text(BAD)
    return str(file)


def test_the_version_is_told() -> None:
    done = run("--version")
    assert (done.exit_code, done.output) == (0, f"spdist {spdist.__version__}\n")


def test_check_lists_streams_and_queries(good: str) -> None:
    done = run("check", good)
    assert done.exit_code == 0, done.output
    assert "Speed: no errors" in done.stdout
    assert "stream Fast (plate string, speed double)" in done.stdout
    assert "query fast → Fast" in done.stdout


def test_check_names_everything_that_is_wrong_and_where(bad: str) -> None:
    done = run("check", bad)
    assert done.exit_code == 1
    assert "line 3, column 11" in done.stderr
    assert "sped > 130.0" in done.stderr
    assert "line 4, column 6" in done.stderr
    assert "Traceback" not in done.output


def test_check_as_json(good: str, bad: str) -> None:
    found = json.loads(run("check", good, "--json").stdout)
    assert found["ok"]
    assert found["streams"]["Fast"] == {"plate": "string", "speed": "double"}
    failed = run("check", bad, "--json")
    assert failed.exit_code == 1
    errors = json.loads(failed.stdout)["errors"]
    assert [(one["line"], one["code"]) for one in errors] == [(3, "SP0106"), (4, "SP0102")]


def test_check_reads_standard_input_and_reports_syntax() -> None:
    assert run("check", "-", text=GOOD).exit_code == 0
    done = run("check", "-", text="define stream S (a int")
    assert done.exit_code == 1
    assert "SP0101" in done.stderr


def test_plan_draws_the_groups(tmp_path: Path) -> None:
    file = tmp_path / "split.siddhi"
    file.write_text(GOOD.replace("@info(name='fast')", "@info(name='fast') @dist(execGroup='g', parallel='2')"))
    done = run("plan", str(file))
    assert done.exit_code == 0, done.output
    assert "Speed-g" in done.stdout


def test_plan_prints_json_and_differences(tmp_path: Path) -> None:
    file, other = tmp_path / "one.siddhi", tmp_path / "other.siddhi"
    file.write_text("@app:name('App') define stream S (a int);\nfrom S select a insert into Out;")
    other.write_text("@app:name('App') define stream S (a int);\nfrom S[a > 1] select a insert into Out;")
    done = run("plan", str(file), "--json", "--transport", "nats")
    assert json.loads(done.stdout)["groups"][0]["inputs"]["S"]["topic"] == "App_S"
    assert "App-default changes: other queries or definitions" in run("plan", str(file), "--diff", str(other)).stdout
    done = run("plan", str(file), "--json", "--diff", str(other))
    assert json.loads(done.stdout)["groups"]["change"] == {"App-default": "other queries or definitions"}


def test_plan_says_in_json_why_an_app_cannot_be_split(tmp_path: Path) -> None:
    file = tmp_path / "one.siddhi"
    file.write_text("@app:name('App') define stream S (a int);\n@dist(parallel='0') from S select a insert into Out;")
    done = run("plan", str(file), "--json")
    assert done.exit_code == 1
    error = json.loads(done.stdout)["error"]
    assert (error["code"], error["line"], error["column"]) == ("SP0300", 2, 1)
    assert set(error) == {"code", "message", "line", "column"}
    assert "error SP0300" in run("plan", str(file)).stderr


def test_a_missing_file_is_a_wrong_command_line(tmp_path: Path) -> None:
    for command in ("check", "plan"):
        done = run(command, str(tmp_path / "none.siddhi"))
        assert done.exit_code == 2
        assert "cannot read" in done.stderr


def test_a_file_that_cannot_be_written_is_a_wrong_command_line(good: str, tmp_path: Path) -> None:
    done = run("graph", good, "--svg", str(tmp_path / "missing" / "graph.svg"))
    assert done.exit_code == 2
    assert "cannot write" in done.output


@pytest.mark.parametrize("below", ["", "more"])
def test_a_directory_that_is_a_file_is_a_wrong_command_line(good: str, below: str) -> None:
    place = str(Path(good) / below)
    for command in (["run", good], ["services", "up", "kafka"], ["services", "up", "nats"]):
        done = run(*command, "--directory", place)
        assert done.exit_code == 2, done.output
        assert "cannot be a directory" in " ".join(done.output.split())


def test_config_explain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPDIST_PASSWORD", "not-to-be-seen")
    done = run("config", "explain", str(ROOT / "conf/manager"))
    assert done.exit_code == 0, done.output
    assert "cluster.config.strategyConfig.heartbeatInterval" in done.stdout
    assert "environment SPDIST_PASSWORD" in done.stdout
    assert "not-to-be-seen" not in done.output
    assert "workers stop their groups" not in done.stdout
    monkeypatch.setenv("SPDIST__CLUSTER__HEARTBEAT_INTERVAL", "5s")
    done = run("config", "explain", str(ROOT / "conf/manager"))
    assert "note: when the leader is lost another one can take" in done.stdout
    monkeypatch.delenv("SPDIST_PASSWORD")
    done = run("config", "explain", str(ROOT / "conf/manager"))
    assert done.exit_code == 0, done.output
    assert re.search(r"httpsInterface\.password +\(missing\)", done.stdout)
    assert "note: a node does not start with this: " in done.stdout
    assert "SPDIST_PASSWORD, which is not set" in done.stdout


def test_no_command_shows_help() -> None:
    done = run()
    assert "check" in done.output
    assert "plan" in done.output


def test_a_manager_runs_until_it_is_told_to_stop(tmp_path: Path, eventually: Callable[..., Any]) -> None:
    port = free_port()
    environment = {
        **os.environ,
        "SPDIST_NODE_ID": "m1",
        "SPDIST_PORT": str(port),
        "SPDIST_HOME": str(tmp_path),
        "SPDIST_PASSWORD": "pw",
    }
    command = [sys.executable, "-m", "spdist", "manager", "--conf", str(ROOT / "conf/local/manager.yaml")]
    log = tmp_path / "log.txt"
    with log.open("w") as out:
        node = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out)
    try:

        def listens() -> bool:
            assert node.poll() is None, log.read_text()
            with socket.socket() as caller:
                return caller.connect_ex(("127.0.0.1", port)) == 0

        eventually(listens, "the manager listens", timeout_s=30)
        node.send_signal(signal.SIGTERM)
        assert node.wait(15) == 0, log.read_text()
    finally:
        node.kill()
        node.wait()


@pytest.mark.parametrize("role", ["manager", "worker", "server"])
def test_a_node_with_wrong_settings_says_so(role: str, tmp_path: Path) -> None:
    done = run(role, "--conf", str(tmp_path / "none.yaml"))
    assert done.exit_code == 1
    assert "SP0200" in done.stderr
    assert "cannot read" in done.stderr


def test_plan_sees_whether_the_topics_that_are_there_fit(tmp_path: Path) -> None:
    file, conf = tmp_path / "one.siddhi", tmp_path / "deployment.yaml"
    file.write_text(
        "@app:name('App') define stream S (k string);\n"
        "@dist(execGroup='g', parallel='2') partition with (k of S) begin from S select k insert into Out; end;"
    )
    conf.write_text(f"transports:\n  log:\n    directory: {tmp_path / 'log'}\n")
    assert run("plan", str(file), "--conf", str(conf)).exit_code == 0
    log = LogTransport(tmp_path / "log")
    log.ensure("App.S.k", 3)
    log.close()
    done = run("plan", str(file), "--conf", str(conf))
    assert done.exit_code == 1
    assert "error SP0315: topic 'App.S.k' has 3 partitions; the app needs 2 (line 1" in done.stderr
