"""Makes the class archive of Spark's JVM, where there is none: ``python -m tests.runtime.class_archive``.

The tests start hundreds of JVMs, each of which needs 3 s of processor time less with it, or more. Otherwise the first
worker that ends in order writes it, and meanwhile nobody else does: in the tests most workers are killed.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from pathlib import Path

from spdist.engine.spark.home import class_archive, spark_home
from spdist.engine.spark.jars import kafka_jars
from spdist.engine.spark.session import SparkHost
from spdist.errors import SpdistError
from spdist.runtime.warm_up import warm_up
from spdist.services.java import find_java
from tests.runtime.host_settings import settings_in


def main() -> None:
    """Make it as a worker does that ends in order."""
    # Which jars there are is part of its name: those that the tests would fetch later come first.
    with contextlib.suppress(SpdistError), tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        archive = class_archive(spark_home(root), find_java("Spark"), kafka_jars())
        if archive is not None and not archive.file.exists():
            with SparkHost(settings_in(root, cores=1), archives=True) as host:
                host.has_run = warm_up(host, threading.Event())


if __name__ == "__main__":
    main()
