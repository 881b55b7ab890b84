"""Several nodes on one database: each adds its own events to an aggregation, and every one answers for all."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy import text as sql

from spdist.config.allowed import Allowed
from spdist.engine.island.hosted import HostedApp
from spdist.errors import AppValidationError, StoreError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.operators.tables.stores import StoreBatch
from spdist.planning.groups import plan
from spdist.stores.bucket_shards import ShardedBuckets
from spdist.stores.databases import DatabaseStores
from spdist.stores.engines import open_engine
from spdist.stores.settings import DatabaseSettings
from tests.cluster.databases import CHOSEN, SERVERS

STORE = "@store(type='rdbms', datasource='DB')"
TEXT = f"""define stream S (k string, n int, at long);
define stream Ask (k string);
{STORE} @PartitionById
define aggregation A from S
select k, sum(n) as total, avg(n) as mean, min(n) as low, max(n) as high, count() as times, distinctCount(n) as kinds,
    n as latest
group by k aggregate every sec...hour;
from Ask join A on Ask.k == A.k within 0L, 100000000L per 'hours'
select A.AGG_TIMESTAMP as start, A.k as k, A.total as total insert into Told;
"""
BY_TIME = TEXT.replace("aggregate every", "aggregate by at every")
ALL = "from A within 0L, 100000000L per '{}' select AGG_TIMESTAMP, k, total, mean, low, high, times, kinds, latest"


class Node:
    """One node: the app on the common database, in batches of its own log of inputs."""

    def __init__(
        self, url: str, folder: Path, shard: str, text: str = TEXT, log: str | None = None, **more: Any
    ) -> None:
        databases = {"DB": DatabaseSettings(url)}
        self.stores = DatabaseStores(Allowed((folder,), datasources=databases, shard_id=shard, **more))
        self.app = HostedApp(check(parse(text), catalog(), text), stores=self.stores)
        self.log = log or f"log of {shard}"
        self.told: list[Any] = []
        if "Told" in self.app.checked.streams:
            self.app.subscribe("Told", lambda _, row: self.told.append(row))

    def batch(self, number: int, *events: tuple[int, Any], commit: bool = True) -> None:
        self.app.begin(StoreBatch(self.log, number))
        for at, row in events:
            self.app.send("S" if len(row) > 1 else "Ask", at, row)
        if commit:
            self.app.commit()

    def total(self, per: str = "hours") -> Any:
        return self.app.query(f"from A within 0L, 100000000L per '{per}' select sum(total) as total").rows[0][0]

    def rows(self, per: str = "hours") -> Counter[Any]:
        return Counter(self.app.query(ALL.format(per)).rows)


Start = Callable[..., Node]

#: MariaDB is the system's, and only there where it is asked for: ``SPDIST_TEST_DATABASE=mariadb``.
SERVER = CHOSEN if CHOSEN == "mariadb" else "postgresql"


KINDS = ["sqlite", pytest.param(SERVER, marks=pytest.mark.services)]
#: A file of DuckDB is open in one process at a time: for nodes on one machine, and seldom.
also_duckdb = pytest.mark.parametrize("database_url", [*KINDS, "duckdb"], indirect=True)


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    kind: str = request.param
    return SERVERS.database(kind, tmp_path) if kind == SERVER else f"{kind}:///{tmp_path / 'tables.db'}"


@pytest.fixture
def node(database_url: str, tmp_path: Path) -> Iterator[Start]:
    """Starts a node."""
    started: list[Node] = []

    def start(shard: str, *args: Any, **more: Any) -> Node:
        started.append(Node(database_url, tmp_path, shard, *args, **more))
        return started[-1]

    yield start
    for one in started:
        one.app.stop()


def event(at: int, n: int, k: str = "x") -> tuple[int, Any]:
    return at, (k, n, at)


# -------------------------------------------------------------------------------------------------------- thirty, forty
@also_duckdb
def test_both_nodes_answer_for_both_while_the_hour_runs(node: Start) -> None:
    one, two = node("1"), node("2")
    one.batch(1, event(1000, 10), event(1200, 20))
    two.batch(1, event(1500, 40))
    for each in (one, two):
        assert [each.total(per) for per in ("seconds", "minutes", "hours")] == [70, 70, 70]
        assert each.rows() == Counter([(0, "x", 70, 70 / 3 // 1, 10, 40, 3, 3, 40)])
        each.batch(2, (2000, ("x",)))
        assert each.told == [(0, "x", 70)]


@also_duckdb
def test_a_node_that_was_killed_and_comes_back_counts_once(node: Start) -> None:
    one, two = node("1"), node("2")
    two.batch(1, event(1500, 40))
    one.batch(1, event(1000, 10))
    kept = one.app.snapshot()
    one.batch(2, event(1200, 20))
    one.batch(3, event(1300, 500), commit=False)  # killed before its end
    for database in one.stores._databases.values():
        database.flush()
    one.app.stop()
    assert two.total() == 70
    for lives in range(2):  # each replays what followed the snapshot
        again = node("1")
        again.app.restore(kept)
        again.batch(2, event(1200, 20))
        assert again.total() == two.total() == 70, lives
        again.batch(2, event(1200, 20))
        assert again.total() == two.total() == 70, lives
    again.batch(3, event(4_000_000, 5))
    assert again.rows() == two.rows()
    assert two.total() == 75


def test_a_node_that_lost_its_state_goes_on_with_its_rows(node: Start) -> None:
    one, two = node("1"), node("2")
    one.batch(1, event(1000, 10), event(61_000, 20))
    two.batch(1, event(1500, 40))
    one.app.stop()
    fresh = node("1", log="another")
    fresh.batch(1, event(61_500, 5), event(63_000, 1))
    assert fresh.total() == two.total() == 76
    assert [sum(one.rows(per).values()) for per in ("seconds", "minutes", "hours")] == [3, 2, 1]
    again = node("1", log="another")  # replays it from its beginning
    again.batch(1, event(61_500, 5), event(63_000, 1))
    again.batch(2, event(64_000, 4))
    assert again.total() == two.total() == 80


def test_what_is_read_in_a_batch_is_what_it_has_added(node: Start) -> None:
    one, two = node("1"), node("2")
    two.batch(1, event(1500, 40))
    one.batch(1, event(1000, 30), (1000, ("x",)), event(1000, 1), (1000, ("x",)), (1000, ("y",)))
    assert one.told == [(0, "x", 70), (0, "x", 71)]


def test_a_batch_asks_the_database_once_for_what_it_has_not_changed(
    node: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = node("1"), node("2")
    two.batch(1, event(1500, 40))
    read, asked = ShardedBuckets._read, []
    monkeypatch.setattr(ShardedBuckets, "_read", lambda *given: asked.append(given) or read(*given))
    one.batch(1, *[(2000, ("x",))] * 5, event(2000, 1), *[(2000, ("x",))] * 5)
    two.batch(2, event(2500, 2))
    one.batch(2, (3000, ("x",)))
    assert [total for _, _, total in one.told] == [40] * 5 + [41] * 5 + [43]
    assert len(asked) == 2


def test_nodes_run_side_by_side(node: Start) -> None:
    """None waits for another for long, and none is in the way of another, also while they make the tables."""

    def batches(shard: str) -> Node:
        one = node(shard)
        for number in range(15):
            one.batch(number, *(event(number * 300 + n, 1, f"k{n}") for n in range(10)))
        return one

    with ThreadPoolExecutor(3) as pool:
        nodes = list(pool.map(batches, "abc"))
    assert [one.total() for one in nodes] == [3 * 15 * 10] * 3


def test_a_group_that_only_joins_it_reads_what_is_there(node: Start) -> None:
    """It has the aggregation's definition, and its node the shard, but it writes nothing."""
    text = TEXT.replace("from Ask join", "@dist(execGroup='asks') from Ask join")
    texts = {one.group: one.text for one in plan(parse(f"@app:name('App') {text}")).assignments()}
    asks, adds = texts["App-asks"], texts["App_aggregation-A"]
    one, joining, two = node("1", adds), node("1", asks, log="of the join"), node("2", adds)
    one.batch(1, event(1000, 30))
    joining.batch(1, (1000, ("x",)))
    two.batch(1, event(1500, 40))
    joining.batch(2, (2000, ("x",)))
    one.batch(2, event(2000, 1))
    joining.batch(3, (2000, ("x",)))
    assert [total for _, _, total in joining.told] == [30, 70, 71]


def test_outside_of_batches_each_change_is_durable(node: Start) -> None:
    one, two = node("1"), node("2")
    one.app.send_batch("S", [1000, 1100], [("x", 10, 0), ("x", 20, 0)])
    two.app.send_chunk("S", [event(1500, 15), event(1500, 25)])
    assert one.total() == two.total() == 70


# ---------------------------------------------------------------------------------------------- one node as a reference
@pytest.mark.parametrize("text", [TEXT, BY_TIME], ids=["by arrival", "by time"])
def test_shards_together_are_what_one_node_has(node: Start, text: str) -> None:
    text = text.replace("@PartitionById", "@PartitionById @purge(enable='false')")
    alone = HostedApp(check(parse(text.replace(STORE, "")), catalog(), text))
    nodes = [node(shard, text) for shard in "abc"]
    for number in range(40):
        at = number * 997 * 60 % 7_300_000 if "aggregate by" in text else number * 182_500
        row = ("xyz"[number % 3 % 2], number, at)
        alone.send("S", number * 182_500, row)
        nodes[number * 7 % 5 % 3].batch(number, (number * 182_500, row))
    for per in ("seconds", "minutes", "hours"):
        assert Counter(alone.query(ALL.format(per)).rows) == nodes[0].rows(per) == nodes[1].rows(per), per


def test_values_that_no_database_holds_are_merged_all_the_same(node: Start) -> None:
    text = """define stream S (k string, v double);
    @store(type='rdbms', datasource='DB') @PartitionById
    define aggregation A from S select k, max(v) as high, v as latest
    group by k aggregate every sec;"""
    one, two = node("1", text), node("2", text)
    one.batch(1, (1000, ("\0", math.inf)), (1000, (None, 1.5)))
    two.batch(1, (1000, ("\0", -math.inf)), (1001, ("null", math.nan)))
    rows = sorted(two.app.query("from A within 0L, 9000L per 'seconds' select k, high").rows, key=str)
    assert rows == [("\0", math.inf), ("null", 1.5)]


def test_handlers_work_before_it(node: Start) -> None:
    text = TEXT.replace("from S\n", "from S[n > 5]\n")
    one = node("1", text)
    one.batch(1, event(1000, 3), event(1000, 30))
    assert one.total() == 30


# -------------------------------------------------------------------------------------------------------------- purging
def test_a_purge_is_for_the_rows_of_all_nodes(node: Start) -> None:
    text = TEXT.replace("@PartitionById", "@PartitionById @purge(interval='10 sec')")
    one, two = node("1", text), node("2", text)
    two.batch(1, event(1500, 40))
    one.batch(1, event(1000, 30), event(500_000, 1))
    assert one.rows("seconds") == two.rows("seconds")
    assert [start for start, *_ in one.rows("seconds")] == [500_000]
    assert one.total("minutes") == two.total("minutes") == 71


# ------------------------------------------------------------------------------------------------------ what is refused
@also_duckdb
def test_a_table_without_the_column_tells_how_to_add_it(node: Start, database_url: str) -> None:
    plain = TEXT.replace("@PartitionById", "")
    old = node("1", plain)
    old.batch(1, event(1000, 10), event(61_000, 20), event(62_000, 0))
    old.app.stop()
    with pytest.raises(StoreError, match=r"(?i)A_SECONDS, A_MINUTES, A_HOURS in .* have no column SHARD_ID") as refused:
        node("1")
    head, *statements = str(refused.value.hint).splitlines()
    assert head == "Add it; the rows that are there become those of this node, '1':"
    run(database_url, statements)
    one, two = node("1", log="new"), node("2")
    two.batch(1, event(63_000, 40))
    one.batch(1, event(63_500, 0))
    assert one.total() == two.total() == 70
    one.app.stop()
    two.app.stop()
    with pytest.raises(StoreError, match="has the column SHARD_ID: several nodes write it"):
        node("1", plain)


def test_a_state_of_before_goes_on_in_a_shard(node: Start, database_url: str) -> None:
    """The property is set, and the column added, between two lives; seconds that were open are in no table before."""
    plain = TEXT.replace("@PartitionById", "@purge(enable='false')")
    old = node("1", plain)
    old.batch(1, event(1000, 10), event(61_000, 20, "y"), event(62_000, 7))
    kept, log = old.app.snapshot(), old.log
    old.app.stop()
    with pytest.raises(StoreError) as refused:
        node("1", plain, partition_by_id=True)
    run(database_url, str(refused.value.hint).splitlines()[1:])
    one, two = node("1", plain, log, partition_by_id=True), node("2", plain, partition_by_id=True)
    one.app.restore(kept)
    two.batch(1, event(62_500, 40))
    one.batch(2, event(62_600, 0))
    assert one.rows() == two.rows() == Counter([
        (0, "x", 57, 57 // 4, 0, 40, 4, 4, 0),
        (0, "y", 20, 20, 20, 20, 1, 1, 20),
    ])  # fmt: skip
    assert [each.total(per) for each in (one, two) for per in ("seconds", "minutes")] == [77] * 4


def run(database_url: str, statements: list[str]) -> None:
    """What an operator does with the statements that an error prints."""
    engine = open_engine(database_url, "", "", timeout_ms=10_000, purpose="stores", embedded=True)
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


def test_two_nodes_of_one_shard_are_noticed(node: Start) -> None:
    one, other = node("1"), node("1", log="other")
    one.batch(1, event(1000, 10))
    other.batch(1, event(1000, 10))
    with pytest.raises(StoreError, match="another node writes the shard '1' of aggregation 'A'"):
        one.batch(2, event(1000, 10))


def test_a_state_keeps_its_shard(node: Start, caplog: pytest.LogCaptureFixture) -> None:
    """Under another name its rows would count twice."""
    one, two = node("1"), node("2")
    one.batch(1, event(1000, 30))
    two.batch(1, event(1500, 40))
    renamed = node("one", log=one.log)
    with caplog.at_level(logging.WARNING):
        renamed.app.restore(one.app.snapshot())
    assert "name its shard 'one' now, and its state is of the shard '1'" in caplog.text
    renamed.batch(2, event(2000, 1))
    assert renamed.total() == two.total() == 71
    caplog.clear()
    replayed = node("one", log=one.log)  # without a snapshot: the database knows
    replayed.batch(1, event(1000, 30))
    assert "goes on as '1'" in caplog.text
    replayed.batch(2, event(2000, 1))
    replayed.batch(3, event(2000, 1))
    assert replayed.total() == two.total() == 72


@pytest.mark.parametrize(
    ("shard", "text", "error"),
    [
        ("", TEXT, "Configuration 'shardId' not provided for @partitionById of aggregation 'A'"),
        ("x" * 255, TEXT, "The shardId of this node is no name"),
        ("1", TEXT.replace("as latest", "as shard_id"), "'shard_id' is the column in which"),
    ],
)
def test_what_a_shard_needs(tmp_path: Path, shard: str, text: str, error: str) -> None:
    with pytest.raises(AppValidationError, match=error):
        Node(f"sqlite:///{tmp_path / 't.db'}", tmp_path, shard, text)


@pytest.mark.parametrize(
    ("annotation", "everywhere", "shared"),
    [
        ("@PartitionById", False, True),
        ("@PartitionById(enable='true')", False, True),
        ("@partitionbyid(enable='false')", False, False),
        ("", False, False),
        ("", True, True),
        ("@PartitionById(enable='false')", True, True),  # as in Siddhi: the property is not overridden
    ],
)
def test_when_there_are_shards(tmp_path: Path, annotation: str, everywhere: bool, shared: bool) -> None:
    file = tmp_path / "t.db"
    text = TEXT.replace("@PartitionById", annotation)
    Node(f"sqlite:///{file}", tmp_path, "1", text, partition_by_id=everywhere).app.stop()
    with create_engine(f"sqlite:///{file}").connect() as connection:
        columns = [row[1] for row in connection.execute(sql("PRAGMA table_info('A_HOURS')"))]
        keyed = [row[1] for row in connection.execute(sql("PRAGMA table_info('A_HOURS')")) if row[5]]
    assert ("SHARD_ID" in columns) is shared
    assert keyed == (["AGG_TIMESTAMP", "SHARD_ID", "SPDIST_KEY"] if shared else [])


def test_without_a_store_nothing_is_shared(tmp_path: Path) -> None:
    text = TEXT.replace(STORE, "")
    app = HostedApp(check(parse(text), catalog(), text))
    app.send("S", 1000, ("x", 30, 0))
    assert app.query("from A within 0L, 9000L per 'hours' select total").rows == [(30,)]
