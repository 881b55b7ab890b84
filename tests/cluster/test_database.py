"""Databases for coordination: which can be used, which clock they read, and how long they are waited for."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.dialects import mysql, postgresql

from spdist.cluster.coordination.database import database_now
from spdist.cluster.coordination.store import CoordinationStore
from spdist.errors import ConfigError, StoreUnavailableError


def test_each_database_reads_its_clock_when_the_statement_runs() -> None:
    def text(dialect: Any) -> str:
        return str(select(database_now()).compile(dialect=dialect))

    assert "clock_timestamp()" in text(postgresql.dialect())
    assert "SYSDATE" in text(mysql.dialect())


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("sqlite://", "in memory cannot be shared"),
        ("sqlite:///:memory:", "in memory cannot be shared"),
        ("oracle://host/name", "oracle cannot be used"),
        ("not a url", "is not a database URL"),
        ("sqlite://x@//cluster.db", "knows no users and no hosts"),
    ],
)
def test_databases_that_cannot_coordinate_are_refused(url: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        CoordinationStore(url, "sp")


def test_a_missing_driver_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pymysql", None)
    with pytest.raises(ConfigError, match="driver pymysql") as caught:
        CoordinationStore("mysql://host/name", "sp", username="u", password="s3cret")
    assert "pip install pymysql" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_user_of_sqlite_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="knows no users"):
        CoordinationStore(f"sqlite:///{tmp_path}/cluster.db", "sp", username="sa")


def test_a_server_that_says_nothing_is_waited_for_no_longer_than_the_time_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://127.0.0.1:{silent.getsockname()[1]}/name"
        store = CoordinationStore(url, "sp", username="u", password="s3cret", timeout_ms=200)
        for _ in range(12):
            began_s = time.monotonic()
            with pytest.raises(StoreUnavailableError, match="did not answer"):
                store.read_leader()
            assert time.monotonic() - began_s < 1.5, "drivers wait for 2 s at least"
        store.close()


def test_opening_a_store_asks_nothing_of_the_database() -> None:
    store = CoordinationStore("postgresql://127.0.0.1:1/name", "sp", username="u", password="s3cret", timeout_ms=100)
    with pytest.raises(StoreUnavailableError) as caught:
        store.read_leader()
    assert "s3cret" not in str(caught.value)
