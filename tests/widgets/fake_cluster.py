"""A cluster without network: a real manager's mind behind the client's methods, and a feed that keeps what it gets."""

from __future__ import annotations

from typing import Any, TypeVar

from spdist.cluster.clients.asking import Request
from spdist.cluster.clients.overview import AppStatus
from spdist.cluster.coordination.store import ManagerRow
from spdist.cluster.leader.status import deployment_status
from spdist.cluster.managers.plans import plan_text
from spdist.cluster.managers.views import app_view, nodes_view, topology_view
from spdist.cluster.protocol.messages import GroupPhase
from spdist.errors import ClusterError, NotFoundError
from spdist.language.types import Schema
from tests.cluster.leader import Leader, seen
from tests.cluster.leader import app as deployed

T = TypeVar("T")
TEXT = """@app:name('Shop')
define stream Orders (user string, amount double);
@sink(type='embedded', topic='Shop.Large') define stream Large (user string, amount double);
@dist(execGroup='large', parallel='2') from Orders[amount > 100.0 and amount < 1e6] select user, amount insert into Big;
@dist(execGroup='copy') from Big select user, amount insert into Large;
"""


class FakeCluster:
    """Answers as `ClusterClient` does; ``away`` makes every question fail."""

    def __init__(self) -> None:
        self.leader = Leader()
        self.leader.elect()
        self.texts: dict[str, str] = {}
        self.entries: list[dict[str, Any]] = []
        self.revisions: list[str] = []
        self.restored: list[str] = []
        self.transport = "log"
        self.away = False
        self.looks = 0

    def deploy(self, text: str) -> FakeDeployment:
        topology = plan_text(text)
        self.leader.deploy(deployed(topology.app, *topology.assignments()))
        self.texts[topology.app] = text
        return self.deployment(topology.app)

    def glance(self, request: Request[T], timeout_s: float = 1.0) -> T:
        """Answer what panels ask, as a manager does."""
        self.ask()
        match request.path.strip("/").split("/"):
            case ["managers", "status"]:
                return request.read(self.view())
            case ["managers", "journal"]:
                return request.read({"entries": self.entries})
            case ["managers", "topology", name]:
                return request.read(topology_view(self.leader.state, plan_text(self.text(name)), self.leader.now))
            case ["siddhi-apps", name]:
                return request.read({"content": self.text(name)})
        raise NotFoundError(f"there is no {request.path}")

    def text(self, name: str) -> str:
        if name not in self.texts:
            raise NotFoundError(f"no app {name} is deployed")
        return self.texts[name]

    def deployment(self, name: str) -> FakeDeployment:
        return FakeDeployment(self, name)

    def view(self) -> dict[str, Any]:
        state, now = self.leader.state, self.leader.now
        views = [app_view(state, deployment_status(state, name, now)) for name in self.texts]
        managers = [ManagerRow("manager-1", "http://manager-1", 0), ManagerRow("manager-2", "http://manager-2", 0)]
        return {**nodes_view(state, managers, "test", now), "apps": views, "transport": self.transport}

    def undeploy(self, name: str) -> None:
        self.text(name)
        self.leader.undeploy(name)
        del self.texts[name]

    def run_on(self, worker: str, state: GroupPhase = GroupPhase.RUNNING, error: str = "") -> None:
        """A worker joins, starts what it is told, and reports it."""
        told = self.leader.beat(worker).assignments
        self.leader.beat(worker, *(seen(a, state, error) for a in told))

    def ask(self) -> None:
        self.looks += 1
        if self.away:
            raise ClusterError("no manager answered", hint="are they up?")


class FakeDeployment:
    """Answers as `Deployment` does."""

    def __init__(self, cluster: FakeCluster, name: str) -> None:
        self.name = name
        self.client = cluster
        self._cluster = cluster

    def status(self) -> AppStatus:
        self._cluster.ask()
        leader = self._cluster.leader
        return AppStatus.from_view(app_view(leader.state, deployment_status(leader.state, self.name, leader.now)))

    def text(self) -> str:
        self._cluster.ask()
        return self._cluster.text(self.name)

    def revisions(self) -> list[str]:
        self._cluster.ask()
        self._cluster.text(self.name)
        return list(self._cluster.revisions)

    def backup(self) -> str:
        self._cluster.revisions = [*self.revisions(), f"{len(self._cluster.revisions) + 1}__{self.name}"]
        return self._cluster.revisions[-1]

    def restore(self, revision: str) -> None:
        if revision not in self.revisions():
            raise NotFoundError(f"{self.name} has no revision {revision}")
        self._cluster.restored.append(revision)

    def undeploy(self, timeout_s: float = 60.0) -> None:
        self._cluster.ask()
        self._cluster.undeploy(self.name)


class FakeFeed:
    """Keeps what it is sent; ``broken`` makes sending fail."""

    def __init__(self, *fields: tuple[str, str]) -> None:
        self.schema = Schema.of(fields)
        self.slices: list[list[tuple[int, tuple[Any, ...]]]] = []
        self.advanced: list[int] = []
        self.broken = False

    @property
    def events(self) -> list[tuple[int, tuple[Any, ...]]]:
        return [event for part in self.slices for event in part]

    def send(self, events: Any) -> int:
        if self.broken:
            raise ClusterError("the topic is gone")
        self.slices.append(list(events))
        return len(self.slices[-1])

    def advance(self, ts: int) -> None:
        self.advanced.append(ts)
