"""The journal: what is written, how it is found again, what becomes of it while the database is away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from spdist.clock import SystemClock
from spdist.cluster.coordination.journal import Journal
from spdist.cluster.coordination.journal_rows import Happened, JournalRows
from spdist.cluster.coordination.store import CoordinationStore
from spdist.cluster.protocol.messages import Announce, Level
from spdist.errors import ClusterError, StoreUnavailableError

Eventually = Callable[..., object]
#: More than waits at most.
MANY = 10_500


@pytest.fixture
def rows(database_url: str) -> Iterator[JournalRows]:
    store = CoordinationStore(database_url, "sp", timeout_ms=5_000)
    yield store.journal
    store.close()


def happened(n: int, *, at_ms: int = 0, kind: str = "app-deployed", app: str = "Prices", **about: str) -> Happened:
    return Happened(Announce(kind, app, f"{app} {n}", app=app, **about), 3, at_ms, f"mark-{n}")  # type: ignore[arg-type]


class FakeRows:
    """Keeps what is written in memory; may be away, or refuse what it does not like."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.away = threading.Event()
        self.asked = threading.Event()

    def write(self, node_id: str, happened: Sequence[Happened], steady_ms: int) -> None:
        self.asked.set()
        if self.away.is_set():
            raise StoreUnavailableError("away")
        if any("bad" in one.said.message for one in happened):
            raise ClusterError("refused")
        self.written += [one.said.message for one in happened]

    def trim(self, rows: int, age_ms: int) -> int:
        return 0


@pytest.fixture
def fake() -> FakeRows:
    return FakeRows()


@pytest.fixture
def journal(fake: FakeRows) -> Iterator[Journal]:
    journal = Journal(fake, "m1", SystemClock(), lambda: True, rows=100, days=1)
    journal.start()
    yield journal
    journal.stop()


# ------------------------------------------------------------------------------------------------------ in the database
def test_what_has_happened_is_found_again_with_all_that_is_known_of_it(rows: JournalRows) -> None:
    said = Announce(
        *("group-failed", "Prices-g-1", "it “failed” 😀\0", Level.ERROR),
        app="Prices",
        group="Prices-g-1",
        worker="w1",
        user="ann",
        reason="\ud800 no disk",
    )
    rows.write("m1", [Happened(said, 7, 1_000, "mark")], 1_000)
    (entry,) = rows.read()
    assert entry.time > 1_600_000_000_000
    assert (entry.node, entry.term, entry.kind, entry.level) == ("m1", 7, "group-failed", "error")
    assert (entry.app, entry.group, entry.worker, entry.user) == ("Prices", "Prices-g-1", "w1", "ann")
    assert (entry.message, entry.reason) == ("it “failed” 😀\ufffd", "? no disk")


def test_the_time_is_that_at_which_it_happened_not_that_at_which_it_was_written(rows: JournalRows) -> None:
    rows.write("m1", [happened(1, at_ms=1_000), happened(2, at_ms=61_000)], 61_000)
    later, sooner = rows.read()
    assert later.time - sooner.time == 60_000


def test_what_may_have_been_written_already_is_not_written_twice(rows: JournalRows) -> None:
    rows.write("m1", [happened(1), happened(2)], 0)
    rows.write("m1", [happened(1), happened(2), happened(3)], 0)
    assert [one.message for one in rows.read()] == ["Prices 3", "Prices 2", "Prices 1"]


def test_entries_are_found_by_app_kind_and_time_and_read_page_by_page(rows: JournalRows) -> None:
    rows.write("m1", [happened(n, at_ms=n * 1_000, app="AB"[n % 2], kind=f"kind-{n % 3}") for n in range(12)], 12_000)
    every = rows.read()
    assert [one.message.split()[1] for one in every] == [str(n) for n in range(11, -1, -1)]
    assert [one.message for one in rows.read(app="A")] == [f"A {n}" for n in (10, 8, 6, 4, 2, 0)]
    assert {one.kind for one in rows.read(kinds=["kind-1", "kind-2"])} == {"kind-1", "kind-2"}
    assert rows.read(app="a") == [], "names are exact"
    middle = rows.read(since_ms=every[7].time, until_ms=every[3].time)
    assert [one.message.split()[1] for one in middle] == ["7", "6", "5", "4"]
    pages, before = [], None
    while page := rows.read(limit=5, before=before):
        pages.append(len(page))
        before = page[-1].id
    assert pages == [5, 5, 2]


def test_groups_of_managers_have_journals_of_their_own(database_url: str, rows: JournalRows) -> None:
    other = CoordinationStore(database_url, "other", timeout_ms=5_000)
    rows.write("m1", [happened(1)], 0)
    assert other.journal.read() == []
    assert other.journal.trim(0, 0) == 0
    other.close()
    assert len(rows.read()) == 1


def test_the_newest_entries_are_kept_and_none_that_is_too_old(rows: JournalRows) -> None:
    rows.write("m1", [happened(n, at_ms=n * 1_000) for n in range(1_200)], 1_200_000)
    assert rows.trim(2_000, 3_600_000) == 0
    assert rows.trim(1_100, 3_600_000) == 100
    assert rows.read(limit=2_000)[-1].message == "Prices 100"
    assert rows.trim(2_000, 600_500) > 400, "those of more than ten minutes"
    left = rows.read(limit=2_000)
    assert left[0].message == "Prices 1199"
    assert left[0].time - left[-1].time <= 600_500


# ------------------------------------------------------------------------------------------------------- who writes it
def test_who_notes_something_does_not_wait_for_the_database(
    fake: FakeRows, journal: Journal, eventually: Eventually
) -> None:
    fake.away.set()
    for n in range(150):
        journal.note(Announce("kind", "", str(n)), 1)
    eventually(fake.asked.is_set, "it has tried")
    assert fake.written == []
    fake.away.clear()
    eventually(lambda: len(fake.written) == 150, "all are written")
    assert fake.written == [str(n) for n in range(150)], "in their order"
    assert journal.lost == 0
    assert journal.noted == {"kind": 150}


def test_what_has_no_room_to_wait_is_counted_and_said(fake: FakeRows, journal: Journal, eventually: Eventually) -> None:
    fake.away.set()
    for n in range(MANY):
        journal.note(Announce("kind", "", str(n)), 1)
    assert journal.lost == 500
    fake.away.clear()
    eventually(lambda: any("lost" in one for one in fake.written), "it is said")
    eventually(lambda: len(fake.written) == MANY - 500 + 1, "the others are written")
    assert "500 entries of the journal are lost" in "".join(one for one in fake.written if "lost" in one)


def test_an_entry_that_is_refused_takes_no_other_with_it(
    fake: FakeRows, journal: Journal, eventually: Eventually
) -> None:
    fake.away.set()
    for message in ("one", "bad", "two"):
        journal.note(Announce("kind", "", message), 1)
    fake.away.clear()
    eventually(lambda: fake.written == ["one", "two"], "the others are written")
    assert journal.lost == 1


def test_what_waits_is_written_at_the_end(fake: FakeRows) -> None:
    journal = Journal(fake, "m1", SystemClock(), lambda: True, rows=100, days=1)
    journal.start()
    journal.note(Announce("kind", "", "last"), 1)
    journal.stop()
    assert fake.written == ["last"]
