"""The check-up of a machine as a node, with real ports, files and databases."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from spdist.clock import ManualClock
from spdist.cluster import checkup
from spdist.cluster.checkup import Finding, FindingLevel, check_machine, check_node
from spdist.cluster.manager import Manager
from spdist.cluster.security.authority import Authority, Subject
from spdist.config import Config, load_config
from tests.cluster.shells import manager_config, settings, worker_config

NOBODY = "http://127.0.0.1:1"


def found(config: Config) -> dict[str, Finding]:
    return {one.what: one for one in check_node(config)}


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_this_machine_runs_nodes() -> None:
    levels = {one.what: one.level for one in check_machine()}
    assert {"packages", "java"} <= levels.keys()
    assert {*levels.values()} == {FindingLevel.OK}


def test_missing_and_wrong_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "requires", lambda _: ["pyspark==1.0", "no-such-package>=1", 'absent; extra == "x"'])
    packages = check_machine()[0]
    assert packages.level is FindingLevel.FAILED
    assert "pyspark is" in packages.found
    assert "no-such-package is missing" in packages.found
    assert "absent" not in packages.found.replace("no-such-package is missing", "")


@pytest.mark.parametrize(
    ("there", "level", "told", "hints"),
    [
        ("0.68.1", FindingLevel.OK, "numba 0.68.1", False),
        ("0.60.0", FindingLevel.WARNING, "numba is 0.60.0, not <0.70,>=0.61", True),
        ("", FindingLevel.OK, "numba is not installed: queries are interpreted", True),
    ],
)
def test_the_compiler_of_queries_is_an_extra_that_may_be_missing(
    monkeypatch: pytest.MonkeyPatch, there: str, level: FindingLevel, told: str, hints: bool
) -> None:
    def version(name: str) -> str:
        if name == "numba" and not there:
            raise PackageNotFoundError(name)
        return there

    ranges = [f'numba<0.70,>=0.61; extra == "{extra}"' for extra in ("dev", "compiled")]
    monkeypatch.setattr(checkup, "requires", lambda _: ranges)
    monkeypatch.setattr(checkup, "version", version)
    (compiler,) = (one for one in check_machine() if one.what == "compiler")
    assert (compiler.level, compiler.found) == (level, told)
    assert ("spdist[compiled]" in compiler.hint) is hints


def test_no_java_is_a_finding_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    java = check_machine()[-1]
    assert java.level is FindingLevel.FAILED
    assert "install a Java" in java.hint


def test_a_worker_without_managers_is_told_so_and_the_rest_is_well(tmp_path: Path) -> None:
    levels = {what: one.level for what, one in found(worker_config(tmp_path, [NOBODY])).items()}
    assert levels == {
        "listener": FindingLevel.OK,
        "topics": FindingLevel.OK,
        "memory": FindingLevel.OK,
        "state": FindingLevel.OK,
        "managers": FindingLevel.WARNING,
    }


def test_a_server_has_no_managers_to_look_for(tmp_path: Path) -> None:
    own = {"SPDIST__STATE_PERSISTENCE__LOCATION": str(tmp_path), "SPDIST__TRANSPORTS__LOG__DIRECTORY": str(tmp_path)}
    config = load_config(Path("conf/server"), role="server", environment={"SPDIST_PASSWORD": "p", **own})
    assert {*found(config)} == {"listener", "topics", "memory", "state"}


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    check_node(worker_config(tmp_path, [NOBODY]))
    check_node(load_config(Path("conf/local/manager.yaml"), role="manager", environment=settings(tmp_path, "m")))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_one_manager_that_answers_is_enough(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        here = f"http://127.0.0.1:{listening.getsockname()[1]}"
        managers = found(worker_config(tmp_path, [NOBODY, here]))["managers"]
    assert managers.level is FindingLevel.OK
    assert "127.0.0.1:1: " in managers.found


def test_a_port_in_use_is_a_warning(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
        listener = found(worker_config(tmp_path, [NOBODY], SPDIST_PORT=port))["listener"]
    assert listener.level is FindingLevel.WARNING
    assert port in listener.found


def test_a_jvm_that_does_not_fit_into_the_memory(tmp_path: Path) -> None:
    memory = found(worker_config(tmp_path, [NOBODY], SPDIST__SPARK__DRIVER_MEMORY="4000g"))["memory"]
    assert memory.level is FindingLevel.FAILED


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    place = "/proc/self"  # not even root may
    state = found(worker_config(tmp_path, [NOBODY], SPDIST__STATE_PERSISTENCE__LOCATION=f"{place}/spdist"))["state"]
    assert state.level is FindingLevel.FAILED


def test_the_database_of_a_manager_and_its_clock(tmp_path: Path) -> None:
    config = manager_config(tmp_path)
    manager = Manager(config)
    manager.start()
    manager.stop()
    database = {one.what: one for one in check_node(config)}
    assert database["database"].level is FindingLevel.OK
    assert "of this version" in database["database"].found
    assert database["clock"].level is FindingLevel.OK
    late = {one.what: one for one in check_node(config, ManualClock(0))}
    assert late["clock"].level is FindingLevel.WARNING


def test_a_database_that_does_not_answer(tmp_path: Path) -> None:
    url = f"postgresql://127.0.0.1:{free_port()}/spdist"
    text = Path("conf/local/manager.yaml").read_text(encoding="utf-8")
    file = tmp_path / "deployment.yaml"
    file.write_text(text.replace("jdbc:sqlite:${env:SPDIST_HOME}/cluster.db", url), encoding="utf-8")
    config = load_config(file, role="manager", environment=settings(tmp_path, "m"))
    database = found(config)["database"]
    assert database.level is FindingLevel.FAILED
    assert "did not answer" in database.found


@pytest.mark.parametrize(("days", "level"), [(200, FindingLevel.OK), (10, FindingLevel.WARNING)])
def test_a_certificate_and_when_it_expires(tmp_path: Path, days: int, level: FindingLevel) -> None:
    authority = Authority.create(tmp_path, datetime.now(UTC), 365)
    authority.issue(Subject.node("worker-1=127.0.0.1"), datetime.now(UTC), days)
    text = Path("conf/local/worker.yaml").read_text(encoding="utf-8")
    secure = f"scheme: https\n      certificateFile: {tmp_path}/worker-1.crt\n      keyFile: {tmp_path}/worker-1.key\n"
    file = tmp_path / "deployment.yaml"
    file.write_text(text.replace("scheme: http\n", secure, 1).replace("scheme: http\n", "scheme: https\n"), "utf-8")
    environment = settings(tmp_path, "worker-1", SPDIST_MANAGERS=NOBODY)
    config = load_config(file, role="worker", environment=environment)
    certificate = found(config)["certificate"]
    assert certificate.level is level
    assert "127.0.0.1" in certificate.found
