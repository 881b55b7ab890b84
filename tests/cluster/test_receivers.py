"""A source of a user that two groups need: read once, by a receiver node, and handed on."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from spdist.cluster.processes.local import LocalCluster
from spdist.language.types import Schema

Eventually = Callable[..., Any]

SIDDHI = """\
@app:name('Received')
@source(type='http', receiver.url='{url}', @map(type='json'))
define stream In (k string, v int);
@sink(type='embedded', topic='Received.Results') define stream Out (k string, v int);
@dist(execGroup='a') from In[v > 1] select k, v insert into Mid;
@dist(execGroup='b') from Mid select k, v insert into Out;
@dist(execGroup='b') from In select k, v + 100 as v insert into Out;
"""
RESULT = Schema.of([("k", "string"), ("v", "int")])


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
def test_a_receiver_reads_the_source_once_for_all_groups(eventually: Eventually) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/in"
    with LocalCluster(managers=1, workers=1, receivers=1, quiet=True) as cluster:
        cluster.deploy(SIDDHI.format(url=url)).wait(timeout_s=180)
        assert cluster.worker_of("Received-passthrough-In-1") == "receiver-1"
        assert cluster.worker_of("Received-a-1") == cluster.worker_of("Received-b-1") == "worker-1"
        for number in range(3):
            body = json.dumps({"event": {"k": "x", "v": number}}).encode()
            request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert answer.status == 200

        def results() -> list[int]:
            return sorted(row[1] for _, row in cluster.read_topic("Received.Results", RESULT))

        eventually(lambda: len(results()) >= 4, "all results", timeout_s=90)
        assert results() == [2, 100, 101, 102]
