"""A worker that says it obeys a later leader, whether it does or not: only the database ends a leadership."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from spdist.cluster.elections.election import LeaderRow
from spdist.cluster.protocol.messages import (
    AnswerHeartbeat,
    LeaderSeen,
    RedirectHeartbeat,
    WorkerHeartbeat,
    WorkerReport,
)
from tests.cluster.leader import FOREVER, TIMING, Leader, announced, only
from tests.cluster.shells import manager_config, running_manager

Eventually = Callable[..., Any]
OTHER = LeaderRow("sp", "manager-2", 2, 0, "http://manager-2:9543")


def report(worker: str = "worker-1", known_term: int = 0) -> WorkerReport:
    return WorkerReport(worker, "http://127.0.0.1:9", False, "life", 1, known_term)


def test_a_worker_that_says_it_obeys_a_later_leader_does_not_depose_it(leader: Leader) -> None:
    leader.told("w1")
    for known_term in (2, 10**12):
        out = leader.handle(WorkerHeartbeat(leader.report("w1", known_term=known_term)))
        assert only(out, RedirectHeartbeat).leader is None, "it would not obey an answer"
    assert leader.state.term == 1
    assert leader.beat("w2").term == 1, "others have their leader"
    leader.handle(LeaderSeen(OTHER, FOREVER))
    assert leader.state.term is None, "the database says so, too"


def test_what_a_worker_says_of_later_terms_is_told_once(leader: Leader) -> None:
    said = [
        announced(leader.handle(WorkerHeartbeat(leader.report("w1", known_term=known)))) for known in (2, 2, 10**12)
    ]
    assert said == [["worker-rejected"], [], []]


def test_a_worker_that_will_not_obey_counts_as_silent(leader: Leader) -> None:
    leader.told("w1")
    for _ in range(5):
        leader.handle(WorkerHeartbeat(leader.report("w1", known_term=10**12)))
        leader.pass_time(TIMING.remove_after_ms // 5)
    assert "w1" not in leader.state.members


def test_no_worker_deposes_a_leader_that_the_database_names(tmp_path: Path, eventually: Eventually) -> None:
    with running_manager(manager_config(tmp_path)) as manager:
        eventually(manager.leads, "it leads")
        until_ms = manager._state_loop.ask(lambda state, _: state.lease.until_ms if state.lease else 0)
        answer, _ = manager.heartbeat(report(known_term=10**12), [])
        assert answer == RedirectHeartbeat(None)

        def renewed() -> bool:
            """The election has asked the database since."""
            assert manager.leads()
            return bool(manager._state_loop.ask(lambda state, _: state.lease and state.lease.until_ms > until_ms))

        eventually(renewed, "it goes on leading")
        assert manager.who_leads()[0] == 1
        assert isinstance(manager.heartbeat(report("worker-2"), [])[0], AnswerHeartbeat)
        said = eventually(
            lambda: [one.message for one in manager.journal.read(kinds=["worker-rejected"])], "operators are told"
        )
        assert said == [
            "worker worker-1 says that it obeys a leader of a later term than 1; its heartbeats are ignored unless the "
            "database names that leader: if it goes on, restart the worker"
        ]
