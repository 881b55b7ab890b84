"""``python -m tests.faults.frames DIR SHARDS``: a streaming query over files through an app, until all are read.

Says READY once Spark is up, starts when a line comes in, tells each batch, and begins anew where the query fails: its
Python processes may be killed, too.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import spdist
from spdist.engine.spark.home import class_archive, launcher_options, spark_home
from spdist.engine.spark.jars import cached_kafka_jars
from spdist.services.java import find_java

COLUMNS = "ts long, seq int, k string, v int"
APP = """
@app:name('Killed') @app:playback
define stream S (k string, v int);
partition with (k of S) begin
    @info(name='rise') from every e1=S -> e2=S[v > e1.v + 100] within 200 millisec
    select e1.k as k, e1.v as low, e2.v as high insert into Rises;
    @info(name='sums') from S#window.time(100 millisec) select k, sum(v) as total insert into Sums;
    @info(name='quiet') from every e1=S -> not S for 60 millisec select e1.k as k, e1.v as v insert into Quiet;
end;
"""
OUTPUTS = ["Rises", "Sums", "Quiet"]
_JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
}


def session(place: Path) -> SparkSession:
    """Return a session that is quick to start; what it writes for itself is below `place`."""
    # Each life reads the classes that the JVMs of workers have archived, which are those of the same class path.
    home, jars = spark_home(place), cached_kafka_jars()
    archive = class_archive(home, find_java("Spark"), jars)
    options = _JAVA_OPTIONS if archive is None else (*_JAVA_OPTIONS, *archive.options(writes=False))
    os.environ |= {"SPARK_HOME": str(home), "SPARK_LAUNCHER_OPTS": launcher_options(home)}
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder().master("local[2]")
    settings = {
        "spark.local.dir": f"{place}/local",
        "spark.sql.warehouse.dir": f"{place}/warehouse",
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.driver.extraJavaOptions": " ".join(f'"{one}"' for one in options),
    }
    for name, value in (_SETTINGS | settings).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def query(spark: SparkSession, home: Path, shards: int) -> StreamingQuery:
    """Start the query: one file in each micro-batch."""
    stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(home / "in"))
    checkpoint = str(home / "checkpoint")
    result = spdist.transform(stream, APP, output=OUTPUTS, order="seq", shards=shards, checkpoint=checkpoint)
    writer = result.writeStream.format("parquet").option("path", str(home / "out"))
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def main(home: Path, shards: int) -> None:
    """Run until all files are read."""
    spark = session(home / f"spark-{os.getpid()}")
    print("READY", flush=True)
    sys.stdin.readline()
    seen, over = -1, threading.Event()
    while not over.is_set():
        running = query(spark, home, shards)
        with contextlib.suppress(StreamingQueryException):
            while not running.awaitTermination(1):
                progress = running.lastProgress
                if progress is not None and progress["batchId"] > seen:
                    seen = progress["batchId"]
                    print("BATCH", seen, flush=True)
            over.set()
    print("DONE", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
