"""Managers in this process on one SQLite file: failover, a database that goes away, apps that outlive their leader."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from spdist.clock import SystemClock
from spdist.cluster.coordination.store import CoordinationStore
from spdist.cluster.leader.state import ManagerState
from spdist.cluster.manager import DeployOutcome, Manager
from spdist.cluster.protocol.messages import AnswerHeartbeat, GroupPhase, GroupReport, RedirectHeartbeat, WorkerReport
from spdist.cluster.worker import Worker
from spdist.errors import (
    ClusterError,
    ConfigError,
    ErrorKind,
    NotLeaderError,
    PlanningError,
    SiddhiAppError,
    StaleTermError,
    StoreUnavailableError,
)
from spdist.planning.updates.origin import FIRST, Begin, Origin
from spdist.transports.base import Record
from spdist.transports.log import LogTransport
from tests.cluster.databases import CHOSEN, SERVERS
from tests.cluster.shells import APP, FakeSpark, manager_config, plan, running_manager, worker_config
from tests.error_codes import coded

Eventually = Callable[..., Any]

#: With these times no lease expires within a test.
SLOW = {"SPDIST__CLUSTER__HEARTBEAT_MAX_RETRY": "100"}
#: Longer than one lasts, s: a disk that is busy at the start leaves a row that its manager does not know to be its own.
SLOW_S = 70


def report(
    worker: str = "worker-1", sequence: int = 1, term: int = 0, groups: tuple[GroupReport, ...] = ()
) -> WorkerReport:
    return WorkerReport(worker, "http://127.0.0.1:9", False, "life", sequence, term, groups)


class Skipping(SystemClock):
    """The clock of this machine, ahead by as much as a test says: no lease has to be waited for."""

    ahead_ms = 0

    def steady_ms(self) -> int:
        return super().steady_ms() + self.ahead_ms


def says(manager: Manager, event: str) -> list[str]:
    return [one.message for one in manager.journal.read(kinds=[event])]


# ------------------------------------------------------------------------------------------------------------- topics
def test_an_app_whose_topics_do_not_fit_is_not_deployed(tmp_path: Path, eventually: Eventually) -> None:
    text = """@app:name('App') define stream S (k string);
    @dist(execGroup='g', parallel='2') partition with (k of S) begin from S select k insert into Out; end;"""
    config = manager_config(tmp_path)
    log = LogTransport(config.transports.log.directory)
    log.ensure("App.S.k", 3)
    log.close()
    manager = Manager(config)
    manager.start()
    try:
        eventually(manager.leads, "it leads")
        with pytest.raises(PlanningError, match="has 3 partitions; the app needs 2") as caught:
            manager.deploy(text, replace=False)
        assert caught.value.span is not None
        assert manager.apps() == []
        manager.deploy(text.replace("'2'", "'3'"), replace=False)
    finally:
        manager.stop()


# ----------------------------------------------------------------------------------------------------------- failover
def test_a_standby_takes_over_with_all_apps(tmp_path: Path, eventually: Eventually) -> None:
    with running_manager(manager_config(tmp_path, "manager-1", **SLOW)) as first:
        eventually(first.leads, "the first leads", SLOW_S)
        with running_manager(manager_config(tmp_path, "manager-2", **SLOW)) as second:
            assert first.deploy(APP, replace=False) == DeployOutcome("Trades", created=True)
            assert not second.leads()
            eventually(lambda: len(second.known_managers()) == 2, "the managers know of each other")
            first.stop()
            eventually(second.leads, "the second leads")
            assert [app["name"] for app in second.apps()] == ["Trades"]
            assert second.app_text("Trades") == APP
            assert second._state_loop.ask(lambda state, _: state.term) == 2
            second.undeploy("Trades")
            assert second.apps() == []


def test_who_stops_hands_the_leadership_back_at_once(tmp_path: Path, eventually: Eventually) -> None:
    with running_manager(manager_config(tmp_path, "manager-1", **SLOW)) as first:
        eventually(first.leads, "the first leads", SLOW_S)
        with running_manager(manager_config(tmp_path, "manager-2", **SLOW)) as second:
            first.stop()
            eventually(second.leads, "the second leads long before the lease of the first would end")


def test_a_manager_that_comes_back_finds_its_apps(tmp_path: Path, eventually: Eventually) -> None:
    with running_manager(manager_config(tmp_path)) as manager:
        eventually(manager.leads, "it leads")
        manager.deploy(APP, replace=False)
    with running_manager(manager_config(tmp_path)) as manager:
        eventually(manager.leads, "it leads again")
        assert manager.app_status("Trades")["version"] == 1


def test_an_app_that_can_no_longer_be_planned_is_kept_and_says_why(tmp_path: Path, eventually: Eventually) -> None:
    with running_manager(manager_config(tmp_path)) as manager:
        eventually(manager.leads, "it leads")
        manager.deploy(APP, replace=False)

    def strict(text: str) -> Any:
        raise SiddhiAppError("this version knows no group")

    manager = Manager(manager_config(tmp_path), planner=strict)
    manager.start()
    try:
        eventually(manager.leads, "it leads again")
        status = manager.app_status("Trades")
        assert (status["state"], status["reason"]) == ("FAILED", "this version knows no group")
        assert manager.app_text("Trades") == APP
    finally:
        manager.stop()


def test_a_lost_database_ends_the_leadership_and_a_found_one_brings_it_back(
    tmp_path: Path, eventually: Eventually, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    away = threading.Event()
    read = CoordinationStore.read_leader

    def read_leader(self: CoordinationStore) -> Any:
        if away.is_set():
            raise StoreUnavailableError("the cable is out")
        return read(self)

    monkeypatch.setattr(CoordinationStore, "read_leader", read_leader)
    clock = Skipping()
    # By the database's clock, which cannot be skipped, the lost term lasts for 4 s.
    config = manager_config(tmp_path, SPDIST__CLUSTER__HEARTBEAT_MAX_RETRY="8")
    with running_manager(config, clock) as manager, caplog.at_level(logging.WARNING):
        eventually(manager.leads, "it leads")
        manager.deploy(APP, replace=False)
        term = manager._state_loop.ask(lambda state, _: state.term)
        away.set()
        clock.ahead_ms = 60_000
        eventually(lambda: not manager.leads(), "the lease has run out")
        with pytest.raises(NotLeaderError):
            manager.apps()
        eventually(lambda: any("lease ran out" in message for message in says(manager, "deposed")), "it says so")
        eventually(lambda: "the cable is out" in caplog.text, "the log says why")
        away.clear()
        eventually(manager.leads, "it leads again, in another term")
        assert [app["name"] for app in manager.apps()] == ["Trades"]
        assert manager._state_loop.ask(lambda state, _: state.term) > term


@pytest.mark.parametrize(
    ("problem", "raises"),
    [
        (StaleTermError("somebody else leads"), NotLeaderError),
        (StoreUnavailableError("it may have been written"), StoreUnavailableError),
    ],
)
def test_after_a_write_of_unknown_outcome_a_new_term_is_begun(
    tmp_path: Path,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
    problem: ClusterError,
    raises: type[ClusterError],
) -> None:
    save = CoordinationStore.save_deployment
    problems = [problem]

    def save_deployment(self: CoordinationStore, *arguments: Any) -> None:
        if problems:
            raise problems.pop()
        save(self, *arguments)

    monkeypatch.setattr(CoordinationStore, "save_deployment", save_deployment)
    with running_manager(manager_config(tmp_path)) as manager:
        eventually(manager.leads, "it leads")
        with pytest.raises(raises):
            manager.deploy(APP, replace=False)
        eventually(lambda: (manager._state_loop.ask(lambda state, _: state.term) or 0) >= 2, "it leads in a new term")
        manager.deploy(APP, replace=False)


def test_a_refused_write_changes_nothing(
    tmp_path: Path, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save_deployment(*_: Any) -> None:
        raise ClusterError("the row is too long")

    with running_manager(manager_config(tmp_path)) as manager:
        eventually(manager.leads, "it leads")
        with monkeypatch.context() as patch:
            patch.setattr(CoordinationStore, "save_deployment", save_deployment)
            with pytest.raises(ClusterError, match="too long"):
                manager.deploy(APP, replace=False)
        assert manager.apps() == []
        manager.deploy(APP, replace=False)
        assert manager._state_loop.ask(lambda state, _: state.term) == 1


def test_deployments_that_cannot_be_loaded_leave_the_lead_to_others(
    tmp_path: Path, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = threading.Event()
    broken.set()
    load = CoordinationStore.deployments

    def deployments(self: CoordinationStore) -> Any:
        if broken.is_set():
            raise StoreUnavailableError("the disk is slow")
        return load(self)

    monkeypatch.setattr(CoordinationStore, "deployments", deployments)
    with running_manager(manager_config(tmp_path)) as manager:
        eventually(lambda: manager._state_loop.given_up_term >= 2, "terms are taken and given up")
        assert not manager.leads()
        broken.clear()
        eventually(manager.leads, "it leads once it can load")


def test_nobody_is_sent_to_an_earlier_life_of_a_manager(tmp_path: Path, eventually: Eventually) -> None:
    config = manager_config(tmp_path, **SLOW)
    store = CoordinationStore(SERVERS.database(CHOSEN, tmp_path), config.cluster.group_id)
    store.try_acquire(None, "manager-1", "http://127.0.0.1:9")  # it was killed a moment ago
    reads: list[bool] = []
    read = CoordinationStore.read_leader
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CoordinationStore, "read_leader", lambda self: (reads.append(True), read(self))[1])
        with running_manager(config) as manager:
            eventually(lambda: len(reads) > 2, "it has seen who led")
            with pytest.raises(NotLeaderError) as caught:
                manager.apps()
            assert caught.value.leader is None
            assert manager.heartbeat(report(), []) == (RedirectHeartbeat(None), [])
    store.close()


# --------------------------------------------------------------------------------------------------------------- apps
def test_a_name_that_is_taken_is_only_replaced_on_demand(tmp_path: Path, eventually: Eventually) -> None:
    with running_manager(manager_config(tmp_path)) as manager:
        eventually(manager.leads, "it leads")
        assert manager.deploy(APP, replace=False).created
        with pytest.raises(ClusterError, match="Trades", check=coded(ErrorKind.CONFLICT)):
            manager.deploy(APP, replace=False)
        done = manager.deploy(APP + " group extra 1", replace=True)
        assert not done.created
        assert done.change is not None
        assert done.change.added == ("Trades-extra",)
        assert len(manager.app_service.children("Trades")) == 4


def test_a_group_that_an_update_adds_begins_where_its_topic_ended(tmp_path: Path, eventually: Eventually) -> None:
    def origins(manager: Manager) -> dict[str, Origin]:
        return manager._state_loop.ask(
            lambda state, _: {n: i.assignment.origin for n, i in state.deployments.instances.items()}
        )

    with running_manager(manager_config(tmp_path)) as manager:
        eventually(manager.leads, "it leads")
        manager.deploy(APP, replace=False)
        log = LogTransport(manager.config.transports.log.directory)
        log.ensure("Trades.S2", 1)
        log.append([Record("Trades.S2", 0, b"", 0, "Trades-average-1", clock=7)])
        log.close()
        manager.deploy(APP + " group extra 1", replace=True)
        made = origins(manager)
        (begin,) = made["Trades-extra-1"].begins
        assert begin == Begin("Trades.S2", 0, 1, "", made["Trades-extra-1"].update)
        assert made["Trades-filter-1"] == made["Trades-average-2"] == FIRST
    with running_manager(manager_config(tmp_path)) as manager:
        eventually(manager.leads, "another one leads")
        assert origins(manager) == made


def test_requests_at_the_same_time_reach_the_mind_one_by_one(
    tmp_path: Path, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = threading.Lock()
    handle = ManagerState.handle
    crowded: list[Any] = []

    def alone(self: ManagerState, event: Any, now_ms: int) -> Any:
        if not inside.acquire(blocking=False):
            crowded.append(event)
            return handle(self, event, now_ms)
        try:
            return handle(self, event, now_ms)
        finally:
            inside.release()

    monkeypatch.setattr(ManagerState, "handle", alone)
    with running_manager(manager_config(tmp_path)) as manager:
        eventually(manager.leads, "it leads")
        outcomes: list[object] = []

        def deploy() -> None:
            try:
                outcomes.append(manager.deploy(APP, replace=False).created)
            except ClusterError as error:
                outcomes.append(error.code)

        threads = [threading.Thread(target=deploy) for _ in range(8)]
        for thread in threads:
            thread.start()
        for sequence in range(20):
            manager.heartbeat(report(sequence=sequence + 1), [])
        for thread in threads:
            thread.join(10)
        assert sorted(map(str, outcomes)) == sorted(map(str, [True, *[ErrorKind.CONFLICT] * 7]))
    assert crowded == []


def test_a_standby_has_planned_what_is_stored_before_it_leads(tmp_path: Path, eventually: Eventually) -> None:
    planned: list[str] = []

    def note(text: str) -> Any:
        planned.append(text)
        return plan(text)

    with running_manager(manager_config(tmp_path)) as first:
        eventually(first.leads, "the first leads")
        second = Manager(manager_config(tmp_path, "manager-2"), planner=note)
        second.start()
        try:
            first.deploy(APP, replace=False)
            eventually(lambda: planned == [APP], "the standby has planned it")
            first.stop()
            eventually(second.leads, "the second leads")
            assert second.app_text("Trades") == APP
            assert planned == [APP], "nothing was left to be planned"
        finally:
            second.stop()


def test_workers_are_given_groups_and_their_states_are_shown(tmp_path: Path, eventually: Eventually) -> None:
    with running_manager(manager_config(tmp_path)) as manager:
        eventually(manager.leads, "it leads")
        manager.deploy(APP, replace=False)
        numbers = itertools.count(1)

        def told() -> list[str]:
            answer, _ = manager.heartbeat(report(sequence=next(numbers)), [])
            assert isinstance(answer, AnswerHeartbeat)
            return [a.name for a in answer.assignments]

        names = eventually(told, "the worker stands on the list and is given something")
        assert names == ["Trades-filter-1", "Trades-average-1", "Trades-average-2"]
        prints = manager._state_loop.ask(
            lambda state, _: {n: i.fingerprint for n, i in state.deployments.instances.items()}
        )
        groups = tuple(
            GroupReport(name, "Trades", GroupPhase.RUNNING, print_, metrics={"eventsIn": 5.0})
            for name, print_ in prints.items()
        )
        manager.heartbeat(report(sequence=next(numbers), term=1, groups=groups), [])
        status = manager.app_status("Trades")
        assert (status["status"], status["state"]) == ("active", "RUNNING")
        assert {g["metrics"]["eventsIn"] for g in status["groups"]} == {5.0}
        view = manager.topology("Trades")
        assert {i["worker"] for g in view["groups"] for i in g["instances"]} == {"worker-1"}


# ----------------------------------------------------------------------------------------------------------- defects
def test_settings_that_are_not_used_are_told_when_a_node_starts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    managers, workers = manager_config(tmp_path), worker_config(tmp_path, ["http://127.0.0.1:1"])
    with caplog.at_level(logging.WARNING):
        Manager(replace(managers, notes=("bootstrapURLs is not used",)), planner=plan)
        worker = Worker(replace(workers, notes=("keyStoreFile is not used",)), launcher=FakeSpark())
        worker.start()
        worker.stop()
    assert "bootstrapURLs is not used" in caplog.text
    assert "keyStoreFile is not used" in caplog.text


def test_a_mind_that_fails_ends_the_manager(
    tmp_path: Path, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = Manager(manager_config(tmp_path), planner=plan)
    found: list[BaseException] = []

    def run() -> None:
        try:
            manager.run(threading.Event())
        except ClusterError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    eventually(lambda: manager.url and manager.leads(), "it leads")

    def confused(self: ManagerState, event: Any, now_ms: int) -> Any:
        raise KeyError("nobody")

    monkeypatch.setattr(ManagerState, "handle", confused)
    thread.join(20)
    assert not thread.is_alive()
    assert "has failed" in str(found[0])


def test_a_question_that_fails_harms_only_who_asked(tmp_path: Path, eventually: Eventually) -> None:
    with running_manager(manager_config(tmp_path)) as manager:
        eventually(manager.leads, "it leads")
        with pytest.raises(ZeroDivisionError):
            manager._state_loop.ask(lambda state, now_ms: 1 // 0)
        assert manager.apps() == []


def test_who_asks_after_the_end_is_not_kept_waiting(tmp_path: Path) -> None:
    with running_manager(manager_config(tmp_path)) as manager:
        pass
    with pytest.raises(NotLeaderError, match="is stopping"):
        manager.apps()


def test_who_is_overtaken_in_turning_others_away_does_not_wait_for_ever(tmp_path: Path) -> None:
    class Overtaken(queue.SimpleQueue[Any]):
        def empty(self) -> bool:
            return False  # as was so until another thread took the last item

    with running_manager(manager_config(tmp_path)) as manager:
        pass
    manager._state_loop._queue = Overtaken()
    turning = threading.Thread(target=manager._state_loop._turn_away, daemon=True)
    turning.start()
    turning.join(5)
    assert not turning.is_alive()


def test_a_manager_stops_when_it_is_told_to(tmp_path: Path, eventually: Eventually) -> None:
    manager = Manager(manager_config(tmp_path), planner=plan)
    stop = threading.Event()
    before = set(threading.enumerate())
    thread = threading.Thread(target=manager.run, args=(stop,))
    thread.start()
    eventually(lambda: manager.url and manager.leads(), "it leads")
    stop.set()
    thread.join(20)
    eventually(lambda: set(threading.enumerate()) <= before, "its threads have ended")


# ----------------------------------------------------------------------------------------------------------- settings
def test_election_and_deployments_must_share_a_database(tmp_path: Path) -> None:
    config = manager_config(tmp_path)
    other = replace(config.datasources["LOCAL_DB"], name="OTHER_DB", url=f"sqlite:///{tmp_path}/other.db")
    two = replace(
        config,
        datasources=MappingProxyType({**config.datasources, "OTHER_DB": other}),
        deployment=replace(config.deployment, datasource="OTHER_DB"),
    )
    with pytest.raises(ConfigError, match="different databases"):
        Manager(two)
