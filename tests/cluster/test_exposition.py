"""The figures of one app for Prometheus, at a port of their own."""

from __future__ import annotations

import socket

import httpx
import pytest

from spdist.cluster.exposition import serve_metrics
from spdist.cluster.messages import GroupPhase, GroupReport
from spdist.errors import EngineError


def test_prometheus_is_told_what_is_so_when_it_asks() -> None:
    lag = 7.0
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    end = serve_metrics(port, lambda: GroupReport("App", "App", GroupPhase.RUNNING, "", metrics={"lag": lag}))
    try:
        url = f"http://127.0.0.1:{port}/metrics"
        assert 'spdist_lag_records{app="App",instance="App"} 7.0' in httpx.get(url).text
        lag = 8.0
        assert 'spdist_lag_records{app="App",instance="App"} 8.0' in httpx.get(url).text
        with pytest.raises(EngineError, match=str(port)):
            serve_metrics(port, lambda: GroupReport("B", "B", GroupPhase.RUNNING, ""))
    finally:
        end()
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)
