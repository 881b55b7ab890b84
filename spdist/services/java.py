"""The Java runtime of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from spdist.errors import EngineError

__all__ = ["OLDEST_JAVA", "find_java", "java_version"]

OLDEST_JAVA = 17
_INSTALL = (
    "install a Java 17 or 21 runtime (Debian: openjdk-17-jre-headless; conda: openjdk=17) or set JAVA_HOME to one"
)


def java_version(java: str) -> int | None:
    """Return the major version of the Java runtime at path `java` (8 for ``1.8``), or None where it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found else None


def find_java(purpose: str) -> str:
    """Return the path of a Java runtime that is new enough: that of JAVA_HOME, else the first on the PATH.

    Parameters
    ----------
    purpose : str
        Who needs it, for the error: "Spark", "a Kafka broker".

    Raises
    ------
    EngineError
        There is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME is {home}, where there is no bin/java" if home else "there is none on the PATH"
        raise EngineError(f"{purpose} needs Java, and {where}", hint=_INSTALL)
    version = java_version(java)
    if version is None or version < OLDEST_JAVA:
        what = "does not run" if version is None else f"is Java {version}"
        raise EngineError(f"{purpose} needs Java {OLDEST_JAVA} or newer, {java} {what}", hint=_INSTALL)
    return java
