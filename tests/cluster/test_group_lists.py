"""What a worker leaves out of its heartbeats because the leader knows it: never anything else."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spdist.cluster.protocol.group_lists import ToldGroups, whole_groups
from spdist.cluster.protocol.messages import (
    GroupPhase,
    GroupReport,
    RedirectHeartbeat,
    Refuse,
    WorkerHeartbeat,
    WorkerReport,
)
from spdist.cluster.protocol.reports import LONGEST_ERROR, ChangedGroups
from spdist.cluster.protocol.wire import HeartbeatRequest, read_message
from tests.cluster.leader import Leader, app, only, seen

Told = tuple[GroupPhase, str, dict[str, float]]
GROUPS = st.dictionaries(
    st.sampled_from([f"A-g-{i}" for i in range(4)]),
    st.tuples(
        st.sampled_from(GroupPhase),
        st.sampled_from(["", "why", "x" * (LONGEST_ERROR + 1)]),
        st.dictionaries(st.sampled_from(["eventsIn", "lag"]), st.sampled_from([1, 1.0, 0.1, 3e300])),
    ),
)
FATES = st.sampled_from(["answered", "answered", "lost", "answer lost", "new leader"])


def report(*groups: GroupReport) -> WorkerReport:
    return WorkerReport("w1", "http://w1:9443", False, "life", 1, 0, groups)


def arrived(of: WorkerReport) -> WorkerReport:
    """Return a heartbeat as it comes in."""
    return read_message(HeartbeatRequest, HeartbeatRequest.from_report(of).to_json().encode()).to_report()


@given(st.lists(st.tuples(GROUPS, FATES), max_size=8))
def test_a_leader_has_all_that_a_worker_reports_or_asks_for_it(rounds: list[tuple[dict[str, Told], str]]) -> None:
    told = ToldGroups()
    known: dict[str, GroupReport] = {}
    refused = False
    for groups, fate in rounds:
        now = report(*(replace(seen(name, phase, error), metrics=m) for name, (phase, error, m) in groups.items()))
        message = arrived(told.next(now))
        assert message.changes is None or not refused, "after a refusal all are named"
        refused = False
        if fate == "lost":
            continue
        whole = whole_groups(message, {} if fate == "new leader" else known)
        refused = whole is None
        assert fate == "new leader" or not refused, "who has answered the last heartbeat knows the rest"
        if whole is not None:
            assert whole.changes is None
            known = {group.name: group for group in whole.groups}
            assert known == {group.name: group for group in arrived(now).groups}
            if fate != "answer lost":
                told.answered()


def test_what_has_not_changed_is_left_out() -> None:
    told, groups = ToldGroups(), [seen(f"A-g-{i}") for i in range(400)]
    sizes = []
    for _ in range(2):
        sizes.append(len(HeartbeatRequest.from_report(told.next(report(*groups))).to_json()))
        told.answered()
    groups[7] = replace(groups[7], metrics={"eventsIn": 1.0})
    del groups[9]
    last = told.next(report(*groups))
    assert [group.name for group in last.groups] == ["A-g-7"]
    assert last.changes is not None
    assert last.changes.gone == ("A-g-9",)
    first, same = sizes
    assert first > 30_000
    assert same < 600


def test_only_a_heartbeat_that_was_answered_counts() -> None:
    told, groups = ToldGroups(), [seen("A-g-1")]
    assert told.next(report(*groups)).changes is None
    assert told.next(report(*groups)).changes is None
    told.answered()
    assert told.next(report(*groups)).groups == ()
    assert told.next(report(*groups)).changes is None


class TestTheLeader:
    def test_what_is_left_out_counts_as_reported(self) -> None:
        leader, told = Leader(), ToldGroups()
        leader.elect()
        leader.deploy(app("A", "A-g-1", "A-g-2"))
        for groups in (("A-g-1", "A-g-2"), ("A-g-1", "A-g-2"), ("A-g-2",)):
            leader.handle(WorkerHeartbeat(told.next(leader.report("w1", *groups))))
            told.answered()
            member = leader.state.members.get("w1")
            assert member is not None
            assert set(member.groups) == set(groups)
            assert member.report.changes is None

    def test_who_leaves_out_what_is_not_known_is_refused_and_not_counted(self) -> None:
        leader = Leader()
        leader.elect()
        guess = replace(leader.report("w1"), changes=ChangedGroups((), "x"))
        assert only(leader.handle(WorkerHeartbeat(guess)), Refuse).error.code == "SP0706"
        assert "w1" not in leader.state.members

    def test_a_standby_sends_it_to_the_leader(self) -> None:
        leader = Leader()
        guess = replace(leader.report("w1"), changes=ChangedGroups((), "x"))
        only(leader.handle(WorkerHeartbeat(guess)), RedirectHeartbeat)
