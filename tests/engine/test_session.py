"""Spark sessions: what is wrong with Java is said plainly, what killed ones left goes, classes are read once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from spdist.engine.spark.session import SparkHost, java_version
from spdist.errors import EngineError
from tests.runtime.host_settings import settings_in

pytestmark = pytest.mark.usefixtures("own_spark")


def java(directory: Path, version: str) -> Path:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(("text", "major"), [("1.8.0_392", 8), ("11.0.21", 11), ("17", 17), ("21.0.1", 21)])
def test_the_version_of_java_is_read(tmp_path: Path, text: str, major: int) -> None:
    assert java_version(str(java(tmp_path, text))) == major


def test_what_is_no_java_has_no_version(tmp_path: Path) -> None:
    assert java_version(str(tmp_path / "nothing")) is None
    assert java_version("true") is None


def test_java_that_is_missing_is_named_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match=r"(?s)none on the PATH.*install a Java 17"):
        SparkHost(settings_in(tmp_path)).start()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(EngineError, match=r"JAVA_HOME is .*jdk, where there is no bin/java"):
        SparkHost(settings_in(tmp_path)).start()


def test_java_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(tmp_path / "old", "11.0.21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(EngineError, match=r"needs Java 17 or newer, .* is Java 11"):
        SparkHost(settings_in(tmp_path)).start()


def test_a_host_that_is_not_started_says_so_and_can_be_stopped(tmp_path: Path) -> None:
    host = SparkHost(settings_in(tmp_path))
    host.stop()
    with pytest.raises(EngineError, match="not running"):
        _ = host.session
    with pytest.raises(EngineError, match="not running"):
        _ = host.scratch


def test_what_killed_hosts_left_goes_and_what_living_ones_use_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dead, alive, other = (tmp_path / name for name in (f"spdist-spark-{child}-a", f"spdist-spark-{os.getpid()}-b", "x"))
    for directory in (dead, alive, other):
        directory.mkdir()
    monkeypatch.setattr("spdist.engine.spark.session.SparkHost._launch", _refuse)
    with pytest.raises(EngineError, match="did not start: not here"):
        SparkHost(settings_in(tmp_path)).start()
    assert {path.name for path in tmp_path.iterdir()} == {alive.name, other.name}


@pytest.mark.spark
def test_later_sessions_read_the_classes_that_one_has_archived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first = SparkHost(settings_in(tmp_path), archives=True)
    with first:
        first.has_run = True  # what a session loads without a query is enough here, and half as much
    (archive,) = (tmp_path / "cache").rglob("*.jsa")
    with SparkHost(settings_in(tmp_path)) as second:
        assert str(archive) in Path(f"/proc/{jvm_of(second)}/maps").read_text()
        assert renames_with(second, tmp_path) == "FileSystemBasedCheckpointFileManager"
    assert [*(tmp_path / "cache").rglob("*jsa*")] == [archive]


def renames_with(host: SparkHost, place: Path) -> str:
    """Return what Spark renames the files of a checkpoint with: by its own choice it runs a program for each."""
    jvm: Any = host.session._jvm
    settings = host.session._jsparkSession.sessionState().newHadoopConf()
    manager = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
    path = jvm.org.apache.hadoop.fs.Path(place.as_uri())
    return str(manager.create(path, settings).getClass().getSimpleName())


def jvm_of(host: SparkHost) -> int:
    """Return the process of a session's JVM."""
    return int(host.session._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]


def _refuse(*_: object) -> None:
    raise RuntimeError("not here")
