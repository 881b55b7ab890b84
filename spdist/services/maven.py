"""Jars by their Maven coordinates, fetched once by the Ivy that pyspark ships and kept in the user's cache directory.

A set of coordinates has a directory of its own, which appears whole or not at all; once it is there nothing is asked of
any network. ``SPDIST_IVY_SETTINGS`` may name an Ivy settings file, for a mirror or a proxy; ``SPDIST_JARS`` a directory
with sets that were fetched for others, such as those of an image, which is only read.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import logging
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from spdist.errors import EngineError
from spdist.services.java import find_java

__all__ = ["Coordinate", "cache_directory", "cached_jars", "jars"]

log = logging.getLogger(__name__)

_TIMEOUT_S = 900.0
_IVY_XML = """\
<ivy-module version="2.0">
  <info organisation="spdist" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


@dataclass(frozen=True, slots=True)
class Coordinate:
    """An artifact of a Maven repository.

    Parameters
    ----------
    group, artifact, version : str
        Where it stands.
    transitive : bool
        Whether what it needs is fetched too.
    """

    group: str
    artifact: str
    version: str
    transitive: bool = True

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


def cache_directory() -> Path:
    """Return the directory of spdist in the user's cache: ``$XDG_CACHE_HOME/spdist``, else ``~/.cache/spdist``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spdist"


def cached_jars(name: str, coordinates: Sequence[Coordinate]) -> list[Path]:
    """Return the jars of a set where it was fetched before, else an empty list."""
    own = _directory(name, coordinates)
    given = os.environ.get("SPDIST_JARS")
    places = [Path(given) / own.name, own] if given else [own]
    return next((found for one in places if (found := sorted(one.glob("*.jar")))), [])


def jars(name: str, coordinates: Sequence[Coordinate]) -> list[Path]:
    """Return the jars of a set of coordinates, sorted; fetch them where they are not in the cache yet.

    Several processes may ask at the same time: one fetches and the others wait.

    Parameters
    ----------
    name : str
        Of the set, for its directory and for messages.
    coordinates : sequence of Coordinate
        What to fetch.

    Raises
    ------
    EngineError
        There is no Java, or the repository does not answer or has no such artifact.
    """
    # No lock to look: a set gets the name of its directory last, so one that is there is whole.
    if found := cached_jars(name, coordinates):
        return found
    home = cache_directory()
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _locked(home / "ivy.lock"):
            # Looked at again: another process may have fetched them while this one waited.
            return cached_jars(name, coordinates) or _fetch(name, coordinates, home)
    except OSError as error:
        hint = "set XDG_CACHE_HOME to a directory that can be written"
        raise EngineError(f"the jars of {name} cannot be kept in {home}: {error}", hint=hint) from error


def _directory(name: str, coordinates: Sequence[Coordinate]) -> Path:
    told = "\n".join(f"{one} {one.transitive}" for one in coordinates)
    return cache_directory() / "jars" / f"{name}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"


def _fetch(name: str, coordinates: Sequence[Coordinate], home: Path) -> list[Path]:
    """Resolve and download into a directory next to the final one, then give it its name."""
    java, ivy = find_java(name), _ivy()
    log.info("fetching the jars of %s", name)
    final = _directory(name, coordinates)
    final.parent.mkdir(parents=True, exist_ok=True)
    # On the same file system, so that the rename is one step.
    fresh = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
    try:
        module = fresh / "ivy.xml"
        module.write_text(_IVY_XML.format(dependencies="\n".join(map(_dependency, coordinates))), encoding="utf-8")
        pattern = f"{fresh}/[artifact]-[revision](-[classifier]).[ext]"
        command = [java, "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-jar", str(ivy), "-cache", str(home / "ivy")]
        if settings := os.environ.get("SPDIST_IVY_SETTINGS"):
            command += ["-settings", settings]
        command += ["-ivy", str(module), "-retrieve", pattern, "-types", "jar", "bundle"]
        _run(name, coordinates, command)
        module.unlink()
        if not any(fresh.glob("*.jar")):
            raise EngineError(f"the jars of {name} were resolved and none was found")
        fresh.rename(final)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return sorted(final.glob("*.jar"))


def _run(name: str, coordinates: Sequence[Coordinate], command: list[str]) -> None:
    wanted = ", ".join(map(str, coordinates))
    hint = (
        "the first use needs a network with a Maven repository (SPDIST_IVY_SETTINGS may name an Ivy settings file with "
        f"a mirror); later uses need none. Wanted: {wanted}"
    )
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"the jars of {name} could not be fetched in {_TIMEOUT_S:g} s", hint=hint) from error
    if done.returncode:
        told = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
        reasons = [line.strip(": ") for line in told if re.search(r"not found$|FAILED|Exception|[Rr]efused", line)]
        why = "; ".join(dict.fromkeys(reasons or told[-3:]))[:500]
        raise EngineError(f"the jars of {name} could not be fetched: {why}", hint=hint)


def _dependency(one: Coordinate) -> str:
    place = f"org={quoteattr(one.group)} name={quoteattr(one.artifact)} rev={quoteattr(one.version)}"
    return f'    <dependency {place} conf="default->default" transitive="{str(one.transitive).lower()}"/>'


def _ivy() -> Path:
    """Return Ivy's jar, which Spark brings along; pyspark itself is not loaded for that."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EngineError("jars are fetched with the Ivy of pyspark, and pyspark is not installed")
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise EngineError(f"there is no Ivy in the pyspark of {Path(spec.origin).parent}", hint="install pyspark anew")
    return found[-1]


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Keep other processes out; the lock ends with the process that holds it."""
    # The file stays: who waits for one that is removed gets a lock that later processes do not see.
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
