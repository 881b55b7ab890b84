"""Nodes that were there and are not any more."""

from __future__ import annotations

from spdist.panels.absent import Absent, Attendance
from tests.widgets.statuses import status, worker


def test_who_is_missing_is_told_until_it_is_back() -> None:
    attendance = Attendance()
    both = (worker("worker-1"), worker("worker-2"))
    assert attendance.note(status(workers=both), 0.0) == ()
    assert attendance.note(status(workers=both[:1], leader="manager-2"), 5.0) == (
        Absent("manager-1", "manager", 0.0),
        Absent("worker-2", "worker", 0.0),
    )
    assert attendance.note(status(workers=both), 9.0) == ()


def test_whom_the_leader_calls_lost_is_told_by_it() -> None:
    attendance = Attendance()
    attendance.note(status(workers=(worker("worker-2"),)), 0.0)
    assert attendance.note(status(workers=(), lost=(worker("worker-2", state="LOST"),)), 1.0) == ()
    assert [one.id for one in attendance.note(status(workers=()), 2.0)] == ["worker-2"], "a new leader does not know"


def test_who_has_left_is_not_lost_and_nobody_is_missed_for_ever() -> None:
    attendance = Attendance()
    attendance.note(status(workers=(worker("worker-1", state="LEAVING"), worker("worker-2"))), 0.0)
    assert [one.id for one in attendance.note(status(workers=()), 1.0)] == ["worker-2"]
    assert attendance.note(status(workers=()), 700.0) == ()
