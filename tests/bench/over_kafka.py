"""``make bench-kafka``: apps between real Kafka topics, JSON in and out, beside Spark alone and beside Siddhi's engine.

A broker is started on this machine. The events of a workload are drawn into topics once; then, in turn and over the
same topics, run: Spark moving the bytes untouched (what reading and writing cost by themselves), the app on Spark, and
Siddhi's own engine with lean connectors (`tests/bench/peer/KafkaPeer.java`), one thread, where Maven finds it. Spark's
rates are those of the second half of the events, the apps' those of the best of some runs in one JVM: starting up and
compiling counts for nobody. Where an app has several results for each event, which are one message, Spark also writes
each record's bytes as often, and so often that it writes as many bytes as the app: to move the input once says nothing
of what so many results cost.

Examples: ``python -m tests.bench.over_kafka``; ``… --count 200000 --no-peer length_window_avg``.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from spdist import check
from spdist.engine.spark.jars import add_jars, kafka_jars
from spdist.engine.spark.session import SparkHost
from spdist.errors import SiddhiAppError
from spdist.runtime.group import GroupRuntime
from spdist.runtime.standalone import prepare
from spdist.services.kafka import KafkaBroker
from tests.bench.peer import Peer, PeerMissing
from tests.bench.workloads import FOLDER, Workload
from tests.runtime.host_settings import settings_in

#: Time of the first event, ms: topics do not take times before 1970.
START_MS = 1_600_000_000_000
#: Workloads that put out many events for one: fewer events do.
WIDE = {"join_time_windows": 10}
#: Those that Siddhi scans for: for it so many fewer do again.
SLOW = {"join_time_windows": 5, "join_time_windows_1k": 5, "pattern_every": 5}
#: What `--vary` changes in an app: one thing each, where the app has it.
VARIATIONS = {
    "filter in front": (r"from S\b(?!\[)", "from S[price >= 0.0f]"),
    "having": (r"(\w+)((?:\s+group by \w+)?)(\s+insert into Out)", r"\1\2 having \1 >= 0.0\3"),
    "max": (r"\b(?:avg|sum)\(", "max("),
    "expression": (r"\(price\)", "(price * 2.0f)"),
    "all events": (r"insert into", "insert all events into"),
    "second reader": (r"\Z", "from S select symbol insert into Other;"),
    "chain": (r"(?<!begin\n  @info\(name='q'\)\n  )from S\b", "from S select * insert into S1;\nfrom S1"),
}
PATIENCE_S = 240.0
#: Results are counted in so many messages.
SAMPLE = 1000
#: Without these Spark alone would be three times as slow: few large polls, few large requests.
TUNED = {
    "kafka.max.poll.records": "100000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.linger.ms": "10",
    "kafka.batch.size": str(256 << 10),
}


def chosen_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what a command line asks for, by default this process's."""
    parser = argparse.ArgumentParser(prog="make bench-kafka", description="measure apps between Kafka topics")
    known = sorted(path.stem for path in FOLDER.glob("*.siddhi"))
    parser.add_argument("names", nargs="*", metavar="name", help=f"workloads, of {', '.join(known)}; by default all")
    parser.add_argument("--count", type=int, default=2_000_000, help="events")
    parser.add_argument("--batch", type=int, default=250_000, help="events of a micro-batch, at most")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--shards", type=int, default=1, help="parts of what can be split by key")
    parser.add_argument("--keys", type=int, help="draw texts among so many")
    parser.add_argument("--window", type=int, help="events in windows of a length")
    parser.add_argument(
        "--runs", type=int, default=3, help="runs of the app, and of Spark alone, each in one JVM: the best counts"
    )
    parser.add_argument(
        "--vary", action="store_true", help="the apps also with one thing changed, each beside its base"
    )
    parser.add_argument("--no-peer", action="store_true", help="without Siddhi's engine")
    chosen = parser.parse_args(arguments)
    # Not by `choices`: Python 3.11 holds a list that is the default against them.
    if unknown := [name for name in chosen.names if name not in known]:
        parser.error(f"there is no workload {', '.join(unknown)}; there are {', '.join(known)}")
    chosen.names = chosen.names or known
    return chosen


def main() -> None:
    """Run what the command line asks for."""
    chosen = chosen_of()
    try:
        peer = Peer.ready()
    except PeerMissing as missing:
        sys.exit(f"the events are drawn in Java, with the help of Maven: {missing}")
    columns = ["Spark alone", "spdist", *(() if chosen.no_peer else ("Siddhi",))]
    print(f"{'events/s, Kafka to Kafka':<26}" + "".join(f"{column:>14}" for column in columns) + "  ratios")
    made = {"auto.create.topics.enable": "true"}
    with (
        tempfile.TemporaryDirectory(prefix="spdist-bench-") as home,
        KafkaBroker(Path(home, "kafka"), memory="1g", properties=made, throughput=True) as broker,
    ):
        for number, name in enumerate(chosen.names):
            _one(Bench(Path(home, str(number)), broker.url, _workload(name, chosen), peer, chosen), chosen)


def _workload(name: str, chosen: argparse.Namespace) -> Workload:
    found = Workload.load(name)
    if chosen.keys is not None:
        found = found.with_keys(chosen.keys)
    if chosen.window is not None:
        found = replace(found, text=re.sub(r"\.length\(\d+\)", f".length({chosen.window})", found.text))
    return found


def _one(bench: Bench, chosen: argparse.Namespace) -> None:
    bench.load(bench.prefix, bench.count)
    alone, (ours, results, times) = bench.spark_alone(), bench.ours()
    peers = [] if chosen.no_peer else [bench.siddhi()]
    told = "".join(f"{rate:>14,.0f}" if rate else f"{'—':>14}" for rate in (alone, ours, *peers))
    ratios = [f"{ours / rate:.2f}×" if rate else "—" for rate in (alone, *peers)]
    print(f"{bench.workload.name:<26}{told}  {' · '.join(ratios)}", flush=True)
    if round(results) > 1:
        for copies, told in ((round(results), "{} results for each"), (round(times), "as many bytes, {} times")):
            alone = bench.spark_alone(copies)
            print(f"  {told.format(copies):<24}{alone:>14,.0f}{ours:>14,.0f}  {ours / alone:.2f}×", flush=True)
    if chosen.vary:
        for name, text in _varied(bench.workload.text):
            varied = replace(
                bench, home=bench.home / name.replace(" ", "_"), workload=replace(bench.workload, text=text)
            )
            rate, found, _ = varied.ours()
            moved = _moved(found, results, rate / ours)
            print(f"  {name:<24}{'':>14}{rate:>14,.0f}  {rate / ours:.2f}× its base{moved}", flush=True)


def _moved(found: float, results: float, ratio: float) -> str:
    """Return what a ratio is in events in and results out, where an app has other numbers of results for each event."""
    if abs(found - results) < 0.1:
        return ""
    moved = ratio * (1 + found) / (1 + results)
    return f", {moved:.2f}× in events and results: {found:.2f} results for each event in place of {results:.2f}"


def _varied(text: str) -> Iterator[tuple[str, str]]:
    """Yield the variations that an app has, as text; those that mean nothing in it are left out."""
    for name, (pattern, replacement) in VARIATIONS.items():
        varied = re.sub(pattern, replacement, text, count=1)
        if varied == text:
            continue
        try:
            check(varied)
        except SiddhiAppError:
            continue
        yield name, varied


@dataclass
class Bench:
    """One workload over one broker."""

    home: Path
    servers: str
    workload: Workload
    peer: Peer
    chosen: argparse.Namespace

    @property
    def count(self) -> int:
        """How many events there are."""
        return int(self.chosen.count) // WIDE.get(self.workload.name, 1)

    @property
    def prefix(self) -> str:
        """With what the names of the topics begin."""
        return f"{self.workload.name}."

    def load(self, prefix: str, count: int) -> None:
        """Draw events into topics with names that begin with `prefix`."""
        drawn = self.workload
        self.peer.call("Load", self.servers, prefix, 1, count, START_MS, drawn.events_per_second, drawn.seed,
                       *drawn.description)  # fmt: skip

    def spark_alone(self, copies: int = 1) -> float:
        """Return the best rate at which Spark moves the bytes from the topics to another, of each record so often."""
        with self._host(f"alone_{copies}") as host:
            add_jars(host.session, kafka_jars())
            # As often as the app, in one JVM like it: the first run is the slowest of both.
            return max(self._alone(host, copies, run) for run in range(self.chosen.runs))

    def _alone(self, host: SparkHost, copies: int, run: int) -> float:
        topics = ",".join(self.prefix + stream for stream, _ in self.workload.streams)
        options = {"kafka.bootstrap.servers": self.servers, "startingOffsets": "earliest", **TUNED}
        read = host.session.readStream.format("kafka").options(**options, subscribe=topics)
        records = read.option("maxOffsetsPerTrigger", self._batch).load().selectExpr("key", "value")
        if copies > 1:
            records = records.selectExpr("key", f"repeat(cast(value as string), {copies}) as value")
        writer = records.writeStream.format("kafka").options(**options, topic=f"{self.prefix}alone")
        query = writer.option("checkpointLocation", str(self.home / f"checkpoint_{copies}_{run}")).start()
        seen: dict[int, int] = {}

        def read_so_far() -> int:
            seen.update({p.batchId: p.numInputRows for p in query.recentProgress})
            return sum(seen.values())

        try:
            return self._rate(read_so_far)
        finally:
            query.stop()

    def ours(self) -> tuple[float, float, float]:
        """Return the best rate of the app on Spark, how many results it has for each event, and how many of its bytes.

        The last is a multiple of the bytes of the events that come in.
        """
        out = f"{self.prefix}ours"
        before, _, _ = self._written(out)
        with self._host("ours") as host:
            rate = max(self._ours(host, run) for run in range(self.chosen.runs))
        messages, results, size = self._written(out)
        sizes = [self._written(self.prefix + stream)[2] for stream, _ in self.workload.streams]
        share = (messages - before) / (self.count * self.chosen.runs)
        return rate, results * share, size * share / (sum(sizes) / len(sizes))

    def _written(self, topic: str) -> tuple[int, float, float]:
        """Return how many messages a topic has, and of the latest how many events and bytes they have on average."""
        consumer = KafkaConsumer(bootstrap_servers=self.servers)
        try:
            places = [TopicPartition(topic, place) for place in consumer.partitions_for_topic(topic) or ()]
            ends = consumer.end_offsets(places) if places else {}
            if not any(ends.values()):
                return 0, 0.0, 0.0
            consumer.assign(places)
            for place, end in ends.items():
                consumer.seek(place, max(end - SAMPLE, 0))
            values = [one.value for some in consumer.poll(10_000).values() for one in some]
            count = max(len(values), 1)
            events, size = sum(value.count(b'"event"') for value in values), sum(map(len, values))
            return int(sum(ends.values())), events / count, size / count
        finally:
            consumer.close()

    def _ours(self, host: SparkHost, run: int) -> float:
        group = GroupRuntime(prepare(self._connected(run), self.chosen.shards), host, "bench")
        group.start()

        def read_so_far() -> int:
            status = group.status()
            if status.state == "FAILED":
                sys.exit(f"{self.workload.name} failed: {status.error}")
            return status.events_in

        try:
            return self._rate(read_so_far)
        finally:
            group.stop(5)

    def siddhi(self) -> float:
        """Return the best rate of Siddhi's engine; 0 where it lacks extensions that Maven Central does not have."""
        drawn, prefix = self.workload, self.prefix
        if drawn.name in SLOW:
            prefix += "few."
            self.load(prefix, self.count // SLOW[drawn.name])
        app, into = self.home / f"{drawn.name}.siddhi", f"{self.prefix}siddhi"
        self.home.mkdir(exist_ok=True)
        app.write_text(drawn.text, encoding="utf-8")
        try:
            told = self.peer.call("KafkaPeer", self.servers, app, prefix, drawn.output or "-", into, self.chosen.runs)
        except subprocess.CalledProcessError as error:
            if "ExtensionNotFoundException" not in error.stderr:
                raise
            return 0.0
        took = [line.split() for line in told.splitlines() if line.startswith("took ")]
        return max(int(events) / float(seconds) for _, seconds, events, _ in took)

    @property
    def _batch(self) -> int:
        return max(min(self.count // 6, self.chosen.batch), 1)

    def _connected(self, run: int) -> str:
        """Return the app with Kafka topics for its streams, in event time."""
        text = self.workload.text
        for stream, _ in self.workload.streams:
            source = (
                f"@source(type='kafka', bootstrap.servers='{self.servers}', topic.list='{self.prefix}{stream}', "
                f"group.id='bench', threading.option='single.thread', "
                f"optional.configuration='auto.offset.reset:earliest', @map(type='json'))"
            )
            text = re.sub(rf"(?=define stream {stream}\b)", source + "\n", text)
        if self.workload.output is not None:
            sink = (
                f"@sink(type='kafka', bootstrap.servers='{self.servers}', topic='{self.prefix}ours', "
                "is.binary.message='false', @map(type='json'))"
            )
            text = f"{sink}\ndefine stream {self.workload.output} ({self._output()});\n{text}"
        return f"@app:name('bench_{self.workload.name}_{run}') @app:playback {text}"

    def _output(self) -> str:
        schema = check(self.workload.text).streams[self.workload.output or ""]
        return ", ".join(f"{name} {kind.value}" for name, kind in schema)

    @contextmanager
    def _host(self, name: str) -> Iterator[SparkHost]:
        settings: dict[str, Any] = {
            "cores": self.chosen.cores,
            "driver_memory": "1g",
            "max_batch_events": self._batch,
            "optimize_for": "throughput",
        }
        with SparkHost(settings_in(self.home / name, **settings)) as host:
            yield host

    def _rate(self, read_so_far: Callable[[], int]) -> float:
        """Return events per second from the first batch that ends in the second half to the last one."""
        first: tuple[float, int] | None = None
        pace = threading.Event()
        deadline = time.monotonic() + PATIENCE_S
        while (read := read_so_far()) < self.count:
            if first is None and read >= self.count // 2:
                first = (time.monotonic(), read)
            if time.monotonic() > deadline:
                sys.exit(f"{self.workload.name}: only {read:,} of {self.count:,} events after {PATIENCE_S:.0f} s")
            pace.wait(0.1)
        began, before = first or (deadline - PATIENCE_S, 0)
        return (read - before) / (time.monotonic() - began)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error}\n{(error.stderr or '')[-2000:]}")
