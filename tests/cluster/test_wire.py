"""What crosses the network: reports and answers arrive as they were sent, and texts travel only when they are new."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.cluster.protocol.group_lists import KnownAssignments, assignments_digest
from spdist.cluster.protocol.messages import (
    AnswerHeartbeat,
    GroupPhase,
    JoinedState,
    MemoryReport,
    WorkerReport,
    fingerprint,
)
from spdist.cluster.protocol.wire import Address, HeartbeatAnswer, HeartbeatRequest, Leader, parse_message, read_message
from spdist.errors import ClusterError
from spdist.planning.topology import Assignment
from tests.cluster.leader import TIMING, assignment, seen

LEADER = Leader(id="manager-1", https_interface=Address(host="host", port=9543))


def answer(*assignments: Assignment, sequence: int = 1) -> AnswerHeartbeat:
    return AnswerHeartbeat("w1", sequence, 3, JoinedState.EXISTS, assignments, TIMING)


def sent(to: AnswerHeartbeat, *known: str, assigned: str = "") -> HeartbeatAnswer:
    """Return the answer as it arrives."""
    text = HeartbeatAnswer.from_answer(replace(to, known=frozenset(known)), LEADER, [], [], assigned).to_json()
    return read_message(HeartbeatAnswer, text.encode())


def having(*assignments: Assignment) -> KnownAssignments:
    return KnownAssignments(assignments, {fingerprint(one): one for one in assignments})


def many(count: int, version: str = "") -> tuple[Assignment, ...]:
    return tuple(assignment(f"A-g-{i}", f"from S select {i} insert into Out;{version}" * 10) for i in range(count))


@given(
    ready=st.booleans(),
    warm=st.booleans(),
    epoch=st.integers(0, 10),
    reason=st.text(max_size=50),
    memory=st.none() | st.builds(MemoryReport, *[st.integers(1, 1 << 50)] * 3, st.integers(0, 99)),
    phase=st.sampled_from(GroupPhase),
)
def test_a_report_arrives_as_it_was_sent(
    ready: bool, warm: bool, epoch: int, reason: str, memory: MemoryReport | None, phase: GroupPhase
) -> None:
    report = WorkerReport(
        "w1", "http://w1:9443", False, "life", 7, 3, (seen("A-g-1", phase, "why"),), False, {"loadAverage": 1.5},
        ready, reason, epoch, warm, memory,
    )  # fmt: skip
    message = read_message(HeartbeatRequest, HeartbeatRequest.from_report(report).to_json().encode())
    assert message.to_report() == report


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_an_answer_says_the_same_whatever_texts_are_left_out(known: set[int], more: set[int]) -> None:
    told = many(10)
    message = sent(answer(*told), *(fingerprint(told[i]) for i in known))
    assert message.to_answer(having(*(told[i] for i in known | more))) == answer(*told)
    assert [one.assignment is None for one in message.assignments or ()] == [i in known for i in range(10)]


def test_a_list_that_a_worker_has_is_left_out() -> None:
    told = many(400)
    message = sent(answer(*told), assigned=assignments_digest(told))
    assert len(message.to_json()) < 500
    assert message.to_answer(having(*told)) == answer(*told)
    for other in (told[1:], told[::-1], (*told, *many(401)[400:])):
        assert sent(answer(*told), assigned=assignments_digest(other)).assignments is not None


def test_a_worker_that_has_lost_its_list_does_not_guess_and_asks_for_it() -> None:
    told = many(3)
    message = sent(answer(*told), assigned=assignments_digest(told))
    for kept in ((), told[1:], told[::-1]):
        with pytest.raises(ClusterError, match="no longer has"):
            message.to_answer(having(*kept))


def test_a_worker_that_has_lost_a_text_does_not_guess_and_asks_for_it() -> None:
    (one,) = many(1)
    with pytest.raises(ClusterError, match="no longer has") as caught:
        sent(answer(one), fingerprint(one)).to_answer()
    assert fingerprint(one) in str(caught.value)


@pytest.mark.parametrize("change", [{"digest": ""}, {"digest": "x" * 65}, {"digest": 7}, {"more": 1}])
def test_what_is_no_assignment_is_refused(change: dict[str, Any]) -> None:
    body = sent(answer(*many(1))).model_dump(by_alias=True)
    body["assignments"][0] |= change
    with pytest.raises(ClusterError, match="not a valid HeartbeatAnswer"):
        parse_message(HeartbeatAnswer, body)
