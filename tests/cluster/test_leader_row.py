"""The leader row of a real database under schedules that hypothesis thinks of: it changes as the election expects."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update
from sqlalchemy.exc import DBAPIError

from spdist.cluster.coordination.database import LEADER
from spdist.cluster.coordination.store import CoordinationStore
from spdist.cluster.elections.election import Acquire, LeaderRow
from spdist.errors import StoreUnavailableError
from tests.cluster.databases import KINDS, SERVERS

#: Which manager does what; it acts on what it has read last, however long ago.
NAMES = st.sampled_from(["manager-1", "Manager-1", "manager-2"])
STEPS = st.lists(st.tuples(NAMES, st.sampled_from(["read", "take", "renew", "go"])), max_size=25)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_the_row_changes_only_for_who_has_read_it_as_it_is_or_holds_its_term(
    database_url: str, steps: list[tuple[str, str]]
) -> None:
    store = CoordinationStore(database_url, uuid.uuid4().hex, timeout_ms=5_000)
    views: dict[str, LeaderRow | None] = {}
    terms: dict[str, int] = {}
    row: LeaderRow | None = None
    for name, step in steps:
        before, term = row, terms.get(name, 0)
        holds = before is not None and (before.term, before.node_id) == (term, name)
        if step == "read":
            views[name] = before
        elif step == "take":
            expected = views.get(name)
            won = store.try_acquire(expected, name, f"http://{name}")
            assert won == (Acquire(expected).term if before == expected else None)
            assert won not in terms.values(), "a term was given twice"
            holds = won is not None
            terms[name] = won or term
        elif step == "renew":
            assert store.renew(term, name) == holds
        else:
            store.resign(term, name)
        row, now_ms = store.read_leader()
        assert row == before or holds, "who does not hold it has changed it"
        if row is not None and holds and step != "read":
            assert (row.node_id, row.term) == (name, terms[name])
            assert row.last_heartbeat == 0 if step == "go" else now_ms - 60_000 < row.last_heartbeat <= now_ms
    store.close()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "sqlite"])
def test_a_manager_that_stands_still_within_a_transaction_keeps_nobody_from_the_leaders_row(
    kind: str, tmp_path: Path, eventually: Callable[..., object]
) -> None:
    url, group = SERVERS.database(kind, tmp_path), "group"
    silent, other = (CoordinationStore(url, group, timeout_ms=900) for _ in range(2))
    assert silent.try_acquire(None, "manager-1", "http://manager-1") == 1
    row, _ = other.read_leader()
    with silent._database._engine.connect() as connection:
        connection.execute(update(LEADER).values(last_heartbeat=LEADER.c.last_heartbeat))

        def took() -> bool:
            with contextlib.suppress(StoreUnavailableError):
                return other.try_acquire(row, "manager-2", "http://manager-2") == 2
            return False

        eventually(took, "the database lets go of the row", 20)
        with contextlib.suppress(DBAPIError):  # its server has closed it
            connection.rollback()
    silent.close()
    other.close()
