"""A worker's Spark that ends: noticed, told, started again, and given up where it ends again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spdist.clock import ManualClock
from spdist.cluster.leader.instances import RestartPolicy
from spdist.cluster.workers import launcher as module
from spdist.cluster.workers.launcher import SparkLauncher
from spdist.engine.shards import places
from spdist.errors import EngineError
from tests.cluster.shells import plan, worker_config

Eventually = Callable[..., Any]
QUICK = RestartPolicy(max_restarts=2, first_delay_ms=1, max_delay_ms=1, forgive_after_ms=600_000)


class MortalHost:
    """A Spark that is up until the test says why it has ended."""

    def __init__(self, _config: object, *, archives: bool) -> None:
        self.has_run = False
        self.starts = 0
        self.why = ""
        self.problem: EngineError | None = None

    def start(self) -> None:
        if self.problem is not None:
            raise self.problem
        self.starts += 1
        self.why = ""

    def stop(self) -> None:
        pass

    def why_gone(self) -> str:
        return self.why

    why_ended = why_gone


class Launched:
    """A launcher with such a Spark, its thread, and what ended that."""

    def __init__(self, home: Path) -> None:
        self.clock = ManualClock(0)
        self.told: list[bool] = []
        self.launcher = SparkLauncher(worker_config(home, ["http://127.0.0.1:1"]), self.clock, self.told.append)
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._keep_up)
        self.thread.start()

    def _keep_up(self) -> None:
        try:
            self.launcher.keep_up()
        except EngineError as error:
            self.error = error

    @property
    def host(self) -> Any:
        return self.launcher._host


@pytest.fixture
def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("spdist.engine.spark.session.SparkHost", MortalHost)
    monkeypatch.setattr(module, "_RESTARTS", QUICK)
    one = Launched(tmp_path)
    yield one
    one.launcher.close()
    one.thread.join(10)


def test_where_two_could_own_a_state_no_group_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """A store of objects that ignores the condition of a put."""
    stores: list[bool] = [True] * 4
    created = places.create_file
    monkeypatch.setattr("spdist.engine.spark.session.SparkHost", MortalHost)
    monkeypatch.setattr(module, "_RESTARTS", QUICK)
    monkeypatch.setattr(places, "create_file", lambda *file: stores.pop() if stores else created(*file))
    one = Launched(tmp_path)
    try:
        eventually(lambda: one.launcher.readiness().ready, "the store has learnt it")
        assert caplog.text.count("lets two processes create one file, so state cannot be kept there") == 1
        assert "object stores need conditional puts" in caplog.text
        assert one.told == [False, False, True]
    finally:
        one.launcher.close()
        one.thread.join(10)


def test_a_spark_that_ends_is_started_again_and_the_worker_is_not_ready_meanwhile(
    launched: Launched, eventually: Eventually
) -> None:
    eventually(lambda: launched.launcher.readiness().ready, "it is up")
    launched.host.why = "its JVM ended with signal 9"
    readiness = launched.launcher.readiness()
    assert not readiness.ready or readiness.epoch == 2, "told before anybody has looked"
    eventually(lambda: launched.launcher.readiness().epoch == 2, "it is up again")
    assert launched.launcher.readiness().ready
    eventually(lambda: launched.told == [True, False, True], "whoever tells the leader knows")
    assert launched.host.starts == 2


def test_a_spark_that_ends_again_and_again_ends_the_worker_and_says_what_to_look_at(
    launched: Launched, eventually: Eventually
) -> None:
    for epoch in (1, 2, 3):
        eventually(lambda epoch=epoch: launched.launcher.readiness().epoch == epoch, f"it is up, {epoch}")
        launched.host.why = "its JVM ended with signal 9"
    eventually(lambda: launched.error is not None, "it gives up")
    assert "ended 3 times, lastly: its JVM ended with signal 9" in str(launched.error)
    assert "spark.memoryLimit" in str(launched.error)
    assert not launched.launcher.readiness().ready


def test_one_that_worked_long_enough_between_is_not_counted(launched: Launched, eventually: Eventually) -> None:
    for epoch in range(1, 7):
        eventually(lambda epoch=epoch: launched.launcher.readiness().epoch == epoch, f"it is up, {epoch}")
        launched.clock.advance(QUICK.forgive_after_ms)
        launched.host.why = "its JVM ended with exit code 3"
    eventually(lambda: launched.launcher.readiness().epoch == 7, "it still starts it")


def test_one_that_cannot_be_started_again_ends_the_worker(launched: Launched, eventually: Eventually) -> None:
    eventually(lambda: launched.launcher.readiness().ready, "it is up")
    launched.host.problem = EngineError("no memory for a JVM")
    launched.host.why = "its JVM ended with signal 9"
    eventually(lambda: launched.error is launched.host.problem, "it ends with that")


@pytest.fixture
def warmed(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The hosts that were warmed up."""
    hosts: list[object] = []
    monkeypatch.setattr("spdist.runtime.warm_up.warm_up", lambda host, _ending: hosts.append(host))
    monkeypatch.setattr(module, "_WARM_AFTER_S", 0.0)
    return hosts


def test_a_spark_that_nobody_uses_is_warmed_up_whenever_it_comes_up(
    warmed: list[object], launched: Launched, eventually: Eventually
) -> None:
    eventually(lambda: warmed == [launched.host], "it is warmed up")
    launched.host.why = "its JVM ended with signal 9"
    eventually(lambda: len(warmed) == 2, "the next one, too")


def test_groups_that_come_first_do_that_themselves(
    warmed: list[object], launched: Launched, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spdist.runtime.realtime.runtime_of", lambda *_: None)
    monkeypatch.setattr(module, "_RESTARTS", RestartPolicy(first_delay_ms=500))
    eventually(lambda: warmed == [launched.host], "it is warmed up")
    launched.host.why = "its JVM ended with signal 9"
    eventually(lambda: launched.told == [True, False], "it has ended")
    launched.launcher(plan("@app:name('A') group g 1").assignments()[0])
    eventually(lambda: launched.launcher.readiness().warm, "it is warm all the same")
    assert launched.launcher.readiness().epoch == 2
    assert len(warmed) == 1
    launched.host.why = "its JVM ended with signal 9"
    eventually(lambda: len(warmed) == 2, "what groups had loaded went with the Spark that they used")


def test_the_leader_is_told_when_it_is_warm(
    launched: Launched, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()
    monkeypatch.setattr("spdist.runtime.warm_up.warm_up", lambda *_: may_end.wait(10))
    monkeypatch.setattr(module, "_WARM_AFTER_S", 0.0)
    eventually(lambda: launched.launcher.readiness().ready, "it is up")
    launched.host.why = "its JVM ended with signal 9"
    eventually(lambda: launched.launcher.readiness().epoch == 2, "it is up again")
    assert not launched.launcher.readiness().warm
    may_end.set()
    eventually(lambda: launched.launcher.readiness().warm, "it is warm")


def test_a_worker_may_end_while_its_spark_is_about_to_be_warmed_up(
    warmed: list[object], launched: Launched, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    eventually(lambda: warmed == [launched.host], "it is warmed up")
    ended: list[bool] = []
    start = threading.Thread.start

    def started(thread: threading.Thread) -> None:
        if thread.name == "spdist-warming":
            launched.launcher.close()
            ended.append(True)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", started)
    launched.host.why = "its JVM ended with signal 9"
    eventually(lambda: ended == [True], "it ends at that moment")
    assert launched.error is None


def test_a_spark_that_cannot_be_warmed_up_is_used_as_it_is(
    warmed: list[object], launched: Launched, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(host: object, _ending: object) -> None:
        warmed.append(host)
        raise EngineError("no disk")

    eventually(lambda: launched.launcher.readiness().ready, "it is up")
    monkeypatch.setattr("spdist.runtime.warm_up.warm_up", fail)
    launched.host.why = "its JVM ended with signal 9"
    eventually(lambda: launched.launcher.readiness().epoch == 2 and len(warmed) == 2, "it was tried")
    assert launched.launcher.readiness().ready
    assert launched.error is None


def test_groups_wait_until_spark_is_up_and_go_when_the_worker_ends(
    launched: Launched, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RESTARTS", RestartPolicy(first_delay_ms=60_000))
    eventually(lambda: launched.launcher.readiness().ready, "it is up")
    launched.host.why = "its JVM ended with signal 9"
    eventually(lambda: launched.told == [True, False], "it has ended")
    caught: list[Exception] = []

    def start() -> None:
        try:
            launched.launcher(plan("@app:name('A') group g 1").assignments()[0])
        except EngineError as error:
            caught.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    assert not caught
    launched.launcher.close()
    thread.join(10)
    assert "its worker ends" in str(caught[0])
