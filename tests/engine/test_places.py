"""Where state is kept: what holds of directories holds of buckets, and so do the laws of states and revisions."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from spdist.engine.shards import places
from spdist.engine.shards.places import (
    ObjectPlace,
    Place,
    check_fence,
    copy_file,
    create_file,
    names_in,
    place_of,
    remove_tree,
    replace_file,
)
from spdist.engine.shards.state import StateStore
from spdist.errors import ConfigError, StateError
from spdist.runtime.persistence import FileSystemPersistenceStore
from tests.engine import test_state as of_state
from tests.runtime import test_persistence as of_revisions


@pytest.fixture(params=["directory", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return tmp_path / "in it" if request.param == "directory" else request.getfixturevalue("bucket")


@pytest.fixture
def bucket(object_store: str) -> Place:
    """A prefix that no other test has."""
    return place_of(object_store) / f"some prefix/{uuid.uuid4().hex}"


# --------------------------------------------------------------------------------------------------------------- places
def test_a_file_is_made_once_and_comes_back(place: Place) -> None:
    file = place / "a" / "b c"
    assert not file.exists()
    assert create_file(file, b"first")
    assert not create_file(file, b"second")
    assert file.exists()
    assert file.read_bytes() == b"first"
    file.unlink()
    file.unlink(missing_ok=True)
    assert not file.exists()
    with pytest.raises(FileNotFoundError):
        file.read_bytes()


def test_of_many_that_make_one_file_one_has_made_it(place: Place) -> None:
    made: list[int] = []

    def make(number: int) -> None:
        if create_file(place / "one", str(number).encode()):
            made.append(number)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert (place / "one").read_bytes() == str(made[0]).encode()


def test_names_are_those_directly_below(place: Place) -> None:
    assert names_in(place) == []
    for name in ("b", "a", "deep/er", "deep/est"):
        create_file(place / name, b"")
    assert names_in(place) == ["a", "b", "deep"]
    assert names_in(place / "deep") == ["er", "est"]
    remove_tree(place / "deep")
    remove_tree(place / "deep", whole=True)
    assert names_in(place) == ["a", "b"]


def test_a_file_takes_the_place_of_another(place: Place) -> None:
    replace_file(place / "cut", b"1")
    replace_file(place / "cut", b"22")
    assert (place / "cut").read_bytes() == b"22"
    assert names_in(place) == ["cut"]


def test_a_copy_outlives_its_source(place: Place) -> None:
    create_file(place / "one", b"content")
    (place / "other").mkdir(parents=True)
    copy_file(place / "one", place / "other" / "two")
    (place / "one").unlink()
    assert (place / "other" / "two").read_bytes() == b"content"
    with pytest.raises(FileNotFoundError):
        copy_file(place / "one", place / "other" / "three")


def test_files_are_copied_between_directories_and_buckets(bucket: Place, tmp_path: Path) -> None:
    create_file(tmp_path / "one", b"content")
    copy_file(tmp_path / "one", bucket / "two")
    copy_file(bucket / "two", tmp_path / "three")
    assert (tmp_path / "three").read_bytes() == b"content"


def test_the_fence_holds_and_the_trial_leaves_nothing(place: Place) -> None:
    place.mkdir(parents=True)
    check_fence(place)
    assert names_in(place) == []


def test_a_place_where_two_may_make_one_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "create_file", lambda place, content: True)
    with pytest.raises(StateError, match="lets two processes create one file"):
        check_fence(tmp_path)


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("gs://bucket/a/b", "gs://bucket/a/b"),
        ("az://container//a/./b/", "az://container/a/b"),
    ],
)
def test_buckets_are_read_and_written_as_urls(location: str, text: str) -> None:
    found = place_of(location)
    assert isinstance(found, ObjectPlace)
    assert str(found) == text
    assert place_of(str(found)) == found
    assert (found / "x y").parent == found
    assert (found / "x y").name == "x y"


def test_everything_else_is_a_path(tmp_path: Path) -> None:
    assert place_of(str(tmp_path)) == tmp_path
    assert place_of("relative") == Path("relative")


def test_a_bucket_that_does_not_answer_is_an_os_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "a", "AWS_REGION": "r"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setattr(places, "_PATIENCE_S", 1)
    places._opened.cache_clear()
    try:
        with pytest.raises(OSError, match="s3://nobody/x"):
            (place_of("s3://nobody") / "x").read_bytes()
    finally:
        places._opened.cache_clear()


def test_without_obstore_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "obstore.store", None)
    with pytest.raises(ConfigError, match="needs the package obstore") as error:
        places._opened("s3://nowhere", os.getpid())
    assert "spdist[object-store]" in (error.value.hint or "")


# ----------------------------------------------------------------------------------------------------------------- laws
@pytest.mark.parametrize(
    "law",
    [
        of_state.test_a_segment_comes_back_as_it_went,
        of_state.test_an_empty_state_opens_at_one_and_an_old_one_goes_on,
        of_state.test_an_owner_that_was_replaced_cannot_append,
        of_state.test_an_owner_that_appends_again_gets_what_it_wrote_first,
        of_state.test_of_many_that_append_at_once_one_wins,
        of_state.test_everybody_who_takes_over_gets_a_number_of_its_own,
        of_state.test_loading_takes_the_newest_snapshot_and_what_follows,
        of_state.test_an_owner_whose_number_was_deleted_long_ago_is_still_fenced,
        of_state.test_two_snapshots_are_kept_and_the_segments_after_the_older,
    ],
    ids=lambda law: law.__name__,
)
def test_laws_of_states_hold_in_a_bucket(law: Callable[[StateStore], None], bucket: Place) -> None:
    law(StateStore(bucket / "App-g-1"))


@pytest.mark.parametrize(
    "law",
    [
        partial(of_revisions.test_a_state_that_went_back_lives_on_like_any_other, snapshot_every=3),
        of_revisions.test_a_deleted_revision_is_gone,
        of_revisions.test_a_revision_is_complete_in_itself,
        of_revisions.test_the_newest_revisions_are_kept_in_the_order_of_time,
        of_revisions.test_cleared_revisions_are_gone_and_the_state_goes_on,
    ],
    ids=lambda law: getattr(law, "func", law).__name__,
)
def test_laws_of_revisions_hold_in_a_bucket(law: Callable[..., None], bucket: Place) -> None:
    law(location=bucket, persistence=FileSystemPersistenceStore(bucket, revisions_to_keep=2))
