"""Tables in databases under a group on Spark: changed once for each batch, whatever becomes of its starts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from spdist.config.datasources import Datasource
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema
from spdist.planning.groups import plan
from spdist.runtime.group import GroupRuntime
from spdist.transports.feed import Feed, read_events
from spdist.transports.log import LogTransport
from tests.runtime.host_settings import settings_in
from tests.runtime.shared_spark import SHARED_SPARK

APP = """@app:name('Stored') @app:playback define stream S (k string, n long);
@store(type='rdbms', datasource='SHOP') @PrimaryKey('k') define table T (k string, n long);
@dist(execGroup='g') from S update T set T.n = T.n + n on T.k == k;
@dist(execGroup='g') from S[not ((T.k == k) in T)] insert into T;
@dist(execGroup='g') from S join T on S.k == T.k select S.k as k, T.n as n insert into Out;
@dist(execGroup='last') from Out select * insert into End;
"""
SCHEMA = Schema.of([("k", "string"), ("n", "long")])


SHARED = """@app:name('Shared') @app:playback define stream S (k string, n long);
@store(type='rdbms', datasource='SHOP') @PartitionById
define aggregation A from S select k, sum(n) as total group by k aggregate every sec...hour;
"""


def totals(count: int) -> dict[str, int]:
    return {f"k{key}": sum(n for n in range(count) if n % 3 == key) for key in range(3)}


def _run(group: GroupRuntime, events: int, until: int | None, eventually: Callable[..., object]) -> None:
    """Run a group until it has begun, and kill it; or until it has read everything, and stop it."""
    group.start()
    try:
        assert group.wait(60)
        eventually(lambda: group.status().events_in >= events, "it has begun", 60)
        if until is not None:
            eventually(lambda: group.status().clock == until, "it has read everything", 60)
            assert group.stop(30)
    finally:
        group.kill()


@pytest.mark.spark
def test_a_table_is_changed_once_by_each_event(tmp_path: Path, eventually: Callable[..., object]) -> None:
    database = tmp_path / "shop.db"
    sources = {"SHOP": Datasource("SHOP", f"sqlite:///{database}")}
    work = next(one for one in plan(parse(APP)).assignments() if one.group.endswith("-g"))
    host = SHARED_SPARK.host(replace(settings_in(tmp_path), datasources=sources))
    log = LogTransport(host.log_directory)
    log.ensure("Stored.S", 1)
    feed = Feed(log, "Stored.S", SCHEMA)
    for start in range(2):
        for n in range(30 * start, 30 * start + 30):
            feed.send([(1000 + n, (f"k{n % 3}", n))])
        _run(GroupRuntime(work, host, "worker-1"), 30 * start + 1, 1059 if start == 1 else None, eventually)
    with sqlite3.connect(database) as connection:
        assert dict(connection.execute('SELECT k, n FROM "T"')) == totals(60)
        assert connection.execute("SELECT count(*) FROM spdist_applied").fetchone() == (1,)
    last = {row[0]: row[1] for _, row in read_events(log, "Stored.Out", SCHEMA)}
    assert last == totals(60)


@pytest.mark.spark
def test_a_group_that_moves_takes_its_shard_along(tmp_path: Path, eventually: Callable[..., object]) -> None:
    """Its first worker is killed; the next one, whose settings name another shard, counts nothing twice."""
    database = tmp_path / "shop.db"
    sources = {"SHOP": Datasource("SHOP", f"sqlite:///{database}")}
    (work,) = plan(parse(SHARED)).assignments()
    (topic,) = [assigned.topic for assigned in work.inputs]
    for start, shard in enumerate(("first", "second")):
        host = SHARED_SPARK.host(replace(settings_in(tmp_path), datasources=sources, shard_id=shard))
        log = LogTransport(host.log_directory)
        log.ensure(topic, 1)
        feed = Feed(log, topic, SCHEMA)
        for n in range(30 * start, 30 * start + 30):
            feed.send([(1000 + n, (f"k{n % 3}", n))])
        group = GroupRuntime(work, host, "worker-1")
        _run(group, 30 * start + 1, 1059 if start == 1 else None, eventually)
    with sqlite3.connect(database) as connection:
        for per in ("SECONDS", "MINUTES", "HOURS"):
            rows = connection.execute(f'SELECT k, total, SHARD_ID FROM "A_{per}"').fetchall()
            assert {row[0]: row[1] for row in rows} == totals(60)
            assert [row[2] for row in rows] == ["first"] * 3
