"""The coordination database: one suite for every kind, on real SQLite files, PostgreSQL, and MariaDB (databases.py)."""

from __future__ import annotations

import contextlib
import multiprocessing
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from spdist.cluster.coordination import store as store_module
from spdist.cluster.coordination.store import CoordinationStore
from spdist.cluster.elections.election import ElectionTiming, LeaderRow
from spdist.cluster.protocol.messages import AppVersion, Desired
from spdist.errors import ClusterError, StaleTermError, StoreUnavailableError
from spdist.planning.topology import Assignment
from spdist.planning.updates.origin import FIRST, Begin, Origin
from spdist.planning.updates.succession import restored_origins
from tests.cluster.databases import KINDS, SERVERS

Open = Callable[..., CoordinationStore]
TIMING = ElectionTiming(1_000, 2)


class CoordinationStoreContract:
    """What every database must do. A subclass gives the fixture `url`: an empty database."""

    @pytest.fixture
    def opened(self, url: str) -> Iterator[Open]:
        stores: list[CoordinationStore] = []

        def open_one(group: str = "sp", timeout_ms: int = 5_000) -> CoordinationStore:
            stores.append(CoordinationStore(url, group, timeout_ms=timeout_ms))
            return stores[-1]

        yield open_one
        for store in stores:
            store.close()

    @pytest.fixture
    def store(self, opened: Open) -> CoordinationStore:
        return opened()

    @staticmethod
    def row(store: CoordinationStore) -> LeaderRow:
        row, _ = store.read_leader()
        assert row is not None
        return row

    # -------------------------------------------------------------------------------------------------------- election
    def test_at_first_nobody_leads(self, store: CoordinationStore) -> None:
        row, now_ms = store.read_leader()
        assert row is None
        assert now_ms > 1_600_000_000_000

    def test_the_databases_clock_goes_on_in_ms(self, store: CoordinationStore) -> None:
        readings = [store.read_leader()[1] for _ in range(20)]
        assert readings == sorted(readings)
        assert readings[-1] - readings[0] < 60_000

    def test_the_first_term_is_taken_once(self, opened: Open) -> None:
        one, two = opened(), opened()
        assert one.try_acquire(None, "manager-1", "http://1") == 1
        assert two.try_acquire(None, "manager-2", "http://2") is None
        row, now_ms = two.read_leader()
        assert row is not None
        assert (row.group_id, row.node_id, row.term, row.url) == ("sp", "manager-1", 1, "http://1")
        assert 0 <= now_ms - row.last_heartbeat < 60_000

    def test_a_term_is_succeeded_by_the_next_and_only_as_it_was_read(self, store: CoordinationStore) -> None:
        store.try_acquire(None, "manager-1", "http://1")
        seen = self.row(store)
        assert store.try_acquire(seen, "manager-2", "http://2") == 2
        assert store.try_acquire(seen, "manager-3", "http://3") is None
        assert store.try_acquire(None, "manager-3", "http://3") is None
        assert (self.row(store).node_id, self.row(store).term) == ("manager-2", 2)

    def test_a_renewal_in_between_defeats_who_saw_the_row_expired(self, store: CoordinationStore) -> None:
        store.try_acquire(None, "manager-1", "http://1")
        seen = self.row(store)
        while self.row(store).last_heartbeat == seen.last_heartbeat:  # the clock has ms
            assert store.renew(1, "manager-1")
        assert store.try_acquire(seen, "manager-2", "http://2") is None

    def test_only_the_holder_of_the_term_renews(self, store: CoordinationStore) -> None:
        store.try_acquire(None, "manager-1", "http://1")
        assert store.renew(1, "manager-1")
        assert not store.renew(1, "manager-2")
        assert not store.renew(2, "manager-1")
        store.try_acquire(self.row(store), "manager-2", "http://2")
        assert not store.renew(1, "manager-1")

    def test_who_resigns_is_replaced_at_once_and_nobody_else_can_resign_for_it(self, store: CoordinationStore) -> None:
        store.try_acquire(None, "manager-1", "http://1")
        store.resign(1, "manager-2")
        assert self.row(store).last_heartbeat > 0
        store.resign(1, "manager-1")
        assert self.row(store).last_heartbeat == 0

    def test_groups_do_not_see_each_other(self, opened: Open) -> None:
        one, other = opened("one"), opened("other")
        assert one.try_acquire(None, "manager-1", "http://1") == 1
        assert other.try_acquire(None, "manager-2", "http://2") == 1
        one.save_deployment(1, "manager-1", AppVersion("App", "text", 1))
        one.heartbeat_manager("manager-1", "http://1")
        assert other.deployments() == ()
        assert other.live_managers(60_000) == ()

    def test_of_many_at_once_one_wins_each_term(self, opened: Open) -> None:
        stores = [opened() for _ in range(6)]
        stores[0].read_leader()
        for term in (1, 2, 3):
            seen, _ = stores[0].read_leader()
            guard = threading.Barrier(len(stores))

            def race(i: int, seen: LeaderRow | None = seen, guard: threading.Barrier = guard) -> int | None:
                guard.wait(10)
                return stores[i].try_acquire(seen, f"manager-{i}", f"http://{i}")

            with ThreadPoolExecutor(len(stores)) as pool:
                won = list(pool.map(race, range(len(stores))))
            assert [w for w in won if w is not None] == [term]
            assert self.row(stores[0]).node_id == f"manager-{won.index(term)}"

    # -------------------------------------------------------------------------------------------------------- managers
    def test_managers_that_report_are_alive(self, store: CoordinationStore) -> None:
        store.heartbeat_manager("manager-2", "http://2")
        store.heartbeat_manager("manager-1", "http://1")
        store.heartbeat_manager("manager-1", "http://one")
        assert [(m.node_id, m.url) for m in store.live_managers(60_000)] == [
            ("manager-1", "http://one"),
            ("manager-2", "http://2"),
        ]

    def test_managers_that_are_silent_are_not(
        self, store: CoordinationStore, eventually: Callable[..., object]
    ) -> None:
        store.heartbeat_manager("manager-1", "http://1")
        eventually(lambda: not store.live_managers(1), "the manager is older than a millisecond")

    # --------------------------------------------------------------------------------------------------------- workers
    def test_the_list_of_workers_is_that_of_the_term_before(self, store: CoordinationStore) -> None:
        store.try_acquire(None, "manager-1", "http://1")
        assert store.workers(1) == {}
        store.save_workers(1, "manager-1", {"w1": "life-1", "W1": "life-1", "w2": "life-1"})
        store.save_workers(1, "manager-1", {"w1": "life-2", "w3": "life-1"})
        assert store.workers(2) == {"w1": "life-2", "w3": "life-1"}
        store.save_workers(1, "manager-1", {})
        assert store.workers(2) == {}
        assert store.workers(3) is None, "the term before has not written one"

    def test_where_no_list_was_ever_written_nobody_knows_who_there_is(self, store: CoordinationStore) -> None:
        store.try_acquire(None, "manager-1", "http://1")
        assert store.workers(2) is None

    def test_without_the_term_the_list_of_workers_is_not_written(self, store: CoordinationStore) -> None:
        store.try_acquire(None, "manager-1", "http://1")
        store.save_workers(1, "manager-1", {"w1": "life-1"})
        store.try_acquire(self.row(store), "manager-2", "http://2")
        with pytest.raises(StaleTermError):
            store.save_workers(1, "manager-1", {})
        assert store.workers(2) == {"w1": "life-1"}

    def test_cordons_are_found_again_and_written_only_under_the_term(self, store: CoordinationStore) -> None:
        store.try_acquire(None, "manager-1", "http://1")
        assert store.cordons() == {}
        store.save_cordon(1, "manager-1", "w1", False)
        store.save_cordon(1, "manager-1", "W1", False)
        store.save_cordon(1, "manager-1", "w1", True)
        assert store.cordons() == {"w1": True, "W1": False}
        store.try_acquire(self.row(store), "manager-2", "http://2")
        with pytest.raises(StaleTermError):
            store.save_cordon(1, "manager-1", "w1", None)
        store.save_cordon(2, "manager-2", "w1", None)
        store.save_cordon(2, "manager-2", "w9", None)
        assert store.cordons() == {"W1": False}

    # ----------------------------------------------------------------------------------------------------- deployments
    def test_a_deployment_is_found_again_with_its_term(self, opened: Open) -> None:
        store = opened()
        store.try_acquire(None, "manager-1", "http://1")
        text = "@App:name('Ünï') -- 'quotes' \\ and\nlines 🚀 " + "x" * 100_000
        store.save_deployment(1, "manager-1", AppVersion("Ünï", text, 1))
        (found,) = opened().deployments()
        assert (found.name, found.text, found.version, found.desired) == ("Ünï", text, 1, Desired.RUNNING)
        assert found.term == 1
        assert found.created_ms == found.updated_ms > 1_600_000_000_000

    def test_a_new_version_replaces_the_old_and_keeps_when_it_was_created(self, store: CoordinationStore) -> None:
        store.try_acquire(None, "manager-1", "http://1")
        store.save_deployment(1, "manager-1", AppVersion("App", "one", 1))
        (first,) = store.deployments()
        store.save_deployment(1, "manager-1", AppVersion("App", "two", 2, desired=Desired.REMOVED))
        (second,) = store.deployments()
        assert (second.text, second.version, second.desired) == ("two", 2, Desired.REMOVED)
        assert second.created_ms == first.created_ms <= second.updated_ms

    def test_where_instances_of_an_update_begin_is_stored_with_its_version(self, store: CoordinationStore) -> None:
        store.try_acquire(None, "manager-1", "http://1")
        origin = Origin("u1", (Begin("App.S", 0, 70, "App-old-1"),))
        one = Assignment("App-g-1", "App", "App-g", "text", False, (), (), origin=origin)
        for version, assignments in ((1, ()), (2, (one,)), (3, (one,))):
            store.save_deployment(1, "manager-1", AppVersion("App", "text", version, assignments))
            (found,) = store.deployments()
            planned = replace(one, origin=FIRST)
            assert restored_origins((planned,), found.origins) == (assignments or (planned,))
        store.save_deployment(1, "manager-1", AppVersion("App", "text", 4, desired=Desired.REMOVED))
        store.forget_deployment(1, "manager-1", "App", 4)
        store.save_deployment(1, "manager-1", AppVersion("App", "text", 3))
        assert store.deployments()[0].origins == {}

    def test_saving_the_same_again_changes_nothing(self, store: CoordinationStore) -> None:
        """After a lost answer the call is repeated."""
        store.try_acquire(None, "manager-1", "http://1")
        for _ in range(2):
            store.save_deployment(1, "manager-1", AppVersion("App", "one", 1))
        assert [(d.text, d.version) for d in store.deployments()] == [("one", 1)]

    def test_names_differ_by_case(self, store: CoordinationStore) -> None:
        store.try_acquire(None, "manager-1", "http://1")
        for name in ("app", "App"):
            store.save_deployment(1, "manager-1", AppVersion(name, name, 1))
        assert {d.name for d in store.deployments()} == {"app", "App"}

    def test_without_the_term_nothing_is_written(self, store: CoordinationStore) -> None:
        with pytest.raises(StaleTermError, match="nobody leads"):
            store.save_deployment(1, "manager-1", AppVersion("App", "text", 1))
        store.try_acquire(None, "manager-1", "http://1")
        store.save_deployment(1, "manager-1", AppVersion("App", "one", 1, desired=Desired.REMOVED))
        store.try_acquire(self.row(store), "manager-2", "http://2")
        for term, node in ((1, "manager-1"), (2, "manager-1"), (1, "manager-2"), (3, "manager-2")):
            with pytest.raises(StaleTermError, match="manager-2 leads in term 2"):
                store.save_deployment(term, node, AppVersion("App", "two", 2))
            with pytest.raises(StaleTermError, match="manager-2 leads in term 2"):
                store.forget_deployment(term, node, "App", 1)
        assert [(d.text, d.version) for d in store.deployments()] == [("one", 1)]

    def test_only_what_is_undeployed_and_unchanged_is_forgotten(self, store: CoordinationStore) -> None:
        store.try_acquire(None, "manager-1", "http://1")
        store.save_deployment(1, "manager-1", AppVersion("Runs", "text", 1))
        store.save_deployment(1, "manager-1", AppVersion("Gone", "text", 2, desired=Desired.REMOVED))
        store.forget_deployment(1, "manager-1", "Runs", 1)
        store.forget_deployment(1, "manager-1", "Gone", 1)
        assert {d.name for d in store.deployments()} == {"Runs", "Gone"}
        store.forget_deployment(1, "manager-1", "Gone", 2)
        assert {d.name for d in store.deployments()} == {"Runs"}

    def test_a_name_that_does_not_fit_is_refused_before_anything_is_written(self, store: CoordinationStore) -> None:
        store.try_acquire(None, "manager-1", "http://1")
        with pytest.raises(ClusterError, match="256 characters"):
            store.save_deployment(1, "manager-1", AppVersion("x" * 256, "text", 1))
        assert store.deployments() == ()

    def test_while_a_write_is_fenced_nobody_takes_over(self, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
        """The swap waits for the write, or the write fails: never a write of an old term after a new one was taken."""
        leader, rival = opened(), opened()
        leader.try_acquire(None, "manager-1", "http://1")
        seen = self.row(leader)
        fence = store_module._fence
        taken: list[int | None] = []
        thread = threading.Thread(target=lambda: taken.append(rival.try_acquire(seen, "manager-2", "http://2")))
        during: list[bool] = []

        def fence_then_race(*args: Any) -> None:
            fence(*args)
            thread.start()
            thread.join(0.3)
            during.append(thread.is_alive())

        monkeypatch.setattr(store_module, "_fence", fence_then_race)
        leader.save_deployment(1, "manager-1", AppVersion("App", "text", 1))
        thread.join(10)
        assert during == [True], "the rival got in between the check and the write"
        assert taken == [2]


class TestSqlite(CoordinationStoreContract):
    """SQLite, for the managers of one machine."""

    __test__ = "sqlite" in KINDS

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/deep/inside/cluster.db"

    def test_processes_share_a_file_and_one_wins_each_term(self, url: str, opened: Open) -> None:
        context = multiprocessing.get_context("spawn")
        with context.Pool(3) as pool:
            results = pool.starmap(campaign, [(url, f"manager-{i}", 8) for i in range(3)])
        terms = sorted(term for won, _ in results for term in won)
        written = sorted(term for _, written in results for term in written)
        assert terms == list(range(1, len(terms) + 1)), "a term was given twice or skipped"
        assert self.row(opened()).term == len(terms)
        assert sorted(d.term for d in opened().deployments()) == written
        assert written

    def test_a_database_that_stays_locked_is_unavailable_after_the_timeout(self, url: str, opened: Open) -> None:
        store = opened(timeout_ms=200)
        store.read_leader()
        with sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None) as blocker:
            blocker.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailableError, match="locked") as caught:
                store.try_acquire(None, "manager-1", "http://1")
            assert caught.value.retryable
            assert store.read_leader()[0] is None, "readers are not held up by a writer"
            blocker.execute("ROLLBACK")
        assert store.try_acquire(None, "manager-1", "http://1") == 1

    def test_a_short_lock_is_waited_for(self, url: str, opened: Open) -> None:
        store = opened()
        store.read_leader()
        blocker = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False)
        blocker.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.2, lambda: blocker.execute("ROLLBACK"))
        release.start()
        assert store.try_acquire(None, "manager-1", "http://1") == 1
        release.join()
        blocker.close()

    def test_the_file_keeps_what_was_accepted(self, url: str, opened: Open) -> None:
        opened().read_leader()
        with sqlite3.connect(url.removeprefix("sqlite:///")) as plain:
            assert plain.execute("PRAGMA journal_mode").fetchone() == ("wal",)

    def test_what_the_database_refuses_for_good_is_not_called_unavailable(self, url: str, opened: Open) -> None:
        store = opened()
        store.read_leader()
        with sqlite3.connect(url.removeprefix("sqlite:///")) as plain:
            plain.execute("CREATE TRIGGER no BEFORE INSERT ON spdist_manager BEGIN SELECT RAISE(ABORT, 'no more'); END")
        with pytest.raises(ClusterError, match="refused: no more") as caught:
            store.heartbeat_manager("manager-1", "http://1")
        assert not isinstance(caught.value, StoreUnavailableError)


def campaign(url: str, node: str, rounds: int) -> tuple[list[int], list[int]]:
    """Take the leadership from whoever has it, again and again, and write under each term. Runs in a process.

    Returns the terms that were won, and those under which the write came before the next overthrow.
    """
    store = CoordinationStore(url, "sp", timeout_ms=10_000)
    won, written = [], []
    for _ in range(rounds):
        seen, _ = store.read_leader()
        term = store.try_acquire(seen, node, f"http://{node}")
        if term is not None:
            won.append(term)
            with contextlib.suppress(StaleTermError):
                store.save_deployment(term, node, AppVersion(f"App-{term}", "text", 1))
                written.append(term)
    store.close()
    return won, written


@pytest.mark.services
class TestPostgresql(CoordinationStoreContract):
    """PostgreSQL, for managers on several machines."""

    __test__ = "postgresql" in KINDS

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return SERVERS.database("postgresql", tmp_path)

    def test_a_row_that_stays_locked_is_unavailable_after_the_timeout(self, url: str, opened: Open) -> None:
        import psycopg

        store = opened(timeout_ms=300)
        store.try_acquire(None, "manager-1", "http://1")
        with psycopg.connect(url) as blocker:
            blocker.execute("SELECT * FROM spdist_leader FOR UPDATE")
            with pytest.raises(StoreUnavailableError):
                store.renew(1, "manager-1")
            blocker.rollback()
        assert store.renew(1, "manager-1")

    def test_a_server_that_is_frozen_is_waited_for_no_longer_than_the_time_limit(
        self, url: str, opened: Open, eventually: Callable[..., object]
    ) -> None:
        """Its system acknowledges what arrives, and its own time limits stand still with it."""
        import psycopg

        store = opened(timeout_ms=300)
        store.try_acquire(None, "manager-1", "http://1")
        with psycopg.connect(url) as connection:
            server = psutil.Process(connection.info.backend_pid).parent()
        assert server is not None
        frozen = [server, *server.children(recursive=True)]
        try:
            for process in frozen:
                with contextlib.suppress(psutil.NoSuchProcess):  # one of its helpers that has ended
                    process.suspend()
            for _ in range(3):
                began_s = time.monotonic()
                with pytest.raises(StoreUnavailableError):
                    store.renew(1, "manager-1")
                assert time.monotonic() - began_s < 2
        finally:
            for process in frozen:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.resume()

        def renewed() -> bool:
            with contextlib.suppress(StoreUnavailableError):
                return store.renew(1, "manager-1")
            return False

        eventually(renewed, "it answers again")

    def test_a_broken_connection_is_replaced(self, url: str, opened: Open) -> None:
        import psycopg

        store = opened()
        store.try_acquire(None, "manager-1", "http://1")
        with psycopg.connect(url, autocommit=True) as killer:
            killer.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
                "backend_type = 'client backend'"
            )
        assert store.renew(1, "manager-1")

    def test_managers_that_start_together_create_the_tables_once(self, opened: Open) -> None:
        stores = [opened() for _ in range(6)]
        guard = threading.Barrier(len(stores))

        def start(store: CoordinationStore) -> int | None:
            guard.wait(10)
            return store.try_acquire(None, "manager", "http://1")

        with ThreadPoolExecutor(len(stores)) as pool:
            assert sorted(t for t in pool.map(start, stores) if t is not None) == [1]


@pytest.mark.services
class TestMysql(CoordinationStoreContract):
    """MySQL or MariaDB: ``make databases``."""

    __test__ = "mariadb" in KINDS

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return SERVERS.database("mariadb", tmp_path)
