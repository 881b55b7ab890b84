"""Everything that can fail fails in turn, while numbered events flow: ``make chaos``.

Two managers and three workers at the shipped times, each in a network namespace of its own, over PostgreSQL and Kafka.
Each round one thing goes wrong: a process is killed (a node, its JVM, a Python worker of it) or stands still, a link is
cut in both directions or in one, the database or the broker restarts or freezes, the disk of the state is full, the app
is updated. Then the round waits until all groups run and all events are through. Printed for each kind of fault:

* failover: from the fault until a manager leads in a newer term,
* groups: from the fault until the last group that it stopped runs again; where it takes a server or the disk from all
  nodes, from when that is back. A group that the leader moved to even out the load was not stopped by it,
* silence: how long at most no result came out.

And in the end: events lost, doubled for readers of the topic, and repeated in it; moments in which two workers ran one
group; managers that led in one term. The exit status is 1 where one of the last five is not as it must be.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from spdist.cluster.clients.client import Caller, ClusterClient
from spdist.cluster.managers.streams import StreamAccess
from spdist.cluster.managers.topics import stream_schema
from spdist.errors import SpdistError
from spdist.services.process import free_port
from spdist.transports.kafka.options import KafkaSettings
from spdist.transports.opening import TransportSettings, open_transport
from tests.faults.failovers import wait_for
from tests.faults.island import HOME, Island
from tests.faults.island_nodes import Node, Observer, Postgres, island_broker
from tests.faults.numbers import NumberSender, Tally, follow_topic
from tests.faults.rounds import island_home, order_of, rounds_parser, spread

MANAGERS, WORKERS = ("manager-1", "manager-2"), ("worker-1", "worker-2", "worker-3")
#: How long a fault that heals lasts, s: longer than it takes to remove a worker.
LASTS_S = 12.0
PACE_S = 0.2
#: All numbers are of one source.
ALL = "fed"
#: What no group can do without, or nobody knows where groups run.
OF_ALL = frozenset({"database restarts", "database freezes", "broker restarts", "disk full"})
#: How long restarted nodes may take to take part, and the load to be evened out, s.
EVEN_S = 60.0
#: How long a broker may take to take an event, before it is sent again.
_PATIENCE_MS = 2_000
APP = """\
@app:name('Flow')
define stream Numbers (n long);
@sink(type='embedded', topic='Flow.Sums') define stream Sums (n long, number long, mark int);
@info(name='one') @dist(execGroup='one') from Numbers[n >= 0] select n insert into First;
@info(name='two') @dist(execGroup='two') from First select n, count() as number insert into Second;
@info(name='three') @dist(execGroup='three') from Second select n, number, {mark} as mark insert into Sums;
"""
SETTINGS = """\
wso2.carbon: {{id: {name}}}
wso2.transport.http:
  listenerConfigurations: [{{id: default, host: {address}, port: 9443, scheme: http}}]
  plainHttpAllowed: true
auth.configs:
  userManager:
    userStore:
      users: [{{user: {{username: admin, password: "${{env:SPDIST_PASSWORD}}", roles: admin}}}}]
transports:
  default: kafka
  kafka: {{bootstrapServers: "{home}:{kafka}"}}
  log: {{directory: {directory}/topics}}
{more}
"""
MANAGER = """\
cluster.config:
  groupId: chaos
  strategyConfig: {{datasource: DB, heartbeatInterval: 1000, heartbeatMaxRetry: 2, eventPollingInterval: 1000}}
deployment.config:
  type: distributed
  httpsInterface: {{host: {address}, port: 9443, scheme: http, username: admin, password: "${{env:SPDIST_PASSWORD}}"}}
  heartbeatInterval: 2000
  heartbeatMaxRetry: 2
  minResourceCount: 1
  datasource: DB
wso2.datasources:
  dataSources:
    - name: DB
      definition: {{configuration: {{jdbcUrl: "jdbc:postgresql://{home}:{postgresql}/postgres", username: postgres}}}}
"""
WORKER = """\
deployment.config:
  type: distributed
  httpsInterface: {{host: {address}, port: 9443, scheme: http, username: admin, password: "${{env:SPDIST_PASSWORD}}"}}
  resourceManagers: [{managers}]
state.persistence: {{config: {{location: {directory}/state}}}}
spark: {{cores: 1, driverMemory: 512m, optimizeFor: start}}
"""


class Traffic:
    """The numbers that are fed, and what comes of them."""

    def __init__(self, topics: TransportSettings, text: str) -> None:
        hasty = topics.with_patience(_PATIENCE_MS)
        self._streams = StreamAccess(hasty)
        self._feed = self._streams.feed(text, "Numbers", "chaos")
        self.results = Tally([ALL])
        self._sender = NumberSender(self._send, PACE_S)
        schema = stream_schema(APP.format(mark=0), "Sums")
        self._following = follow_topic(
            open_transport(hasty), "Flow.Sums", schema, lambda row: (ALL, row[0]), self.results
        )

    def _send(self, number: int) -> bool:
        with contextlib.suppress(SpdistError):  # sent again, under the same number
            self._feed.send([(int(time.time() * 1000), (number,))])
            return True
        return False

    @property
    def fed(self) -> int:
        return self._sender.fed

    def through(self, count: int) -> bool:
        return self.results.has(ALL, range(count))

    def silence_s(self, since_s: float) -> float:
        """Return the longest time without a result that was not over at `since_s`."""
        return self.results.silence_s(ALL, since_s)

    def stop(self) -> None:
        self._sender.stop()
        wait_for(lambda: self.through(self.fed), f"all {self.fed} events are through", 120)
        self._following.stop()


@dataclass(slots=True)
class Measured:
    """What one round led to, s; None where nobody had to take over."""

    fault: str
    failover: float | None
    groups: float | None
    silence: float


class Chaos:
    """The cluster, and what can happen to it."""

    def __init__(self, home: Path, island: Island) -> None:
        self.home, self.island = home, island
        password = secrets.token_urlsafe(16)
        for name in (*MANAGERS, *WORKERS):
            island.add(name)
        self.database = Postgres(home)
        self.broker = island_broker(home / "kafka", free_port())
        self._mount_state()
        environment = {"SPDIST_PASSWORD": password}
        self.nodes = {name: Node(name, island, home, environment) for name in island.addresses}
        for name in self.nodes:
            (home / f"{name}.yaml").write_text(self._settings(name), encoding="utf-8")
        urls = [self.nodes[name].url for name in MANAGERS]
        self.client = ClusterClient(urls, "admin", password, patience_s=60)
        # Who only looks must not wait for a leader: faults would last longer.
        self._looking = ClusterClient(urls, "admin", password, patience_s=0.5)
        self._caller = Caller("admin", password, timeout_s=1.0)
        self.topics = TransportSettings("kafka", str(home / "topics"), KafkaSettings(f"{HOME}:{self.broker.port}"))
        self.password, self.mark = password, 0

    def _mount_state(self) -> None:
        """Keep the state on a small disk that can be filled."""
        state = self.home / "state"
        state.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", str(state)], check=True)

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.home / "state")], check=False)

    def _settings(self, name: str) -> str:
        given = {
            "name": name,
            "address": self.island.addresses[name],
            "home": HOME,
            "directory": self.home,
            "kafka": self.broker.port,
            "postgresql": self.database.port,
            "managers": ", ".join(
                f"{{host: {self.island.addresses[one]}, port: 9443, scheme: http}}" for one in MANAGERS
            ),
        }
        more = (MANAGER if name in MANAGERS else WORKER).format_map(given)
        return SETTINGS.format_map({**given, "more": more})

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()
        wait_for(self._all_there, "all workers are ready", 240)

    def _all_there(self) -> bool:
        """Whether a manager could take over from the leader, and each worker take what another has."""
        with contextlib.suppress(SpdistError, ConnectionError):
            # The leader's list names a manager for some seconds after it was killed, so each is asked itself.
            for name in MANAGERS:
                self._caller.call("GET", f"{self.nodes[name].url}/health")
            nodes = self._looking.nodes()
            warm = [worker["id"] for worker in nodes["workers"] if worker["ready"] and worker["warm"]]
            return len(nodes["managers"]) == len(MANAGERS) and len(warm) == len(WORKERS)
        return False

    def stop(self) -> None:
        for node in self.nodes.values():
            node.signal(signal.SIGCONT)
            node.kill()
        self.client.close()
        self._looking.close()
        self._caller.close()
        self.broker.stop()
        self.database.stop()

    # ------------------------------------------------------------------------------------------------------- questions
    def leader(self) -> Node:
        return self.nodes[str(self.client.nodes()["leader"])]

    def busiest(self) -> Node:
        """Return a worker with most of the groups."""
        by_worker = Counter(group.worker for group in self.client.status().apps[0].groups)
        return self.nodes[by_worker.most_common(1)[0][0]]

    def running(self) -> dict[str, str]:
        """Return the worker of each group that runs, as the leader knows it; nothing while nobody leads."""
        with contextlib.suppress(SpdistError, ConnectionError):
            return {
                group.name: group.worker
                for app in self._looking.status().apps
                for group in app.groups
                if group.state == "RUNNING"
            }
        return {}

    def moved(self, since_ms: int) -> frozenset[str]:
        """Return the groups that the leader has moved though they ran; none while nobody leads."""
        with contextlib.suppress(SpdistError, ConnectionError):
            return frozenset(one["group"] for one in self._looking.journal(kind="group-moved", since=since_ms))
        return frozenset()

    # ---------------------------------------------------------------------------------------------------------- faults
    # Each is a context: what is broken when it begins is whole again when it ends.
    @contextlib.contextmanager
    def killed(self, node: Node, kind: str = "") -> Iterator[None]:
        node.kill(kind)
        yield
        if not node.processes("spdist"):
            node.start()

    @contextlib.contextmanager
    def stopped(self, node: Node) -> Iterator[None]:
        node.signal(signal.SIGSTOP)
        yield
        node.signal(signal.SIGCONT)

    @contextlib.contextmanager
    def database_restarts(self) -> Iterator[None]:
        self.database.stop()
        yield
        self.database.start()

    @contextlib.contextmanager
    def database_freezes(self) -> Iterator[None]:
        frozen = self.database.processes()
        for process in frozen:
            with contextlib.suppress(psutil.Error):
                process.suspend()
        yield
        for process in frozen:
            with contextlib.suppress(psutil.Error):
                process.resume()

    @contextlib.contextmanager
    def broker_restarts(self) -> Iterator[None]:
        port = self.broker.port
        self.broker.kill()
        yield
        self.broker = island_broker(self.home / "kafka", port)

    @contextlib.contextmanager
    def disk_full(self) -> Iterator[None]:
        filler = self.home / "state" / "filler"
        with contextlib.suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(bytes(1 << 16))
        yield
        filler.unlink()

    @contextlib.contextmanager
    def updated(self) -> Iterator[None]:
        self.mark += 1
        self.client.deploy(APP.format(mark=self.mark))
        yield

    def faults(self) -> dict[str, tuple[Callable[[], contextlib.AbstractContextManager[None]], float]]:
        """Return each fault and how long it lasts, s."""
        managers = [self.island.addresses[name] for name in MANAGERS]
        return {
            "leader killed": (lambda: self.killed(self.leader()), 3),
            "worker killed": (lambda: self.killed(self.busiest()), LASTS_S),
            "JVM killed": (lambda: self.killed(self.busiest(), "java"), 3),
            "Python worker killed": (lambda: self.killed(self.busiest(), "pyspark.daemon"), 3),
            "leader stands still": (lambda: self.stopped(self.leader()), LASTS_S),
            "worker stands still": (lambda: self.stopped(self.busiest()), LASTS_S),
            "leader cut off": (lambda: self.island.cut(self.leader().name), LASTS_S),
            "worker cut off": (lambda: self.island.cut(self.busiest().name), LASTS_S),
            "worker cut from managers": (lambda: self.island.cut_towards(self.busiest().name, *managers), LASTS_S),
            "worker cut from the leader": (
                lambda: self.island.cut_towards(self.busiest().name, self.island.addresses[self.leader().name]),
                LASTS_S,
            ),
            "leader cut from the database": (lambda: self.island.cut_towards(self.leader().name, HOME), LASTS_S),
            "database restarts": (self.database_restarts, 4),
            "database freezes": (self.database_freezes, 4),
            "broker restarts": (self.broker_restarts, 4),
            "disk full": (self.disk_full, 5),
            "app updated": (self.updated, 1),
        }

    def round(self, name: str, observer: Observer, traffic: Traffic) -> Measured:
        """Let one thing go wrong, wait until all is well again, and say what it took."""
        # What is moved to even out the load would count as the fault's. A worker where a group has failed gets none.
        with contextlib.suppress(SystemExit):
            wait_for(lambda: Counter(self.running().values()) == Counter(WORKERS), "each worker runs a group", EVEN_S)
        fault, lasts_s = self.faults()[name]
        term, watch, since_ms = observer.term(), Watch(self.running()), round(time.time() * 1000)

        def look() -> bool:
            running = self.running()
            return watch.look(running, self.moved(since_ms))

        broken = fault()
        with broken:
            watch.begin()
            failover = None
            if name.startswith("leader"):
                wait_for(lambda: observer.term() > term, "another manager leads", 60)
                failover = watch.since_s()
            wait_for(lambda: look() and watch.since_s() > lasts_s, "the fault has lasted", 120)
        if name in OF_ALL:
            watch.back()
        wait_for(lambda: look() and watch.well, "all groups run", 180)
        wait_for(self._all_there, "all nodes are there", 180)
        healed = traffic.fed
        wait_for(lambda: traffic.through(healed), "what was fed is through", 180)
        return Measured(name, failover, watch.again_s, traffic.silence_s(watch.began_s))


class Watch:
    """Notes when groups that had stopped, or gone elsewhere, all run again."""

    def __init__(self, before: dict[str, str]) -> None:
        self._before, self._lost = before, False
        self._moved: frozenset[str] = frozenset()
        self.began_s = self._from_s = time.monotonic()
        self.again_s: float | None = None

    def begin(self) -> None:
        """The fault has just happened."""
        self.began_s = self._from_s = time.monotonic()

    def back(self) -> None:
        """What the fault had taken from all nodes is there again."""
        self._from_s = time.monotonic()

    def since_s(self) -> float:
        return time.monotonic() - self.began_s

    @property
    def well(self) -> bool:
        return not self._lost

    def look(self, running: dict[str, str], moved: frozenset[str]) -> bool:
        """Look once at the workers of the groups that run, but for those that were `moved`; returns True."""
        self._moved |= moved
        before, running = (
            {name: worker for name, worker in groups.items() if name not in self._moved}
            for groups in (self._before, running)
        )
        if len(running) < len(before):
            self._lost = True
        elif self._lost or running != before:
            self.again_s = self.again_s if not self._lost and self.again_s else time.monotonic() - self._from_s
            self._lost = False
        return True


def main() -> None:
    """Run the rounds that the command line asks for, and print what they took."""
    chosen = rounds_parser(__doc__, 30).parse_args()
    measured: list[Measured] = []
    with island_home("chaos") as (home, island):
        chaos = Chaos(home, island)
        try:
            chaos.start()
            text = APP.format(mark=0)
            chaos.client.deploy(text).wait(timeout_s=240)
            observer = Observer(island, chaos.nodes, chaos.password)
            traffic = Traffic(chaos.topics, text)
            wait_for(lambda: traffic.through(20), "results come out", 120)
            order = order_of(chosen.only or list(chaos.faults()), chosen.rounds, random.Random(chosen.seed))
            for number, name in enumerate(order, 1):
                one = chaos.round(name, observer, traffic)
                measured.append(one)
                print(f"{number:2} (load {os.getloadavg()[0]:.1f}) {one}", flush=True)
            traffic.stop()
            observer.stop()
        finally:
            chaos.stop()
            chaos.unmount()
    report(measured, traffic, observer)


def report(measured: list[Measured], traffic: Traffic, observer: Observer) -> None:
    """Print the table, and end with 1 where something went wrong that must not."""
    print(f"\n{'fault':30} {'rounds':>6} {'failover':>16} {'groups':>16} {'silence':>16}   (median, longest; s)")
    for name in dict.fromkeys(one.fault for one in measured):
        own = [one for one in measured if one.fault == name]
        cells = (spread([getattr(one, field) for one in own]) for field in ("failover", "groups", "silence"))
        print(f"{name:30} {len(own):6} {' '.join(f'{cell:>16}' for cell in cells)}")
    for field in ("failover", "groups"):
        times = sorted(value for one in measured if (value := getattr(one, field)) is not None)
        if times:
            p99 = times[min(len(times) - 1, round(0.99 * len(times)))]
            print(f"{field}: p50 {statistics.median(times):.2f} s, p99 {p99:.2f} s, max {times[-1]:.2f} s")
    results, fed = traffic.results, range(traffic.fed)
    lost, doubled, repeated = len(results.lost(ALL, fed)), len(results.doubled(ALL, fed)), results.repeated
    shared = {term: names for term, names in observer.leaders.items() if len(names) > 1}
    print(f"{traffic.fed} events: {lost} lost, {doubled} doubled for readers, {repeated} repeated in the topic")
    print(f"moments with two owners: {sum(observer.double_owners.values())}; terms with two leaders: {len(shared)}")
    sys.exit(bool(lost or doubled or repeated or shared or observer.double_owners))


if __name__ == "__main__":
    main()
