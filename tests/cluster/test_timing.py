"""The times of workers, and whether a failover fits before they stop their groups."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.cluster.elections.election import ElectionTiming
from spdist.cluster.elections.timing import LOST_RETRY_MS, WorkerTiming, failover_doubt
from spdist.cluster.manager import Manager
from spdist.cluster.process import times_doubt
from spdist.config import load_config
from tests.cluster.databases import ROOT
from tests.cluster.shells import manager_config, plan


@pytest.mark.parametrize("name", ["manager/deployment.yaml", "local/manager.yaml"])
def test_with_the_shipped_times_a_failover_fits_before_workers_stop_their_groups(name: str, tmp_path: Path) -> None:
    given = {
        "SPDIST_PASSWORD": "secret",
        "SPDIST_NODE_ID": "manager-1",
        "SPDIST_PORT": "0",
        "SPDIST_HOME": str(tmp_path),
    }
    config = load_config(ROOT / "conf" / name, role="manager", environment=given)
    assert times_doubt(config) == ""


@given(
    interval_ms=st.integers(20, 5_000),
    retry=st.integers(1, 10),
    heartbeat_ms=st.integers(100, 20_000),
    workers_retry=st.integers(1, 10),
    gone=st.floats(0, 1),
    looked=st.floats(0, 1),
)
def test_where_there_is_no_doubt_the_new_leader_is_found_in_time(
    interval_ms: int, retry: int, heartbeat_ms: int, workers_retry: int, gone: float, looked: float
) -> None:
    election, workers = ElectionTiming(interval_ms, retry), WorkerTiming.from_config(heartbeat_ms, workers_retry)
    # The leader renews its row at 0 and goes `gone` of a heartbeat interval after the worker's last heartbeat. The
    # first look after the row has expired fails and takes a whole round; so does one question of the worker.
    fence_ms = workers.fence_after_ms - gone * heartbeat_ms
    taken_ms = election.max_age_ms + looked * election.round_ms
    found_ms = taken_ms + 2 * LOST_RETRY_MS
    if not failover_doubt(election, workers):
        assert found_ms <= fence_ms


def test_a_manager_says_when_a_failover_does_not_fit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    slow = {"SPDIST__CLUSTER__HEARTBEAT_INTERVAL": "5s", "SPDIST__DEPLOYMENT__HEARTBEAT_MAX_RETRY": "2"}
    with caplog.at_level(logging.WARNING):
        Manager(manager_config(tmp_path, **slow), planner=plan)
    assert "workers stop their groups after 200 ms" in caplog.text
    assert "cluster.config.strategyConfig.heartbeatInterval" in caplog.text
