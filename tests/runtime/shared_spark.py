"""One Spark session for the tests of a directory: each start of a JVM costs them ten seconds of processor time.

Each file has a host of its own on it: settings, topics, states and temporary files. Tests of what becomes of a session,
and those with settings with which Spark starts, have one of their own.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from spdist.engine.spark.jars import kafka_jars
from spdist.engine.spark.session import SparkHost
from spdist.errors import SpdistError
from tests.runtime.host_settings import HostSettings, settings_in

__all__ = ["SHARED_SPARK", "SharedSpark"]


class SharedSpark:
    """The session of this process; started when a test asks for it."""

    def __init__(self) -> None:
        self._host: SparkHost | None = None
        self._home: tempfile.TemporaryDirectory[str] | None = None
        self._hosts = 0

    def host(self, settings: HostSettings) -> SparkHost:
        """A host with these settings; it is not to be stopped. Of `spark`, only what queries read counts."""
        if self._host is None or self._host.why_ended():
            self.stop()
            with contextlib.suppress(SpdistError):
                kafka_jars()  # real-time mode needs them when Spark starts
            self._home = tempfile.TemporaryDirectory(prefix="spdist tests ")
            self._host = SparkHost(settings_in(Path(self._home.name))).start()
        for query in self._host.session.streams.active:
            query.stop()  # a test that failed has left it behind
        self._hosts += 1
        return self._host.sharing(settings, self._host.scratch / f"host {self._hosts}")

    def stop(self) -> None:
        """End it; the next who asks starts another."""
        host, self._host = self._host, None
        if host is not None:
            scratch = host.scratch
            host.stop()
            assert not scratch.exists()
        if self._home is not None:
            self._home.cleanup()
            self._home = None


SHARED_SPARK = SharedSpark()
