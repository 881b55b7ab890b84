"""What the tests of the cluster share: databases that managers meet in, a leader without them, an identity provider."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.databases import CHOSEN, KINDS, SERVERS
from tests.cluster.leader import Leader
from tests.identity_provider import IdentityProvider, NoProvider


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.services) for kind in KINDS])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind that can coordinate managers, or of the chosen one (``make databases``)."""
    return SERVERS.database(request.param, tmp_path)


@pytest.fixture
def cluster_settings(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Settings of a local cluster whose managers meet in a database of the chosen kind."""
    with SERVERS.local_clusters(CHOSEN, tmp_path) as settings:
        yield settings


@pytest.fixture
def leader() -> Leader:
    """A leader of a cluster in which nothing was ever deployed."""
    leader = Leader()
    leader.elect()
    return leader


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    """A real identity provider; skipped with the reason where it cannot be installed."""
    try:
        running = IdentityProvider().__enter__()
    except NoProvider as error:
        pytest.skip(str(error))
    with running:
        yield running
