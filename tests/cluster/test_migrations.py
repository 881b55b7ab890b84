"""Versions of the coordination database's tables: made, upgraded with what is in them, and refused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    insert,
    text,
)
from typer.testing import CliRunner, Result

import spdist.cluster.migrations
from spdist.__main__ import app
from spdist.cluster.coordination.database import METADATA, Transactions
from spdist.cluster.coordination.store import CoordinationStore
from spdist.cluster.elections.election import LeaderRow
from spdist.cluster.manager import Manager
from spdist.cluster.migrations import NEWEST, VERSION_TABLE
from spdist.cluster.migrations.columns import NAME, TEXT
from spdist.cluster.protocol.messages import AppVersion, Desired
from spdist.errors import ClusterError, StoreUnavailableError
from tests.cluster.databases import CHOSEN, SERVERS, driver_url, environment, write_settings
from tests.cluster.shells import CONF, deadline, manager_config, plan, settings

# The tables as spdist 0.12 made them; not those of the package, which go on.
OLD = MetaData()
OLD_LEADER = Table(
    "spdist_leader",
    OLD,
    Column("group_id", NAME, primary_key=True),
    Column("node_id", NAME, nullable=False),
    Column("term", BigInteger, nullable=False),
    Column("last_heartbeat", BigInteger, nullable=False),
    Column("url", TEXT, nullable=False),
)
OLD_MANAGER = Table(
    "spdist_manager",
    OLD,
    Column("group_id", NAME, primary_key=True),
    Column("node_id", NAME, primary_key=True),
    Column("url", TEXT, nullable=False),
    Column("last_heartbeat", BigInteger, nullable=False),
)
OLD_DEPLOYMENT = Table(
    "spdist_deployment",
    OLD,
    Column("group_id", NAME, primary_key=True),
    Column("name", NAME, primary_key=True),
    Column("text", TEXT, nullable=False),
    Column("version", Integer, nullable=False),
    Column("desired", String(16), nullable=False),
    Column("term", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
)
# An app as long as people write them, with what databases have trouble with.
APP = "@app:name('Prices') -- naïve “prices” 😀\n" + "define stream S (v int);\n" * 3000


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """Looks at the database past spdist."""
    engine = create_engine(driver_url(database_url))
    yield engine
    engine.dispose()


@pytest.fixture
def open_store(database_url: str) -> Iterator[Callable[[], CoordinationStore]]:
    stores: list[CoordinationStore] = []

    def open_one() -> CoordinationStore:
        stores.append(CoordinationStore(database_url, "sp", timeout_ms=5_000))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


def made_by_0_12(engine: Engine) -> None:
    OLD.create_all(engine)
    with engine.begin() as connection:
        leader = {"group_id": "sp", "node_id": "m1", "term": 7, "last_heartbeat": 1, "url": "http://m1:9190"}
        connection.execute(insert(OLD_LEADER).values(leader))
        connection.execute(
            insert(OLD_MANAGER).values(group_id="sp", node_id="m1", url="http://m1:9190", last_heartbeat=1 << 41)
        )
        app = {"group_id": "sp", "version": 3, "term": 6, "created_ms": 1_700_000_000_000, "updated_ms": 1 << 41}
        connection.execute(insert(OLD_DEPLOYMENT).values(name="Prices", text=APP, desired="RUNNING", **app))
        connection.execute(insert(OLD_DEPLOYMENT).values(name="Gone", text="x", desired="REMOVED", **app))


def make_newer(url: str) -> None:
    """Make tables, and have them say that they are those of a newer spdist."""
    store = CoordinationStore(url, "sp")
    store.prepare()
    store.close()
    engine = create_engine(driver_url(url))
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    engine.dispose()


def version(engine: Engine) -> str:
    with engine.begin() as connection:
        return str(connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar_one())


def differences(engine: Engine) -> list[object]:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        return list(compare_metadata(context, METADATA))


# --------------------------------------------------------------------------------------------------------- the modules
def test_the_newest_version_is_the_last_module() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(spdist.cluster.migrations.__file__).parent))
    script = ScriptDirectory.from_config(config)
    assert script.get_heads() == [NEWEST]
    numbers = [one.revision for one in script.walk_revisions()]
    assert numbers == [f"{n:04}" for n in range(len(numbers), 0, -1)], (
        "one after the other: found_version compares them"
    )


def test_the_versions_lead_to_the_tables_that_spdist_uses(
    engine: Engine, open_store: Callable[[], CoordinationStore]
) -> None:
    open_store().prepare()
    assert version(engine) == NEWEST
    assert differences(engine) == []


# ---------------------------------------------------------------------------------------------------------- older ones
def test_what_0_12_has_stored_is_there_after_the_upgrade(
    engine: Engine, open_store: Callable[[], CoordinationStore]
) -> None:
    made_by_0_12(engine)
    store = open_store()
    row, _ = store.read_leader()
    assert row == LeaderRow("sp", "m1", 7, 1, "http://m1:9190")
    assert version(engine) == NEWEST
    assert differences(engine) == []
    gone, prices = store.deployments()
    assert (gone.name, gone.desired) == ("Gone", Desired.REMOVED)
    assert (prices.name, prices.text, prices.version, prices.desired) == ("Prices", APP, 3, Desired.RUNNING)
    assert (prices.term, prices.created_ms, prices.updated_ms) == (6, 1_700_000_000_000, 1 << 41)
    assert [one.node_id for one in store.live_managers(1 << 41)] == ["m1"]
    # … and the next leader goes on with it.
    assert store.try_acquire(row, "m2", "http://m2") == 8
    store.save_deployment(8, "m2", AppVersion("Prices", "changed", 4))
    assert [one.text for one in store.deployments()] == ["x", "changed"]


def test_an_upgrade_that_was_interrupted_is_finished(
    engine: Engine, open_store: Callable[[], CoordinationStore]
) -> None:
    """Half of the tables are there and no version is: MySQL takes back nothing of what was done."""
    made_by_0_12(engine)
    METADATA.tables["spdist_origin"].create(engine)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    assert [one.name for one in open_store().deployments()] == ["Gone", "Prices"]
    assert version(engine) == NEWEST
    assert differences(engine) == []


def test_managers_that_start_together_upgrade_once(
    engine: Engine, open_store: Callable[[], CoordinationStore], caplog: pytest.LogCaptureFixture
) -> None:
    made_by_0_12(engine)
    caplog.set_level("INFO")
    stores = [open_store() for _ in range(6)]
    guard = threading.Barrier(len(stores))

    def start(store: CoordinationStore) -> int:
        guard.wait(10)
        return len(store.deployments())

    with ThreadPoolExecutor(len(stores)) as pool:
        assert list(pool.map(start, stores)) == [2] * 6
    assert version(engine) == NEWEST
    assert [r.getMessage() for r in caplog.records if "were none" in r.getMessage()] == [
        f"the tables of the coordination database are those of version {NEWEST}, were none"
    ]


# ---------------------------------------------------------------------------------------------------------- newer ones
def test_tables_of_a_newer_spdist_are_refused_and_left_alone(
    database_url: str, engine: Engine, open_store: Callable[[], CoordinationStore]
) -> None:
    make_newer(database_url)
    for ask in (lambda s: s.read_leader(), lambda s: s.heartbeat_manager("m1", "http://m1"), lambda s: s.prepare()):
        with pytest.raises(ClusterError, match="tables of version 9999, and this spdist knows them up to") as caught:
            ask(open_store())
        assert "install the newest spdist" in str(caught.value)
    assert version(engine) == "9999"


# ------------------------------------------------------------------------------------------ accounts that may not do it
@pytest.fixture
def owned(tmp_path: Path) -> str:
    """A database in PostgreSQL, for the account that has made it."""
    return SERVERS.database("postgresql", tmp_path)


@pytest.fixture
def limited(owned: str) -> Iterator[str]:
    """A database that 0.12 has made, for an account that may read and write its rows, and no more."""
    owner = create_engine(driver_url(owned))
    made_by_0_12(owner)
    with owner.begin() as connection:
        for statement in (
            "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
            "CREATE ROLE limited LOGIN",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO limited",
            "ALTER DEFAULT PRIVILEGES GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO limited",
            "ALTER DEFAULT PRIVILEGES GRANT USAGE ON SEQUENCES TO limited",
        ):
            connection.execute(text(statement))
    try:
        yield owned.replace("//postgres:", "//limited:")
    finally:
        with owner.begin() as connection:
            connection.execute(text("DROP OWNED BY limited"))
            connection.execute(text("DROP ROLE limited"))
        owner.dispose()


@pytest.fixture
def upgrade(limited: str, tmp_path: Path) -> Callable[..., Result]:
    """``upgrade(*arguments, typed=None)``: runs the command with the settings of a manager with a limited account."""
    conf = write_settings(tmp_path / "conf") / "manager.yaml"
    known = settings(tmp_path, "manager-1") | environment(limited)

    def run(*arguments: str, typed: str | None = None) -> Result:
        return CliRunner().invoke(app, ["database", "upgrade", "--conf", str(conf), *arguments], input=typed, env=known)

    return run


@pytest.mark.services
def test_an_account_that_may_not_change_tables_is_told_what_to_run_and_that_helps(
    limited: str, upgrade: Callable[..., Result]
) -> None:
    store = CoordinationStore(limited, "sp", timeout_ms=5_000)
    with pytest.raises(ClusterError, match="the account limited may not: permission denied") as caught:
        store.prepare()
    assert "python -m spdist database upgrade --conf FILE --username OWNER" in str(caught.value)

    refused = upgrade()
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "the account limited may not" in refused.stderr
    done = upgrade("--username", "postgres", typed="\n")
    assert (done.exit_code, done.stdout) == (0, f"the tables are of version {NEWEST} now, were of no version\n")
    assert [one.name for one in store.deployments()] == ["Gone", "Prices"]
    store.close()
    assert f"version {NEWEST}: nothing to do" in upgrade().stdout


@pytest.mark.services
def test_the_sql_that_is_printed_does_what_the_upgrade_does(owned: str, upgrade: Callable[..., Result]) -> None:
    printed = upgrade("--sql")
    assert printed.exit_code == 0, printed.output
    with psycopg.connect(owned, autocommit=True) as owner:
        owner.execute(printed.stdout.encode())
    engine = create_engine(driver_url(owned))
    assert version(engine) == NEWEST
    assert differences(engine) == []
    engine.dispose()
    assert upgrade("--sql").stdout == ""


# ------------------------------------------------------------------------------------------------------------- managers
def test_a_manager_does_not_start_with_tables_that_it_does_not_know(tmp_path: Path) -> None:
    database = SERVERS.database(CHOSEN, tmp_path)
    make_newer(database)
    command = ["manager", "--conf", str(CONF / "manager.yaml")]
    done = CliRunner().invoke(app, command, env=settings(tmp_path, "manager-1"))
    assert done.exit_code == 1, done.output
    assert "tables of version 9999" in done.stderr


def test_a_manager_that_meets_such_tables_only_when_the_database_is_back_ends_as_at_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_newer(SERVERS.database(CHOSEN, tmp_path))
    prepare, away = Transactions.prepare, iter(range(8))

    def prepare_when_it_is_back(self: Transactions) -> None:
        if next(away, None) is not None:
            raise StoreUnavailableError("the cable is out")
        prepare(self)

    monkeypatch.setattr(Transactions, "prepare", prepare_when_it_is_back)
    manager = Manager(manager_config(tmp_path), planner=plan)
    with deadline() as stop, pytest.raises(ClusterError, match="tables of version 9999") as caught:
        manager.run(stop)
    assert next(away, None) is None, "it has started, and asked again and again"
    assert "install the newest spdist" in str(caught.value)
