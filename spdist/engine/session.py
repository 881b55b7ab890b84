"""The Spark session of a worker process: one JVM, small and quick to start, that ends with the process.

Settings here were chosen by measuring, for several streaming queries on two cores; the figures are in the docstrings.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Protocol

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from spdist.config.sections import Script, Spark, StatePersistence, Transports
from spdist.engine.source import LogDataSource
from spdist.errors import EngineError

__all__ = ["OLDEST_JAVA", "HostSettings", "SparkHost", "java_version"]

OLDEST_JAVA = 17
_PREFIX = "spdist-spark-"
_INSTALL = (
    "install a Java 17 or 21 runtime (Debian: openjdk-17-jre-headless; conda: openjdk=17) or set JAVA_HOME to one"
)
_STOP_TIMEOUT_S = 15.0

#: A JVM for many short tasks: the serial collector and the first compiler keep start and memory small, and 512 kB are
#: enough for Spark's thread stacks.
_JAVA_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=96m",
    "-XX:MaxMetaspaceSize=256m",
    "-Xss512k",
)

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Queries share the cores instead of queueing behind each other; each start_query sets its pool.
    "spark.scheduler.mode": "FAIR",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    # Plans of a handful of operators over a handful of rows: compiling them costs more than running them.
    "spark.sql.codegen.wholeStage": "false",
    # An idle query asks its source this often; at Spark's 10 ms three idle queries cost 13 % of a core, here 6 %.
    "spark.sql.streaming.pollingDelay": "25ms",
    "spark.sql.streaming.stopTimeout": "10s",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.python.worker.reuse": "true",
    # One idle Python worker for each purpose and query; a second one is never needed again.
    "spark.python.factory.idleWorkerMaxPoolSize": "1",
}

_LOG4J = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{HH:mm:ss}} spark %p %c{{1}}: %m%n%ex{{1}}
{quiet}
"""
#: Loggers that complain about what is meant to be so: no Hadoop on this machine, loopback addresses, one scheduler pool
#: per query, queries that end. What goes wrong in a query reaches us as its exception.
_QUIET = (
    "org.apache.hadoop.util.NativeCodeLoader",
    "org.apache.spark.SparkConf",
    "org.apache.spark.scheduler.DAGScheduler",
    "org.apache.spark.scheduler.FairSchedulableBuilder",
    "org.apache.spark.util.Utils",
    "org.apache.spark.sql.execution.streaming.runtime.ResolveWriteToStream",
    "org.apache.spark.sql.execution.streaming.ResolveWriteToStream",
    "org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec",
    "org.apache.spark.sql.execution.datasources.v2.DataWritingSparkTask",
)


def java_version(java: str) -> int | None:
    """Return the major version of the Java runtime at path `java` (8 for ``1.8``), or None where it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found else None


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME is {home}, where there is no bin/java" if home else "there is none on the PATH"
        raise EngineError(f"Spark needs Java, and {where}", hint=_INSTALL)
    version = java_version(java)
    if version is None or version < OLDEST_JAVA:
        what = "does not run" if version is None else f"is Java {version}"
        raise EngineError(f"Spark needs Java {OLDEST_JAVA} or newer, {java} {what}", hint=_INSTALL)


class HostSettings(Protocol):
    """The sections of a node's settings that matter here; `spdist.config.Config` has them all."""

    @property
    def spark(self) -> Spark:
        """Section ``spark``: cores, memory, bounds."""
        ...

    @property
    def transports(self) -> Transports:
        """Section ``transports``: where the topics are."""
        ...

    @property
    def state_persistence(self) -> StatePersistence:
        """Section ``state.persistence``: where the state is."""
        ...

    @property
    def script(self) -> Script:
        """Section ``siddhi.script``: whether functions that apps define are run."""
        ...


class SparkHost:
    """Owns the JVM and the Spark session of this process; start it once, run many queries on it.

    The JVM ends with `stop`, and by itself when this process dies in whatever way. All files that Spark writes are in
    one temporary directory of this host, which `stop` removes; those of hosts that were killed go when the next starts.

    Parameters
    ----------
    config : Config
        The node's settings, or anything with these sections of them.

    Notes
    -----
    Figures on two busy cores: session 4 s, first query 2 s, later ones 1 s; an idle batch takes 20 ms (250 ms with an
    ordinary Python source and sink and checkpoints in step). Three queries: 0.5 GB for the JVM, 0.9 GB in Python.
    """

    def __init__(self, config: HostSettings) -> None:
        self.config = config
        self._lock = threading.RLock()
        self._session: SparkSession | None = None
        self._scratch: Path | None = None

    @property
    def log_directory(self) -> Path:
        """Where the topics are."""
        return Path(self.config.transports.log.directory).absolute()

    @property
    def state_location(self) -> Path:
        """Below which each group instance has its state."""
        return Path(self.config.state_persistence.location).absolute()

    @property
    def scratch(self) -> Path:
        """The temporary directory of this host; raises EngineError where it is not started."""
        if self._scratch is None:
            raise EngineError("the Spark session is not running", hint="call start() first")
        return self._scratch

    @property
    def session(self) -> SparkSession:
        """The Spark session; raises EngineError where the host is not started."""
        if self._session is None:
            raise EngineError("the Spark session is not running", hint="call start() first")
        return self._session

    @property
    def lock(self) -> threading.RLock:
        """Held by whoever changes what all queries of the session share while they are started."""
        return self._lock

    def start(self) -> SparkHost:
        """Start the JVM and the session; nothing happens where they run. Returns the host.

        Raises
        ------
        EngineError
            Java is missing or too old, another session runs in this process, or the JVM does not come up.
        """
        with self._lock:
            if self._session is not None:
                return self
            if SparkContext._active_spark_context is not None:
                raise EngineError("this process already has a Spark session", hint="stop it, or use another process")
            _check_java()
            logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of every connection
            _remove_abandoned(Path(tempfile.gettempdir()))
            self._scratch = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
            try:
                self._session = self._launch(self._scratch)
                self._session.dataSource.register(LogDataSource)
            except Exception as error:
                self.stop()
                raise EngineError(f"the Spark session did not start: {error}") from error
            return self

    def stop(self) -> None:
        """Stop all queries, the session and the JVM, and remove the temporary directory. Safe to call twice."""
        with self._lock:
            session, self._session = self._session, None
            if session is not None:
                with contextlib.suppress(Exception):  # the JVM may be gone already
                    session.stop()
            if self._scratch is not None:
                _end_jvm()
                shutil.rmtree(self._scratch, ignore_errors=True)
                self._scratch = None

    def __enter__(self) -> SparkHost:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _launch(self, scratch: Path) -> SparkSession:
        config = self.config.spark
        settings = _SETTINGS | {
            "spark.driver.memory": config.driver_memory,
            "spark.local.dir": str(scratch / "local"),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.driver.extraJavaOptions": " ".join((*_JAVA_OPTIONS, *_files_for_jvm(scratch))),
        }
        builder = SparkSession.Builder().master(f"local[{config.cores}]").appName("spdist")
        for key, value in settings.items():
            builder = builder.config(key, value)
        with _environment(_for_jvm(scratch)):
            return builder.getOrCreate()


def _files_for_jvm(scratch: Path) -> tuple[str, ...]:
    log4j = scratch / "log4j2.properties"
    quiet = "\n".join(f"logger.q{n}.name = {name}\nlogger.q{n}.level = off" for n, name in enumerate(_QUIET))
    log4j.write_text(_LOG4J.format(quiet=quiet), encoding="utf-8")
    (scratch / "tmp").mkdir()
    # Quoted, as Spark splits the options as a shell does.
    return (
        f'"-Djava.io.tmpdir={scratch / "tmp"}"',
        f'"-Dlog4j2.configurationFile={log4j.as_uri()}"',
        f'"-Dderby.system.home={scratch / "tmp"}"',
    )


def _for_jvm(scratch: Path) -> dict[str, str]:
    """Return the environment for the JVM and, through it, for Spark's Python processes.

    Spark puts ``SPARK_HOME/python/lib/pyspark.zip`` first on their path, and a module from a zip file is compiled anew
    in each process: 0.5 s and 15 MB each. A home without that file makes them import the installed pyspark.
    """
    installed = Path(pyspark.__file__).parent
    home = scratch / "spark-home"
    home.mkdir()
    for part in ("bin", "jars"):
        (home / part).symlink_to(installed / part)
    # What the interpreter does not find by itself: this package in a checkout, and what a notebook has added.
    added = (Path(entry).absolute() for entry in sys.path if Path(entry).is_dir())
    path = [
        str(entry)
        for entry in added
        if not entry.is_relative_to(sys.prefix) and not entry.is_relative_to(sys.base_prefix)
    ]
    return {
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys([str(Path(__file__).parents[2]), *path])),
        # glibc keeps an arena per thread, up to eight per core; each grows and never shrinks.
        "MALLOC_ARENA_MAX": "2",
    }


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Any:
    """Set environment variables for what is launched meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _end_jvm() -> None:
    """End the JVM that pyspark keeps for the next session of this process, and wait for it."""
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    with contextlib.suppress(Exception):  # the JVM may be gone already
        gateway.shutdown()
    if process is None:
        return
    if process.stdin is not None:
        process.stdin.close()  # the JVM ends when nobody holds the other end of its input
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _remove_abandoned(parent: Path) -> None:
    """Remove the temporary directories of hosts whose process is gone."""
    for directory in parent.glob(f"{_PREFIX}*-*"):
        pid = directory.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not _runs(int(pid)):
            shutil.rmtree(directory, ignore_errors=True)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
