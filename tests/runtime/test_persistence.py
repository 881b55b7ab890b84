"""Revisions: kept while the group runs, complete in themselves, and a way back that fences whoever runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spdist.engine.island.cuts import Cut
from spdist.engine.shards.places import remove_tree
from spdist.engine.shards.shard import Shard, SnapshotPolicy
from spdist.engine.shards.state import StateStore, state_directory
from spdist.errors import FencedError, NotFoundError, StateError
from spdist.mapping.columns import Events
from spdist.planning.topology import AssignedInput
from spdist.runtime.persistence import FileSystemPersistenceStore
from spdist.runtime.revision_files import WentBack
from spdist.transports.base import Record
from spdist.transports.payloads.payload import Payload
from tests.engine.fake_app import SCHEMA, island, say_who_runs

NAME = "App-g-1"
PAYLOAD = Payload(SCHEMA)


class Group:
    """One start of a group instance: each batch is one event of stream A, worth 1."""

    def __init__(self, location: Path, owner: str, snapshot_every: int = 1000) -> None:
        say_who_runs(location, NAME)
        self.store = StateStore(state_directory(location, NAME))
        self.opening = self.store.open(owner)
        inputs = (AssignedInput("A", "App.A", (0,)),)
        policy = SnapshotPolicy(segments=snapshot_every, pause=0)
        self.shard = Shard(self.store, self.opening, lambda: island(*inputs), policy)
        self.offset = self.opening.positions.get("App.A", {}).get(0, 0)
        self.batch = 0

    def run(self, batches: int) -> None:
        for _ in range(batches):
            events = Events([self.offset], [self.offset], [b""], [1], [self.offset], [("k", 1)])
            record = Record("App.A", 0, PAYLOAD.encode(events), 1, "f", self.offset, self.offset, self.offset)
            self.offset += 1
            self.shard.process(self.batch, [record], 1, {"App.A": {0: self.offset}})
            self.batch += 1

    @property
    def origin(self) -> Cut:
        assert self.shard.island is not None
        return self.shard.island.publisher.origin

    @property
    def published(self) -> int:
        assert self.shard.island is not None
        return self.shard.island.publisher.cut().number("App.Out", 0)

    @property
    def total(self) -> int:
        """Sum of all events that made the state."""
        assert self.shard.island is not None
        total: int = self.shard.island.app.total  # type: ignore[attr-defined]
        return total


@pytest.fixture
def location(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "state of all"


@pytest.fixture
def persistence(location: Path) -> FileSystemPersistenceStore:
    return FileSystemPersistenceStore(location, revisions_to_keep=2)


@pytest.mark.parametrize("snapshot_every", [1, 3, 1000])
def test_a_group_goes_back_to_a_revision_and_reads_on_from_its_offsets(
    location: Path, persistence: FileSystemPersistenceStore, snapshot_every: int
) -> None:
    group = Group(location, "one", snapshot_every)
    group.run(5)
    persistence.save(NAME, "1000__App")
    group.run(20)
    persistence.restore(NAME, "1000__App")
    with pytest.raises(FencedError):
        group.run(1)
    again = Group(location, "two", snapshot_every)
    assert again.offset == 5
    again.run(1)
    assert again.total == 6


@pytest.mark.parametrize("snapshot_every", [1, 4, 1000])
def test_a_state_that_went_back_lives_on_like_any_other(
    location: Path, persistence: FileSystemPersistenceStore, snapshot_every: int
) -> None:
    group = Group(location, "one", snapshot_every)
    group.run(4)
    persistence.save(NAME, "1000__App")
    group.run(3)
    persistence.restore(NAME, "1000__App")
    second = Group(location, "two", snapshot_every)
    second.run(2)
    persistence.save(NAME, "2000__App")  # a revision of a state that went back
    second.run(9)
    assert Group(location, "three", snapshot_every).offset == 15
    persistence.restore(NAME, "2000__App")
    last = Group(location, "four", snapshot_every)
    assert last.offset == 6
    last.run(1)
    assert last.total == 7


def test_a_state_that_went_back_leaves_nothing_behind_once_snapshots_have_passed_it(
    location: Path, persistence: FileSystemPersistenceStore
) -> None:
    group = Group(location, "one", snapshot_every=2)
    group.run(5)
    persistence.save(NAME, "1000__App")
    persistence.restore(NAME, "1000__App")
    assert list(group.store.directory.glob("base-*"))
    Group(location, "two", snapshot_every=2).run(10)
    assert not list(group.store.directory.glob("base-*"))


def test_a_revision_ends_where_it_is_known_how_far_the_group_had_published(
    location: Path, persistence: FileSystemPersistenceStore
) -> None:
    group = Group(location, "one")
    group.run(3)
    last = group.store.last()
    assert last is not None
    # It is killed when the next segment is durable, and nothing of it was published.
    group.store.append(replace(last, number=last.number + 1, batch=3, positions={"App.A": {0: 4}}))
    persistence.save(NAME, "1000__App")
    went_back = persistence.restore(NAME, "1000__App")
    assert Group(location, "two").offset == 3
    assert went_back.topics == {"App.Out"}
    assert {name: sum(cut.numbers["App.Out"]) for name, cut in went_back.cuts.items()} == {NAME: 3}


def test_of_a_revision_that_does_not_know_how_far_it_was_published_nothing_is_undone(
    location: Path, persistence: FileSystemPersistenceStore
) -> None:
    group = Group(location, "one")
    group.run(3)
    for number in group.store.numbers("cut"):  # older versions stored none
        group.store.path("cut", number).unlink()
    persistence.save(NAME, "1000__App")
    assert persistence.restore(NAME, "1000__App") == WentBack({}, frozenset())
    assert Group(location, "two").offset == 3


def test_a_group_keeps_one_cut_however_long_it_runs(location: Path, persistence: FileSystemPersistenceStore) -> None:
    group = Group(location, "one", snapshot_every=2)
    group.run(9)
    assert group.store.numbers("cut") == [group.store.numbers("segment")[-1]]
    persistence.save(NAME, "1000__App")
    persistence.restore(NAME, "1000__App")
    assert Group(location, "two", snapshot_every=2).store.newest_cut() is not None, "until its first batch"


@pytest.mark.parametrize("looked", ["last", "newest_cut", "base"])
def test_a_revision_is_taken_though_the_group_deletes_what_was_to_be_in_it(
    location: Path, persistence: FileSystemPersistenceStore, monkeypatch: pytest.MonkeyPatch, looked: str
) -> None:
    group = Group(location, "one", snapshot_every=1)
    group.run(3)
    look, looks = getattr(StateStore, looked), list[int]()

    def looks_and_stands_still(store: StateStore, *given: object) -> object:
        found = look(store, *given)
        if not looks:
            looks.append(store.numbers("segment")[-1])
            group.run(4)  # as many snapshots
            assert not store.path("segment", looks[0]).exists()
        return found

    monkeypatch.setattr(StateStore, looked, looks_and_stands_still)
    persistence.save(NAME, "1000__App")
    monkeypatch.undo()
    assert looks
    remove_tree(state_directory(location, NAME))
    persistence.restore(NAME, "1000__App")
    again = Group(location, "two")
    again.run(1)
    assert again.total == 8


def test_a_segment_that_stays_missing_is_named(
    location: Path, persistence: FileSystemPersistenceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    Group(location, "one").run(3)
    monkeypatch.setattr(StateStore, "newest_cut", lambda _store: (99, Cut({}, 0, 99)))
    with pytest.raises(StateError, match=r"segment-0*99 is missing"):
        persistence.save(NAME, "1000__App")
    assert persistence.revisions(NAME) == []


def test_a_deleted_revision_is_gone(location: Path, persistence: FileSystemPersistenceStore) -> None:
    Group(location, "one").run(1)
    for millis in (1, 2):
        persistence.save(NAME, f"{millis}__App")
    persistence.delete(NAME, "1__App")
    persistence.delete(NAME, "3__App")  # is not there
    assert persistence.revisions(NAME) == ["2__App"]
    with pytest.raises(StateError, match="no name of a revision"):
        persistence.delete(NAME, "../2__App")


@pytest.mark.parametrize("way", ["delete", "clear"])
def test_a_revision_that_cannot_be_deleted_is_told(
    location: Path, persistence: FileSystemPersistenceStore, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    Group(location, "one").run(1)
    persistence.save(NAME, "1__App")

    def refused(*given: object, **more: object) -> None:
        raise PermissionError("read-only file system")

    monkeypatch.setattr(os, "rmdir", refused)
    with pytest.raises(StateError, match=r"revision 1__App of .* cannot be deleted: read-only"):
        persistence.delete(NAME, "1__App") if way == "delete" else persistence.clear(NAME)


def test_a_revision_is_complete_in_itself(location: Path, persistence: FileSystemPersistenceStore) -> None:
    Group(location, "one", snapshot_every=2).run(7)
    persistence.save(NAME, "1000__App")
    remove_tree(state_directory(location, NAME))
    persistence.restore(NAME, "1000__App")
    group = Group(location, "two")
    group.run(1)
    assert group.total == 8


def test_the_newest_revisions_are_kept_in_the_order_of_time(
    location: Path, persistence: FileSystemPersistenceStore
) -> None:
    Group(location, "one").run(1)
    for millis in (900, 1000, 20):
        persistence.save(NAME, f"{millis}__App")
    persistence.save(NAME, "1000__App")  # again: nothing happens
    assert persistence.revisions(NAME) == ["900__App", "1000__App"]
    assert persistence.revisions("App-other-1") == []


def test_cleared_revisions_are_gone_and_the_state_goes_on(
    location: Path, persistence: FileSystemPersistenceStore
) -> None:
    assert persistence.clear(NAME) == []
    group = Group(location, "one")
    group.run(2)
    for millis in (900, 1000):
        persistence.save(NAME, f"{millis}__App")
    assert persistence.clear(NAME) == ["900__App", "1000__App"]
    assert persistence.revisions(NAME) == []
    with pytest.raises(NotFoundError):
        persistence.restore(NAME, "1000__App")
    group.run(1)
    assert Group(location, "two").offset == 3
    persistence.save(NAME, "2000__App")
    assert persistence.revisions(NAME) == ["2000__App"]


def test_what_cannot_be_restored_is_refused_with_the_reason(
    location: Path, persistence: FileSystemPersistenceStore
) -> None:
    with pytest.raises(StateError, match="no state"):
        persistence.save(NAME, "1__App")
    Group(location, "one").run(1)
    persistence.save(NAME, "1__App")
    with pytest.raises(NotFoundError, match="no revision 2__App") as caught:
        persistence.restore(NAME, "2__App")
    assert "1__App" in str(caught.value)
    for name in ("../1__App", "1__a/b", "App", ""):
        with pytest.raises(StateError, match="no name of a revision"):
            persistence.restore(NAME, name)
    manifest = next(location.glob(".revisions/*/1__App/manifest.json"))
    manifest.write_text(manifest.read_text().replace(NAME, "App-g-2"))
    with pytest.raises(StateError, match="another group"):
        persistence.restore(NAME, "1__App")
    manifest.write_text("{")
    with pytest.raises(StateError, match="damaged"):
        persistence.restore(NAME, "1__App")


@pytest.mark.parametrize("snapshot_every", [1, 3, 1000])
def test_a_group_that_went_back_knows_from_where_on_its_numbers_were_given_before(
    location: Path, persistence: FileSystemPersistenceStore, snapshot_every: int
) -> None:
    group = Group(location, "one", snapshot_every)
    group.run(5)
    assert group.origin.number("App.Out", 0) < 0, "it never went back"
    persistence.save(NAME, "1000__App")
    number = group.published
    group.run(20)
    persistence.restore(NAME, "1000__App")
    for owner, batches in (("two", 7), ("three", 1)):
        again = Group(location, owner, snapshot_every)
        again.run(batches)
        assert 0 < number == again.origin.number("App.Out", 0) < again.published
