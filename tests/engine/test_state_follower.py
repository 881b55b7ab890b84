"""States that others write, followed: what was read need not be read again, and nothing old is ever taken for new."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from spdist.engine.shards import layout
from spdist.engine.shards.copies import Copies
from spdist.engine.shards.places import ObjectPlace, Place, place_of, remove_tree, replace_file
from spdist.engine.shards.state import StateStore, state_directory
from spdist.engine.shards.state_follower import Followed, StateFollower, wanted_files
from spdist.planning.topology import Assignment
from tests.engine.test_state import fill, segment

NAME = "App"
APP = Assignment(NAME, NAME, NAME, "text", False, (), ())


@pytest.fixture
def bucket(object_store: str) -> Place:
    """A prefix that no other test has."""
    return place_of(object_store) / uuid.uuid4().hex


@pytest.fixture(params=["directory", "bucket"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return tmp_path / "states" if request.param == "directory" else request.getfixturevalue("bucket")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the objects that are read from the bucket."""
    names: list[str] = []
    before = ObjectPlace.read_bytes

    def noted(place: ObjectPlace) -> bytes:
        names.append(place.name)
        return before(place)

    monkeypatch.setattr(ObjectPlace, "read_bytes", noted)
    yield names


def loaded(store: StateStore, up_to: int) -> tuple[bytes, list[int]]:
    snapshot, segments = store.load(up_to)
    return snapshot, [one.number for one in segments]


def test_the_newest_snapshot_and_what_follows_is_wanted() -> None:
    names = ["assignment", "cut-000000000004", "identity", "base-000000000003-" + "0" * 32]
    names += [f"segment-{number:012d}" for number in range(1, 6)]
    assert wanted_files(names) == [("segment", number) for number in range(1, 6)]
    names += ["snapshot-000000000002", "snapshot-000000000003"]
    assert wanted_files(names) == [("snapshot", 3), ("segment", 4), ("segment", 5)]
    assert wanted_files([]) == []


def test_it_tells_how_far_a_state_is_and_when_its_snapshot_was_written(location: Place, tmp_path: Path) -> None:
    follower = StateFollower(location, Copies(tmp_path / "copies"))
    store = StateStore(state_directory(location, NAME))
    assert follower.follow([APP]) == {NAME: Followed()}
    fill(store, 3)
    assert follower.follow([APP]) == {NAME: Followed(3)}
    store.save_snapshot(3, b"state")
    found = follower.follow([APP])[NAME]
    assert found.segment == 3
    assert found.snapshot_ms is not None
    store.append(segment(4))
    assert follower.follow([APP]) == {NAME: Followed(4, found.snapshot_ms)}


def test_a_state_that_is_damaged_is_told_and_others_are_followed(location: Place, tmp_path: Path) -> None:
    follower = StateFollower(location, Copies(tmp_path / "copies"))
    store = StateStore(state_directory(location, NAME))
    fill(store, 3)
    fill(StateStore(state_directory(location, "Other")), 2)
    replace_file(store.path("segment", 2), b"nothing of ours")
    other = Assignment("Other", "Other", "Other", "text", False, (), ())
    found = follower.follow([APP, other])
    assert found["Other"] == Followed(2)
    assert found[NAME].problem.startswith("its state cannot be read: ")
    assert "segment-000000000002" in found[NAME].problem


def test_who_takes_over_reads_only_what_is_new(bucket: Place, tmp_path: Path, read: list[str]) -> None:
    copies = Copies(tmp_path / "copies")
    store = StateStore(state_directory(bucket, NAME), copies)
    fill(store, 40)
    store.save_snapshot(30, b"state")
    follower = StateFollower(bucket, copies)
    follower.follow([APP])
    assert len(read) < 15, "what is before the snapshot is not read"
    del read[:]
    follower.follow([APP])
    assert len(read) == 1, "the newest segment says where the state is"
    store.append(segment(41))
    del read[:]
    assert loaded(store, 41) == (b"state", [*range(31, 42)])
    assert read == ["segment-000000000041"]


def test_copies_stay_while_the_bucket_does_not_answer(
    bucket: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(StateStore(state_directory(bucket, NAME)), 3)
    follower = StateFollower(bucket, Copies(tmp_path / "copies"))
    follower.follow([APP])

    def away(place: Place) -> dict[str, str]:
        raise OSError("no route to host")

    with monkeypatch.context() as patched:
        patched.setattr(layout, "names_in", away)
        assert follower.follow([APP])[NAME].problem == "its state cannot be read: no route to host"
    assert len([*(tmp_path / "copies").iterdir()]) == 3
    assert follower.follow([APP]) == {NAME: Followed(3)}


def test_a_file_that_took_the_place_of_another_is_read_anew(bucket: Place, tmp_path: Path) -> None:
    copies = Copies(tmp_path / "copies")
    store = StateStore(state_directory(bucket, NAME), copies)
    follower = StateFollower(bucket, copies)
    for life in ("first", "second"):
        remove_tree(store.directory, whole=True)
        store.open(life)
        store.append(segment(2, life))
        store.save_snapshot(2, life.encode())
        store.append(segment(3, life, emitted=2))
        if life == "first":
            follower.follow([APP])
    snapshot, segments = store.load(3)
    assert snapshot == b"second"
    assert [one.owner for one in segments] == ["second"]


def test_a_copy_that_is_damaged_does_not_count(bucket: Place, tmp_path: Path) -> None:
    copies = Copies(tmp_path / "copies")
    store = StateStore(state_directory(bucket, NAME), copies)
    fill(store, 5)
    StateFollower(bucket, copies).follow([APP])
    files = [*(tmp_path / "copies").iterdir()]
    assert len(files) == 5
    for file in files:
        file.write_bytes(file.read_bytes()[:-1])
    assert loaded(store, 5) == (b"", [1, 2, 3, 4, 5])


def test_copies_of_what_is_not_needed_any_more_go_and_others_have_a_bound(bucket: Place, tmp_path: Path) -> None:
    copies = Copies(tmp_path / "copies")
    store = StateStore(state_directory(bucket, NAME))
    follower = StateFollower(bucket, copies)
    fill(store, 5)
    follower.follow([APP])
    store.save_snapshot(5, b"state")
    follower.follow([APP])
    assert len([*(tmp_path / "copies").iterdir()]) == 1
    follower.follow([])
    assert [*(tmp_path / "copies").iterdir()] == []
    place = bucket / "one"
    small = Copies(tmp_path / "small", most_bytes=10)
    assert small.keep(place, "a", b"12345678")
    assert not small.keep(place, "b", b"123"), "no room"
    assert not small.keep(place, "", b"1"), "it could not be known again"
    assert not small.keep(tmp_path / "file", "c", b"1"), "a file system has its own memory"
    assert (small.read(place, "a"), small.read(place, "b")) == (b"12345678", None)


def test_a_snapshot_that_is_too_large_for_memory_is_not_read_ahead(bucket: Place, tmp_path: Path) -> None:
    store = StateStore(state_directory(bucket, NAME))
    fill(store, 3)
    store.save_snapshot(3, b"state" * 100)
    found = StateFollower(bucket, Copies(tmp_path / "copies"), largest=100).follow([APP])[NAME]
    assert found.snapshot_ms is not None
    assert not (tmp_path / "copies").exists()


def test_segments_of_a_bucket_come_in_order_however_many_are_read_at_a_time(bucket: Place) -> None:
    store = StateStore(bucket / NAME)
    fill(store, 70)
    assert loaded(store, 70) == (b"", [*range(1, 71)])
