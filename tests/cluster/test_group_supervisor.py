"""The groups of a worker: what it obeys, when it stops by itself, and what it reports; with a clock wound by hand."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from spdist.clock import ManualClock
from spdist.cluster.protocol.messages import (
    AnswerHeartbeat,
    GroupPhase,
    JoinedState,
    MemoryReport,
    WorkerReport,
    WorkerTiming,
)
from spdist.cluster.workers.admission import StartPolicy
from spdist.cluster.workers.group_supervisor import GroupSupervisor
from spdist.cluster.workers.hosting import READY, Readiness
from spdist.cluster.workers.memory import Usage
from spdist.cluster.workers.state import WorkerState
from spdist.errors import EngineError, NotFoundError
from spdist.planning.topology import Assignment
from tests.cluster.shells import (
    APP,
    FakeSpark,
    FakeStatus,
    plan,
)

Eventually = Callable[..., Any]
TIMING = WorkerTiming(heartbeat_interval_ms=100, fence_after_ms=300, remove_after_ms=500, margin_ms=200)
ONE, TWO, THREE = plan(APP).assignments()


class Alone:
    """A supervisor with a clock that the test winds, and the answers of a leader that the test plays."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_000_000)
        self.spark = FakeSpark()
        self.changes = threading.Semaphore(0)
        self.supervisor = self.new()

    def new(self, **more: Any) -> GroupSupervisor:
        state = WorkerState("worker-1", "http://127.0.0.1:9", False, "life-1")
        return GroupSupervisor(state, self.spark, self.clock, self.changes.release, **more)

    def hear(self, *assignments: Assignment, term: int = 1, answer: WorkerReport | None = None, **more: Any) -> bool:
        """Send a heartbeat (or take `answer` for the one that was sent) and get these assignments for it."""
        report = answer or self.supervisor.next_report()
        joined = more.pop("joined", JoinedState.EXISTS)
        told = AnswerHeartbeat("worker-1", report.sequence, term, joined, assignments, TIMING, **more)
        return self.supervisor.obey(told)

    def states(self) -> dict[str, str]:
        return {report.name: report.state.value for report in self.supervisor.reports()}


@pytest.fixture
def alone() -> Alone:
    return Alone()


# ------------------------------------------------------------------------------------------------------------ obeying
def test_it_starts_what_it_is_told_and_stops_what_it_is_not(alone: Alone, eventually: Eventually) -> None:
    assert alone.hear(ONE, TWO)
    eventually(lambda: alone.states() == {ONE.name: "RUNNING", TWO.name: "RUNNING"}, "both run")
    assert alone.hear(TWO)
    eventually(lambda: alone.states()[ONE.name] == "STOPPED", "the first has stopped")
    assert alone.spark.of(ONE.name)[0].told == ["start", "stop"]
    alone.supervisor.tend()
    assert alone.states() == {TWO.name: "RUNNING"}
    # A kill would fence off whoever runs it now, on another worker.
    assert alone.spark.of(ONE.name)[0].told == ["start", "stop"]


def test_what_a_running_group_waits_for_is_reported(alone: Alone, eventually: Eventually) -> None:
    assert alone.hear(ONE)
    eventually(lambda: alone.states() == {ONE.name: "RUNNING"}, "it runs")
    alone.spark.of(ONE.name)[0].current.waiting = "batch 3 stands"
    assert [(one.state.value, one.error) for one in alone.supervisor.reports()] == [("RUNNING", "batch 3 stands")]


def test_a_changed_group_is_stopped_before_its_new_version_starts(alone: Alone, eventually: Eventually) -> None:
    alone.hear(ONE)
    eventually(lambda: alone.states() == {ONE.name: "RUNNING"}, "it runs")
    old = alone.spark.runtimes[0]
    old.may_finish.clear()
    changed = Assignment(ONE.name, ONE.app, ONE.group, "another text", False, ONE.inputs, ONE.outputs)
    alone.hear(changed)
    alone.supervisor.tend()
    assert alone.states() == {ONE.name: "STOPPING"}
    assert len(alone.spark.runtimes) == 1
    old.may_finish.set()
    eventually(lambda: alone.states() == {ONE.name: "STOPPED"}, "the old version has ended")
    alone.supervisor.tend()
    eventually(lambda: alone.states() == {ONE.name: "RUNNING"}, "the new version runs")
    assert alone.spark.runtimes[1].assignment.text == "another text"


def test_an_answer_of_an_older_term_is_not_obeyed(alone: Alone, caplog: pytest.LogCaptureFixture) -> None:
    assert alone.hear(ONE, term=5)
    with caplog.at_level(logging.WARNING):
        assert not alone.hear(TWO, term=4)
    assert "term 5 has been seen" in caplog.text
    assert set(alone.states()) == {ONE.name}
    assert alone.hear(ONE, TWO, term=6)
    assert set(alone.states()) == {ONE.name, TWO.name}


def test_only_the_answer_to_the_latest_heartbeat_counts(alone: Alone) -> None:
    early = alone.supervisor.next_report()
    alone.supervisor.next_report()
    assert not alone.hear(ONE, answer=early)
    assert alone.states() == {}


def test_a_group_that_does_not_start_is_failed_with_its_reason(alone: Alone, eventually: Eventually) -> None:
    alone.spark.problem = EngineError("no Java here", hint="install one")
    alone.hear(ONE)
    eventually(lambda: alone.states() == {ONE.name: "FAILED"}, "it has failed")
    (report,) = alone.supervisor.reports()
    assert report.error == "no Java here\nHint: install one"
    alone.spark.problem = None
    alone.hear()  # the leader has it forgotten, before it may try again
    assert alone.states() == {}
    alone.hear(ONE)
    eventually(lambda: alone.states() == {ONE.name: "RUNNING"}, "it runs")


def test_forgetting_a_failed_group_does_not_disturb_who_runs_it_now(alone: Alone, eventually: Eventually) -> None:
    alone.hear(ONE)
    eventually(lambda: alone.states() == {ONE.name: "RUNNING"}, "it runs")
    alone.spark.runtimes[0].current = FakeStatus("FAILED", "division by zero")
    alone.hear()
    assert alone.states() == {}
    # A kill would fence off the owner of its state, who may be another worker by now.
    assert alone.spark.runtimes[0].told == ["start"]


@pytest.mark.parametrize(
    ("status", "state", "error"),
    [
        (FakeStatus("STARTING"), "STARTING", ""),
        (FakeStatus("FAILED", "division by zero"), "FAILED", "division by zero"),
        (FakeStatus("STOPPED"), "FAILED", "its query ended by itself"),
    ],
)
def test_the_real_state_of_a_query_is_reported(
    alone: Alone, eventually: Eventually, status: FakeStatus, state: str, error: str
) -> None:
    alone.hear(ONE)
    eventually(lambda: alone.states() == {ONE.name: "RUNNING"}, "it runs")
    assert not alone.supervisor.tend() or not alone.supervisor.tend(), "nothing has changed"
    alone.spark.runtimes[0].current = status
    assert alone.supervisor.tend(), "a change is noticed"
    (report,) = alone.supervisor.reports()
    assert (report.state.value, report.error) == (state, error)


def test_figures_that_are_not_known_are_left_out(alone: Alone, eventually: Eventually) -> None:
    alone.hear(ONE)
    eventually(lambda: alone.states() == {ONE.name: "RUNNING"}, "it runs")
    alone.spark.runtimes[0].current = FakeStatus(clock=-(2**63), lag=None)
    (report,) = alone.supervisor.reports()
    assert not {"clock", "lag"} & set(report.metrics)
    assert report.metrics["eventsIn"] == 20.0


def test_rejected_messages_are_reported_by_stream_within_a_bound(alone: Alone, eventually: Eventually) -> None:
    alone.hear(ONE)
    eventually(lambda: alone.states() == {ONE.name: "RUNNING"}, "it runs")
    (report,) = alone.supervisor.reports()
    assert {n: v for n, v in report.metrics.items() if "rejected" in n} == {"rejected": 3.0, "rejected.S": 3.0}
    alone.spark.runtimes[0].current = FakeStatus(rejected={f"S{n}": n for n in range(60)})
    (report,) = alone.supervisor.reports()
    assert {n: v for n, v in report.metrics.items() if "rejected" in n} == {"rejected": 1770.0}


# ------------------------------------------------------------------------------------------------------------ fencing
def test_without_an_answer_all_groups_are_killed_in_time(
    alone: Alone, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    alone.hear(ONE, TWO)
    eventually(lambda: set(alone.states().values()) == {"RUNNING"}, "both run")
    assert alone.supervisor.due_in_ms() == TIMING.fence_after_ms
    alone.clock.advance(TIMING.fence_after_ms - 1)
    alone.supervisor.tend()
    assert set(alone.states().values()) == {"RUNNING"}
    assert alone.supervisor.serving
    alone.clock.advance(1)
    with caplog.at_level(logging.ERROR):
        alone.supervisor.tend()
    assert "no leader has answered in time: all 2 groups are stopped here" in caplog.text
    eventually(lambda: all("kill" in r.told for r in alone.spark.runtimes), "both are killed")
    eventually(lambda: set(alone.states().values()) <= {"STOPPED"}, "both are reported gone")
    assert not alone.supervisor.serving
    assert alone.supervisor.due_in_ms() is None
    report = alone.supervisor.next_report()
    assert (report.incarnation, [g for g in report.groups if g.state.alive]) == ("life-1", [])
    alone.supervisor.tend()
    assert alone.supervisor.reports() == []


def test_the_time_counts_from_before_the_heartbeat_was_sent(alone: Alone) -> None:
    report = alone.supervisor.next_report()
    alone.clock.advance(250)
    alone.hear(ONE, answer=report)
    assert alone.supervisor.due_in_ms() == 50


def test_who_waits_for_the_fence_looks_again_when_there_is_another(alone: Alone) -> None:
    assert not alone.changes.acquire(blocking=False)
    alone.hear()
    assert alone.changes.acquire(blocking=False)


def test_an_answer_that_comes_after_the_fence_is_not_obeyed(alone: Alone) -> None:
    report = alone.supervisor.next_report()
    alone.clock.advance(TIMING.fence_after_ms)
    assert not alone.hear(ONE, answer=report)
    assert alone.states() == {}


def test_a_group_that_is_still_being_made_when_the_fence_falls_never_starts(
    alone: Alone, eventually: Eventually
) -> None:
    alone.spark.ready.clear()
    alone.hear(ONE)
    assert alone.states() == {ONE.name: "STARTING"}
    alone.clock.advance(TIMING.fence_after_ms)
    alone.supervisor.tend()
    eventually(lambda: alone.states() == {ONE.name: "STOPPED"}, "it is reported gone")
    alone.spark.ready.set()
    eventually(lambda: len(alone.spark.runtimes) == 1, "it is made after all")
    eventually(lambda: not any(t.name.startswith("spdist-start") for t in threading.enumerate()), "that thread ends")
    assert "start" not in alone.spark.runtimes[0].told


def test_a_group_that_is_stopping_is_killed_when_the_fence_falls(alone: Alone, eventually: Eventually) -> None:
    alone.hear(ONE)
    eventually(lambda: alone.states() == {ONE.name: "RUNNING"}, "it runs")
    alone.spark.runtimes[0].may_finish.clear()
    alone.hear()
    assert alone.states() == {ONE.name: "STOPPING"}
    alone.clock.advance(TIMING.fence_after_ms)
    alone.supervisor.tend()
    eventually(lambda: "kill" in alone.spark.runtimes[0].told, "it is killed")


def test_after_the_fence_a_new_answer_starts_everything_again(alone: Alone, eventually: Eventually) -> None:
    alone.hear(ONE)
    eventually(lambda: alone.states() == {ONE.name: "RUNNING"}, "it runs")
    alone.clock.advance(TIMING.fence_after_ms)
    alone.supervisor.tend()
    eventually(lambda: alone.states() == {ONE.name: "STOPPED"}, "it is gone")
    alone.hear(ONE, term=2)
    alone.supervisor.tend()
    eventually(lambda: alone.states() == {ONE.name: "RUNNING"}, "it runs again")
    assert len(alone.spark.runtimes) == 2


def test_a_worker_that_is_not_wanted_stops_everything_and_says_why(
    alone: Alone, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    alone.hear(ONE)
    eventually(lambda: alone.states() == {ONE.name: "RUNNING"}, "it runs")
    with caplog.at_level(logging.ERROR):
        alone.hear(joined=JoinedState.REJECTED, reason="worker id worker-1 is in use elsewhere")
    assert "in use elsewhere" in caplog.text
    eventually(lambda: "kill" in alone.spark.runtimes[0].told, "it is killed")
    assert alone.supervisor.rejected


def test_after_it_stood_still_a_worker_lists_nothing_as_running_though_it_has_stopped_nothing_yet(
    alone: Alone, eventually: Eventually
) -> None:
    alone.hear(ONE)
    eventually(lambda: alone.states() == {ONE.name: "RUNNING"}, "it runs")
    assert [group.state for group in alone.supervisor.served_reports()] == [GroupPhase.RUNNING]
    alone.clock.advance(TIMING.fence_after_ms)
    assert [group.state for group in alone.supervisor.served_reports()] == [GroupPhase.STOPPING]
    assert alone.states() == {ONE.name: "RUNNING"}


# -------------------------------------------------------------------------------------------------- what may be started
def test_starts_are_spaced_and_what_waits_says_why(alone: Alone, eventually: Eventually) -> None:
    alone.supervisor = alone.new(policy=StartPolicy(at_a_time=1))
    alone.spark.ready.clear()
    alone.hear(ONE, TWO)
    assert alone.states() == {ONE.name: "STARTING", TWO.name: "WAITING"}
    (waits,) = [r.error for r in alone.supervisor.reports() if r.name == TWO.name]
    assert waits == "waits for its turn: 1 other groups are starting on this worker"
    alone.spark.ready.set()
    eventually(lambda: alone.supervisor.tend() is None or alone.states()[TWO.name] == "RUNNING", "its turn has come")


def test_a_full_worker_starts_nothing_tells_so_and_goes_on_with_what_runs(alone: Alone, eventually: Eventually) -> None:
    alone.supervisor = alone.new(policy=StartPolicy(at_a_time=9))
    alone.supervisor.note_memory(Usage(limit=1000 << 20, used=400 << 20))
    alone.hear(ONE)
    eventually(lambda: alone.states() == {ONE.name: "RUNNING"}, "it runs")
    alone.supervisor.note_memory(Usage(limit=1000 << 20, used=800 << 20))
    alone.hear(ONE, TWO, THREE)
    assert alone.states() == {ONE.name: "RUNNING", TWO.name: "WAITING", THREE.name: "WAITING"}
    report = alone.supervisor.next_report()
    assert report.memory == MemoryReport(1000 << 20, 800 << 20, 400 << 20, starting=2)
    assert report.memory.room == 0
    assert "waits for memory: 800 of 1,000 MiB" in {r.name: r.error for r in report.groups}[TWO.name]
    alone.hear(ONE, THREE)
    assert TWO.name not in {r.name for r in alone.supervisor.next_report().groups} or alone.supervisor.tend()
    eventually(lambda: TWO.name not in alone.states() or alone.supervisor.tend(), "one that goes elsewhere is dropped")
    alone.supervisor.note_memory(Usage(limit=2000 << 20, used=800 << 20))
    alone.hear(ONE, THREE)
    eventually(lambda: alone.states() == {ONE.name: "RUNNING", THREE.name: "RUNNING"}, "there is room now")
    assert alone.spark.of(TWO.name) == []


def test_a_worker_tells_whether_its_spark_is_up(alone: Alone) -> None:
    told = Readiness(ready=False, epoch=0, reason="its Spark is starting")
    alone.supervisor = alone.new(readiness=lambda: told)
    report = alone.supervisor.next_report()
    assert (report.ready, report.ready_epoch, report.reason) == (False, 0, "its Spark is starting")
    alone.supervisor.tend()
    told = READY
    assert alone.supervisor.tend(), "worth a heartbeat"
    assert alone.supervisor.next_report().ready


def test_what_a_group_waits_for_is_reported(alone: Alone, eventually: Eventually) -> None:
    alone.hear(ONE)
    eventually(lambda: alone.states() == {ONE.name: "RUNNING"}, "it runs")
    alone.spark.runtimes[0].current = FakeStatus("STARTING", waiting="Kafka at 127.0.0.1:1 does not answer")
    (report,) = alone.supervisor.next_report().groups
    assert (report.state.value, report.error) == ("STARTING", "Kafka at 127.0.0.1:1 does not answer")


# ------------------------------------------------------------------------------------------------------------ leaving
def test_who_leaves_lets_groups_finish_and_starts_nothing(alone: Alone, eventually: Eventually) -> None:
    alone.hear(ONE)
    eventually(lambda: alone.states() == {ONE.name: "RUNNING"}, "it runs")
    alone.supervisor.leave(timeout_s=10)
    assert alone.spark.runtimes[0].told == ["start", "stop"]
    alone.hear(ONE, TWO)
    alone.supervisor.tend()
    assert len(alone.spark.runtimes) == 1
    assert alone.states() == {ONE.name: "STOPPED"}


def test_what_does_not_finish_in_time_is_killed(alone: Alone, eventually: Eventually) -> None:
    alone.hear(ONE)
    eventually(lambda: alone.states() == {ONE.name: "RUNNING"}, "it runs")
    alone.spark.runtimes[0].may_finish.clear()
    alone.supervisor.leave(timeout_s=0)
    assert alone.spark.runtimes[0].told == ["start", "stop", "kill"]


def test_unknown_groups_are_not_found(alone: Alone) -> None:
    with pytest.raises(NotFoundError, match="worker-1 has no group X"):
        alone.supervisor.group("X")


def test_phases_and_runtimes_speak_the_same_words() -> None:
    assert {"STARTING", "RUNNING", "STOPPED", "FAILED"} <= {phase.value for phase in GroupPhase}
