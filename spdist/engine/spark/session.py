"""The Spark session of a worker process: one JVM, small and quick to start, that ends with the process.

Settings here were chosen by measuring, for several streaming queries on two cores; the figures are in the docstrings.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from pyspark import SparkContext
from pyspark.sql import SparkSession

from spdist.config.allowed import Allowed, AllowedSections, allowed_of
from spdist.config.sections import Log, ScriptSettings, StatePersistence, Transports
from spdist.engine.shards.places import Place, place_of
from spdist.engine.spark.forks import Forks
from spdist.engine.spark.home import class_archive, launcher_options, packed, spark_home
from spdist.engine.spark.jars import add_jars, cached_kafka_jars, kafka_jars, package_jars, package_settings
from spdist.engine.spark.source import LogDataSource
from spdist.errors import EngineError
from spdist.packages import use_packages, variables
from spdist.services.class_archive import ClassArchive
from spdist.services.java import OLDEST_JAVA, find_java, java_version
from spdist.services.process import runs
from spdist.transports.opening import transport_settings, write_settings

__all__ = ["OLDEST_JAVA", "HostSettings", "SparkHost", "java_version"]

log = logging.getLogger(__name__)

_PREFIX = "spdist-spark-"
_STOP_TIMEOUT_S = 15.0
#: How much longer a JVM may take that writes its class archive: 3 s of processor time.
_ARCHIVE_TIMEOUT_S = 45.0

#: A JVM for many short tasks: the serial collector keeps start and memory small, and 512 kB are enough for Spark's
#: thread stacks. Classes take 130 MB in any case: until then nothing is collected for their sake.
_JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:MetaspaceSize=160m", "-XX:MaxMetaspaceSize=256m", "-Xss512k")
#: Where it must begin soon: the first compiler only.
_QUICK_JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=96m")
#: Else C2, for what runs for each event: at its usual thresholds it takes a sixth of two cores for
#: minutes, for the planning of batches, which is a few percent. So it waits for twenty times as many calls and loops.
_BUSY_JAVA_OPTIONS = (
    "-XX:Tier4InvocationThreshold=100000",
    "-XX:Tier4MinInvocationThreshold=12000",
    "-XX:Tier4CompileThreshold=300000",
    "-XX:Tier4BackEdgeThreshold=800000",
    # Messages live as long as their batch is read. In a small young generation they survive and are copied to the old
    # one, which is soon full: a fifth of what the JVM does.
    "-XX:NewRatio=1",
)
_QUICK_SETTINGS = {
    # Plans of a handful of operators are not compiled: that costs more than running them over a handful of rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.executor.extraJavaOptions": " ".join((*_JAVA_OPTIONS[:1], *_QUICK_JAVA_OPTIONS)),
}

_RENAMING = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Batches of queries get the cores in the order in which they were submitted. Among pools of which none has a task
    # running FAIR takes the first by name: on one core, two queries that always have work leave none to a third.
    "spark.scheduler.mode": "FIFO",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    # No bound of bytes: to know them Spark counts all headers in the Arrow batch again with each row that it adds.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    # An idle query asks its source this often; at Spark's 10 ms three idle queries cost 13 % of a core, here 6 %.
    "spark.sql.streaming.pollingDelay": "25ms",
    "spark.sql.streaming.stopTimeout": "10s",
    # Hadoop's other way to rename a file on a local disk runs the program readlink four times, of which each takes
    # milliseconds: a fifth of a batch that keeps its offsets in step.
    "spark.sql.streaming.checkpointFileManagerClass": _RENAMING,
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.python.worker.reuse": "true",
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
#: Loggers that complain about what is meant to be so: no Hadoop on this machine, loopback addresses, queries that end.
#: What goes wrong in a query reaches us as its exception.
_QUIET = (
    "org.apache.hadoop.util.NativeCodeLoader",
    "org.apache.spark.SparkConf",
    "org.apache.spark.scheduler.DAGScheduler",
    "org.apache.spark.util.Utils",
    "org.apache.spark.sql.execution.streaming.runtime.ResolveWriteToStream",
    "org.apache.spark.sql.execution.streaming.ResolveWriteToStream",
    "org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec",
    "org.apache.spark.sql.execution.datasources.v2.DataWritingSparkTask",
    # A micro-batch that takes longer than its interval.
    "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor",
    # It does not find the classes of jars that a session got later, for figures that nobody looks at.
    "org.apache.spark.sql.execution.ui.SQLAppStatusListener",
)


class HostSettings(AllowedSections, Protocol):
    """The sections of a node's settings that matter here; `spdist.config.Config` has them all."""

    @property
    def script(self) -> ScriptSettings:
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
    archives : bool
        Whether its JVM writes the class archive, where there is none yet: `stop` takes some seconds more, once.

    Attributes
    ----------
    has_run : bool
        Whether a query has run, so that the classes that queries need are loaded: else they are not archived.

    Notes
    -----
    Figures on two busy cores: session 4 s, first query 2 s, later ones 1 s; an idle batch takes 20 ms (250 ms with an
    ordinary Python source and sink and checkpoints in step). Three queries: 0.5 GB for the JVM, 0.3 GB in Python (0.6
    where nothing is forked).
    """

    def __init__(self, config: HostSettings, *, archives: bool = False) -> None:
        use_packages(config.script.packages)  # Spark's processes have them from the environment
        self.config = config
        self.has_run = False
        self._archives = archives
        self._archive: ClassArchive | None = None
        self._lock = threading.RLock()
        self._session: SparkSession | None = None
        self._scratch: Path | None = None
        self._forks: Forks | None = None
        self._has_kafka = False
        self._topics: str | None = None
        self._allowed: Allowed | None = None
        self._streams_kafka = False

    @property
    def log_directory(self) -> Path:
        """Where the topics are."""
        return Path(self.config.transports.log.directory).absolute()

    @property
    def topics(self) -> str:
        """Where the topics between groups are, for Spark's processes; raises EngineError where it is not started."""
        if self._topics is None:
            self._topics = write_settings(transport_settings(self.config.transports), self.scratch)
        return self._topics

    @property
    def allowed(self) -> Allowed:
        """What apps may refer to, for this process."""
        return allowed_of(self.config)

    @property
    def allowed_for_tasks(self) -> Allowed:
        """The same for Spark's processes; raises EngineError where it is not started."""
        if self._allowed is None:
            self._allowed = self.allowed.for_tasks(self.config.datasources, self.scratch)
        return self._allowed

    @property
    def state_location(self) -> Place:
        """Below which each group instance has its state."""
        place = place_of(self.config.state_persistence.location)
        return place.absolute() if isinstance(place, Path) else place

    @property
    def scratch(self) -> Path:
        """The temporary directory of this host; raises EngineError where it is not started."""
        if self._scratch is None:
            raise EngineError("the Spark session is not running", hint="call start() first")
        return self._scratch

    @property
    def copies(self) -> Path:
        """A directory for copies of what is in a bucket; raises EngineError where the host is not started."""
        return self.scratch / "copies"

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

    def why_gone(self) -> str:
        """Return how the JVM of the session ended; empty while it runs, and where the host is not started. Quick."""
        code = None if self._session is None else _exit_code_of_jvm()
        if code is None:
            return ""
        return f"its JVM ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"

    def why_ended(self) -> str:
        """Return why nothing can run on the session any more; empty while it works. Waits for the JVM's answer."""
        session, gone = self._session, self.why_gone()
        if session is None or gone:
            return gone
        try:
            stopped = session.sparkContext._jsc is None or session.sparkContext._jsc.sc().isStopped()
        except Exception as error:
            return self.why_gone() or f"its JVM does not answer: {error}"
        return "Spark stopped in its JVM" if stopped else ""

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
            java = find_java("Spark")
            logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of every connection
            logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)  # what we raise in a batch comes back
            _remove_abandoned(Path(tempfile.gettempdir()))
            self._scratch = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
            try:
                self._session = self._launch(self._scratch, java)
                self._session.dataSource.register(LogDataSource)
            except Exception as error:
                self.stop()
                raise EngineError(f"the Spark session did not start: {error}") from error
            return self

    def need_kafka(self) -> None:
        """Make Spark's Kafka source and sink available to this thread; the second time in a session it is quick.

        Raises
        ------
        EngineError
            The host is not started, or the connector is not in the cache and cannot be fetched.
        """
        with self._lock:
            if not self._has_kafka:
                add_jars(self.session, kafka_jars())
                self._has_kafka = True
            # Each thread here has one in the JVM, which finds what was added only through this loader.
            loader = self.session._jsparkSession.sharedState().jarClassLoader()
            self.session._jvm.java.lang.Thread.currentThread().setContextClassLoader(loader)  # type: ignore[union-attr]

    @property
    def streams_kafka(self) -> bool:
        """Whether Kafka was on the class path when the JVM started, which real-time mode needs."""
        return self._streams_kafka

    def apart(self, directory: Path) -> SparkHost:
        """Return a host with this one's session whose topics and states are below `directory`; not to be stopped."""
        topics = Transports(Log(directory / "topics"))
        states = StatePersistence(location=directory / "states")
        config = replace(self.config, transports=topics, state_persistence=states)  # type: ignore[type-var]
        return self.sharing(config, directory)

    def sharing(self, config: HostSettings, scratch: Path) -> SparkHost:
        """Return a host with this one's session and other settings; not to be stopped.

        Parameters
        ----------
        config : Config
            Settings, of which those with which Spark starts do not count.
        scratch : Path
            The directory of its temporary files; whoever owns it removes it. Made where it is missing.
        """
        scratch.mkdir(parents=True, exist_ok=True)
        other = copy.copy(self)
        other.config, other._scratch = config, scratch
        other._topics = other._allowed = None
        return other

    def stop(self) -> None:
        """Stop all queries, the session and the JVM, and remove the temporary directory. Safe to call twice."""
        with self._lock:
            session, self._session = self._session, None
            self._has_kafka = False
            self._topics = self._allowed = None
            if session is not None:
                _stop_session(session)
            if self._scratch is not None:
                self._end_jvm()
                if self._forks is not None:
                    self._forks.stop()
                    self._forks = None
                shutil.rmtree(self._scratch, ignore_errors=True)
                self._scratch = None

    def _end_jvm(self) -> None:
        archive, self._archive = self._archive, None
        writes = archive is not None and archive.is_written
        in_order = _end_jvm(_STOP_TIMEOUT_S + _ARCHIVE_TIMEOUT_S if writes else _STOP_TIMEOUT_S)
        if archive is not None and in_order and self.has_run:
            archive.keep()
        elif archive is not None:
            archive.drop()

    def __enter__(self) -> SparkHost:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _launch(self, scratch: Path, java: str) -> SparkSession:
        config = self.config.spark
        quick = config.optimize_for == "start"
        settings = _SETTINGS | (_QUICK_SETTINGS if quick else {})
        chosen = _QUICK_JAVA_OPTIONS if quick else (*_BUSY_JAVA_OPTIONS, f"-Xms{config.driver_memory}")
        # Real-time mode reads results of tasks in threads that do not know of jars that were added later.
        known = cached_kafka_jars()
        packages = package_jars(config.packages)
        home = spark_home(scratch)
        self._archive = class_archive(home, java, (*known, *packages))
        archived = [] if self._archive is None else self._archive.options(writes=self._archives)
        # Quoted, as Spark splits the options as a shell does.
        options = (*_JAVA_OPTIONS, *chosen, *(f'"{one}"' for one in (*_files_for_jvm(scratch), *archived)))
        settings |= {
            "spark.driver.memory": config.driver_memory,
            # As many idle Python workers for a query as can work for it at a time: they have its live state.
            "spark.python.factory.idleWorkerMaxPoolSize": str(config.cores),
            "spark.local.dir": str(scratch / "local"),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.driver.extraJavaOptions": " ".join(options),
        }
        if known or packages:
            settings["spark.driver.extraClassPath"] = os.pathsep.join(map(str, (*known, *packages)))
        settings |= package_settings(config.packages)
        settings |= {f"spark.executorEnv.{name}": value for name, value in variables().items()}
        master = config.master or f"local[{config.cores}]"
        if packages and not master.startswith("local["):
            settings["spark.jars"] = ",".join(map(str, packages))  # for executors
        self._streams_kafka = bool(known)
        self._has_kafka = bool(known) and master.startswith("local[")  # executors get what is added
        if _elsewhere(master):
            # Executors on other machines must reach the driver, and Spark knows how they call this one.
            settings = {key: value for key, value in settings.items() if not key.startswith("spark.driver.bind")}
            settings.pop("spark.driver.host")
        builder = SparkSession.Builder().master(master).appName("spdist")
        for key, value in settings.items():
            builder = builder.config(key, value)
        environment = _for_jvm(home)
        if not _elsewhere(master):
            self._forks = Forks(scratch)
            program = self._forks.start(environment)
            environment |= {"PYSPARK_PYTHON": program, "PYSPARK_DRIVER_PYTHON": program}
        with _environment(environment):
            session = builder.getOrCreate()
        if not master.startswith("local["):
            log.info(
                "executors of %s must see the topics in %s and the states in %s",
                master,
                self.log_directory,
                self.state_location,
            )
            session.sparkContext.addPyFile(str(packed(scratch / "spdist.zip")))
        return session


def _elsewhere(master: str) -> bool:
    """Tell whether the executors of a Spark master may be on other machines."""
    if master.startswith(("local[", "local-cluster[")) or master == "local":
        return False
    return not re.match(r"spark://(localhost|127\.0\.0\.1|\[::1\])(:|$)", master)


def _files_for_jvm(scratch: Path) -> tuple[str, ...]:
    log4j = scratch / "log4j2.properties"
    quiet = "\n".join(f"logger.q{n}.name = {name}\nlogger.q{n}.level = off" for n, name in enumerate(_QUIET))
    log4j.write_text(_LOG4J.format(quiet=quiet), encoding="utf-8")
    (scratch / "tmp").mkdir()
    return (
        f"-Djava.io.tmpdir={scratch / 'tmp'}",
        f"-Dlog4j2.configurationFile={log4j.as_uri()}",
        f"-Dderby.system.home={scratch / 'tmp'}",
    )


def _for_jvm(home: Path) -> dict[str, str]:
    """Return the environment for the JVM and, through it, for Spark's Python processes."""
    # What the interpreter does not find by itself: this package in a checkout, and what a notebook has added.
    added = (Path(entry).absolute() for entry in sys.path if Path(entry).is_dir())
    path = [str(entry) for entry in added if not any(map(entry.is_relative_to, (sys.prefix, sys.base_prefix)))]
    return {
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys([str(Path(__file__).parents[3]), *path])),
        # glibc keeps an arena per thread, up to eight per core; each grows and never shrinks.
        "MALLOC_ARENA_MAX": "2",
        "SPARK_LAUNCHER_OPTS": launcher_options(home),
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


def _stop_session(session: SparkSession) -> None:
    """Stop a session. Where its JVM has gone, pyspark leaves undone what keeps the next one from starting."""
    context = session.sparkContext
    try:
        with warnings.catch_warnings(action="ignore"):
            session.stop()
    except Exception as error:
        log.debug("the session did not stop cleanly: %s", error)
        accumulators, context._accumulatorServer = context._accumulatorServer, None  # type: ignore[assignment]
        if accumulators is not None:
            accumulators.shutdown()
        context._jsc = None
        SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = None
        SparkSession._activeSession = None


def _exit_code_of_jvm() -> int | None:
    """Return how the JVM of this process ended; None while it runs, and where it is not ours."""
    process = getattr(SparkContext._gateway, "proc", None)
    return None if process is None else process.poll()


def _end_jvm(timeout_s: float = _STOP_TIMEOUT_S) -> bool:
    """End the JVM that pyspark keeps for the next session of this process, and wait: tells whether it ends in order."""
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    if gateway is None:
        return False
    process = getattr(gateway, "proc", None)
    with contextlib.suppress(Exception):  # the JVM may be gone already
        gateway.shutdown()
    if process is None:
        return False
    if process.stdin is not None:
        process.stdin.close()  # the JVM ends when nobody holds the other end of its input
    try:
        return bool(process.wait(timeout_s) == 0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False


def _remove_abandoned(parent: Path) -> None:
    """Remove the temporary directories of hosts whose process is gone."""
    for directory in parent.glob(f"{_PREFIX}*-*"):
        pid = directory.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not runs(int(pid)):
            shutil.rmtree(directory, ignore_errors=True)
