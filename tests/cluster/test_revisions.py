"""Revisions of apps: orders that travel with the heartbeats, and what becomes of the groups meanwhile."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spdist.cluster.clients.client import Caller, ClusterClient
from spdist.cluster.manager import Manager
from spdist.cluster.managers.orders import OrderBook, OrderRunner
from spdist.cluster.managers.revisions import AppRevisions
from spdist.cluster.protocol.messages import AnswerHeartbeat, JoinedState, WorkerReport
from spdist.cluster.protocol.wire import OrderMessage, OutcomeMessage, read_message
from spdist.cluster.worker import Worker
from spdist.cluster.workers.group_revisions import open_topics
from spdist.cluster.workers.link import LeaderLink
from spdist.engine.island.cuts import Cut
from spdist.errors import ClusterError, ErrorKind, NotFoundError, StateError
from spdist.runtime.revision_files import WentBack
from spdist.transports.base import NO_CLOCK, Record
from spdist.transports.retracted import Undone
from tests.cluster.shells import APP, PASSWORD, FakeSpark, manager_config, running_manager, worker_config
from tests.error_codes import coded

Eventually = Callable[..., Any]


class FakeStore:
    """Revisions in memory; notes what the group's runtime had been told when it went back."""

    def __init__(self, spark: FakeSpark | None = None) -> None:
        self.kept: dict[str, list[str]] = {}
        self.saved: list[str] = []
        self.restored: list[tuple[str, str, list[str]]] = []
        self.cleared: list[tuple[str, list[str]]] = []
        self.undone: dict[str, tuple[Undone, ...]] = {}
        self.problem: Exception | None = None
        self.broken = ""
        self._spark = spark

    def save(self, instance: str, revision: str) -> None:
        if self.problem and instance == (self.broken or instance):
            raise self.problem
        self.saved.append(instance)
        self.kept.setdefault(instance, []).append(revision)

    def restore(self, instance: str, revision: str, undone: Sequence[Undone] = ()) -> WentBack:
        running = self._spark.of(instance) if self._spark else []
        self.restored.append((instance, revision, list(running[-1].told) if running else []))
        self.undone[instance] = tuple(undone)
        return WentBack({instance: Cut({}, 7, 70)}, frozenset({"Trades.Clean"}))

    def delete(self, instance: str, revision: str) -> None:
        self.kept[instance] = [name for name in self.kept.get(instance, []) if name != revision]

    def revisions(self, instance: str) -> list[str]:
        return self.kept.get(instance, [])

    def clear(self, instance: str) -> list[str]:
        running = self._spark.of(instance) if self._spark else []
        self.cleared.append((instance, list(running[-1].told) if running else []))
        return self.kept.pop(instance, [])


# -------------------------------------------------------------------------------------------------------------- orders
def test_a_worker_that_does_not_report_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spdist.cluster.managers.revisions._DELETE_S", 0.01)
    book = OrderBook()
    with pytest.raises(ClusterError, match=r"A-g-1 \(worker-1\)"):
        AppRevisions(book, timeout_s=0.01).backup("A", [{"A-g-1": "worker-1"}], 1)
    assert book.open_for("worker-1") == []


def test_few_requests_wait_for_workers_at_a_time(eventually: Eventually) -> None:
    book = OrderBook()
    revisions = AppRevisions(book, timeout_s=20, most=1)
    asked: list[list[str]] = []
    first = threading.Thread(target=lambda: asked.append(revisions.revisions([{"A-g-1": "worker-1"}])))
    first.start()
    (given,) = eventually(lambda: book.open_for("worker-1"), "the first has given its order")
    with pytest.raises(ClusterError, match="1 requests about revisions", check=coded(ErrorKind.BUSY)):
        revisions.clear("A", [{"A-g-2": "worker-2"}], restart=False)
    assert book.open_for("worker-2") == []
    book.record("worker-1", [OutcomeMessage(id=given.id, revisions=["1__A"])])
    first.join()
    assert asked == [["1__A"]]
    with pytest.raises(ClusterError, match="was not reported"):
        AppRevisions(book, timeout_s=0.01, most=1).clear("A", [{"A-g-2": "worker-2"}], restart=True)


class Obedient(OrderBook):
    """A book whose workers answer at once: each instance has these revisions."""

    def __init__(self, kept: dict[str, list[str]]) -> None:
        super().__init__()
        self.kept = kept
        self.asked: list[str] = []
        self.told: dict[str, list[Undone]] = {}
        self.fails: list[str] = []

    def give(
        self, worker: str, kind: Any, instance: str, revision: str = "", undone: Sequence[Undone] = ()
    ) -> Future[OutcomeMessage]:
        self.asked.append(f"{kind} {instance}")
        self.told[instance] = list(undone)
        done: Future[OutcomeMessage] = Future()
        if f"{kind} {instance}" in self.fails:
            done.set_exception(StateError("the disk is full"))
        else:
            own = [Undone(instance, 0, instance, 5, 3, 30)] if kind == "restore" else []
            done.set_result(OutcomeMessage(id="x", revisions=self.kept[instance], undone=own))
        return done


@pytest.mark.parametrize("kind", ["backup", "restore"])
def test_who_asks_between_two_levels_does_not_get_in_the_way(kind: str) -> None:
    busy: list[str] = []

    class Outcome(Future[OutcomeMessage]):
        def result(self, timeout: float | None = None) -> OutcomeMessage:
            with pytest.raises(ClusterError, check=coded(ErrorKind.BUSY)):
                revisions.revisions([{"B-g-1": "worker-1"}])
            busy.append("refused")
            return super().result(timeout)

    class Disturbed(Obedient):
        def give(self, *order: Any) -> Future[OutcomeMessage]:
            disturbed = Outcome()
            disturbed.set_result(Future.result(super().give(*order)))
            return disturbed

    book = Disturbed({"A-one-1": ["1__A"], "A-two-1": ["1__A"]})
    revisions = AppRevisions(book, most=1)
    hosts = [{"A-one-1": "worker-1"}, {"A-two-1": "worker-2"}]
    if kind == "backup":
        revisions.backup("A", hosts, 2)
    else:
        revisions.restore("A", hosts, "1__A")
    assert len(busy) == len(book.asked), "somebody asked after each order"
    assert [one for one in book.asked if one.startswith(kind)] == sorted(
        (f"{kind} A-one-1", f"{kind} A-two-1"), reverse=kind == "backup"
    )


def test_only_what_all_groups_have_is_a_revision_of_the_app() -> None:
    book = Obedient({"a": ["1__A", "2__A", "3__A"], "b": ["2__A", "3__A"]})
    revisions = AppRevisions(book)
    hosts = [{"a": "w"}, {"b": "w"}]
    assert revisions.revisions(hosts) == ["2__A", "3__A"]
    with pytest.raises(NotFoundError, match="no revision 1__A") as caught:
        revisions.restore("A", hosts, "1__A")
    assert "2__A, 3__A" in str(caught.value)
    assert not any(one.startswith("restore") for one in book.asked), "nothing was changed"
    revisions.restore("A", hosts, "2__A")
    assert [one for one in book.asked if one.startswith("restore")] == ["restore a", "restore b"]


LEVELS = [{"first": "w"}, {"second": "w", "other": "v"}, {"last": "w"}]
KEPT: dict[str, list[str]] = {name: ["1__A"] for level in LEVELS for name in level}


def test_a_group_is_kept_after_those_that_read_of_it_and_goes_back_before_them() -> None:
    book = Obedient(KEPT)
    AppRevisions(book).backup("A", LEVELS, 1)
    assert book.asked == ["backup last", "backup second", "backup other", "backup first"]
    book.asked.clear()
    AppRevisions(book).restore("A", LEVELS, "1__A")
    assert book.asked[4:] == ["restore first", "restore second", "restore other", "restore last"]
    heard = {name: [one.topic for one in undone] for name, undone in book.told.items()}
    assert heard == {"first": [], "second": ["first"], "other": ["first"], "last": ["first", "second", "other"]}


def test_of_a_revision_that_failed_nothing_is_kept() -> None:
    book = Obedient(KEPT)
    book.fails = ["backup other"]
    with pytest.raises(StateError, match="the disk is full"):
        AppRevisions(book).backup("A", LEVELS, 1)
    assert book.asked[-3:] == ["delete last", "delete second", "delete other"]
    assert "backup first" not in book.asked
    book.fails += ["delete last"]
    with pytest.raises(StateError, match="the disk is full"):
        AppRevisions(book).backup("A", LEVELS, 1)


def test_what_older_nodes_do_not_know_they_are_not_told() -> None:
    one = Undone("t", 0, "p", 5, 3, NO_CLOCK)
    for kind in (OrderMessage(id="a", kind="restore", instance="i"), OutcomeMessage(id="a")):
        assert not {"undone", "after", "left"} & json.loads(kind.to_json()).keys()
        told = kind.model_copy(update={"undone": [one]})
        assert read_message(type(kind), told.to_json().encode()) == told
        assert type(kind).model_validate(told.model_dump()) == told, "as a part of a message"


# ------------------------------------------------------------------------------------------------------ in a cluster
@pytest.fixture
def manager(tmp_path: Path, eventually: Eventually) -> Iterator[Manager]:
    with running_manager(manager_config(tmp_path)) as running:
        eventually(running.leads, "it leads")
        yield running


@pytest.fixture
def spark() -> FakeSpark:
    return FakeSpark()


@pytest.fixture
def store(spark: FakeSpark) -> FakeStore:
    return FakeStore(spark)


@pytest.fixture
def worker(tmp_path: Path, manager: Manager, spark: FakeSpark, store: FakeStore) -> Iterator[Worker]:
    one = Worker(worker_config(tmp_path, [manager.url]), launcher=spark, revisions=store)
    one.start()
    yield one
    one.stop()


@pytest.fixture
def client(manager: Manager, worker: Worker) -> Iterator[ClusterClient]:
    with ClusterClient([manager.url], "admin", PASSWORD) as one:
        yield one


def test_an_app_is_kept_and_goes_back(
    client: ClusterClient,
    worker: Worker,
    spark: FakeSpark,
    store: FakeStore,
    manager: Manager,
    eventually: Eventually,
) -> None:
    app = client.deploy(APP).wait(timeout_s=20)
    with contextlib.closing(open_topics(worker.config)) as topics:
        topics.ensure("Trades.Clean", 1)
        topics.append([Record("Trades.Clean", 0, b"", 0, "p")])
    revision = app.backup()
    assert revision.endswith("__Trades")
    assert set(store.kept) == {"Trades-filter-1", "Trades-average-1", "Trades-average-2"}
    assert app.revisions() == [revision]
    assert all(runtime.told == ["start"] for runtime in spark.runtimes), "keeping stops nothing"
    assert store.saved[-1] == "Trades-filter-1", "after the groups that read of it"
    app.restore(revision)
    assert store.restored[0][0] == "Trades-filter-1"
    heard = (Undone("Trades.Clean", 0, "Trades-filter-1", 1, 7, 70),)
    assert store.undone == {"Trades-filter-1": (), "Trades-average-1": heard, "Trades-average-2": heard}
    assert sorted(store.restored) == [(name, revision, ["start", "stop"]) for name in sorted(store.kept)]
    app.wait(timeout_s=20)
    assert [g.failures for g in app.status().groups] == [0, 0, 0]
    assert len(spark.runtimes) == 6, "each group was started again"
    kinds = ["app-backed-up", "app-restored"]
    restored, kept = eventually(lambda: (found := manager.journal.read(kinds=kinds))[1:] and found, "it is written")
    assert (restored.kind, kept.kind) == ("app-restored", "app-backed-up")
    assert {(e.app, e.user) for e in (restored, kept)} == {("Trades", "admin")}
    assert all(e.term is not None for e in (restored, kept))
    assert revision in restored.message


def test_a_revision_that_is_not_there_changes_nothing(client: ClusterClient, store: FakeStore) -> None:
    app = client.deploy(APP).wait(timeout_s=20)
    with pytest.raises(NotFoundError, match="no revision 1__Trades"):
        app.restore("1__Trades")
    assert store.restored == []
    with pytest.raises(NotFoundError, match="Nobody"):
        client.deployment("Nobody").backup()


def test_a_failed_backup_says_why(client: ClusterClient, store: FakeStore) -> None:
    store.problem = StateError("the disk is full")
    app = client.deploy(APP).wait(timeout_s=20)
    with pytest.raises(StateError, match="the disk is full"):
        app.backup()
    store.broken = "Trades-filter-1"
    with pytest.raises(StateError, match="the disk is full"):
        app.backup()
    assert store.saved, "others were kept before it failed"
    assert not any(store.kept.values()), "and were deleted"


def test_the_revisions_of_an_app_are_deleted_while_it_runs(
    client: ClusterClient, spark: FakeSpark, store: FakeStore
) -> None:
    app = client.deploy(APP).wait(timeout_s=20)
    kept = [app.backup()]
    other = client.deploy(APP.replace("Trades", "Other")).wait(timeout_s=20)
    others = [other.backup()]
    gone = client.call("DELETE", "/siddhi-apps/Trades/revisions")
    assert (gone["type"], gone["revisions"]) == ("success", kept)
    assert "present state" in gone["message"]
    assert (app.revisions(), other.revisions()) == ([], others)
    assert all(runtime.told == ["start"] for runtime in spark.runtimes), "nothing was stopped for that"
    with pytest.raises(NotFoundError):
        client.call("DELETE", "/siddhi-apps/Nobody/revisions")


def test_the_revisions_of_all_apps_are_deleted_while_their_groups_are_stopped(
    client: ClusterClient, spark: FakeSpark, store: FakeStore
) -> None:
    app, other = client.deploy(APP), client.deploy(APP.replace("Trades", "Other"))
    kept = sorted([app.wait(timeout_s=20).backup(), other.wait(timeout_s=20).backup()])
    gone = client.call("DELETE", "/siddhi-apps/revisions", params={"enabledRedeployment": "true"}, timeout_s=30)
    assert sorted(gone["revisions"]) == kept
    assert len(store.cleared) == 6
    assert all(told == ["start", "stop"] for _, told in store.cleared)
    app.wait(timeout_s=20)
    other.wait(timeout_s=20)
    assert len(spark.runtimes) == 12, "each group was started again"


def test_without_workers_nothing_can_be_kept(manager: Manager) -> None:
    manager.deploy(APP, replace=False)
    with pytest.raises(ClusterError, check=coded(ErrorKind.NO_WORKERS)):
        manager.app_service.backup("Trades")


def test_an_operator_can_ask_a_worker_itself(client: ClusterClient, worker: Worker, store: FakeStore) -> None:
    client.deploy(APP).wait(timeout_s=20)
    caller = Caller("admin", PASSWORD)
    path = f"{worker.url}/siddhi-apps/Trades-filter-1"
    made = caller.call("POST", f"{path}/backup")
    assert made.status == 201
    assert store.kept == {"Trades-filter-1": [made.body["revision"]]}
    assert caller.call("GET", f"{path}/revisions").body == [made.body["revision"]]
    assert caller.call("POST", f"{path}/restore", params={"revision": made.body["revision"]}).status == 200
    assert store.restored[0][:2] == ("Trades-filter-1", made.body["revision"])
    assert caller.call("DELETE", f"{path}/revisions").body["revisions"] == [made.body["revision"]]
    assert caller.call("DELETE", f"{worker.url}/siddhi-apps/revisions").body["revisions"] == []
    assert caller.call("GET", f"{path}/revisions").body == []
    assert caller.call("POST", f"{worker.url}/siddhi-apps/..%2Fetc/backup").status == 404
    caller.close()


def test_a_process_that_is_rejected_neither_gets_nor_concludes_orders_of_the_worker_whose_id_it_uses(
    manager: Manager,
) -> None:
    mine = WorkerReport("w", "http://127.0.0.1:9", False, "mine", 1, 0)
    other = WorkerReport("w", "http://127.0.0.1:8", False, "other", 1, 0)
    manager.heartbeat(mine, [])
    outcome = manager._orders.give("w", "restore", "A-g-1", "1__A")
    (given,) = manager._orders.open_for("w")
    answer, orders = manager.heartbeat(other, [OutcomeMessage(id=given.id)])
    assert isinstance(answer, AnswerHeartbeat) and answer.joined is JoinedState.REJECTED
    assert orders == [] and not outcome.done()
    _, orders = manager.heartbeat(replace(mine, sequence=2), [OutcomeMessage(id=given.id)])
    assert orders == [] and outcome.done()


def test_a_worker_that_is_rejected_carries_nothing_out(
    manager: Manager, worker: Worker, store: FakeStore, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    eventually(lambda: worker.statistics()["serving"], "it is taken")
    send, begun = LeaderLink.send, list[OrderMessage]()

    def rejected(link: LeaderLink, beat: Any) -> Any:
        reached = send(link, beat)
        return reached and (
            replace(reached[0], joined=JoinedState.REJECTED, reason="in use"),
            [OrderMessage(id="a", kind="restore", instance="A-g-1")],
        )

    monkeypatch.setattr(OrderRunner, "begin", lambda self, orders: begun.extend(orders))
    monkeypatch.setattr(LeaderLink, "send", rejected)
    eventually(lambda: worker.statistics()["message"] == "in use", "it knows that it is rejected")
    told = worker._link._ticket
    eventually(lambda: worker._link._ticket > told + 1, "whole rounds have passed")
    assert begun == []
