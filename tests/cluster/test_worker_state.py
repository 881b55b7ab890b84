"""The state of a worker: which answers it obeys, what it starts and stops, and when it stops everything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spdist.cluster.protocol.messages import AnswerHeartbeat, GroupPhase, GroupReport, JoinedState
from spdist.cluster.workers.state import ForgetGroup, KillGroup, StartGroup, StopGroup, WorkerState
from spdist.planning.topology import Assignment
from tests.cluster.leader import TIMING, assignment, seen

NOW = 1_000_000
START, STOP = GroupPhase.STARTING, GroupPhase.STOPPED


@pytest.fixture
def worker() -> WorkerState:
    return WorkerState("w1", "http://w1", is_receiver=False, incarnation="life-1")


def answer(worker: WorkerState, *names: str | Assignment, term: int = 1, **fields: object) -> AnswerHeartbeat:
    """Return the leader's answer to the worker's latest heartbeat."""
    made = tuple(n if isinstance(n, Assignment) else assignment(n) for n in names)
    sequence = worker._sequence
    return replace(AnswerHeartbeat("w1", sequence, term, JoinedState.EXISTS, made, TIMING), **fields)  # type: ignore[arg-type]


def obey(worker: WorkerState, *names: str | Assignment, observed: tuple[GroupReport, ...] = (), now: int = NOW) -> None:
    worker.next_report(observed, now)
    assert worker.on_answer(answer(worker, *names), now)


def test_heartbeats_are_numbered_and_say_who_sends_them(worker: WorkerState) -> None:
    first = worker.next_report([], NOW)
    second = worker.next_report([seen("A-g-1")], NOW, leaving=True, metrics={"systemCPU": 0.5})
    assert (first.sequence, second.sequence) == (1, 2)
    assert (second.id, second.url, second.is_receiver, second.incarnation) == ("w1", "http://w1", False, "life-1")
    assert second.leaving and second.metrics == {"systemCPU": 0.5} and second.groups == (seen("A-g-1"),)


def test_it_starts_what_it_is_told(worker: WorkerState) -> None:
    obey(worker, "A-g-1", "A-g-2")
    orders = worker.reconcile([], NOW)
    assert [o.assignment.name for o in orders if isinstance(o, StartGroup)] == ["A-g-1", "A-g-2"]
    assert worker.reconcile([seen("A-g-1", START), seen("A-g-2")], NOW) == []


def test_it_stops_what_it_is_not_told_and_forgets_what_has_ended(worker: WorkerState) -> None:
    obey(worker)
    assert worker.reconcile([seen("A-g-1")], NOW) == [StopGroup("A-g-1")]
    assert worker.reconcile([seen("A-g-1", GroupPhase.STOPPING)], NOW) == []
    assert worker.reconcile([seen("A-g-1", STOP)], NOW) == [ForgetGroup("A-g-1")]
    assert worker.reconcile([seen("A-g-1", GroupPhase.FAILED)], NOW) == [ForgetGroup("A-g-1")]


def test_a_changed_group_is_stopped_before_it_is_started(worker: WorkerState) -> None:
    old, new = assignment("A-g-1", "old"), assignment("A-g-1", "new")
    obey(worker, new)
    assert worker.reconcile([seen(old)], NOW) == [StopGroup("A-g-1")]
    assert worker.reconcile([seen(old, GroupPhase.STOPPING)], NOW) == []
    forget, start = worker.reconcile([seen(old, STOP)], NOW)
    assert forget == ForgetGroup("A-g-1")
    assert isinstance(start, StartGroup) and start.assignment == new


def test_a_failed_group_is_left_to_the_leader_unless_it_is_of_another_version(worker: WorkerState) -> None:
    obey(worker, "A-g-1")
    assert worker.reconcile([seen("A-g-1", GroupPhase.FAILED)], NOW) == []
    other = seen(assignment("A-g-1", "old"), GroupPhase.FAILED)
    assert [type(o) for o in worker.reconcile([other], NOW)] == [ForgetGroup, StartGroup]


def test_a_group_that_was_stopped_and_is_wanted_again_is_started_again(worker: WorkerState) -> None:
    obey(worker, "A-g-1")
    assert [type(o) for o in worker.reconcile([seen("A-g-1", STOP)], NOW)] == [ForgetGroup, StartGroup]


def test_what_it_may_start_before_the_answer_comes_is_reported_as_starting(worker: WorkerState) -> None:
    """Otherwise the leader takes it for absent, and gives it to another worker."""
    old, new = assignment("A-changed-1", "old"), assignment("A-changed-1", "new")
    obey(worker, "A-absent-1", "A-stopped-1", "A-failed-1", "A-runs-1", new)
    failed = seen("A-failed-1", GroupPhase.FAILED, "reason")
    report = worker.next_report([seen("A-stopped-1", STOP), failed, seen("A-runs-1"), seen(old, STOP)], NOW)
    assert {g.name: g for g in report.groups} == {
        "A-absent-1": seen("A-absent-1", START),
        "A-stopped-1": seen("A-stopped-1", START),
        "A-failed-1": failed,
        "A-runs-1": seen("A-runs-1"),
        "A-changed-1": seen(new, START),
    }


def test_answers_to_earlier_heartbeats_are_not_obeyed(worker: WorkerState) -> None:
    worker.next_report([], NOW)
    late = answer(worker, "A-g-1")
    worker.next_report([], NOW)
    assert not worker.on_answer(late, NOW)
    assert worker.desired == ()


def test_answers_of_earlier_leaders_are_not_obeyed(worker: WorkerState) -> None:
    worker.next_report([], NOW)
    assert worker.on_answer(answer(worker, "A-g-1", term=5), NOW)
    assert worker.next_report([], NOW).known_term == 5
    assert not worker.on_answer(answer(worker, term=4), NOW)
    assert worker.desired == ("A-g-1",)


def test_answers_to_others_are_not_obeyed(worker: WorkerState) -> None:
    worker.next_report([], NOW)
    assert not worker.on_answer(replace(answer(worker, "A-g-1"), worker="w2"), NOW)


def test_an_answer_that_comes_after_its_own_deadline_is_not_obeyed(worker: WorkerState) -> None:
    worker.next_report([], NOW)
    assert not worker.on_answer(answer(worker, "A-g-1"), NOW + TIMING.fence_after_ms)
    assert worker.on_answer(answer(worker, "A-g-1"), NOW + TIMING.fence_after_ms - 1)


def test_without_an_answer_it_kills_everything_at_the_deadline(worker: WorkerState) -> None:
    assert worker.fence_at_ms is None
    obey(worker, "A-g-1")
    deadline = NOW + TIMING.fence_after_ms
    assert worker.fence_at_ms == deadline
    alive = [seen("A-g-1"), seen("A-g-2", GroupPhase.STOPPING), seen("A-g-3", STOP)]
    assert KillGroup("A-g-1") not in worker.reconcile(alive, deadline - 1)
    expected = [KillGroup("A-g-1"), KillGroup("A-g-2"), ForgetGroup("A-g-3")]
    assert worker.reconcile(alive, deadline) == expected
    assert worker.reconcile(alive, deadline + 10_000) == expected, "until they are dead"
    assert worker.next_report([], deadline).groups == (), "nothing will be started any more"


def test_the_deadline_counts_from_before_the_heartbeat_was_sent(worker: WorkerState) -> None:
    worker.next_report([], NOW)
    worker.on_answer(answer(worker), NOW + 700)
    assert worker.fence_at_ms == NOW + TIMING.fence_after_ms


@pytest.mark.parametrize("names", [(), ("A-g-1",)], ids=["given away", "still wanted"])
def test_an_answer_does_not_save_what_the_fence_should_have_ended(worker: WorkerState, names: tuple[str, ...]) -> None:
    """A machine that stood still sends a heartbeat, and is answered, before it looks after its groups."""
    obey(worker, "A-g-1")
    woken = NOW + TIMING.fence_after_ms
    obey(worker, *names, observed=(seen("A-g-1"),), now=woken)
    assert worker.reconcile([seen("A-g-1"), seen("B-g-1", GroupPhase.STOPPING)], woken) == [
        KillGroup("A-g-1"),
        KillGroup("B-g-1"),
    ]
    after = worker.reconcile([seen("A-g-1", STOP)], woken + 1)
    assert [type(order) for order in after] == [ForgetGroup, StartGroup][: 1 + len(names)]
    assert worker.reconcile([seen("A-g-1")], woken + 2) == [StopGroup("A-g-1")][len(names) :]


def test_a_worker_that_woke_past_its_fence_claims_nothing(worker: WorkerState) -> None:
    """It reports to a new leader before it looks after its groups, which run elsewhere since."""
    obey(worker, "A-g-1", "B-g-1")
    report = worker.next_report([seen("A-g-1")], NOW + TIMING.fence_after_ms - 1)
    assert [(group.name, group.state) for group in report.groups] == [("A-g-1", GroupPhase.RUNNING), ("B-g-1", START)]
    woken = NOW + TIMING.fence_after_ms
    report = worker.next_report([seen("A-g-1"), seen("C-g-1", STOP)], woken)
    stopping = ("A-g-1", GroupPhase.STOPPING)
    assert [(group.name, group.state) for group in report.groups] == [stopping, ("C-g-1", STOP)]
    assert worker.on_answer(answer(worker, "A-g-1"), woken)
    assert worker.reconcile([seen("A-g-1")], woken) == [KillGroup("A-g-1")]


def test_after_a_fence_it_obeys_again(worker: WorkerState) -> None:
    obey(worker, "A-g-1")
    later = NOW + TIMING.fence_after_ms
    worker.reconcile([], later)
    obey(worker, "A-g-1", now=later)
    assert len(worker.reconcile([], later)) == 1


def test_a_rejected_worker_kills_everything_and_says_why(worker: WorkerState) -> None:
    obey(worker, "A-g-1")
    worker.next_report([seen("A-g-1")], NOW)
    assert worker.on_answer(answer(worker, joined=JoinedState.REJECTED, reason="id in use"), NOW)
    assert worker.rejected == "id in use"
    assert worker.reconcile([seen("A-g-1")], NOW) == [KillGroup("A-g-1")]
    obey(worker, "A-g-1")
    assert worker.rejected == ""
