"""Revisions in a database: a worker that sees no files of the state goes back to them; shards; periodic ones."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from spdist.config.datasources import Datasource
from spdist.config.sections import StatePersistence
from spdist.engine.island.cuts import Cut
from spdist.engine.shards.layout import current_layout, open_layout
from spdist.engine.shards.state import Segment, StateStore, state_directory
from spdist.errors import ConfigError, FencedError, NotFoundError, StateError
from spdist.runtime.periodic import PeriodicRevisions
from spdist.runtime.persistence import (
    DBPersistenceStore,
    FileSystemPersistenceStore,
    PersistenceStore,
    open_persistence,
)
from tests.engine.fake_app import say_who_runs

NAME = "App-g-1"


def settings(location: Path, keep: int = 2) -> StatePersistence:
    return StatePersistence(
        location=location, revisions_to_keep=keep, persistence_store="DBPersistenceStore", datasource="DB"
    )


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, Datasource]:
    return {"DB": Datasource("DB", f"sqlite:///{tmp_path / 'revisions.db'}")}


class Log:
    """A log of inputs, with a snapshot now and then that is nothing but a number."""

    def __init__(self, location: Path, owner: str, place: str = ".") -> None:
        say_who_runs(location, NAME)
        self.store = StateStore(state_directory(location, NAME) / place)
        self.opening = self.store.open(owner)
        self.number = self.opening.number

    def run(self, segments: int, snapshot: bool = False) -> None:
        for _ in range(segments):
            self.number += 1
            self.store.append(Segment(self.number, self.opening.owner, self.number - 1, 0, {"T": {0: self.number}}))
        if snapshot:
            self.store.save_snapshot(self.number, b"s" * 1_300_000 + str(self.number).encode())


def test_another_worker_goes_back_with_the_database_alone(tmp_path: Path, sources: dict[str, Datasource]) -> None:
    here, there = (open_persistence(settings(tmp_path / name), sources) for name in ("here", "there"))
    log = Log(tmp_path / "here", "one")
    log.run(3, snapshot=True)
    log.run(2)
    log.store.save_cut(log.number, cut := Cut({"App.Out": (7, 3)}, 0, 5))
    here.save(NAME, "1000__App")
    log.run(4)
    assert there.revisions(NAME) == ["1000__App"]
    assert there.restore(NAME, "1000__App").cuts == {NAME: cut}
    other = StateStore(state_directory(tmp_path / "there", NAME)).open("two")
    assert other.positions == {"T": {0: 6}}
    snapshot, segments = StateStore(state_directory(tmp_path / "there", NAME)).load(other.number)
    assert snapshot == b"s" * 1_300_000 + b"4"
    assert [segment.number for segment in segments if not segment.opening] == [5, 6]
    there.delete(NAME, "1000__App")
    assert here.revisions(NAME) == []


def test_going_back_fences_the_group_that_runs(tmp_path: Path, sources: dict[str, Datasource]) -> None:
    store = open_persistence(settings(tmp_path), sources)
    log = Log(tmp_path, "one")
    log.run(2)
    store.save(NAME, "1000__App")
    store.save(NAME, "1000__App")  # is there already
    log.run(3)
    store.restore(NAME, "1000__App")
    with pytest.raises(FencedError):
        log.run(1)
    assert Log(tmp_path, "two").opening.positions == {"T": {0: 3}}


def test_old_revisions_are_deleted_and_unknown_ones_refused(tmp_path: Path, sources: dict[str, Datasource]) -> None:
    store = open_persistence(settings(tmp_path), sources)
    Log(tmp_path, "one").run(1)
    for millis in (9, 10, 100):
        store.save(NAME, f"{millis}__App")
    assert store.revisions(NAME) == ["10__App", "100__App"]
    with pytest.raises(NotFoundError, match="100__App"):
        store.restore(NAME, "9__App")
    with pytest.raises(StateError, match="no name of a revision"):
        store.save(NAME, "../9__App")
    with pytest.raises(StateError, match="no state"):
        store.save("Other-g-1", "9__Other")
    assert sorted(path.name for path in (tmp_path / ".revisions").iterdir()) == []


def test_cleared_revisions_are_gone_from_the_table(tmp_path: Path, sources: dict[str, Datasource]) -> None:
    store = open_persistence(settings(tmp_path), sources)
    assert store.clear(NAME) == []
    log = Log(tmp_path, "one")
    log.run(1)
    for millis in (100, 9):
        store.save(NAME, f"{millis}__App")
    assert store.clear("Other-g-1") == []
    assert store.clear(NAME) == ["9__App", "100__App"]
    assert open_persistence(settings(tmp_path / "elsewhere"), sources).revisions(NAME) == []
    log.run(1)  # nobody has fenced it
    store.save(NAME, "200__App")
    assert store.revisions(NAME) == ["200__App"]


@pytest.mark.parametrize("database", [False, True])
def test_a_revision_has_all_shards(tmp_path: Path, sources: dict[str, Datasource], database: bool) -> None:
    chosen = settings(tmp_path) if database else StatePersistence(location=tmp_path)
    store: PersistenceStore = open_persistence(chosen, sources)
    assert isinstance(store, DBPersistenceStore if database else FileSystemPersistenceStore)
    logs = [Log(tmp_path, f"one-{n}", f"shard-{n}-of-3") for n in (1, 2, 3)]
    for count, log in enumerate(logs, 1):
        log.run(count)
    store.save(NAME, "1000__App")
    for log in logs:
        log.run(5)
    store.restore(NAME, "1000__App")
    again = [Log(tmp_path, f"two-{n}", f"shard-{n}-of-3") for n in (1, 2, 3)]
    assert [log.opening.positions for log in again] == [{"T": {0: count + 1}} for count in (1, 2, 3)]


def test_a_revision_of_another_number_of_shards_is_put_back_as_it_is(tmp_path: Path) -> None:
    store = FileSystemPersistenceStore(tmp_path, 2)
    for n in (1, 2):
        Log(tmp_path, "one", f"shard-{n}-of-2").run(n)
    store.save(NAME, "1__App")
    whole = state_directory(tmp_path, NAME)
    for path in whole.glob("shard-*"):
        path.rename(whole / path.name.replace("of-2", "of-3"))
    Log(tmp_path, "one", "shard-3-of-3").run(1)
    store.restore(NAME, "1__App")
    layout = current_layout(whole)
    assert layout.count == 2
    assert [opening.positions for opening in open_layout(layout, "two")] == [{"T": {0: n + 1}} for n in (1, 2)]


def test_a_datasource_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'DB', which is no datasource"):
        open_persistence(settings(tmp_path), {})


def test_revisions_are_taken_from_time_to_time(tmp_path: Path) -> None:
    taken = threading.Semaphore(0)

    class Store(FileSystemPersistenceStore):
        def save(self, instance: str, revision: str) -> None:
            taken.release()
            super().save(instance, revision)

    Log(tmp_path, "one").run(1)
    ticks = iter(range(1, 1000))
    periodic = PeriodicRevisions(Store(tmp_path, 2), [("None-g-1", "None"), (NAME, "App")], 0.001, lambda: next(ticks))
    periodic.start()
    for _ in range(8):
        assert taken.acquire(timeout=20)
    periodic.end()
    assert periodic._thread is not None
    periodic._thread.join(20)
    periodic.take()
    assert len(Store(tmp_path, 2).revisions(NAME)) == 2


@pytest.mark.parametrize("error", [OSError("Stale file handle"), ValueError("no number")])
def test_an_error_that_nobody_expects_is_told_and_revisions_are_taken_on(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    taken: list[str] = []

    class Store(FileSystemPersistenceStore):
        def save(self, instance: str, revision: str) -> None:
            taken.append(instance)
            if instance != NAME:
                raise error

    PeriodicRevisions(Store(tmp_path, 2), [("Other-g-1", "Other"), (NAME, "App")], 60, lambda: 7).take()
    assert taken == ["Other-g-1", NAME]
    assert "revision 7__Other of Other-g-1" in caplog.text
    assert str(error) in caplog.text


@pytest.mark.parametrize(
    ("database", "way", "given"),
    [
        (False, "save", ["2__App"]),
        (False, "revisions", []),
        (False, "restore", ["1__App"]),
        (True, "save", ["2__App"]),
        (True, "restore", ["1__App"]),
    ],
)
def test_what_the_file_system_does_not_do_is_an_error_of_ours(
    tmp_path: Path, sources: dict[str, Datasource], database: bool, way: str, given: list[str]
) -> None:
    store = open_persistence(settings(tmp_path) if database else StatePersistence(location=tmp_path), sources)
    Log(tmp_path, "one").run(1)
    store.save(NAME, "1__App")
    below = tmp_path / ".revisions"
    below.rename(tmp_path / "aside")
    below.write_text("no directory")
    with pytest.raises(StateError, match="revision"):
        getattr(store, way)(NAME, *given)


def test_an_old_revision_that_cannot_be_deleted_is_told_and_the_new_one_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*given: object, **more: object) -> None:
        raise PermissionError("read-only file system")

    store = FileSystemPersistenceStore(tmp_path, 1)
    Log(tmp_path, "one").run(1)
    store.save(NAME, "1__App")
    monkeypatch.setattr("os.rmdir", refused)
    with pytest.raises(StateError, match=r"revision 1__App of .* cannot be deleted: read-only"):
        store.save(NAME, "2__App")
    assert store.revisions(NAME) == ["2__App"]
