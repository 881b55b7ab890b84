"""Two servers of type ha, of which the active one fails again and again, while numbered events come in: ``make ha``.

Each server is in a network namespace of its own, with PostgreSQL, a Kafka broker and a directory of apps and states
that both see; the wall clock of the second one, as Python reads it, is a minute ahead. A sender posts numbered events
to the HTTP source of the app at whichever server accepts them, until each is acknowledged, as a client behind a load
balancer does. Each round one thing goes wrong: the active server is killed with all that it has started, or stands
still; its link is cut; the database goes away. Then the round waits until events come through again and both servers
are there. Printed for each kind of fault:

* over: from the fault until the other server is active; of a database, from when it is back until one is,
* silence: how long at most no result came out, of which 1.1 to 2 s pass until the row of the active server has expired,
* events lost, and doubled for readers of the topic.

And in the end: moments in which both servers were active. The exit status is 1 where anything was lost or doubled, or
both were active.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import secrets
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from spdist.cluster.topics import stream_schemas
from spdist.engine.jars import kafka_jars
from spdist.errors import SpdistError
from spdist.services.kafka import BROKER_JARS
from spdist.services.maven import jars
from spdist.services.process import free_port
from spdist.transports.base import Repeats
from spdist.transports.kafka_options import KafkaSettings
from spdist.transports.opening import TransportSettings, open_transport
from spdist.transports.payload import Payload
from tests.faults.failovers import ROOT, wait_for
from tests.faults.island import HOME, Island, enter_island
from tests.faults.island_nodes import Node, Postgres, island_broker
from tests.faults.results import longest_silence_s

SERVERS = ("server-1", "server-2")
SOURCE = 8280
#: How long a fault that heals lasts, s.
LASTS_S = 8.0
PACE_S = 0.05
_LOOK_S = 0.1
APP = f"""\
@app:name('Flow')
@source(type='http', receiver.url='http://0.0.0.0:{SOURCE}/in', drop.repeats='true', @map(type='json'))
define stream Numbers (n long);
@sink(type='embedded', topic='Flow.Sums') define stream Sums (n long, number long);
from Numbers#window.length(3) select n, count() as number insert into Sums;
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
cluster.config:
  groupId: ha
  strategyConfig: {{datasource: DB, heartbeatInterval: 1000, heartbeatMaxRetry: 2}}
deployment.config: {{type: ha}}
wso2.datasources:
  dataSources:
    - name: DB
      definition: {{configuration: {{jdbcUrl: "jdbc:postgresql://{home}:{postgresql}/postgres", username: postgres}}}}
wso2.artifact.deployment: {{directory: {directory}/apps}}
state.persistence: {{config: {{location: {directory}/state}}}}
transports:
  default: kafka
  kafka: {{bootstrapServers: "{home}:{kafka}"}}
  log: {{directory: {directory}/topics}}
spark: {{cores: 1, driverMemory: 512m, optimizeFor: start}}
"""
#: Runs in each Python process of a node before anything else.
AHEAD = """\
import time

def _later(read, by):
    return lambda: read() + by

time.time, time.time_ns = _later(time.time, 60), _later(time.time_ns, 60_000_000_000)
"""


def clock_ahead(home: Path) -> dict[str, str]:
    """Return the environment of a process whose wall clock is a minute ahead."""
    place = home / "ahead"
    place.mkdir()
    (place / "sitecustomize.py").write_text(AHEAD, encoding="utf-8")
    return {"PYTHONPATH": f"{place}{os.pathsep}{ROOT}"}


class Flow:
    """Posts numbers to the source wherever it takes them, and reads what comes of them."""

    def __init__(self, topics: TransportSettings, addresses: list[str]) -> None:
        self._transport, self._addresses = open_transport(topics.with_patience(2_000)), addresses
        self._end, self._fed_all = threading.Event(), threading.Event()
        self.fed, self.at = 0, [time.monotonic()]
        self.seen: Counter[int] = Counter()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._read)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        target = 0
        with httpx.Client(timeout=httpx.Timeout(1.0)) as http:
            while not self._fed_all.wait(PACE_S):
                url = f"http://{self._addresses[target]}:{SOURCE}/in"
                headers = {"spdist-id": f"sender:{self.fed}"}
                with contextlib.suppress(httpx.HTTPError):
                    if http.post(url, json={"event": {"n": self.fed}}, headers=headers).status_code == 200:
                        self.fed += 1
                        continue
                target = (target + 1) % len(self._addresses)

    def _read(self) -> None:
        payload, offset, repeats = Payload(stream_schemas(APP)["Sums"]), 0, Repeats()
        while not self._end.wait(_LOOK_S / 2):
            try:
                records = self._transport.read("ha.Flow.Sums", 0, offset, 500)
            except SpdistError:
                continue
            for record in records:
                offset = record.offset + 1
                if record.count:
                    skip = repeats.fresh(record)
                    for *_, row in payload.decode(record.value).part(skip, record.count):
                        self.seen[row[0]] += 1
                    self.at.append(time.monotonic())

    def silence_s(self, since_s: float) -> float:
        """Return the longest time without a result that was not over at `since_s`."""
        return longest_silence_s(self.at, since_s)

    def wrong(self, before: int, fed: int) -> tuple[int, int]:
        """Return how many of the events from one number to another were lost, and how many doubled."""
        counts = [self.seen[number] for number in range(before, fed)]
        return sum(not count for count in counts), sum(count - 1 for count in counts if count > 1)

    def stop(self) -> None:
        self._fed_all.set()
        self._threads[0].join()
        with contextlib.suppress(SystemExit):
            wait_for(lambda: len(self.seen) >= self.fed, "all events are through", 120)
        self._end.set()
        self._threads[1].join()


@dataclass(frozen=True, slots=True)
class Said:
    """What a server said of its health, None where it did not answer, and when it was asked and had answered (s)."""

    asked_s: float
    answered_s: float
    status: int | None


class Healths:
    """Asks each server, from where it is, whether it is active, also while its link is cut."""

    def __init__(self, island: Island, nodes: dict[str, Node]) -> None:
        self._end, self._lock = threading.Event(), threading.Lock()
        self._said = dict.fromkeys(nodes, Said(0.0, 0.0, None))
        self.both = 0
        for node in nodes.values():
            threading.Thread(target=self._look, args=(island, node), daemon=True).start()

    def _look(self, island: Island, node: Node) -> None:
        island.enter(node.name)
        while not self._end.wait(_LOOK_S):
            asked_s, status = time.monotonic(), None
            with contextlib.suppress(httpx.HTTPError):
                status = httpx.get(f"{node.url}/health", timeout=0.5).status_code
            with self._lock:
                self._note(node.name, Said(asked_s, time.monotonic(), status))

    def _note(self, name: str, now: Said) -> None:
        """Count where another server said that it was active, between two times that this one did."""
        before, self._said[name] = self._said[name], now
        self.both += sum(
            other != name
            and {before.status, said.status, now.status} == {200}
            and before.answered_s <= said.asked_s
            and said.answered_s <= now.asked_s
            for other, said in self._said.items()
        )

    def of(self, name: str) -> int | None:
        with self._lock:
            return self._said[name].status

    def active(self) -> str | None:
        return next((name for name in self._said if self.of(name) == 200), None)

    def stop(self) -> None:
        self._end.set()


@dataclass(frozen=True, slots=True)
class Measured:
    """What one round led to; times in s."""

    fault: str
    over: float
    silence: float
    lost: int
    doubled: int


class Rounds:
    """The two servers, and what can happen to them."""

    def __init__(self, home: Path, island: Island) -> None:
        self.island = island
        for name in SERVERS:
            island.add(name)
        self.database = Postgres(home)
        self.broker = island_broker(home / "kafka", free_port())
        (home / "apps").mkdir()
        (home / "apps/Flow.siddhi").write_text(APP, encoding="utf-8")
        environment = {"SPDIST_PASSWORD": secrets.token_urlsafe(16)}
        ahead = clock_ahead(home)
        self.nodes = {
            name: Node(name, island, home, {**environment, **(ahead if name == SERVERS[1] else {})}) for name in SERVERS
        }
        for name in SERVERS:
            given = {"name": name, "address": island.addresses[name], "home": HOME, "directory": home}
            ports = {"kafka": self.broker.port, "postgresql": self.database.port}
            (home / f"{name}.yaml").write_text(SETTINGS.format(**given, **ports), encoding="utf-8")
        self.topics = TransportSettings("kafka", str(home / "topics"), KafkaSettings(f"{HOME}:{self.broker.port}"))
        for node in self.nodes.values():
            node.start()
        self.healths = Healths(island, self.nodes)
        self.flow = Flow(self.topics, [island.addresses[name] for name in SERVERS])

    def stop(self) -> None:
        self.flow.stop()
        self.healths.stop()
        for node in self.nodes.values():
            node.signal(signal.SIGCONT)
            node.kill()
        self.broker.stop()
        self.database.stop()

    # ---------------------------------------------------------------------------------------------------------- faults
    @contextlib.contextmanager
    def killed(self, node: Node) -> Iterator[None]:
        node.kill()
        yield
        node.start()

    @contextlib.contextmanager
    def stopped(self, node: Node) -> Iterator[None]:
        node.signal(signal.SIGSTOP)
        yield
        node.signal(signal.SIGCONT)

    @contextlib.contextmanager
    def database_away(self, node: Node) -> Iterator[None]:
        self.database.stop()
        yield
        self.database.start()

    def faults(self) -> dict[str, Callable[[Node], contextlib.AbstractContextManager[None]]]:
        return {
            "kill -9": self.killed,
            "SIGSTOP": self.stopped,
            "link cut": lambda node: self.island.cut(node.name),
            "database away": self.database_away,
        }

    def calm(self) -> bool:
        """Whether events come through, and another server could take over: its Spark is up."""
        healthy = sorted(str(self.healths.of(name)) for name in SERVERS) == ["200", "503"]
        return healthy and time.monotonic() - self.flow.at[-1] < 1 and all(map(self._ready, SERVERS))

    def _ready(self, name: str) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            auth = ("admin", self.nodes[name]._environment["SPDIST_PASSWORD"])
            return bool(httpx.get(f"{self.nodes[name].url}/statistics", auth=auth, timeout=1).json()["ready"])
        return False

    def round(self, fault: str) -> Measured:
        """Let one thing go wrong, wait until all is well again, and say what it took."""
        wait_for(self.calm, "one server is active, the other ready, and events come through", 240)
        threading.Event().wait(random.uniform(0, 1))
        active = self.healths.active()
        assert active is not None
        node, fed, began_s = self.nodes[active], self.flow.fed, time.monotonic()
        over_s = None
        with self.faults()[fault](node):
            if fault == "database away":
                wait_for(lambda: self.healths.active() is None, "nobody is active without the database", 60)
                threading.Event().wait(max(0.0, LASTS_S / 2 - (time.monotonic() - began_s)))
            else:
                wait_for(lambda: self.healths.active() not in (None, active), "the other server is active", 120)
                over_s = time.monotonic() - began_s
                resumed = self.flow.fed
                wait_for(lambda: self.flow.fed > resumed and self.flow.at[-1] > began_s + 1, "events come in", 120)
                threading.Event().wait(max(0.0, LASTS_S - (time.monotonic() - began_s)))
        if over_s is None:
            began_s = time.monotonic()  # the database is back
            wait_for(self.healths.active, "one server is active again", 120)
            over_s = time.monotonic() - began_s
        wait_for(self.calm, "both servers are there, and events come through", 240)
        until = self.flow.fed
        with contextlib.suppress(SystemExit):
            wait_for(lambda: all(self.flow.seen[number] for number in range(fed, until)), "all is through", 60)
        return Measured(fault, over_s, self.flow.silence_s(began_s), *self.flow.wrong(fed, until))


def main() -> None:
    """Run the rounds that the command line asks for, and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", help="this fault; may be given again")
    chosen = parser.parse_args()
    kafka_jars()  # where there is a network
    jars("kafka-broker", BROKER_JARS)
    enter_island()
    random.seed(chosen.seed)
    measured: list[Measured] = []
    made = tempfile.TemporaryDirectory(prefix="spdist-ha-", ignore_cleanup_errors=True)
    with made as directory, Island() as island:
        home = Path(directory)
        home.chmod(0o755)  # PostgreSQL runs as another user
        rounds = Rounds(home, island)
        try:
            names = chosen.only or list(rounds.faults())
            order = [name for _ in range(-(-chosen.rounds // len(names))) for name in random.sample(names, len(names))]
            for number, name in enumerate(order[: chosen.rounds], 1):
                measured.append(one := rounds.round(name))
                print(f"{number:2} (load {os.getloadavg()[0]:.1f}) {one}", flush=True)
        finally:
            rounds.stop()
    report(measured, rounds)


def report(measured: list[Measured], rounds: Rounds) -> None:
    """Print the table, and end with 1 where something went wrong that must not."""
    print(f"\n{'fault':16} {'rounds':>6} {'lost':>6} {'doubled':>8} {'over':>14} {'silence':>14}", end="")
    print("   (median, longest; s)")
    for name in dict.fromkeys(one.fault for one in measured):
        own = [one for one in measured if one.fault == name]
        cells = (_cell([getattr(one, field) for one in own]) for field in ("over", "silence"))
        counts = f"{len(own):6} {sum(one.lost for one in own):6} {sum(one.doubled for one in own):8}"
        print(f"{name:16} {counts} {' '.join(f'{cell:>14}' for cell in cells)}")
    flow = rounds.flow
    lost, doubled = flow.wrong(0, flow.fed)
    print(f"{flow.fed} events: {lost} lost, {doubled} doubled; moments with two active servers: {rounds.healths.both}")
    sys.exit(bool(lost or doubled or rounds.healths.both))


def _cell(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} {max(values):6.2f}"


if __name__ == "__main__":
    main()
