"""The figures of one app for Prometheus, at a port of their own."""

from __future__ import annotations

import socket

import httpx
import pytest

from spdist.cluster.exposition import prometheus_text, serve_metrics
from spdist.cluster.protocol.messages import GroupPhase, GroupReport
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


def test_rejected_messages_are_a_counter_for_each_stream() -> None:
    reports = [GroupReport("App-g-1", "App", GroupPhase.RUNNING, "", metrics={"rejected": 5, "rejected.S": 5.0})]
    text = prometheus_text(reports, {})
    assert "# TYPE spdist_rejected_messages_total counter" in text
    assert 'spdist_rejected_messages_total{app="App",instance="App-g-1",stream="S"} 5.0' in text
