"""What the tests of the shells share: settings of patient nodes, a planner without a language, groups without Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from spdist.clock import Clock
from spdist.cluster.manager import Manager
from spdist.config import Config, load_config
from spdist.errors import SiddhiAppError
from spdist.planning.topology import (
    Assignment,
    ExecutionGroup,
    GroupInput,
    GroupInstance,
    GroupOutput,
    Publishing,
    Strategy,
    Topic,
    Topology,
)
from tests.cluster.databases import SERVERS

#: The settings of a local cluster; its managers meet in a database of the chosen kind, one for each home.
CONF = SERVERS.settings()
PASSWORD = "not-admin"

#: What a test writes instead of SiddhiQL: a name, and groups with their parallelism.
APP = "@app:name('Trades') group filter 1 group average 2"


#: Heartbeats are quick, but only a silence of 10 s ends a leadership, and one of 15 s loses a worker: a busy machine is
#: no failure. A manager whose first write got no answer leads after that time, which is less than `eventually` waits.
PATIENT = {
    "SPDIST__CLUSTER__HEARTBEAT_INTERVAL": "500",
    "SPDIST__CLUSTER__HEARTBEAT_MAX_RETRY": "20",
    "SPDIST__DEPLOYMENT__HEARTBEAT_INTERVAL": "100",
    "SPDIST__DEPLOYMENT__HEARTBEAT_MAX_RETRY": "150",
    "SPDIST__DEPLOYMENT__LEADER_RETRY_INTERVAL": "100",
}


def settings(home: Path, node: str, **more: str) -> dict[str, str]:
    """The environment of a node of a test: any port, and `PATIENT` times."""
    return {
        **PATIENT,
        "SPDIST_NODE_ID": node,
        "SPDIST_PORT": "0",
        "SPDIST_HOME": str(home),
        "SPDIST_PASSWORD": PASSWORD,
        **SERVERS.environment(home),
        **more,
    }


def manager_config(home: Path, node: str = "manager-1", **more: str) -> Config:
    return load_config(CONF / "manager.yaml", role="manager", environment=settings(home, node, **more))


def worker_config(home: Path, managers: list[str], node: str = "worker-1", **more: str) -> Config:
    known = {"SPDIST_MANAGERS": ",".join(managers)}
    return load_config(CONF / "worker.yaml", role="worker", environment=settings(home, node, **known, **more))


def with_users(home: Path, source: Path, users: dict[str, str]) -> Path:
    """Write a copy of a settings file in which further users (name: role) have the password `<name>-secret`."""
    text = source.read_text(encoding="utf-8")
    for name, role in users.items():
        (home / f"{name}.secret").write_text(f"{name}-secret", encoding="utf-8")
        (home / f"{name}.secret").chmod(0o600)
        entry = f"        - user:\n            username: {name}\n            password: ${{file:{home}/{name}.secret}}\n"
        text = text.replace("      users:\n", f"      users:\n{entry}            roles: {role}\n")
    roles = "".join(
        f"        - role:\n            id: {r}\n            displayName: {r}\n" for r in sorted({*users.values()})
    )
    text = text.replace("    userStore:\n", f"    userStore:\n      roles:\n{roles}")
    target = home / "deployment.yaml"
    target.write_text(text, encoding="utf-8")
    return target


def text_of(instance: str) -> str:
    """Return the SiddhiQL of an instance."""
    return f"@app:name('{instance}') define stream S (v int); from S select v insert into T;"


def plan(text: str) -> Topology:
    """Plan the test's own little language; a chain of groups, the first of which outsiders feed."""
    words = text.split()
    if not text.startswith("@app:name('"):
        wrong = [SiddhiAppError("no name"), SiddhiAppError("no group")]
        raise SiddhiAppError("2 errors", errors=tuple(wrong))
    app = text.split("'")[1]
    groups: list[ExecutionGroup] = []
    topics = [Topic(f"{app}.S0", 1)]
    for number, at in enumerate(i for i, word in enumerate(words) if word == "group"):
        name, parallel = f"{app}-{words[at + 1]}", int(words[at + 2])
        producers = tuple(i.name for i in groups[-1].instances) if groups else ()
        topics.append(Topic(f"{app}.S{number + 1}", 1))
        publishing = Publishing(Strategy.ALL, 1, topics[-1].name, 1)
        groups.append(
            ExecutionGroup(
                name,
                parallel,
                (GroupInput(f"S{number}", Strategy.ALL, topics[-2].name, 1, producers=producers),),
                (GroupOutput(f"S{number + 1}", (publishing,)),),
                tuple(GroupInstance(f"{name}-{i + 1}", text_of(f"{name}-{i + 1}")) for i in range(parallel)),
            )
        )
    return Topology(app, False, tuple(groups), tuple(topics))


@dataclass
class FakeStatus:
    state: str = "RUNNING"
    error: str | None = None
    waiting: str | None = None
    batches: int = 1
    events_in: int = 20
    events_out: int = 10
    clock: int | None = None
    lag: int | None = 0
    batch_ms: int = 12
    state_bytes: int = 3456
    memory_bytes: int = 1 << 20
    state_rows: int = 17
    last_revision_ms: int | None = 1_700_000_000_000
    rejected: dict[str, int] = field(default_factory=lambda: {"S": 3})


@dataclass
class FakeRuntime:
    """A group that runs at once, and does what the test tells it to; notes what it was told."""

    assignment: Assignment
    current: FakeStatus = field(default_factory=FakeStatus)
    told: list[str] = field(default_factory=list)
    #: a stop waits for this
    may_finish: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.may_finish.set()

    def start(self) -> None:
        self.told.append("start")

    def status(self) -> FakeStatus:
        return self.current

    def stop(self, timeout_s: float) -> None:
        self.told.append("stop")
        self.may_finish.wait(timeout_s)

    def kill(self) -> None:
        self.told.append("kill")
        self.may_finish.set()


class FakeSpark:
    """A launcher whose groups are `FakeRuntime`s; ``runtimes`` are all it has made, in order."""

    def __init__(self) -> None:
        self.runtimes: list[FakeRuntime] = []
        self.problem: Exception | None = None
        #: launching waits for this
        self.ready = threading.Event()
        self.ready.set()

    def __call__(self, assignment: Assignment) -> FakeRuntime:
        self.ready.wait(10)
        if self.problem is not None:
            raise self.problem
        self.runtimes.append(FakeRuntime(assignment))
        return self.runtimes[-1]

    def of(self, name: str) -> list[FakeRuntime]:
        return [r for r in self.runtimes if r.assignment.name == name]


@contextmanager
def deadline(timeout_s: float = 20) -> Iterator[threading.Event]:
    """The stop event of a node that is expected to end by itself: set after a while, so that the test ends, too."""
    stop = threading.Event()
    timer = threading.Timer(timeout_s, stop.set)
    timer.start()
    try:
        yield stop
    finally:
        timer.cancel()


@contextmanager
def running_manager(config: Config, clock: Clock | None = None) -> Iterator[Manager]:
    manager = Manager(config, planner=plan, clock=clock)
    manager.start()
    try:
        yield manager
    finally:
        manager.stop()
