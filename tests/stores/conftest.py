"""Databases for the tests of stores: SQLite and DuckDB in files, and a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spdist.config.allowed import Allowed
from spdist.stores.databases import DatabaseStores
from spdist.stores.settings import DatabaseSettings
from tests.cluster.databases import SERVERS

#: Makes the stores of one app; all of one test meet in one database.
Open = Callable[[], DatabaseStores]


@pytest.fixture(params=["sqlite", "duckdb", pytest.param("postgresql", marks=pytest.mark.services)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "postgresql":
        return SERVERS.database("postgresql", tmp_path)
    return f"{request.param}:///{tmp_path / 'tables.db'}"


@pytest.fixture
def opened(database_url: str, tmp_path: Path) -> Iterator[Open]:
    """Opens the stores of an app; ``datasource='DB'`` is the test's database."""
    made: list[DatabaseStores] = []

    def open_one() -> DatabaseStores:
        made.append(DatabaseStores(Allowed((tmp_path,), datasources={"DB": DatabaseSettings(database_url)})))
        return made[-1]

    yield open_one
    for stores in made:
        stores.close()
