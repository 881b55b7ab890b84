"""Cordons, drains and moves on demand: in a leader's state, and over REST with real nodes and a failover."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from spdist.cluster.clients.overview import ClusterStatus
from spdist.cluster.coordination.store import CoordinationStore
from spdist.cluster.leader.placement import decide_placement_by_load
from spdist.cluster.leader.status import DeploymentState, deployment_status
from spdist.cluster.manager import Manager
from spdist.cluster.managers.views import nodes_view
from spdist.cluster.protocol.messages import (
    AnswerRebalance,
    CordonRequested,
    CordonSaved,
    Elected,
    GroupPhase,
    Move,
    RebalanceRequested,
    Refuse,
    SaveCordon,
)
from spdist.cluster.worker import Worker
from spdist.config import load_config
from spdist.errors import ClusterError, NotLeaderError
from tests.cluster.leader import Leader, app, only, seen
from tests.cluster.shells import (
    APP,
    CONF,
    PASSWORD,
    FakeSpark,
    manager_config,
    plan,
    running_manager,
    settings,
    with_users,
    worker_config,
)

Eventually = Callable[..., Any]


class Minds(Leader):
    """A leader whose database accepts cordons, and workers that do what they are told within a heartbeat."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.runs: dict[str, list[str]] = {}

    def cordon(self, worker: str, drain: bool | None) -> None:
        order = only(self.handle(CordonRequested(worker, drain)), SaveCordon)
        self.handle(CordonSaved(order.term, order.worker, order.drain))

    def everybody_reports(self) -> None:
        for worker, groups in self.runs.items():
            self.runs[worker] = self.told(worker, *groups)


@pytest.fixture
def minds() -> Minds:
    """Four groups, two on each of two workers."""
    minds = Minds()
    minds.elect()
    minds.runs = {"w1": [], "w2": []}
    minds.everybody_reports()
    minds.deploy(app("A", "A-g-1", "A-g-2", "A-g-3", "A-g-4"))
    for _ in range(3):
        minds.everybody_reports()
    assert [len(groups) for groups in minds.runs.values()] == [2, 2]
    return minds


def where(minds: Leader) -> dict[str, str | None]:
    return {name: i.worker for name, i in minds.state.deployments.instances.items()}


def test_a_cordoned_worker_keeps_what_it_has_and_is_given_nothing_new(minds: Minds) -> None:
    before = where(minds)
    minds.cordon("w1", False)
    minds.deploy(app("B", "B-g-1", "B-g-2", "B-g-3"))
    minds.settle()
    assert where(minds) == before | {f"B-g-{i}": "w2" for i in (1, 2, 3)}
    minds.cordon("w1", None)
    minds.settle()
    assert sorted(str(w) for w in where(minds).values()) == ["w1"] * 3 + ["w2"] * 4


def test_where_all_are_cordoned_new_groups_wait_and_say_why(minds: Minds) -> None:
    minds.cordon("w1", False)
    minds.cordon("w2", False)
    minds.deploy(app("B", "B-g-1"))
    status = deployment_status(minds.state, "B", minds.now)
    assert status.state is DeploymentState.WAITING
    assert "all workers are cordoned" in status.reason


def test_a_drained_worker_gives_up_one_group_when_the_one_before_runs_elsewhere(minds: Minds) -> None:
    minds.cordon("w1", True)
    at_w1 = [name for name, worker in where(minds).items() if worker == "w1"]
    assert len(at_w1) == 1, "one of two has been given away"
    (moves,) = {*minds.runs["w1"]} - {*at_w1}
    minds.settle()
    assert minds.told("w2", *minds.runs["w2"]) == minds.runs["w2"], "it is not started before it has stopped"
    assert minds.told("w1", *at_w1, seen(moves, GroupPhase.STOPPED)) == at_w1
    assert moves in minds.told("w2", *minds.runs["w2"])
    minds.told("w2", *minds.runs["w2"], seen(moves, GroupPhase.STARTING))
    minds.settle()
    assert where(minds)[at_w1[0]] == "w1", "the next one waits until the first runs"
    minds.told("w2", *minds.runs["w2"], moves)
    assert where(minds)[at_w1[0]] == "w2"


def test_a_drain_does_not_wait_for_ever_for_a_group_that_does_not_start(minds: Minds) -> None:
    minds.cordon("w1", True)
    for _ in range(30):
        minds.pass_time(1_000)
        for worker in ("w1", "w2"):
            minds.told(worker, *[seen(n, GroupPhase.STARTING) for n, w in where(minds).items() if w == worker])
    assert "w1" in where(minds).values()
    for _ in range(35):
        minds.pass_time(1_000)
        for worker in ("w1", "w2"):
            minds.told(worker, *[seen(n, GroupPhase.STARTING) for n, w in where(minds).items() if w == worker])
    assert set(where(minds).values()) == {"w2"}


def test_what_no_other_worker_takes_stays_on_a_drained_one_and_says_so(minds: Minds) -> None:
    minds.cordon("w2", False)
    minds.cordon("w1", True)
    minds.everybody_reports()
    assert [len(groups) for groups in minds.runs.values()] == [2, 2]
    reasons = [g.reason for g in deployment_status(minds.state, "A", minds.now).groups if g.worker == "w1"]
    assert reasons == ["worker w1 is drained: it goes when another worker takes it, in its turn"] * 2


def test_cordons_are_taken_over_by_the_next_leader(minds: Minds) -> None:
    lease = minds.state.lease
    assert lease is not None
    minds.handle(Elected(lease, (app("A", "A-g-1"),), {}, {"w1": False}))
    minds.runs = {"w1": [], "w2": []}
    minds.everybody_reports()
    assert where(minds) == {"A-g-1": "w2"}


def test_a_worker_that_nobody_knows_cannot_be_cordoned_and_a_standby_cordons_nobody(minds: Minds) -> None:
    (refused,) = minds.handle(CordonRequested("w9", False))
    assert isinstance(refused, Refuse) and "no worker w9" in refused.error.message
    standby = Leader()
    for event in (CordonRequested("w1", False), RebalanceRequested()):
        (refused,) = standby.handle(event)
        assert isinstance(refused, Refuse) and isinstance(refused.error, NotLeaderError)


def test_cordons_are_shown(minds: Minds) -> None:
    minds.cordon("w1", True)
    view = nodes_view(minds.state, [], "sp", minds.now)
    assert view["cordoned"] == ["w1"]
    assert [(w["cordoned"], w["drained"]) for w in view["workers"]] == [(True, True), (False, False)]
    status = ClusterStatus.from_view({**view, "apps": [], "transport": "log"})
    assert status.workers[0].told.startswith("drained, READY, heard ")
    assert "drained, " in str(status)


# ---------------------------------------------------------------------------------------------------- moves in advance
def test_a_plan_names_all_moves_with_their_reasons_and_moves_nothing(minds: Minds) -> None:
    minds.told("w3")
    before = where(minds)
    (move,) = minds.state.placing.plan(minds.now)
    assert (move.source, move.target) in {("w1", "w3"), ("w2", "w3")}
    assert move.reason == f"it evens out the load: {move.source} has 2 groups, w3 has 0 groups"
    assert where(minds) == before
    answer = only(minds.handle(RebalanceRequested()), AnswerRebalance)
    assert answer.moves == (move,), "without the pause after a worker has joined"
    assert where(minds) == before | {move.group: "w3"}


def test_a_plan_has_all_that_a_drained_worker_will_give_up(minds: Minds) -> None:
    minds.cordon("w2", False)
    minds.cordon("w1", True)
    minds.cordon("w2", None)
    left = [n for n, w in where(minds).items() if w == "w1"]
    plan = minds.state.placing.plan(minds.now)
    assert plan == tuple(Move(name, "w1", "w2", "worker w1 is drained") for name in left)


def test_a_leader_that_places_by_load_moves_what_is_heavy_when_it_knows_it() -> None:
    leader = Leader(algorithm=decide_placement_by_load)
    leader.elect()
    leader.told("w1")
    leader.deploy(app("A", "A-g-1", "A-g-2"))
    for second in range(70):
        leader.pass_time(1_000)
        figures = {"batches": float(second), "batchMs": 600.0}
        reports = [seen(name) for name in ("A-g-1", "A-g-2")]
        leader.told("w1", *[type(r)(r.name, r.app, r.state, r.fingerprint, metrics=figures) for r in reports])
        leader.told("w2")
        if second == 40:
            assert leader.state.placing.plan(leader.now) == (), "its load is not known for long enough"
    (moved,) = [name for name, worker in where(leader).items() if worker == "w2"]
    assert moved in ("A-g-1", "A-g-2")


# ------------------------------------------------------------------------------------------------------- real processes
class Cluster:
    """Two managers and two workers in this process, their REST interface, and a watch on groups without an owner."""

    def __init__(self, home: Path, eventually: Eventually) -> None:
        self.home = home
        self.eventually = eventually
        self.running: list[Manager | Worker] = []
        self.sparks: dict[str, FakeSpark] = {}
        self.managers = [self._manager(f"manager-{i}") for i in (1, 2)]
        for name in ("worker-1", "worker-2"):
            self.sparks[name] = FakeSpark()
            urls = [m.url for m in self.managers]
            worker = Worker(worker_config(home, urls, name), launcher=self.sparks[name])
            worker.start()
            self.running.append(worker)

    def _manager(self, name: str) -> Manager:
        manager = Manager(manager_config(self.home, name), planner=plan)
        manager.start()
        self.running.append(manager)
        return manager

    @property
    def leader(self) -> Manager:
        found: Manager = self.eventually(
            lambda: next((m for m in self.managers if m in self.running and m.leads()), None), "a manager leads"
        )
        return found

    def rest(self, method: str, path: str, **more: Any) -> httpx.Response:
        return httpx.request(method, f"{self.leader.url}{path}", auth=("admin", PASSWORD), timeout=20, **more)

    def stop_the_leader(self) -> None:
        leader = self.leader
        self.running.remove(leader)
        leader.stop()

    def where(self) -> dict[str, str]:
        groups = self.leader.app_status("Trades")["groups"]
        return {g["name"]: g["worker"] for g in groups if g["state"] == "RUNNING"}


@pytest.fixture
def cluster(tmp_path: Path, eventually: Eventually) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, eventually)
    try:
        yield cluster
    finally:
        for node in reversed(cluster.running):
            node.stop()


def test_a_worker_is_emptied_over_rest_and_stays_so_after_a_failover(cluster: Cluster, eventually: Eventually) -> None:
    eventually(lambda: len(cluster.leader.nodes()["workers"]) == 2, "both workers have joined")
    cluster.leader.deploy(APP, replace=False)
    eventually(lambda: len(cluster.where()) == 3 and set(cluster.where().values()) == {"worker-1", "worker-2"}, "runs")
    done = cluster.rest("PUT", "/resourceClusterWorkers/worker-1/cordon", json={"drain": True})
    assert (done.status_code, done.json()["type"]) == (200, "success")
    eventually(lambda: list(cluster.where().values()) == ["worker-2"] * 3, "worker-1 is empty", timeout_s=20)
    cluster.stop_the_leader()
    assert cluster.leader.nodes()["cordoned"] == ["worker-1"]
    eventually(lambda: len(cluster.where()) == 3, "the next leader knows what runs", timeout_s=20)
    assert set(cluster.where().values()) == {"worker-2"}
    assert cluster.rest("POST", "/managers/rebalance?dryRun=true").json() == {"moves": []}
    assert cluster.rest("DELETE", "/resourceClusterWorkers/worker-1/cordon").status_code == 200
    assert cluster.leader.nodes()["cordoned"] == []
    moves = cluster.rest("POST", "/managers/rebalance").json()["moves"]
    planned = {m["group"]: (m["from"], m["to"]) for m in moves}
    assert all(way == ("worker-2", "worker-1") for way in planned.values())
    eventually(lambda: "worker-1" in cluster.where().values(), "a group has come back", timeout_s=20)


def test_what_is_refused(cluster: Cluster) -> None:
    for body in ('{"drain": 1}', '{"drian": true}', "[]"):
        assert cluster.rest("PUT", "/resourceClusterWorkers/worker-1/cordon", content=body).status_code == 400
    assert cluster.rest("PUT", "/resourceClusterWorkers/nobody/cordon", json={"drain": False}).status_code == 404
    assert cluster.rest("DELETE", "/resourceClusterWorkers/nobody/cordon").status_code == 404
    assert cluster.rest("POST", "/managers/rebalance?dryRun=maybe").status_code == 400
    standby = next(m for m in cluster.managers if not m.leads())
    away = httpx.put(f"{standby.url}/resourceClusterWorkers/worker-1/cordon", auth=("admin", PASSWORD), json={})
    assert away.status_code == 307 and away.headers["Location"].startswith(cluster.leader.url)


@pytest.mark.parametrize(("problem", "goes_on"), [(ClusterError("it is refused"), True), (KeyError("defect"), False)])
def test_who_does_not_know_whether_a_cordon_was_written_leads_no_more(
    cluster: Cluster, eventually: Eventually, monkeypatch: pytest.MonkeyPatch, problem: Exception, goes_on: bool
) -> None:
    eventually(lambda: len(cluster.leader.nodes()["workers"]) == 2, "both workers have joined")
    leader = cluster.leader

    def term() -> int | None:
        return leader._state_loop.ask(lambda state, _: state.term)

    def save_cordon(*_: Any) -> None:
        raise problem

    before = term()
    monkeypatch.setattr(CoordinationStore, "save_cordon", save_cordon)
    with pytest.raises(type(problem)):
        leader.upkeep.cordon("worker-1", drain=False)
    if goes_on:
        assert term() == before
    else:
        eventually(lambda: term() != before, "that term is over")


def test_who_may_only_look_cordons_nobody(tmp_path: Path, eventually: Eventually) -> None:
    path = with_users(tmp_path, CONF / "manager.yaml", {"vera": "viewer"})
    config = load_config(path, role="manager", environment=settings(tmp_path, "manager-1"))
    with running_manager(config) as manager:
        for method, way in [
            ("PUT", "/resourceClusterWorkers/w/cordon"),
            ("DELETE", "/resourceClusterWorkers/w/cordon"),
            ("POST", "/managers/rebalance"),
        ]:
            assert httpx.request(method, manager.url + way, auth=("vera", "vera-secret")).status_code == 403
            assert httpx.request(method, manager.url + way).status_code == 401
