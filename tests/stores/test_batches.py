"""Batches change a database once, however often they are replayed, and wherever the process died."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spdist.config.allowed import Allowed
from spdist.engine.island.hosted import HostedApp
from spdist.errors import StoreError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.operators.tables.stores import StoreBatch
from spdist.stores.databases import DatabaseStores

Open = Callable[[], DatabaseStores]
STORE = "@store(type='rdbms', datasource='DB')"
COUNTING = f"""define stream S (k string, n int);
{STORE} @PrimaryKey('k') define table T (k string, n int);
{STORE} define table Log (k string, n int);
from S update T set T.n = T.n + n on T.k == k;
from S[not ((T.k == k) in T)] insert into T;
from S insert into Log;
from S join T on S.k == T.k select T.k as k, T.n as n insert into Out;
"""


class Life:
    """One life of a shard: the app on the database, and what it put out."""

    def __init__(self, stores: DatabaseStores, text: str = COUNTING, log: str = "log") -> None:
        self.app = HostedApp(check(parse(text), catalog(), text), stores=stores)
        self.log = log
        self.out: list[Any] = []
        if "Out" in self.app.checked.streams:
            self.app.subscribe("Out", lambda ts, row: self.out.append(row))

    def batch(self, number: int, events: list[tuple[Any, ...]], commit: bool = True) -> None:
        self.app.begin(StoreBatch(self.log, number))
        for row in events:
            self.app.send("S", number, row)
        if commit:
            self.app.commit()

    def rows(self, table: str) -> Counter[Any]:
        return Counter(self.app.query(f"from {table} select *").rows)


FIRST, SECOND = [("a", 1), ("b", 2), ("a", 3)], [("a", 10), ("c", 5), ("c", 6)]


def test_a_batch_sees_its_own_changes(opened: Open) -> None:
    life = Life(opened())
    life.batch(1, FIRST)
    assert life.out == [("a", 1), ("b", 2), ("a", 4)]
    life.batch(2, SECOND)
    assert life.rows("T") == Counter([("a", 14), ("b", 2), ("c", 11)])
    assert life.rows("Log") == Counter(FIRST + SECOND)


def test_replayed_batches_change_nothing(opened: Open) -> None:
    life = Life(opened())
    life.batch(1, FIRST)
    life.batch(2, SECOND)
    again = Life(opened())
    for number, events in ((1, FIRST), (2, SECOND), (3, FIRST)):
        again.batch(number, events)
    assert again.rows("T") == Counter([("a", 18), ("b", 4), ("c", 11)])
    assert again.rows("Log") == Counter(FIRST * 2 + SECOND)


def test_a_batch_that_did_not_end_is_undone(opened: Open) -> None:
    dead = Life(opened())
    dead.batch(1, FIRST)
    dead.batch(2, SECOND, commit=False)
    dead.app.query("from T on n > 0 select *")  # has written what it had
    alive = Life(opened())
    alive.batch(1, FIRST)
    alive.batch(2, SECOND)
    assert alive.rows("T") == Counter([("a", 14), ("b", 2), ("c", 11)])


def test_a_state_that_is_restored_finds_tables_as_they_are(opened: Open) -> None:
    life = Life(opened())
    life.batch(1, FIRST)
    state = life.app.snapshot()
    life.batch(2, SECOND)
    again = Life(opened())
    again.app.restore(state)
    assert again.rows("T") == Counter([("a", 14), ("b", 2), ("c", 11)])
    assert again.rows("Log") == Counter(FIRST + SECOND)


def test_a_copy_that_was_replaced_changes_nothing_any_more(opened: Open) -> None:
    old, new = Life(opened()), Life(opened())
    old.batch(1, FIRST)
    old.batch(2, SECOND, commit=False)
    old.app.stop()
    new.batch(2, SECOND)
    old.batch(2, SECOND)
    assert new.rows("Log") == Counter(FIRST + SECOND)


def test_logs_that_begin_anew_are_other_logs(opened: Open) -> None:
    Life(opened()).batch(7, FIRST)
    fresh = Life(opened(), log="another")
    fresh.batch(1, FIRST)
    assert fresh.rows("Log") == Counter(FIRST * 2)


def test_a_database_that_fails_fails_the_batch_and_not_the_event(opened: Open) -> None:
    life = Life(opened(), COUNTING.replace("@PrimaryKey('k')", "").replace("update T", "update T"))
    life.batch(1, FIRST)
    stores = opened()
    other = Life(stores, COUNTING.replace("@PrimaryKey('k')", ""))
    for database in stores._databases.values():
        with database._engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE " + ('"t"' if database.dialect == "postgresql" else '"T"'))
    with pytest.raises(StoreError):
        other.batch(2, SECOND)
    assert other.app.failures.count == 0
    with pytest.raises(StoreError):
        other.app.commit()


AGGREGATING = f"""define stream S (k string, n int);
{STORE} define aggregation A from S select k, sum(n) as total, avg(n) as mean, distinctCount(n) as kinds group by k
aggregate every sec...hour;
"""
ASK = "from A within '1970-01-01 **:**:**' per '{}' select AGG_TIMESTAMP, k, total, mean, kinds"


def asked(life: Life) -> list[Any]:
    return [Counter(life.app.query(ASK.format(per)).rows) for per in ("seconds", "minutes", "hours")]


def test_an_aggregation_goes_on_from_its_store(opened: Open) -> None:
    events = [(at, (k, n)) for at in range(0, 200_000, 7_000) for k, n in (("a", at % 11), ("b", 1))]
    whole, first = Life(opened(), AGGREGATING.replace(STORE, "")), Life(opened(), AGGREGATING)
    for at, row in events:
        whole.app.send("S", at, row)
    half = len(events) // 4 * 2  # both events of a time are on one side
    for at, row in events[:half]:
        first.app.send("S", at, row)
    first.app.advance(events[half][0])  # what is in an open second is in no store
    first.app.query(ASK.format("seconds"))
    second = Life(opened(), AGGREGATING)
    for at, row in events[half:]:
        second.app.send("S", at, row)
    assert asked(second) == asked(whole)


def test_an_aggregation_is_replayed_from_what_it_found(opened: Open) -> None:
    before = Life(opened(), AGGREGATING, log="earlier")
    for number, at in enumerate(range(0, 100_000, 20_000)):
        before.app.begin(StoreBatch("earlier", number))
        before.app.send("S", at, ("a", 1))
        before.app.commit()

    def go_on(life: Life) -> list[Any]:
        for number, at in enumerate(range(100_000, 200_000, 20_000)):
            life.app.begin(StoreBatch("now", number))
            life.app.send("S", at, ("a", 2))
            life.app.commit()
        return asked(life)

    first = go_on(Life(opened(), AGGREGATING))
    assert go_on(Life(opened(), AGGREGATING)) == first
    (hour,) = first[2]
    assert hour[2] == 4 * 1 + 5 * 2  # the last second of the earlier log was open when it ended


def test_a_duckdb_file_is_free_between_batches(tmp_path: Path) -> None:
    """Another process goes on with the shard while this one, which has done its part, lives on."""
    text = COUNTING.replace("type='rdbms', datasource='DB'", "type='duckdb', path='t.duckdb'")
    life = Life(DatabaseStores(Allowed((tmp_path,))), text)
    life.batch(1, FIRST)
    code = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute('DELETE FROM \"Log\"')"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "t.duckdb")], check=True, timeout=60)
    life.batch(2, SECOND)
    assert life.rows("Log") == Counter(SECOND)
    life.app.stop()
