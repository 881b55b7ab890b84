"""Two servers of type ha, of which the active one fails again and again, while numbered events come in: ``make ha``.

Each server is in a network namespace of its own, with PostgreSQL, a Kafka broker, a NATS server and a directory of
apps, states and files that both see; the wall clock of the second one, as Python reads it, is a minute ahead. Numbers
come in by every kind of source, one app for each: over HTTP at whichever server accepts them, until each is
acknowledged, as a client behind a load balancer does; in a Kafka topic; in a NATS stream; in a file that grows. What
comes of them goes to a topic, to Kafka, over HTTP, and into a file. Each round one thing goes wrong: the active server
is killed with all that it has started, or stands still; its link is cut; the database goes away. Then the round waits
until events come through again and both servers are there. Printed for each kind of fault:

* over: from the fault until the other server is active; of a database, from when it is back until one is,
* by source, silence: how long at most no result came out at one of the sinks, of which 1.1 to 2 s pass until the row of
  the active server has expired,
* by source, events lost, and doubled, at one of the sinks: what comes again under its id is none, as receivers drop it.

And in the end by sink: lost, doubled, and what came again under its id; and moments in which both servers were active.
The exit status is 1 where anything was lost or doubled, or both were active.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from spdist.cluster.managers.topics import stream_schemas
from spdist.display import table_text
from spdist.services.nats import NatsServer
from spdist.services.process import free_port
from spdist.transports.kafka.options import KafkaSettings
from spdist.transports.opening import TransportSettings, open_transport
from tests.faults.failovers import ROOT, wait_for
from tests.faults.island import HOME, Island
from tests.faults.island_nodes import Node, Postgres, island_broker
from tests.faults.numbers import NumberSender, Tally, Turning, follow_topic, wait_until_through
from tests.faults.rounds import island_home, order_of, rounds_parser, spread
from tests.faults.ways_in import WAYS_IN, IslandPlaces
from tests.faults.ways_out import WAYS_OUT

SERVERS = ("server-1", "server-2")
#: How long a fault that heals lasts at least, s.
LASTS_S = 8.0
#: And at most, where events do not come through while it lasts, s.
LONGEST_S = 30.0
#: Events come through where each source has led to something at each sink within so many seconds.
CALM_S = 5.0
PACE_S = 0.2
_LOOK_S = 0.1
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
siddhi.files: {{directories: {directory}/files}}
transports:
  default: kafka
  kafka: {{bootstrapServers: "{kafka}"}}
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


def app_text(source: str, options: str, sinks: dict[str, str]) -> str:
    """Return the app of one kind of source, given its options and those of the sinks; what comes out has a state."""
    name = app_of(source)
    outward = "\n".join(f"@sink(type='{kind}', {own})" for kind, own in sinks.items())
    return f"""\
@app:name('{name}')
@source(type='{source}', {options}, @map(type='json')) define stream Numbers (n long);
@sink(type='embedded', topic='{name}.Sums')
{outward}
define stream Sums (source string, n long, number long);
from Numbers#window.length(3) select '{source}' as source, n, count() as number insert into Sums;
"""


def app_of(source: str) -> str:
    """Return the name of the app of one kind of source."""
    return f"From_{source}"


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
        with httpx.Client(timeout=0.5) as http:
            while not self._end.wait(_LOOK_S):
                asked_s, status = time.monotonic(), None
                with contextlib.suppress(httpx.HTTPError):
                    status = http.get(f"{node.url}/health").status_code
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
    """What one round led to for one source; times in s."""

    fault: str
    source: str
    over: float
    silence: float
    lost: int
    doubled: int


class Rounds:
    """The two servers, what goes in and comes out, and what can happen to them."""

    def __init__(self, home: Path, island: Island, sources: Sequence[str], ends: contextlib.ExitStack) -> None:
        self.island = island
        for name in SERVERS:
            island.add(name)
        self.database = Postgres(home)
        ends.callback(self.database.stop)
        self.where = self._around(home, ends)
        ways_in = {kind: WAYS_IN[kind](self.where) for kind in sources}
        self.tallies = {sink: Tally(sources) for sink in ("embedded", *WAYS_OUT)}
        ways_out = {kind: way(self.where, self.tallies[kind]) for kind, way in WAYS_OUT.items()}
        outward = {kind: way.options for kind, way in ways_out.items()}
        texts = {kind: app_text(kind, way.options, outward) for kind, way in ways_in.items()}
        self.nodes = self._nodes(home, texts)
        for node in self.nodes.values():
            ends.callback(node.kill)
            node.start()
        self.healths = Healths(island, self.nodes)
        ends.callback(self.healths.stop)
        following = [self._follow(home, kind, text) for kind, text in texts.items()]
        for one in (*ways_in.values(), *ways_out.values(), *following):
            ends.callback(one.stop)
        self.senders = {kind: NumberSender(way.send, PACE_S) for kind, way in ways_in.items()}
        ends.callback(self._finish)

    def _around(self, home: Path, ends: contextlib.ExitStack) -> IslandPlaces:
        """Start what the servers use."""
        for name in ("apps", "files"):
            (home / name).mkdir()
        broker = island_broker(home / "kafka", free_port())
        ends.callback(broker.stop)
        nats = NatsServer(home / "nats", settings='host: "0.0.0.0"')
        ends.callback(nats.stop)
        nats.start()
        return IslandPlaces(
            addresses=tuple(self.island.addresses[name] for name in SERVERS),
            kafka=f"{HOME}:{broker.port}",
            nats=f"nats://{HOME}:{nats.port}",
            http=f"http://{HOME}:{free_port()}",
            files=home / "files",
        )

    def _nodes(self, home: Path, texts: dict[str, str]) -> dict[str, Node]:
        """Return the servers, not yet started, with the apps in their directory."""
        for source, text in texts.items():
            (home / "apps" / f"{app_of(source)}.siddhi").write_text(text, encoding="utf-8")
        environment = {"SPDIST_PASSWORD": secrets.token_urlsafe(16)}
        places = {"home": HOME, "directory": home, "kafka": self.where.kafka, "postgresql": self.database.port}
        for name in SERVERS:
            settings = SETTINGS.format(name=name, address=self.island.addresses[name], **places)
            (home / f"{name}.yaml").write_text(settings, encoding="utf-8")
        more = {SERVERS[1]: clock_ahead(home)}
        return {name: Node(name, self.island, home, {**environment, **more.get(name, {})}) for name in SERVERS}

    def _follow(self, home: Path, source: str, text: str) -> Turning:
        topics = TransportSettings("kafka", str(home / "topics"), KafkaSettings(self.where.kafka)).with_patience(2_000)
        place = open_transport(topics), f"ha.{app_of(source)}.Sums", stream_schemas(text)["Sums"]
        return follow_topic(*place, lambda row: (row[0], row[1]), self.tallies["embedded"])

    def fed(self) -> dict[str, int]:
        """Return how many numbers somebody has, by source."""
        return {source: sender.fed for source, sender in self.senders.items()}

    def _finish(self) -> None:
        for sender in self.senders.values():
            sender.stop()
        for node in self.nodes.values():
            node.signal(signal.SIGCONT)
        with contextlib.suppress(SystemExit):
            wait_until_through(self.tallies.values(), {source: range(fed) for source, fed in self.fed().items()}, 120)

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

    def quiet(self, since_s: float) -> list[str]:
        """Return which sources have led to nothing at which sinks since then."""
        all_of_them = [(sink, *one) for sink, tally in self.tallies.items() for one in tally.at.items()]
        return [f"{source} at {sink}" for sink, source, at in all_of_them if at[-1] < since_s]

    def calm(self) -> bool:
        """Whether events come through, and another server could take over: its Spark is up and warm."""
        healthy = sorted(str(self.healths.of(name)) for name in SERVERS) == ["200", "503"]
        return healthy and not self.quiet(time.monotonic() - CALM_S) and all(map(self._ready, SERVERS))

    def wait_until_calm(self) -> None:
        """Wait for that; SystemExit says what does not come through, with the ends of the servers' logs."""
        try:
            wait_for(self.calm, "both servers are there, and events come through", 240)
        except SystemExit as late:
            logs = "\n".join(f"{name}: {self.nodes[name].log_end()}" for name in SERVERS)
            quiet = ", ".join(self.quiet(time.monotonic() - CALM_S)) or "nothing is quiet"
            raise SystemExit(f"{late}: {quiet}\n{logs}") from None

    def _ready(self, name: str) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            auth = ("admin", self.nodes[name]._environment["SPDIST_PASSWORD"])
            said = httpx.get(f"{self.nodes[name].url}/statistics", auth=auth, timeout=1).json()
            return bool(said["ready"] and said["warm"])
        return False

    def round(self, fault: str) -> list[Measured]:
        """Let one thing go wrong, wait until all is well again, and say what it took."""
        self.wait_until_calm()
        threading.Event().wait(random.uniform(0, 1))
        active = self.healths.active()
        assert active is not None
        node, fed, began_s = self.nodes[active], self.fed(), time.monotonic()
        over_s = None
        with self.faults()[fault](node):
            if fault == "database away":
                wait_for(lambda: self.healths.active() is None, "nobody is active without the database", 60)
                threading.Event().wait(max(0.0, LASTS_S / 2 - (time.monotonic() - began_s)))
            else:
                wait_for(lambda: self.healths.active() not in (None, active), "the other server is active", 120)
                over_s = time.monotonic() - began_s
                try:
                    wait_for(lambda: not self.quiet(began_s + 1), "events come through", LONGEST_S)
                except SystemExit as late:
                    print(f"   {late}: {', '.join(self.quiet(began_s + 1))}", flush=True)
                threading.Event().wait(max(0.0, LASTS_S - (time.monotonic() - began_s)))
        if over_s is None:
            began_s = time.monotonic()  # the database is back
            wait_for(self.healths.active, "one server is active again", 120)
            over_s = time.monotonic() - began_s
        self.wait_until_calm()
        spans = {source: range(fed[source], count) for source, count in self.fed().items()}
        with contextlib.suppress(SystemExit):
            wait_until_through(self.tallies.values(), spans, 60)
        return [self._measured(fault, source, over_s, began_s, span) for source, span in spans.items()]

    def _measured(self, fault: str, source: str, over_s: float, began_s: float, span: range) -> Measured:
        tallies = self.tallies.values()
        silence_s = max(tally.silence_s(source, began_s) for tally in tallies)
        lost = set().union(*(tally.lost(source, span) for tally in tallies))
        doubled = set().union(*(tally.doubled(source, span) for tally in tallies))
        return Measured(fault, source, over_s, silence_s, len(lost), len(doubled))


def main() -> None:
    """Run the rounds that the command line asks for, and print what they took."""
    parser = rounds_parser(__doc__, 50)
    parser.add_argument("--sources", default=",".join(WAYS_IN), help="those that numbers come in by, with commas")
    chosen = parser.parse_args()
    sources = [one.strip() for one in chosen.sources.split(",")]
    if unknown := {*sources} - {*WAYS_IN}:
        parser.error(f"no source is called {', '.join(sorted(unknown))}; there are {', '.join(WAYS_IN)}")
    random.seed(chosen.seed)
    measured: list[Measured] = []
    with island_home("ha") as (home, island):
        with contextlib.ExitStack() as ends:
            rounds = Rounds(home, island, sources, ends)
            order = order_of(chosen.only or list(rounds.faults()), chosen.rounds, random.Random(chosen.seed))
            for number, name in enumerate(order, 1):
                measured += (these := rounds.round(name))
                print(f"{number:2} (load {os.getloadavg()[0]:.1f}) {name}, over {these[0].over:.2f} s", flush=True)
                for one in these:
                    print(f"   {one.source}: {one.lost} lost, {one.doubled} doubled, {one.silence:.2f} s", flush=True)
        report(measured, rounds)


def report(measured: list[Measured], rounds: Rounds) -> None:
    """Print the tables, and end with 1 where something went wrong that must not."""
    by: defaultdict[tuple[str, str], list[Measured]] = defaultdict(list)
    for one in measured:
        by[one.fault, one.source].append(one)
    rows = [
        (
            *names,
            len(own),
            sum(one.lost for one in own),
            sum(one.doubled for one in own),
            spread([one.over for one in own]),
            spread([one.silence for one in own]),
        )
        for names, own in by.items()
    ]
    print("\nmedian and longest, s")
    print(table_text(("fault", "source", "rounds", "lost", "doubled", "over", "silence"), rows))
    fed = rounds.fed()
    at_sinks = []
    for sink, tally in rounds.tallies.items():
        lost = sum(len(tally.lost(source, range(count))) for source, count in fed.items())
        doubled = sum(len(tally.doubled(source, range(count))) for source, count in fed.items())
        at_sinks.append((sink, lost, doubled, tally.repeated))
    print(table_text(("sink", "lost", "doubled", "again under its id"), at_sinks))
    told = ", ".join(f"{count} {source}" for source, count in fed.items())
    print(f"events: {told}; moments with two active servers: {rounds.healths.both}")
    sys.exit(bool(rounds.healths.both or any(lost or doubled for _, lost, doubled, _ in at_sinks)))


if __name__ == "__main__":
    main()
