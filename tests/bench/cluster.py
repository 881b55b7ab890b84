"""``make bench-cluster``: what a manager takes for heartbeats and for deploying, with up to 200 apps on three workers.

The manager is a process of its own, as it is shipped: its interface, its planner, its database. The workers are real,
but their groups start no Spark (`tests.cluster.shells.FakeSpark`). Apps of two groups are deployed one after the other
through the REST client, each with a text of its own. After none, half and all of them the workers report for a while:
first with groups that stand still, in the end with groups that all process events between two heartbeats.

Printed are the times of the heartbeats' round trips, the bytes of their bodies, and how much of one core the manager
takes. The heartbeats while apps are being deployed are measured with the deployments.

Examples: ``python -m tests.bench.cluster``; ``… --apps 400 --database postgresql``.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from multiprocessing.synchronize import Event
from pathlib import Path

import psutil

from spdist.cluster.clients.client import ClusterClient
from spdist.cluster.manager import Manager
from spdist.cluster.worker import Worker
from spdist.config import load_config
from spdist.errors import SpdistError
from spdist.services.process import free_ports
from tests.cluster.databases import ROOT, SERVERS, environment, write_settings
from tests.cluster.heartbeats import Meter
from tests.cluster.shells import FakeSpark
from tests.faults.failovers import wait_for

KINDS = ("sqlite", "postgresql", "mariadb")
WORKERS = 3
#: The manager's pace: a worker reports twice in that time.
INTERVAL_MS = 500
APP = """\
@app:name('App{n}')
@app:description('Trades of market {n}: those that are large enough, and their averages')
@source(type='embedded', topic='Market{n}')
define stream Trades (symbol string, price double, volume long, market{n} string);
@sink(type='embedded', topic='Averages{n}')
define stream Averages (symbol string, mean double, total long);
@info(name='filter') @dist(execGroup='filter')
from Trades[price > {n}.5 and volume > 0] select symbol, price, volume insert into Large;
@info(name='average') @dist(execGroup='average')
from Large#window.length(100) select symbol, avg(price) as mean, sum(volume) as total group by symbol
insert into Averages;
"""


def serve(file: Path, environment: Mapping[str, str], stop: Event) -> None:
    """Be a manager until `stop` is set: the other process."""
    logging.basicConfig(filename=os.devnull)
    manager = Manager(load_config(file, role="manager", environment=environment))
    stopped = threading.Event()

    def pass_on() -> None:
        stop.wait()
        stopped.set()

    threading.Thread(target=pass_on, daemon=True).start()
    manager.run(stopped)


class Cluster:
    """A manager in a process of its own, and workers in this one."""

    def __init__(self, stack: ExitStack, kind: str) -> None:
        home = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix=f"spdist-{kind}-", ignore_cleanup_errors=True))
        )
        stack.callback(SERVERS.stop)
        own_file = kind == "sqlite"
        conf = ROOT / "conf" / "local" if own_file else write_settings(home / "local")
        where = {} if own_file else environment(SERVERS.database(kind, home))
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        given = {
            "SPDIST_HOME": str(home),
            "SPDIST_PASSWORD": secrets.token_urlsafe(16),
            **where,
            "SPDIST_MANAGERS": self.url,
            "SPDIST__DEPLOYMENT__HEARTBEAT_INTERVAL": str(INTERVAL_MS),
        }
        own = multiprocessing.get_context("spawn")
        stop = own.Event()
        named = {**given, "SPDIST_NODE_ID": "manager", "SPDIST_PORT": str(port)}
        process = own.Process(target=serve, args=(conf / "manager.yaml", named, stop), daemon=True)
        process.start()
        stack.callback(process.join, 30)
        stack.callback(stop.set)
        self.manager = psutil.Process(process.pid)
        self.client = stack.enter_context(ClusterClient([self.url], "admin", given["SPDIST_PASSWORD"]))
        self.sparks = [FakeSpark() for _ in range(WORKERS)]
        for number, spark in enumerate(self.sparks):
            own_settings = {**given, "SPDIST_NODE_ID": f"worker-{number}", "SPDIST_PORT": "0"}
            # The groups cost nothing, so that no worker is full.
            own_settings["SPDIST__SPARK__MEMORY_LIMIT"] = "4096g"
            config = load_config(conf / "worker.yaml", role="worker", environment=own_settings)
            worker = Worker(config, launcher=spark)
            worker.start()
            stack.callback(worker.stop)
        wait_for(self._all_joined, "all workers have joined", 60)

    def _all_joined(self) -> bool:
        try:
            return len(self.client.nodes()["workers"]) == WORKERS
        except SpdistError:
            return False

    def running(self) -> int:
        return sum(len(spark.runtimes) for spark in self.sparks)

    def work(self) -> None:
        """Let all groups process events."""
        for runtime in [one for spark in self.sparks for one in spark.runtimes]:
            status = runtime.current
            status.batches, status.events_in, status.events_out = (
                status.batches + 1,
                status.events_in + 17,
                status.events_out + 11,
            )
            status.clock = 1_700_000_000_000 + status.events_in


def quantiles(values: Sequence[float]) -> str:
    """Return the median, the 99th percentile and the largest."""
    ordered = sorted(values)
    if not ordered:
        return f"{'-':>9}" * 3
    return "".join(f"{ordered[min(len(ordered) - 1, int(len(ordered) * at))]:>9.1f}" for at in (0.5, 0.99, 1))


def largest(values: Sequence[int]) -> str:
    """Return the median and the largest number of bytes."""
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]:>9,} {ordered[-1]:>9,}"


def measured(cluster: Cluster, meter: Meter, label: str, seconds: float, work: Callable[[], None]) -> None:
    """Let the workers report for a while, and print the figures."""
    meter.forget()
    used_s, began_s = sum(cluster.manager.cpu_times()[:2]), time.monotonic()
    pace = threading.Event()
    while time.monotonic() - began_s < seconds:
        work()
        pace.wait(0.1)
    share = (sum(cluster.manager.cpu_times()[:2]) - used_s) / (time.monotonic() - began_s)
    print(
        f"{label:<22}{len(meter.ms):>6}{quantiles(meter.ms)}  {largest(meter.sent)}  {largest(meter.received)}"
        f"{share:>8.0%}",
        flush=True,
    )


def measure(kind: str, apps: int, seconds: float) -> None:
    """Measure a cluster over one kind of database."""
    print(f"{kind}: {WORKERS} workers, each reports every {INTERVAL_MS // 2} ms")
    titles = f"{'':<22}{'n':>6}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}"
    print(f"{titles}  {'sent B':>9} {'max':>9}  {'answer B':>9} {'max':>9}{'CPU':>8}", flush=True)
    meter = Meter()
    with ExitStack() as stack:
        stack.enter_context(meter.reading())
        cluster = Cluster(stack, kind)
        measured(cluster, meter, "heartbeats, 0 apps", seconds, lambda: None)
        deployed_ms: list[float] = []
        for count in (apps // 2, apps):
            meter.forget()
            before = len(deployed_ms)
            for number in range(before, count):
                began_s = time.monotonic()
                cluster.client.deploy(APP.format(n=number), replace=False)
                deployed_ms.append((time.monotonic() - began_s) * 1000)
            print(f"{f'deploys {before + 1} to {count}':<22}{count - before:>6}{quantiles(deployed_ms[before:])}")
            print(f"{'  heartbeats meanwhile':<22}{len(meter.ms):>6}{quantiles(meter.ms)}")
            wait_for(lambda wanted=2 * count: cluster.running() >= wanted, "all groups run", 120)
            measured(cluster, meter, f"heartbeats, {count} apps", seconds, lambda: None)
        measured(cluster, meter, "  all of them busy", seconds, cluster.work)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(prog="make bench-cluster", description="measure a manager with many apps")
    parser.add_argument("--database", action="append", choices=KINDS, help="by default sqlite and postgresql")
    parser.add_argument("--apps", type=int, default=200, help="how many are deployed")
    parser.add_argument("--seconds", type=float, default=20, help="how long heartbeats are measured each time")
    chosen = parser.parse_args()
    logging.basicConfig(filename=os.devnull)
    for kind in chosen.database or KINDS[:2]:
        measure(kind, chosen.apps, chosen.seconds)


if __name__ == "__main__":
    main()
