"""What crosses the network: reports and answers arrive as they were sent, and texts travel only when they are new."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.cluster.messages import (
    AnswerHeartbeat,
    GroupPhase,
    JoinedState,
    MemoryReport,
    WorkerReport,
    fingerprint,
)
from spdist.cluster.wire import Address, HeartbeatAnswer, HeartbeatRequest, Leader, parse_message, read_message
from spdist.cluster.worker_state import WorkerState
from spdist.errors import ClusterError
from spdist.planning.topology import Assignment
from tests.cluster.leader import TIMING, assignment, seen

LEADER = Leader(id="manager-1", https_interface=Address(host="host", port=9543))


def answer(*assignments: Assignment, sequence: int = 1) -> AnswerHeartbeat:
    return AnswerHeartbeat("w1", sequence, 3, JoinedState.EXISTS, assignments, TIMING)


def sent(to: AnswerHeartbeat, *known: str) -> HeartbeatAnswer:
    """Return the answer as it arrives."""
    text = HeartbeatAnswer.from_answer(to, LEADER, [], [], known).to_json()
    return read_message(HeartbeatAnswer, text.encode())


def many(count: int, version: str = "") -> tuple[Assignment, ...]:
    return tuple(assignment(f"A-g-{i}", f"from S select {i} insert into Out;{version}" * 10) for i in range(count))


@given(
    ready=st.booleans(),
    epoch=st.integers(0, 10),
    reason=st.text(max_size=50),
    memory=st.none() | st.builds(MemoryReport, *[st.integers(1, 1 << 50)] * 3, st.integers(0, 99)),
    phase=st.sampled_from(GroupPhase),
)
def test_a_report_arrives_as_it_was_sent(
    ready: bool, epoch: int, reason: str, memory: MemoryReport | None, phase: GroupPhase
) -> None:
    report = WorkerReport(
        "w1", "http://w1:9443", False, "life", 7, 3, (seen("A-g-1", phase, "why"),), False, {"loadAverage": 1.5},
        ready, reason, epoch, memory,
    )  # fmt: skip
    message = read_message(HeartbeatRequest, HeartbeatRequest.from_report(report).to_json().encode())
    assert message.to_report() == report


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_an_answer_says_the_same_whatever_texts_are_left_out(known: set[int], more: set[int]) -> None:
    told = many(10)
    there = {fingerprint(told[i]): told[i] for i in known}
    message = sent(answer(*told), *there)
    assert message.to_answer({**there, **{fingerprint(told[i]): told[i] for i in more}}) == answer(*told)
    assert [one.assignment is None for one in message.assignments] == [i in known for i in range(10)]


def test_texts_travel_when_they_are_new_and_then_no_more() -> None:
    worker = WorkerState("w1", "http://w1", False, "life-1")
    sizes = []
    for version in ("", "", "2", "2"):
        report = worker.next_report([], now_ms=0)
        request = HeartbeatRequest.from_report(report, known=worker.texts())
        assert len(request.to_json()) < 400 * 250
        message = sent(answer(*many(1, version), *many(400)[1:], sequence=report.sequence), *request.known_assignments)
        assert worker.on_answer(message.to_answer(worker.texts()), now_ms=1)
        sizes.append(len(message.to_json()))
    first, same, changed, again = sizes
    assert first > 150_000
    assert same < 25_000
    assert same < changed < same + 1_000
    assert abs(again - same) < 100


def test_a_worker_that_has_lost_a_text_does_not_guess_and_asks_for_it() -> None:
    worker = WorkerState("w1", "http://w1", False, "life-1")
    (one,) = many(1)
    report = worker.next_report([], now_ms=0)
    assert worker.on_answer(sent(answer(one, sequence=report.sequence)).to_answer(), now_ms=1)
    known = worker.texts()
    assert known == {fingerprint(one): one}
    message = sent(answer(one, sequence=2), *known)
    worker.reconcile([], now_ms=TIMING.fence_after_ms)
    with pytest.raises(ClusterError, match="no longer has") as caught:
        message.to_answer(worker.texts())
    assert fingerprint(one) in str(caught.value)
    assert HeartbeatRequest.from_report(report, known=worker.texts()).known_assignments == []


@pytest.mark.parametrize("change", [{"digest": ""}, {"digest": "x" * 65}, {"digest": 7}, {"more": 1}])
def test_what_is_no_assignment_is_refused(change: dict[str, Any]) -> None:
    body = sent(answer(*many(1))).model_dump(by_alias=True)
    body["assignments"][0] |= change
    with pytest.raises(ClusterError, match="not a valid HeartbeatAnswer"):
        parse_message(HeartbeatAnswer, body)
