"""What workers and managers say to each other: times by construction, fingerprints, phases."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.cluster.protocol.messages import GroupPhase, WorkerTiming, fingerprint
from spdist.errors import ConfigError
from spdist.planning.topology import AssignedInput, Assignment
from tests.cluster.leader import assignment


def test_the_times_of_workers_follow_from_two_keys() -> None:
    timing = WorkerTiming.from_config(2_000, 2)
    assert (timing.fence_after_ms, timing.remove_after_ms, timing.margin_ms) == (6_000, 7_000, 1_000)


@given(st.integers(20, 100_000), st.integers(1, 1_000), st.floats(0.96, 1.04), st.floats(0.96, 1.04))
def test_a_worker_has_begun_to_stop_before_it_is_removed_whatever_the_clocks(
    interval_ms: int, retry: int, worker: float, leader: float
) -> None:
    timing = WorkerTiming.from_config(interval_ms, retry)
    assert timing.fence_after_ms + timing.margin_ms <= timing.remove_after_ms
    if retry <= 3:  # with more, the drift of the clocks adds up to more than the margin
        assert timing.fence_after_ms / worker < timing.remove_after_ms / leader


@pytest.mark.parametrize(("interval_ms", "retry"), [(19, 2), (2_000, 0)])
def test_times_out_of_range_are_refused(interval_ms: int, retry: int) -> None:
    with pytest.raises(ConfigError, match="heartbeatInterval"):
        WorkerTiming.from_config(interval_ms, retry)


def test_times_that_would_let_a_group_run_twice_cannot_be_made() -> None:
    with pytest.raises(ConfigError, match="would be removed after"):
        WorkerTiming(1_000, fence_after_ms=3_000, remove_after_ms=4_000, margin_ms=1_001)
    with pytest.raises(ConfigError, match="positive"):
        WorkerTiming(1_000, fence_after_ms=0, remove_after_ms=4_000, margin_ms=1_000)


def test_a_fingerprint_is_that_of_the_whole_assignment() -> None:
    one = assignment("A-g-1")
    assert fingerprint(one) == fingerprint(Assignment.from_dict(one.to_dict()))
    others = [
        replace(one, text="other"),
        replace(one, playback=True),
        replace(one, receiver=True),
        replace(one, inputs=(AssignedInput("S", "A.S", (0,)),)),
        replace(one, name="A-g-2"),
    ]
    assert len({fingerprint(a) for a in [one, *others]}) == 1 + len(others)


def test_the_fingerprint_of_an_assignment_is_worked_out_once_and_not_at_every_heartbeat() -> None:
    one = replace(assignment("A-g-1"), text="asked for again and again")
    with patch.object(Assignment, "to_dict", autospec=True, side_effect=Assignment.to_dict) as written:
        assert len({fingerprint(replace(one)) for _ in range(3)}) == 1
    assert written.call_count == 1


def test_what_may_still_process_events_is_alive() -> None:
    assert {p for p in GroupPhase if p.alive} == set(GroupPhase) - {GroupPhase.STOPPED, GroupPhase.FAILED}
