"""Spark's home in the user's cache, the name of the class archive in it, and what its launcher is told."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from spdist.engine.spark.home import class_archive, launcher_options, spark_home


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/spdist/spark"


@pytest.fixture
def java(tmp_path: Path) -> Path:
    file = tmp_path / "java"
    file.write_text("a runtime")
    return file


def test_the_home_has_programs_and_jars_and_no_python(tmp_path: Path, cache: Path) -> None:
    home = spark_home(tmp_path)
    assert home.parent == cache
    assert sorted(path.name for path in home.iterdir()) == ["bin", "jars"]
    assert (home / "jars").resolve() == Path(pyspark.__file__).parent / "jars"


def test_it_is_the_same_for_each_session(tmp_path: Path) -> None:
    assert spark_home(tmp_path) == spark_home(tmp_path)


def test_without_a_cache_it_is_in_the_scratch_directory(tmp_path: Path, cache: Path, java: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file where the directory should be")
    home = spark_home(tmp_path)
    assert home == tmp_path / "spark-home"
    assert class_archive(home, str(java), ()) is None


def test_homes_of_installations_that_are_gone_are_removed(tmp_path: Path, cache: Path) -> None:
    old = cache / "0123"
    old.mkdir(parents=True)
    (old / "jars").symlink_to(tmp_path / "gone")
    (old / "classes-1.jsa").write_bytes(b"classes")
    spark_home(tmp_path)
    assert not old.exists()


def test_another_java_or_class_path_has_another_archive(tmp_path: Path, java: Path) -> None:
    home = spark_home(tmp_path)
    jar = tmp_path / "connector.jar"
    jar.write_text("a jar")
    files = [class_archive(home, str(java), ()), class_archive(home, str(java), (jar,))]
    jar.write_text("another jar")
    files.append(class_archive(home, str(java), (jar,)))
    java.write_text("another runtime")
    files.append(class_archive(home, str(java), ()))
    names = [one.file for one in files if one is not None]
    assert len(set(names)) == 4
    assert {name.parent for name in names} == {home}


def test_there_is_none_with_a_class_path_that_we_do_not_know(
    tmp_path: Path, java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert class_archive(spark_home(tmp_path), str(java), ()) is None


def test_the_launcher_finds_its_classes_at_once_where_their_path_has_no_blanks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_LAUNCHER_OPTS", raising=False)
    home = spark_home(tmp_path)
    (jar,) = (home / "jars").glob("spark-launcher_*.jar")
    assert f"-Xbootclasspath/a:{jar}" in launcher_options(home).split()
    other = tmp_path / "with blanks"
    (other / "jars").mkdir(parents=True)
    (other / "jars" / jar.name).touch()
    assert "bootclasspath" not in launcher_options(other)
    monkeypatch.setenv("SPARK_LAUNCHER_OPTS", "-XX:+UseG1GC")
    assert launcher_options(home) == "-XX:+UseG1GC"
