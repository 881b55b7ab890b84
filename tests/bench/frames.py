"""``make bench-frames``: an app over Spark DataFrames from Parquet, beside the same frames through `mapInArrow` alone.

``transform`` runs a window for each of 1,000 keys over all rows, in batch. Beside it stand reading, a `mapInArrow` step
that hands rows on, and the same behind a shuffle by key and a sort, which is what any such step needs. Results go
nowhere (``noop``). Each number of cores has a JVM of its own, with 1 GB; figures are the best of some rounds. The time
of processors, of the JVM and of Spark's Python processes, says more than that of the clock where the machine is busy.

Examples: ``python -m tests.bench.frames``; ``… --rows 200000 --cores 1 --rounds 1``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import spdist

KEYS = 1_000
APP = """
@app:name('Averages')
define stream Trades (symbol string, price double, volume long);
partition with (symbol of Trades) begin
    from Trades#window.length(50) select symbol, avg(price) as mean, volume insert into Means;
end;
"""
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
}


def session(cores: int) -> SparkSession:
    """Return a session as a user has it, with little memory."""
    builder = SparkSession.Builder().master(f"local[{cores}]").appName("bench")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def write_trades(spark: SparkSession, rows: int, place: Path) -> None:
    """Write rows of 1,000 keys, ten in a ms, in no order."""
    number = F.col("id")
    trades = spark.range(rows).select(
        F.timestamp_millis(F.lit(1_700_000_000_000) + F.floor(number / 10)).alias("ts"),
        F.concat(F.lit("S"), number * 7919 % KEYS).alias("symbol"),
        (number * 7919 % 100_003 / 997 + 1).alias("price"),
        number.alias("volume"),
    )
    trades.repartition(8).write.parquet(str(place))


def handed_on(batches: Iterator[Any]) -> Iterator[Any]:
    """Do nothing."""
    yield from batches


def ways(trades: DataFrame) -> dict[str, DataFrame]:
    """Return what is measured."""
    schema = trades.schema
    by_key = trades.repartition("symbol").sortWithinPartitions("ts", "symbol", "price", "volume")
    return {
        "read": trades,
        "mapInArrow": trades.mapInArrow(handed_on, schema),
        "shuffle, sort, mapInArrow": by_key.mapInArrow(handed_on, schema),
        "transform": spdist.transform(trades, APP),
    }


def processor_time() -> float:
    """Return what the JVM and Spark's Python processes have used so far, s."""
    used = 0.0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            used += times.user + times.system
    return used


def best(call: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return the least time of a round by the clock and of processors, s; before them all is warmed up."""
    call()
    clock, processors = [], []
    for _ in range(rounds):
        began, used = time.perf_counter(), processor_time()
        call()
        clock.append(time.perf_counter() - began)
        processors.append(processor_time() - used)
    return min(clock), min(processors)


def measure(place: Path, rows: int, cores: int, rounds: int) -> None:
    """Print the figures of one number of cores."""
    spark = session(cores)
    spark.conf.set("spark.sql.shuffle.partitions", str(4 * cores))
    trades = spark.read.parquet(str(place))
    for name, frame in ways(trades).items():
        clock, used = best(lambda frame=frame: frame.write.format("noop").mode("overwrite").save(), rounds)  # type: ignore[misc]
        figures = f"{clock:>9.1f} s{rows / clock:>14,.0f}{used:>12.1f} s{rows / used:>16,.0f}"
        print(f"{cores:>5}  {name:<28}{figures}{os.getloadavg()[0]:>7.1f}", flush=True)
    spark.stop()


def main() -> None:
    """Measure each number of cores in a process of its own."""
    parser = argparse.ArgumentParser(description="an app over Spark DataFrames, beside mapInArrow alone")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.place is not None:
        measure(chosen.place, chosen.rows, chosen.cores[0], chosen.rounds)
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory, "trades")
        spark = session(max(chosen.cores))
        write_trades(spark, chosen.rows, place)
        spark.stop()
        print(f"{chosen.rows:,} rows, {KEYS:,} keys")
        print(f"{'cores':>5}  {'':<28}{'clock':>11}{'rows/s':>14}{'processors':>14}{'rows/s of them':>16}{'load':>7}")
        for cores in chosen.cores:
            command = [sys.executable, "-m", "tests.bench.frames", "--place", str(place), "--rows", str(chosen.rows)]
            subprocess.run([*command, "--cores", str(cores), "--rounds", str(chosen.rounds)], check=True)


if __name__ == "__main__":
    main()
