"""How a worker makes its groups and keeps their revisions: one Spark session for all, started in the background."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from spdist.cluster.hosting import Runtime
from spdist.config import Config
from spdist.planning.topology import Assignment

if TYPE_CHECKING:
    from spdist.engine.session import SparkHost

__all__ = ["SparkLauncher"]

# It tells of every connection that is closed, in the notebook of the worker.
logging.getLogger("py4j").setLevel(logging.WARNING)


class SparkLauncher:
    """Makes runtimes of group instances, which start, and share, this process's Spark session.

    Parameters
    ----------
    config : Config
        Spark, topics and state of this worker.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._host: SparkHost | None = None

    def warm_up(self) -> None:
        """Start Spark; returns when it is up.

        Raises
        ------
        EngineError
            It cannot be started here; says why.
        """
        self._known_host().start()

    def __call__(self, assignment: Assignment) -> Runtime:
        """Return the runtime of `assignment`, not yet started."""
        from spdist.runtime.commanded import commanded
        from spdist.runtime.realtime import runtime_of

        return runtime_of(commanded(assignment), self._known_host(), self._config.carbon.id)

    def close(self) -> None:
        """End Spark, once it has come up; what still runs ends with it."""
        if self._host is not None:
            self._host.stop()

    def _known_host(self) -> SparkHost:
        from spdist.engine.session import SparkHost

        with self._lock:
            if self._host is None:
                self._host = SparkHost(self._config)
            return self._host
