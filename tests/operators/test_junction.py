"""Streams: who is served when, and what a failure costs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from spdist.operators.base import Arrival, Row
from spdist.operators.core.junction import Failures, Junction, ObserverFailed, Receiver


def receiver(name: str, seen: list[Any], fails_on: int | None = None) -> Receiver:
    def receive(timestamp: int, row: Row) -> None:
        if row[0] == fails_on:
            raise ValueError(f"no {fails_on}")
        seen.append((name, timestamp, row))

    def receive_chunk(arrivals: Sequence[Arrival]) -> None:
        if any(row[0] == fails_on for _, row in arrivals):
            raise ValueError(f"no {fails_on}")
        seen.append((name, list(arrivals)))

    return Receiver(receive, receive_chunk)


def test_receivers_come_in_order_and_observers_after_them() -> None:
    seen: list[Any] = []
    junction = Junction("S", Failures())
    junction.observers.append(lambda timestamp, row: seen.append(("observer", timestamp, row)))
    junction.subscribe(receiver("first", seen))
    junction.subscribe(receiver("second", seen))
    junction.receive(1, (5,))
    assert [name for name, *_ in seen] == ["first", "second", "observer"]
    seen.clear()
    junction.receive_chunk([(1, (5,)), (2, (6,))])
    assert seen[0] == ("first", [(1, (5,)), (2, (6,))])
    assert seen[2:] == [("observer", 1, (5,)), ("observer", 2, (6,))]


def test_a_failure_costs_the_event_for_those_who_come_later(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Any] = []
    failures = Failures()
    junction = Junction("S", failures)
    junction.subscribe(receiver("first", seen))
    junction.subscribe(receiver("failing", seen, fails_on=5))
    junction.subscribe(receiver("third", seen))
    junction.observers.append(lambda timestamp, row: seen.append(("observer", timestamp, row)))
    with caplog.at_level(logging.INFO):
        junction.receive(1, (5,))
        junction.receive_chunk([(2, (4,)), (3, (5,))])
        junction.receive(4, (6,))
    assert [name for name, *_ in seen] == ["first", "first", "first", "failing", "third", "observer"]
    assert failures.count == 3
    assert failures.latest == "stream 'S': ValueError: no 5"
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.INFO]
    assert caplog.records[0].exc_info
    assert not caplog.records[1].exc_info


def test_a_fault_stream_gets_the_event_and_the_error() -> None:
    seen: list[Any] = []
    failures = Failures()
    fault = Junction("!S", failures)
    fault.subscribe(receiver("fault", seen))
    junction = Junction("S", failures, fault)
    junction.subscribe(receiver("failing", seen, fails_on=5))
    junction.receive(1, (5, "x"))
    assert seen == [("fault", [(1, (5, "x", "message : no 5\n cause :null"))])]
    assert failures.count == 0


def test_an_observers_error_passes_the_queries() -> None:
    def refuse(_timestamp: int, _row: Row) -> None:
        raise KeyError("mine")

    inner = Junction("Inner", Failures())
    inner.observers.append(refuse)
    outer = Junction("Outer", Failures())
    outer.subscribe(Receiver(inner.receive, inner.receive_chunk))
    with pytest.raises(ObserverFailed) as caught:
        outer.receive(1, (5,))
    assert isinstance(caught.value.cause, KeyError)
    assert outer.failures.count == inner.failures.count == 0
