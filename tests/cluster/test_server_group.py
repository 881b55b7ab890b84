"""Servers of type ha: one runs the apps, another takes over when it ends, stands still, or loses the database."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from spdist.clock import SystemClock
from spdist.cluster.clients.client import ClusterClient
from spdist.cluster.coordination.store import CoordinationStore
from spdist.cluster.elections.candidate import Candidate
from spdist.cluster.elections.election import ElectionTiming, LeaderRow, Lease
from spdist.cluster.elections.leadership import STANDALONE, Leadership
from spdist.cluster.managers.topics import stream_schemas
from spdist.cluster.protocol.messages import Elected, LeaderSeen, LeaseRenewed
from spdist.cluster.server_node import ServerNode
from spdist.config import Config, load_config
from spdist.errors import ConfigError, StoreUnavailableError
from spdist.planning.topology import Assignment
from spdist.services.process import free_ports
from spdist.transports.feed import read_events
from spdist.transports.log import LogTransport
from tests.cluster.databases import CHOSEN, ROOT, SERVERS, environment
from tests.cluster.shells import PASSWORD, FakeRuntime
from tests.cluster.test_server_node import SETTINGS, text_of

Eventually = Callable[..., Any]

GROUP = """\
cluster.config:
  groupId: pair
  strategyConfig: {datasource: DB, heartbeatInterval: 250, heartbeatMaxRetry: 5}
wso2.datasources:
  dataSources:
    - name: DB
      definition:
        configuration:
          jdbcUrl: ${env:SPDIST_DATABASE_URL}
          username: ${env:SPDIST_DATABASE_USER}
          password: ${env:SPDIST_DATABASE_PASSWORD}
"""


def written(home: Path, node: str, interval_s: int = 1) -> Path:
    """Write the settings of a server of the group whose apps, topics and states are below `home`."""
    given = SETTINGS.format(more=GROUP).replace("type: default", "type: ha").replace("server-1", node)
    given = given.replace("updateInterval: 1,", f"updateInterval: {interval_s},")
    if CHOSEN == "sqlite":
        given = given.replace("          username: ${env:SPDIST_DATABASE_USER}\n", "")
        given = given.replace("          password: ${env:SPDIST_DATABASE_PASSWORD}\n", "")
    file = home / f"{node}.yaml"
    file.write_text(given)
    return file


def variables(home: Path) -> dict[str, str]:
    return {**os.environ, "P": PASSWORD, **environment(SERVERS.database(CHOSEN, home))}


def member_config(home: Path, node: str, interval_s: int = 1) -> Config:
    return load_config(written(home, node, interval_s), role="server", environment=variables(home))


@dataclass
class Noted(FakeRuntime):
    """A group that notes when it was told something, together with those of the other server."""

    node: str = ""
    happened: list[tuple[float, str, str, str]] = field(default_factory=list)

    def _note(self, what: str) -> None:
        self.happened.append((time.monotonic(), self.node, what, self.assignment.text))

    def start(self) -> None:
        self._note("start")
        super().start()

    def stop(self, timeout_s: float) -> None:
        self._note("stop")
        super().stop(timeout_s)

    def kill(self) -> None:
        self._note("kill")
        super().kill()


def fail() -> Any:
    raise OSError(5, "Input/output error")


class Pair:
    """Two servers of one group in this process, and what their groups were told."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.happened: list[tuple[float, str, str, str]] = []
        #: those that reach no database, and those that cannot read the directory of the apps
        self.away: set[str] = set()
        self.blind: set[str] = set()
        self.nodes: dict[str, ServerNode] = {}
        (home / "apps").mkdir(exist_ok=True)

    def start(self, name: str, interval_s: int = 1) -> ServerNode:
        def launch(assignment: Assignment) -> Noted:
            return Noted(assignment, node=name, happened=self.happened)

        node = self.nodes[name] = ServerNode(member_config(self.home, name, interval_s), launcher=launch)
        assert node._group is not None
        self._cut(node._group._store, name)
        scan = node._files._directory.scan
        node._files._directory.scan = lambda: scan() if name not in self.blind else fail()  # type: ignore[method-assign]
        node.start()
        return node

    def _cut(self, store: CoordinationStore, name: str) -> None:
        """Let a store be cut off while its node is among `away`."""
        read, write = store._database.read, store._database.write

        def guarded(work: Callable[..., Any]) -> Callable[..., Any]:
            def call(*given: Any, **more: Any) -> Any:
                if name in self.away:
                    raise StoreUnavailableError("the cable is out")
                return work(*given, **more)

            return call

        store._database.read, store._database.write = guarded(read), guarded(write)  # type: ignore[method-assign]

    def active(self) -> list[str]:
        return [name for name, node in self.nodes.items() if not node.passive]

    def running(self, name: str) -> list[str]:
        """Return the texts that run at a server."""
        told: dict[str, str] = {}
        for _, node, what, text in list(self.happened):
            if node == name:
                told[text] = what
        return [text for text, what in told.items() if what == "start"]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    try:
        yield made
    finally:
        for node in made.nodes.values():
            node.stop()


def states(node: ServerNode) -> dict[str, tuple[str, str]]:
    return {one["name"]: (one["status"], one["state"]) for one in node.apps()}


# ---------------------------------------------------------------------------------------------------------- decisions
def row(term: int) -> LeaderRow:
    return LeaderRow("pair", "other", term, 0, "http://other")


def test_a_server_is_active_by_its_lease_and_not_beside_a_later_term() -> None:
    told: list[int] = []
    one = Leadership(changed=lambda: told.append(1))
    assert one.lease(0) is None
    one.tell(LeaderSeen(row(1), 100))
    assert (one.leader(99), one.leader(100)) == (row(1), None)
    one.tell(Elected(Lease(2, 50), ()))
    assert (one.lease(49), one.lease(50)) == (Lease(2, 50), None)
    one.tell(LeaseRenewed(Lease(2, 90)))
    assert one.lease(50) == Lease(2, 90)
    one.tell(LeaderSeen(row(3), 200))
    assert one.lease(50) is None, "another one leads in a later term"
    one.tell(Elected(Lease(2, 500), ()))
    assert one.lease(50) is None, "what was loading meanwhile comes too late"
    one.tell(Elected(Lease(4, 500), ()))
    assert one.lease(50) == Lease(4, 500)
    one.end()
    one.tell(Elected(Lease(4, 900), ()))
    assert one.lease(50) is None, "it was handed back"
    assert len(told) == 7
    one.give_up(2)
    assert one.given_up_term == 2
    assert Leadership(STANDALONE).lease(1 << 44) == STANDALONE


class Blinking:
    """A database that has one row, and does not answer to some of the first calls."""

    def __init__(self, fails: set[int]) -> None:
        self.fails, self.asked_s, self.row = fails, [0.0], row(0)

    def prepare(self) -> None:
        pass

    def read_leader(self) -> tuple[LeaderRow, int]:
        self.asked_s.append(time.monotonic())
        if len(self.asked_s) - 1 in self.fails:
            raise StoreUnavailableError("for a moment")
        return self.row, 1_000_000

    def renew(self, term: int, node_id: str) -> bool:
        return term == self.row.term

    def try_acquire(self, expected: LeaderRow | None, node_id: str, url: str) -> int:
        self.row = replace(self.row, node_id=node_id, term=self.row.term + 1, last_heartbeat=1_000_000)
        return self.row.term

    def resign(self, term: int, node_id: str) -> None:
        pass


def test_who_leads_asks_again_soon_where_the_database_did_not_answer(eventually: Eventually) -> None:
    timing, store, leadership = ElectionTiming(800, 2), Blinking({2, 3}), Leadership()
    clock = SystemClock()
    candidate = Candidate(store, leadership, "server-1", "http://me", clock, timing, lambda term: ((), None, {}))
    candidate.start()
    try:
        eventually(lambda: len(store.asked_s) > 4, "it has renewed")
    finally:
        candidate.stop()
    _, first, failed, _, renewed = store.asked_s[:5]
    assert failed - first > 0.9 * timing.round_ms / 1000
    assert renewed - failed < timing.round_ms / 1000


# ------------------------------------------------------------------------------------------------------------- servers
def test_one_runs_the_apps_the_other_is_passive_sends_clients_there_and_takes_over(
    pair: Pair, eventually: Eventually
) -> None:
    first = pair.start("server-1")
    eventually(lambda: pair.active() == ["server-1"], "the first is active")
    second = pair.start("server-2")
    with ClusterClient([second.url], "admin", PASSWORD) as client:
        eventually(lambda: second._leadership.leader(second._clock.steady_ms()), "the second knows of the first")
        client.deploy(text_of("Doubles"))
    eventually(lambda: states(first) == {"Doubles": ("active", "RUNNING")}, "it runs at the first")
    eventually(lambda: states(second) == {"Doubles": ("passive", "PASSIVE")}, "the second knows it")
    assert httpx.get(f"{first.url}/health").status_code == 200
    unwell = httpx.get(f"{second.url}/health")
    assert (unwell.status_code, unwell.json()) == (
        503,
        {"status": "passive", "reason": f"server-1 is active, at {first.url}"},
    )
    with httpx.Client(base_url=second.url, auth=("admin", PASSWORD)) as http:
        assert http.get("/siddhi-apps/Doubles/status").json()["status"] == "passive"
        assert http.get("/siddhi-apps?isActive=true").json() == []
        told = http.get("/statistics").json()
        assert (told["haStatus"], told["clusterID"], told["serving"]) == ("Passive", "pair", False)
        assert "spdist_server_active 0.0" in http.get("/metrics").text
        feeding = "/siddhi-apps/Doubles/streams/S/events"
        for method, path in [
            ("DELETE", "/siddhi-apps/Doubles"),
            ("POST", "/siddhi-apps/Doubles/backup"),
            ("GET", "/siddhi-apps/Doubles/revisions"),
            ("GET", "/siddhi-apps/Doubles/elements"),
            ("POST", feeding),
            ("GET", f"{feeding}?limit=5"),
        ]:
            answer = http.request(method, path, json={"events": []} if path == feeding else None)
            assert (answer.status_code, answer.headers["location"]) == (307, f"{first.url}{path}"), path
        assert httpx.get(f"{second.url}/siddhi-apps/Doubles/revisions").status_code == 401
    assert pair.running("server-2") == []
    first.stop()
    eventually(lambda: states(second) == {"Doubles": ("active", "RUNNING")}, "the second runs it")
    ends = [(node, what) for _, node, what, _ in pair.happened]
    assert ends == [("server-1", "start"), ("server-1", "stop"), ("server-2", "start")]
    assert httpx.get(f"{second.url}/health").status_code == 200
    assert httpx.get(f"{second.url}/statistics", auth=("admin", PASSWORD)).json()["haStatus"] == "Active"
    assert "spdist_server_active 1.0" in second.metrics()


def test_one_that_loses_the_database_stops_by_its_lease_before_the_other_starts(
    pair: Pair, eventually: Eventually
) -> None:
    (pair.home / "apps/One.siddhi").write_text(text_of("One"))
    first = pair.start("server-1")
    eventually(lambda: pair.running("server-1"), "it runs at the first")
    pair.start("server-2")
    for here, there in [("server-1", "server-2"), ("server-2", "server-1")]:
        pair.away.add(here)
        eventually(lambda there=there: pair.running(there), "it runs at the other")
        killed = [at for at, node, what, _ in pair.happened if (node, what) == (here, "kill")]
        started = [at for at, node, what, _ in pair.happened if (node, what) == (there, "start")]
        assert killed[-1] < started[-1]
        assert pair.active() == [there]
        pair.away.clear()
    pair.away.update(pair.nodes)
    eventually(lambda: not pair.active(), "nobody leads while the database is away")
    assert httpx.get(f"{first.url}/health").json()["reason"] == "no server is known to be active"
    eventually(lambda: not pair.running("server-1") and not pair.running("server-2"), "nothing runs")
    pair.away.clear()
    eventually(lambda: len(pair.active()) == 1 and pair.running(pair.active()[0]), "one goes on when it is back")


def test_what_the_fence_has_ended_does_not_begin_anew_for_the_rest_of_the_lease(
    pair: Pair, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pair.home / "apps/One.siddhi").write_text(text_of("One"))
    first = pair.start("server-1")
    eventually(lambda: pair.running("server-1"), "it runs")
    report, made = first._known_supervisor().next_report, []

    def killed() -> bool:
        return any(what == "kill" for _, _, what, _ in pair.happened)

    def slow(**given: Any) -> Any:
        made.append(report(**given))
        if not killed():
            threading.Event().wait(0.15)  # the fence counts from before
        return made[-1]

    monkeypatch.setattr(first._known_supervisor(), "next_report", slow)
    eventually(lambda: len(made) > 2, "some reports were slow")
    pair.away.add("server-1")
    eventually(lambda: first.passive, "its lease is over")
    assert [what for _, _, what, _ in pair.happened] == ["start", "kill"]


def test_who_takes_over_first_reads_what_has_just_been_written(pair: Pair, eventually: Eventually) -> None:
    first = pair.start("server-1")
    eventually(lambda: pair.active() == ["server-1"], "the first is active")
    first.deploy(text_of("One"), replace=False)
    second = pair.start("server-2", 600)
    eventually(lambda: states(second), "the second knows the app")
    first.deploy(text_of("One", 3), replace=True)
    first.stop()
    eventually(lambda: pair.running("server-2"), "it runs at the second")
    assert [text for _, node, _, text in pair.happened if node == "server-2"] == [text_of("One", 3)]


def test_one_that_cannot_read_the_apps_leaves_them_to_others(pair: Pair, eventually: Eventually) -> None:
    first = pair.start("server-1")
    eventually(lambda: pair.active() == ["server-1"], "the first is active")
    second = pair.start("server-2")
    pair.blind.add("server-2")
    first.stop()
    eventually(lambda: second._leadership.given_up_term >= 2, "the second gives the term up")
    assert pair.active() == []
    pair.blind.clear()
    eventually(lambda: pair.active() == ["server-2"], "it leads once it sees the directory")


# ------------------------------------------------------------------------------------------------------------ settings
def test_the_shipped_file_of_a_pair_of_servers_says_what_to_change_for_two_machines() -> None:
    config = load_config(ROOT / "conf/ha", role="server", environment={"SPDIST_NODE_ID": "server-2"})
    assert (config.carbon.id, config.is_ha, config.has_first_user) == ("server-2", True, True)
    (note,) = config.notes
    assert "all servers of group sp-ha must be on this machine" in note


def test_what_a_group_of_servers_needs_and_is_told(tmp_path: Path) -> None:
    waits = "deployment.config: {type: ha"
    config = member_config(tmp_path, "server-1")
    assert config.is_ha and config.shard_id == "pair"
    assert any("must be on this machine" in note for note in config.notes)
    file = tmp_path / "server-1.yaml"
    given = file.read_text()
    assert waits in given
    more = "eventSyncServer: {port: 9893}, passiveNodeDetailsWaitTimeOutMillis: 5"
    file.write_text(given.replace(waits, f"{waits}, {more}"))
    notes = load_config(file, role="server", environment=variables(tmp_path)).notes
    (unused,) = [note for note in notes if "durable before it is acknowledged" in note]
    assert "eventSyncServer" in unused and "passiveNodeDetailsWaitTimeOutMillis" in unused
    for before, after, said in [
        ("datasource: DB, ", "", "strategyConfig.datasource is missing, and a server of type ha"),
        ("id: server-1", "id: wso2-sp", "as WSO2 ships it"),
    ]:
        file.write_text(given.replace(before, after))
        with pytest.raises(ConfigError, match=said):
            load_config(file, role="server", environment=variables(tmp_path))


# -------------------------------------------------------------------------------------------------------------- Spark
SUMS = """\
@app:name('Sums')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', drop.repeats='true', @map(type='json'))
define stream S (v long);
@sink(type='embedded', topic='Sums.T') define stream T (v long, total long);
from S select v, sum(v) as total insert into T;
"""


class Sender(threading.Thread):
    """Sends numbered events one after the other, each until it is acknowledged."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged = 0
        self.ending = threading.Event()
        self._url = url
        self.start()

    def run(self) -> None:
        with httpx.Client(timeout=2) as http:
            while not self.ending.wait(0.02):
                number = self.acknowledged + 1
                with contextlib.suppress(httpx.HTTPError):
                    headers = {"spdist-id": f"sender:{number}"}
                    sent = http.post(self._url, json={"event": {"v": number}}, headers=headers)
                    self.acknowledged += sent.status_code == 200


@contextmanager
def process(home: Path, node: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "spdist", "server", "--conf", str(home / f"{node}.yaml")]
    with (home / f"{node}.log").open("ab") as log:
        made = subprocess.Popen(command, env={**os.environ, **variables(home)}, stderr=log)
    try:
        yield made
    finally:
        made.kill()
        made.wait()


@pytest.mark.spark
@pytest.mark.cluster
def test_nothing_is_lost_or_doubled_when_the_active_server_is_killed_while_events_come(
    tmp_path: Path, eventually: Eventually
) -> None:
    source, *ports = free_ports(3)
    spark = "spark: {cores: 1, driverMemory: 512m, optimizeFor: start, tickInterval: 200}\n"
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps/Sums.siddhi").write_text(SUMS.format(port=source))
    nodes = dict(zip(("server-1", "server-2"), ports, strict=True))
    for name, port in nodes.items():
        file = written(tmp_path, name)
        file.write_text(file.read_text().replace("port: 0", f"port: {port}") + spark)

    def health(name: str) -> int:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"http://127.0.0.1:{nodes[name]}/health").status_code
        return 0

    topics = LogTransport(tmp_path / "topics")
    schema = stream_schemas(SUMS.format(port=source))["T"]

    def totals() -> list[tuple[Any, ...]]:
        return [row for _, row in read_events(topics, "Sums.T", schema)] if topics.partitions("Sums.T") else []

    with process(tmp_path, "server-1") as first:
        eventually(lambda: health("server-1") == 200, "the first is active", 90)
        with process(tmp_path, "server-2"):
            eventually(lambda: health("server-2") == 503, "the second is passive", 90)
            sender = Sender(f"http://127.0.0.1:{source}/in")
            eventually(lambda: sender.acknowledged > 20 and totals(), "events flow", 90)
            statistics = f"http://127.0.0.1:{nodes['server-2']}/statistics"
            eventually(
                lambda: httpx.get(statistics, auth=("admin", PASSWORD)).json()["ready"], "the second is warm", 90
            )
            before = sender.acknowledged
            first.kill()
            eventually(lambda: sender.acknowledged > before + 20, "the second takes the events", 90)
            sender.ending.set()
            sender.join()
            sent = sender.acknowledged
            eventually(lambda: len(totals()) >= sent, "all are through", 60)
    assert totals() == [(number, number * (number + 1) // 2) for number in range(1, sent + 1)]
