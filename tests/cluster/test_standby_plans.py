"""A manager that takes over finds all stored apps planned."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from spdist.cluster.coordination.store import StoredDeployment
from spdist.cluster.managers.plans import Plans, plan_text
from spdist.cluster.managers.standby_plans import Foresight
from spdist.cluster.protocol.messages import Desired
from spdist.errors import StoreUnavailableError
from spdist.planning.topology import Topology

TEXT = "@app:name('{}') define stream S (v int); from S select v insert into T;"


class Store:
    """The stored apps."""

    def __init__(self, *names: str) -> None:
        self.rows = [StoredDeployment(name, TEXT.format(name), 1, Desired.RUNNING, 1, 0, 0) for name in names]
        self.failures = 0

    def versions(self) -> dict[str, int]:
        if self.failures > 0:
            self.failures -= 1
            raise StoreUnavailableError("the database is away")
        return {row.name: row.version for row in self.rows}

    def deployments(self) -> tuple[StoredDeployment, ...]:
        return tuple(self.rows)


@pytest.fixture
def planning() -> Iterator[SimpleNamespace]:
    """What plans ahead, and `planned`, which is set when a text was planned."""
    given = SimpleNamespace(store=Store("One"), planned=threading.Event())

    def plan(text: str) -> Topology:
        given.planned.set()
        return plan_text(text)

    given.plans = Plans(plan)
    yield given
    given.foresight.stop()


def test_the_first_look_comes_with_the_start(planning: SimpleNamespace) -> None:
    planning.foresight = Foresight(planning.store, planning.plans, polling_ms=3_600_000)
    planning.foresight.start()
    assert planning.planned.wait(30)


def test_a_database_that_is_away_is_asked_again(planning: SimpleNamespace) -> None:
    planning.store.failures = 3
    planning.foresight = Foresight(planning.store, planning.plans, polling_ms=1)
    planning.foresight.start()
    assert planning.planned.wait(30)


def test_what_was_planned_ahead_is_not_planned_again(planning: SimpleNamespace) -> None:
    planning.foresight = Foresight(planning.store, planning.plans, polling_ms=1)
    (before,) = planning.foresight.deployments()
    planning.store.rows.append(Store("Two").rows[0])
    again, other = planning.foresight.deployments()
    assert again is before
    assert other.name == "Two"
