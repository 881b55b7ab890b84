"""What a worker starts and what waits, and what a group costs; pure."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spdist.cluster.protocol.messages import MemoryReport
from spdist.cluster.workers.admission import GroupCost, Starting, StartPolicy, why_not_yet

MIB = 1 << 20
POLICY = StartPolicy(at_a_time=2, patience_ms=60_000)


def memory(limit: int, used: int, per_group: int = 100, starting: int = 0) -> MemoryReport:
    return MemoryReport(limit * MIB, used * MIB, per_group * MIB, starting)


def test_so_many_start_at_a_time_and_the_next_waits_for_its_turn() -> None:
    assert why_not_yet([], None, POLICY, 0) == ""
    assert why_not_yet([Starting(0)], None, POLICY, 1_000) == ""
    why = why_not_yet([Starting(0), Starting(500)], None, POLICY, 1_000)
    assert why == "waits for its turn: 2 other groups are starting on this worker"


def test_a_start_that_waits_for_a_server_or_takes_for_ever_keeps_nobody_waiting() -> None:
    assert why_not_yet([Starting(0, waits=True), Starting(0)], None, POLICY, 1_000) == ""
    assert why_not_yet([Starting(0), Starting(0)], None, POLICY, 60_000) == ""


def test_without_memory_for_it_a_group_waits_and_says_for_what() -> None:
    assert why_not_yet([], memory(1000, 900), POLICY, 0) == ""
    why = why_not_yet([], memory(1000, 901), POLICY, 0)
    assert why == "waits for memory: 901 of 1,000 MiB are used, a group takes 100 MiB"


def test_memory_that_starting_groups_will_take_is_not_given_twice() -> None:
    assert why_not_yet([Starting(0, waits=True)], memory(1000, 800), POLICY, 0) == ""
    assert "1 are starting" in why_not_yet([Starting(0, waits=True)], memory(1000, 801), POLICY, 0)


def test_the_room_of_a_worker_is_what_is_left_by_what_it_has_accepted() -> None:
    assert memory(1000, 500).room == 5
    assert memory(1000, 500, starting=2).room == 3
    assert memory(1000, 950).room == 0
    assert memory(1000, 1500).room == 0
    assert memory(1000, 950).full
    assert not memory(1000, 900, starting=3).full


def test_a_group_costs_what_all_take_above_a_worker_without_any() -> None:
    cost = GroupCost(assumed=384 * MIB)
    assert cost.bytes == 384 * MIB
    cost.note(700 * MIB, 2)
    assert cost.bytes == 384 * MIB, "nothing to compare with yet"
    cost.note(434 * MIB, 0)
    cost.note(797 * MIB, 1)
    assert cost.bytes == 363 * MIB
    cost.note((434 + 363 + 4 * 99) * MIB, 5)
    assert cost.bytes == (363 + 4 * 99) * MIB // 5
    cost.note(434 * MIB, 3)
    assert cost.bytes == 32 * MIB, "never nothing"


@given(
    limit=st.integers(400, 4000),
    base=st.integers(50, 400),
    costs=st.lists(st.integers(40, 300), min_size=1, max_size=60),
    at_a_time=st.integers(1, 6),
)
def test_many_apps_come_up_one_after_the_other_and_memory_is_never_exceeded_by_more_than_the_estimate_is_off(
    limit: int, base: int, costs: list[int], at_a_time: int
) -> None:
    """Fifty groups are ordered in one moment: never more than so many start, and what runs goes on."""
    policy, cost = StartPolicy(at_a_time), GroupCost()
    cost.note(base * MIB, 0)
    running: list[int] = []
    starting: list[int] = []
    waiting = list(costs)
    for now_ms in range(0, 200_000, 1_000):
        used = base + sum(running) + sum(starting) // 2
        cost.note(used * MIB, len(running) + len(starting))
        report = MemoryReport(limit * MIB, used * MIB, cost.bytes)
        while waiting and not why_not_yet([Starting(now_ms) for _ in starting], report, policy, now_ms):
            starting.append(waiting.pop(0))
        assert len(starting) <= at_a_time
        running += starting[:1]
        del starting[:1]
    most = max(costs)
    assert base + sum(running) <= max(limit, base) + (at_a_time + 1) * most
    if not running:
        assert base + 384 > limit, "a limit that allows a group lets one start"
