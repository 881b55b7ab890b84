"""Orders to workers: each is carried out once, and its whole outcome is heard, in heartbeats of any size."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.cluster.managers.orders import OrderBook, OrderRunner
from spdist.cluster.protocol.messages import WorkerReport
from spdist.cluster.protocol.wire import MAX_BODY_BYTES, HeartbeatRequest, OrderMessage, OutcomeMessage
from spdist.cluster.protocol.wire_errors import error_body
from spdist.errors import NotFoundError, SpdistError, StateError
from spdist.transports.retracted import Undone

Eventually = Callable[..., Any]


def order(id: str, kind: Any = "backup") -> OrderMessage:
    return OrderMessage(id=id, kind=kind, instance="A-g-1", revision="1__A")


def test_an_order_is_repeated_until_its_outcome_is_known() -> None:
    book = OrderBook()
    outcome = book.give("worker-1", "revisions", "A-g-1")
    (first,), (again,) = book.open_for("worker-1"), book.open_for("worker-1")
    assert (first, first.instance, book.open_for("worker-2")) == (again, "A-g-1", [])
    book.record("worker-2", [OutcomeMessage(id=first.id)])
    assert not outcome.done(), "another worker knows nothing of it"
    book.record("worker-1", [OutcomeMessage(id=first.id, revisions=["1__A"])])
    book.record("worker-1", [OutcomeMessage(id=first.id, revisions=["2__A"])])
    assert outcome.result().revisions == ["1__A"]
    assert book.open_for("worker-1") == []


def test_an_error_of_a_worker_is_raised_where_it_was_waited_for() -> None:
    book = OrderBook()
    outcome = book.give("worker-1", "backup", "A-g-1", "1__A")
    (given,) = book.open_for("worker-1")
    book.record("worker-1", [OutcomeMessage(id=given.id, error=error_body(StateError("no state yet")))])
    with pytest.raises(StateError, match="no state yet"):
        outcome.result()


def test_an_order_that_is_taken_back_is_not_given_again() -> None:
    book = OrderBook()
    kept, dropped = book.give("worker-1", "backup", "A-g-1"), book.give("worker-1", "backup", "A-g-2")
    book.take_back([dropped])
    assert [one.instance for one in book.open_for("worker-1")] == ["A-g-1"]
    assert not kept.done()


def test_a_worker_carries_out_an_order_once_and_reports_until_it_is_known(eventually: Eventually) -> None:
    done: list[str] = []

    def perform(one: OrderMessage) -> OutcomeMessage:
        done.append(one.id)
        return OutcomeMessage(id=one.id, revisions=["r"])

    runner = OrderRunner(perform, lambda: None)
    runner.begin([order("a"), order("b")])
    runner.begin([order("a"), order("b")])
    eventually(lambda: len(runner.outcomes()) == 2, "both are carried out")
    runner.begin([order("b")])
    assert [(o.id, o.revisions, o.error) for o in runner.outcomes()] == [("b", ["r"], None)]
    runner.begin([])
    assert runner.outcomes() == []
    assert sorted(done) == ["a", "b"]


def test_an_order_that_is_under_way_is_not_begun_again_when_it_is_missing_from_one_answer(
    eventually: Eventually,
) -> None:
    may_end = threading.Event()
    begun: list[str] = []

    def perform(one: OrderMessage) -> OutcomeMessage:
        begun.append(one.id)
        may_end.wait(10)
        return OutcomeMessage(id=one.id)

    runner = OrderRunner(perform, lambda: None)
    runner.begin([order("a")])
    eventually(lambda: begun == ["a"], "it has begun")
    runner.begin([])
    runner.begin([order("a")])
    may_end.set()
    eventually(lambda: len(runner.outcomes()) == 1, "it has ended")
    assert begun == ["a"]


def undone(count: int, process: int = 1) -> list[Undone]:
    return [Undone("Trades.Clean", n, "Trades-filter-1", process, n, 0) for n in range(count)]


def revisions(count: int, process: int = 1) -> list[str]:
    return [f"{process}{n:08}__{'é' * 240}" for n in range(count)]


@pytest.mark.parametrize("found", [{"undone": undone(9_000)}, {"revisions": revisions(10_000)}])
def test_a_heartbeat_has_room_for_the_outcomes_of_many_large_groups(
    eventually: Eventually, found: dict[str, Any]
) -> None:
    runner = OrderRunner(lambda one: OutcomeMessage(id=one.id, **found), lambda: None)
    runner.begin([order("a"), order("b")])
    eventually(lambda: None not in runner._outcomes.values(), "both are carried out")
    beat = HeartbeatRequest.from_report(WorkerReport("w", "http://w:1", False, "life", 1, 0), runner.outcomes())
    assert len(beat.to_json().encode()) <= MAX_BODY_BYTES


@given(
    asked=st.lists(st.tuples(st.sampled_from(["restore", "revisions"]), st.integers(0, 60)), min_size=1, max_size=3),
    happens=st.lists(st.sampled_from(["heartbeat lost", "answer lost", "new process", "answered"]), max_size=12),
)
def test_a_leader_hears_the_whole_outcome_of_one_process_whatever_is_lost(
    asked: list[tuple[Literal["restore", "revisions"], int]], happens: list[str]
) -> None:
    book, processes = OrderBook(), itertools.count(1)

    def started() -> OrderRunner:
        process, ended = next(processes), threading.Semaphore(0)

        def perform(one: OrderMessage) -> OutcomeMessage:
            if one.kind == "restore":
                return OutcomeMessage(id=one.id, undone=undone(int(one.instance), process))
            return OutcomeMessage(id=one.id, revisions=revisions(int(one.instance), process))

        runner = OrderRunner(perform, ended.release, room=2_000)
        orders = book.open_for("w")
        runner.begin(orders)
        assert all(ended.acquire(timeout=10) for _ in orders)
        return runner

    told = [book.give("w", kind, str(count)) for kind, count in asked]
    runner = started()
    for event in [*happens, *["answered"] * (sum(count for _, count in asked) + len(asked))]:
        if event == "new process":
            runner = started()
            continue
        parts = runner.outcomes()
        assert sum(len(one.to_json().encode()) for one in parts) <= 2_200
        if event != "heartbeat lost":
            book.record("w", parts)
        if event == "answered":
            runner.begin(book.open_for("w"))
    assert book.open_for("w") == [] and runner.outcomes() == []
    last = next(processes)
    for (kind, count), outcome in zip(asked, told, strict=True):
        heard, found = outcome.result(timeout=0), undone if kind == "restore" else revisions
        assert [*heard.found] in [found(count, process) for process in range(1, last)]


@pytest.mark.parametrize(
    ("problem", "code"), [(NotFoundError("no revision"), NotFoundError.code), (KeyError("x"), SpdistError.code)]
)
def test_what_goes_wrong_is_an_outcome(eventually: Eventually, problem: Exception, code: str) -> None:
    def perform(one: OrderMessage) -> OutcomeMessage:
        raise problem

    runner = OrderRunner(perform, lambda: None)
    runner.begin([order("a")])
    (outcome,) = eventually(runner.outcomes, "there is an outcome")
    assert outcome.error["error"] == code
