"""Which silence proves that a process is gone: only that of a port whose host refuses."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spdist.cluster.elections.probing import Prober, is_refused
from spdist.cluster.protocol.messages import ProbeWorker, WorkerGone
from tests.cluster.leader import TIMING, Leader, announced, app, only
from tests.cluster.shells import APP, CONF, manager_config, running_manager, settings

Eventually = Callable[..., Any]
ORDER = ProbeWorker("w1", "http://w1", "life-1", 7)


# ------------------------------------------------------------------------------------------------------ one connection
@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        yield one


def url(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_port_at_which_nobody_listens_is_refused_and_one_at_which_somebody_does_is_not(
    listener: socket.socket,
) -> None:
    assert is_refused(url(listener)), "bound, but nobody listens"
    listener.listen()
    assert not is_refused(url(listener))


def test_a_host_that_is_not_found_proves_nothing() -> None:
    assert not is_refused("http://no-such-host.invalid:9443")


def test_a_host_that_does_not_answer_proves_nothing(monkeypatch: pytest.MonkeyPatch, listener: socket.socket) -> None:
    class Silent(socket.socket):
        def connect(self, address: object) -> None:
            raise TimeoutError("timed out")

    monkeypatch.setattr("spdist.cluster.elections.probing.socket.socket", Silent)
    assert not is_refused(url(listener))


# ------------------------------------------------------------------------------------------------------------- probing
PEER = ("127.0.0.1", 40_000)


def disconnected(prober: Prober) -> Prober:
    prober.heard("w1", PEER)
    prober.closed(PEER)
    return prober


def test_a_worker_that_is_still_connected_or_was_never_heard_is_not_probed() -> None:
    prober = Prober(lambda _: None, lambda _: pytest.fail("it is connected"), pause_s=0)
    prober.probe(ORDER)
    prober.heard("w1", PEER)
    prober.closed(("127.0.0.1", 40_001))
    prober.probe(ORDER)
    disconnected(prober).heard("w1", ("127.0.0.1", 40_002))
    prober.probe(ORDER)
    disconnected(prober).heard("w1", None)
    prober.probe(ORDER)
    prober.close()


def test_it_takes_two_refusals(eventually: Eventually) -> None:
    answers: list[bool] = []
    told: list[WorkerGone] = []
    asked = threading.Semaphore(0)

    def refused(_: str) -> bool:
        asked.release()
        return answers.pop(0)

    prober = disconnected(Prober(told.append, refused, pause_s=0))
    for said, gone in (([False], 0), ([True, False], 0), ([True, True], 1)):
        answers[:] = said
        prober.probe(ORDER)
        for _ in said:
            assert asked.acquire(timeout=10)
        eventually(lambda: not prober._under_way, "the probe is over")
        assert len(told) == gone
    assert told == [WorkerGone("w1", "life-1", 7)]
    prober.close()
    prober.probe(ORDER)
    assert len(told) == 1


def test_a_worker_is_probed_once_at_a_time_and_a_defect_ends_nothing(eventually: Eventually) -> None:
    may_answer, asked = threading.Event(), []

    def refused(address: str) -> bool:
        asked.append(address)
        may_answer.wait(10)
        raise ValueError("a defect")

    prober = disconnected(Prober(lambda _: None, refused, pause_s=0))
    prober.probe(ORDER)
    prober.probe(ORDER)
    eventually(lambda: asked, "it has begun")
    may_answer.set()
    eventually(lambda: not prober._under_way, "it is over")
    assert asked == ["http://w1"]
    prober.close()


# ------------------------------------------------------------------------------------------------------------ the state
@pytest.fixture
def leader() -> Leader:
    leader = Leader()
    leader.elect()
    leader.told("w1")
    leader.deploy(app("A", "A-g-1"))
    assert leader.told("w1") == ["A-g-1"]
    leader.told("w1", "A-g-1")
    leader.told("w2")
    return leader


def test_a_worker_whose_heartbeat_is_overdue_is_probed_and_one_that_is_gone_is_removed(leader: Leader) -> None:
    assert not [i for i in leader.pass_time(TIMING.probe_after_ms - 1) if isinstance(i, ProbeWorker)]
    leader.told("w2")
    probe = only(leader.pass_time(1), ProbeWorker)
    assert probe == ProbeWorker("w1", "http://w1", "w1-1", 3)
    out = leader.handle(WorkerGone("w1", probe.incarnation, probe.sequence))
    assert announced(out)[0] == "worker-lost"
    assert leader.told("w2") == ["A-g-1"], "long before the deadline"
    (lost,) = leader.state.members.lost
    assert "http://w1 refuses connections" in lost.reason


def test_news_of_a_worker_outweigh_what_a_probe_found_before(leader: Leader) -> None:
    probe = only([i for i in leader.pass_time(TIMING.probe_after_ms) if getattr(i, "id", "") == "w1"], ProbeWorker)
    leader.told("w1", "A-g-1")
    assert leader.handle(WorkerGone("w1", probe.incarnation, probe.sequence)) == []
    assert leader.handle(WorkerGone("w1", "another life", 4)) == []
    assert leader.handle(WorkerGone("nobody", "life", 4)) == []
    assert "w1" in leader.state.members


def test_where_it_is_turned_off_only_the_deadline_removes() -> None:
    leader = Leader(probing=False)
    leader.elect()
    leader.told("w1")
    assert not [i for i in leader.pass_time(TIMING.remove_after_ms - 1) if isinstance(i, ProbeWorker)]
    assert "w1" in leader.state.members
    leader.pass_time(1)
    assert "w1" not in leader.state.members


# ------------------------------------------------------------------------------------------------------ real processes
WORKER = """\
import sys, threading
from pathlib import Path
from spdist.cluster.worker import Worker
from spdist.config import load_config
from tests.cluster.shells import FakeSpark
worker = Worker(load_config(Path(sys.argv[1]), role="worker"), launcher=FakeSpark())
worker.start()
print("up", flush=True)
threading.Event().wait()
"""


def test_a_worker_that_is_killed_is_removed_before_it_would_have_stopped_by_itself(
    tmp_path: Path, eventually: Eventually
) -> None:
    """At the shipped timings: removed, and shown as lost with what it had, while the deadline is 10 s away."""
    shipped = {"SPDIST__DEPLOYMENT__HEARTBEAT_INTERVAL": "2000", "SPDIST__DEPLOYMENT__HEARTBEAT_MAX_RETRY": "2"}
    config = manager_config(tmp_path, **shipped)
    with running_manager(config) as manager:
        eventually(manager.leads, "it leads")
        environment = settings(tmp_path, "worker-1", SPDIST_MANAGERS=manager.url, **shipped)
        process = start(environment, CONF / "worker.yaml")
        try:
            manager.deploy(APP, replace=False)
            eventually(lambda: manager.app_status("Trades")["state"] == "RUNNING", "it runs there")
            process.kill()
            process.wait()
            lost = eventually(lambda: manager.nodes()["lostWorkers"], "it is removed", timeout_s=7)
            assert len(lost[0]["groups"]) == 3
            assert "refuses connections" in lost[0]["reason"]
            assert manager.app_status("Trades")["state"] == "WAITING"
        finally:
            process.kill()
            process.communicate()


def start(environment: dict[str, str], conf: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(conf)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process
