"""Kill -9 of what runs an app's queries, again and again: nothing is lost, nothing is there twice.

Over each transport. Either the whole process is killed with its JVM and all its children, and another takes over, which
had stood by; or only the Python processes that read, and have the live state, and the queries are started again.
``SPDIST_KILLS`` and ``SPDIST_KILL_EVENTS`` choose how often and over how many events; ``make faults`` takes many.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from subprocess import PIPE

import psutil
import pytest

from spdist.cluster.managers.topics import fed_topic, published_topic, stream_schema
from spdist.engine.local.app import run
from spdist.engine.shards.places import names_in, place_of
from spdist.language.parsing.parser import parse
from spdist.planning.groups import plan
from spdist.planning.topology import Topology
from spdist.transports.base import Transport
from spdist.transports.feed import Feed, read_events
from spdist.transports.opening import open_transport, transport_settings
from tests.faults.results import Results
from tests.runtime.host_settings import STATES, transports_in
from tests.runtime.wire_apps import Wired, five_groups

ROOT = Path(__file__).parents[2]
#: Kills, where nobody chooses.
FEW = 2
EVENTS = int(os.environ.get("SPDIST_KILL_EVENTS", "10000"))
#: Over what the larger app runs: where nobody asks for more, as long as it takes once.
WIRES = ["log", "kafka", "nats"] if "SPDIST_KILLS" in os.environ else ["log"]
#: Events in a record. Where Kafka is read, Spark counts messages and not events.
PACKED = 50
#: A window, then a pattern for each key; the last group only makes the planner publish `Out`.
CHAIN = """
@app:name('Killed') @app:playback define stream S (k string, v long);
@dist(execGroup='smooth') from S#window.length(5) select k, sum(v) as v insert into M;
@dist(execGroup='rise') partition with (k of M) begin
    from every e1=M -> e2=M[v > e1.v + 100] within 200 millisec
    select e1.k as k, e1.v as low, e2.v as high insert into Out; end;
@dist(execGroup='last') from Out select * insert into End;
"""
#: How long a life lasts: three of four some batches and a part of one, the others so long from when they are begun, s.
BATCHES, PART_S, EARLY_S = 12, 0.3, 4.0


def chain(count: int) -> Wired:
    events = [(1000 + n, (f"k{n % 50}", n * 7919 % 97)) for n in range(count)]
    return Wired(CHAIN, "S", events, events[-1][0] + 1, "Out", run(CHAIN, {"S": events})["Out"])


class Node:
    """The process with the queries."""

    def __init__(self, home: Path, kind: str, url: str) -> None:
        command = [sys.executable, "-m", "tests.faults.node", str(home), str(home / "app.siddhi"), kind, url]
        # A group of its own: the JVM and Spark's Python processes are killed together with it.
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True, start_new_session=True)
        self.ready, self.batches, self.state = threading.Event(), 0, "not ready"
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("READY"):
                self.ready.set()
            elif line.startswith("BATCH"):
                self.batches += 1
            elif line.startswith("STATE"):
                self.state = line.strip()
            else:
                print(line, end="")

    def go(self, batch: int) -> None:
        """Let it start the queries."""
        assert self.ready.wait(300), "Spark does not start"
        assert self.process.stdin is not None
        self.process.stdin.write(f"{batch}\n")
        self.process.stdin.flush()

    def kill_queries(self) -> None:
        """Kill Spark's Python processes."""
        self.batches = 0
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                command = process.cmdline()
                forked = "spdist.engine.spark.forks" in command and process.ppid() != self.process.pid
                if forked or "pyspark" in " ".join(command[:4]):
                    process.kill()

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._listener.join(5)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def runs(self) -> bool:
        return self.process.poll() is None


class Nodes:
    """Processes one after the other: while one runs, the next stands by."""

    def __init__(self, home: Path, kind: str, url: str) -> None:
        self._told = (home, kind, url)
        self._alive: list[Node] = []

    def standby(self) -> Node:
        self._alive.append(Node(*self._told))
        return self._alive[-1]

    def kill(self, node: Node) -> None:
        self._alive.remove(node)
        node.kill()

    def kill_all(self) -> None:
        for node in tuple(self._alive):
            self.kill(node)


@pytest.fixture
def nodes(tmp_path: Path, wire: tuple[str, str]) -> Iterator[Nodes]:
    nodes = Nodes(tmp_path, *wire)
    yield nodes
    nodes.kill_all()


@pytest.fixture
def topics(tmp_path: Path, wire: tuple[str, str]) -> Iterator[Transport]:
    transport = open_transport(transport_settings(transports_in(tmp_path, *wire)))
    yield transport
    transport.close()


def fill(app: Wired, topology: Topology, topics: Transport) -> None:
    """Put all events into the topic that the app reads."""
    fed = fed_topic(topology, app.stream)
    topics.ensure(fed.name, fed.partitions)
    feed = Feed(topics, fed.name, stream_schema(app.text, app.stream), key=fed.key)
    for at in range(0, len(app.events), PACKED):
        feed.send(app.events[at : at + PACKED])
    feed.advance(app.until)


@pytest.mark.spark
@pytest.mark.slow
def test_killed_again_and_again_nothing_is_lost_and_nothing_is_there_twice(
    tmp_path: Path, wire: tuple[str, str], nodes: Nodes, topics: Transport, eventually: Callable[..., object]
) -> None:
    survive(chain(EVENTS), FEW, tmp_path, wire[0], nodes, topics, eventually)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES, indirect=True)
def test_five_groups_that_are_killed_again_and_again_lose_and_double_nothing(
    tmp_path: Path, wire: tuple[str, str], nodes: Nodes, topics: Transport, eventually: Callable[..., object]
) -> None:
    survive(five_groups(EVENTS), FEW, tmp_path, wire[0], nodes, topics, eventually)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("wire", ["log"], indirect=True)
def test_with_state_in_a_bucket_nothing_is_lost_and_nothing_is_there_twice(
    tmp_path: Path,
    wire: tuple[str, str],
    object_store: str,
    monkeypatch: pytest.MonkeyPatch,
    topics: Transport,
    eventually: Callable[..., object],
) -> None:
    place = f"{object_store}/{uuid.uuid4().hex}"
    monkeypatch.setenv(STATES, place)
    nodes = Nodes(tmp_path, *wire)  # after the variable is set, which they inherit
    try:
        survive(chain(EVENTS), FEW, tmp_path, wire[0], nodes, topics, eventually)
    finally:
        nodes.kill_all()
    assert any(name.startswith("Killed-") for name in names_in(place_of(place)))
    assert not (tmp_path / "the states").exists()


def survive(
    app: Wired, few: int, home: Path, kind: str, nodes: Nodes, topics: Transport, eventually: Callable[..., object]
) -> None:
    kills = int(os.environ.get("SPDIST_KILLS", few))
    (home / "app.siddhi").write_text(app.text, encoding="utf-8")
    topology = plan(parse(app.text), transport=kind)
    out, schema = published_topic(topology, app.output).name, stream_schema(app.text, app.output)
    unit = PACKED if kind == "kafka" else 1
    step = max(1, EVENTS // (kills * 8) // unit)
    expected = app.expected
    node = nodes.standby()
    fill(app, topology, topics)
    node.go(step)
    rng, pace, results = random.Random(kills), threading.Event(), Results(topics, out)
    whole, reached, began = 0, [0], time.monotonic()

    following = nodes.standby()
    for left in reversed(range(kills)):
        early = rng.random() < 0.25
        if not early:
            until = rng.randint(1, BATCHES)
            eventually(
                lambda n=node, b=until: n.batches >= b or not n.runs(),
                lambda n=node, b=until: f"{b} batches pass: {n.batches} have, {n.state}",
                120,
            )
        pace.wait(rng.uniform(0, EARLY_S if early else PART_S))
        assert node.runs(), "the process ended before it was killed"
        if left and rng.random() < 0.75:
            node.kill_queries()
        else:
            whole += 1
            nodes.kill(node)
            node = following
            node.go(step if left else EVENTS)
            following = nodes.standby() if left else node
        reached.append(results.count())
        print(f"{kind}: {left} kills left, {reached[-1]:,} results", flush=True)

    eventually(
        lambda: results.count() >= len(expected) or not node.runs(),
        lambda: f"all {len(expected)} results are there: {results.count()} are, {node.state}",
        240,
    )
    nodes.kill(node)
    assert read_events(topics, out, schema) == expected
    results.count()
    assert results.repeated == 0, "others than readers of ours would see events twice"
    lives = sum(later > before for before, later in pairwise(reached))
    print(
        f"{kind}: {kills} kills in {time.monotonic() - began:.0f} s while {EVENTS:,} events pass, {whole} of them of "
        f"the whole process; {lives} lives put out results, {reached[-1]:,} of {len(expected):,} before the last start"
    )
