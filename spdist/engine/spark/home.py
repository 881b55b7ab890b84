"""Spark's home as its JVM sees it, its class archive, how its launcher starts quickly, what executors get."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pyspark

from spdist.services.class_archive import ClassArchive
from spdist.services.maven import cache_directory

__all__ = ["class_archive", "launcher_options", "packed", "spark_home"]

#: Put directories or jars on the class path that we do not know of; Java archives no class path with directories.
_ADDING = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")


def spark_home(scratch: Path) -> Path:
    """Return a directory with the programs and jars of the installed pyspark, and without its Python.

    Spark puts ``SPARK_HOME/python/lib/pyspark.zip`` first on the path of its Python processes, and a module from a zip
    file is compiled anew in each: 0.5 s and 15 MB each. A home without that file makes them import the installed
    pyspark. It is in the user's cache, the same for each session, as the paths of jars are part of a class archive.

    Parameters
    ----------
    scratch : Path
        Where it is made instead, if the cache cannot be written.
    """
    installed = Path(pyspark.__file__).parent
    homes = cache_directory() / "spark"
    try:
        _forget_gone(homes)
        return _linked(homes / hashlib.sha256(str(installed).encode()).hexdigest()[:12], installed)
    except OSError:
        return _linked(scratch / "spark-home", installed)


def _linked(home: Path, installed: Path) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    for part in ("bin", "jars"):
        try:
            (home / part).symlink_to(installed / part)
        except FileExistsError:  # of this session's predecessor, or of one that starts now
            continue
    return home


def _forget_gone(homes: Path) -> None:
    """Remove the homes, with their archives, of installations that are not there any more."""
    for home in homes.iterdir() if homes.exists() else ():
        if (home / "jars").is_symlink() and not (home / "jars").exists():
            shutil.rmtree(home, ignore_errors=True)


def class_archive(home: Path, java: str, added: Sequence[Path]) -> ClassArchive | None:
    """Return the class archive of Spark's JVM; None where there can be none.

    Measured on two cores: a session and its first query take 6.2 s of processor time with it, 9.3 s without.

    Parameters
    ----------
    home : Path
        What `spark_home` has returned.
    java : str
        Path of the Java runtime.
    added : sequence of Path
        Jars in front of Spark's.
    """
    if not home.is_relative_to(cache_directory()) or any(map(os.environ.get, _ADDING)):
        return None
    told = hashlib.sha256()
    for file in (Path(java).resolve(), *added, *sorted((home / "jars").iterdir())):
        facts = file.stat()
        told.update(f"{file} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return ClassArchive(home / f"classes-{told.hexdigest()[:12]}.jsa")


def launcher_options(home: Path) -> str:
    """Return what Java is told for the program that puts the command of Spark's JVM together, and lives for a moment.

    Its classes are in one jar: where Java looks for them among all of Spark's, it opens dozens, and takes 0.35 s of
    processor time instead of 0.1 s. What ``SPARK_LAUNCHER_OPTS`` says already is left as it is.

    Parameters
    ----------
    home : Path
        What `spark_home` has returned.
    """
    if told := os.environ.get("SPARK_LAUNCHER_OPTS"):
        return told
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    found = next((home / "jars").glob("spark-launcher_*.jar"), None)
    # Spark's script splits them at blanks
    if found is not None and not re.search(r"\s", str(found)):
        options.append(f"-Xbootclasspath/a:{found}")
    return " ".join(options)


def packed(path: Path) -> Path:
    """Write this package into a zip file, for executors, and return its path."""
    package = Path(__file__).parents[2]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, Path(package.name) / file.relative_to(package))
    return path
