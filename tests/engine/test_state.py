"""Segments and snapshots: whole, checked, and only one owner appends."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from spdist.engine.island.cuts import Cut
from spdist.engine.shards.state import Segment, StateStore, state_directory
from spdist.errors import FencedError, StateError
from spdist.operators.core.codec import seal
from spdist.transports.base import NO_CLOCK, Record

RECORDS = (
    Record("App.S", 0, b"payload \x00\xff", 2, "f", 5, 1000, 7),
    Record("App.T", 3, b"", 0, "App-g-1", 0, NO_CLOCK, 0),
)


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(tmp_path / "a name with spaces" / "App-g-1")


def segment(number: int, owner: str = "me", **changes: object) -> Segment:
    return replace(Segment(number, owner, 0, 1000 + number, {"App.S": {0: number}}, RECORDS), **changes)  # type: ignore[arg-type]


def fill(store: StateStore, last: int) -> None:
    store.open("me")
    for number in range(2, last + 1):
        store.append(segment(number))


def test_a_segment_comes_back_as_it_went(store: StateStore) -> None:
    store.open("me")
    assert store.append(segment(2)) == segment(2)
    assert store.segment(2) == segment(2)
    assert store.last() == segment(2)


def test_an_empty_state_opens_at_one_and_an_old_one_goes_on(store: StateStore) -> None:
    assert store.open("first") == Segment(1, "first", 0, 0, {}, opening=True)
    store.append(segment(2, "first", emitted=1))
    assert store.open("second") == Segment(3, "second", 1, 1002, {"App.S": {0: 2}}, opening=True)


def test_an_owner_that_was_replaced_cannot_append(store: StateStore) -> None:
    store.open("old")
    store.append(segment(2, "old"))
    store.open("new")
    with pytest.raises(FencedError, match="belongs to new now, not to old"):
        store.append(segment(3, "old"))
    assert store.append(segment(4, "new")).owner == "new"


def test_an_owner_that_appends_again_gets_what_it_wrote_first(store: StateStore) -> None:
    store.open("me")
    store.append(segment(2, tick=5))
    assert store.append(segment(2, tick=6, records=())).tick == 5


def test_of_many_that_append_at_once_one_wins(store: StateStore) -> None:
    store.open("me")
    outcomes: list[str] = []
    start = threading.Barrier(8)

    def append(owner: str) -> None:
        start.wait()
        try:
            store.append(segment(2, owner))
            outcomes.append(owner)
        except FencedError:
            outcomes.append("fenced")

    threads = [threading.Thread(target=append, args=(f"owner {n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes)[:7] == ["fenced"] * 7
    assert store.segment(2).owner == max(outcomes)


def test_everybody_who_takes_over_gets_a_number_of_its_own(store: StateStore) -> None:
    numbers: list[int] = []
    threads = [threading.Thread(target=lambda n=n: numbers.append(store.open(f"o{n}").number)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(1, 9))


def test_loading_takes_the_newest_snapshot_and_what_follows(store: StateStore) -> None:
    fill(store, 9)
    assert [s.number for s in store.load(9)[1]] == list(range(1, 10))
    store.save_snapshot(3, b"three")
    store.save_snapshot(6, b"six")
    snapshot, segments = store.load(9)
    assert (snapshot, [s.number for s in segments]) == (b"six", [7, 8, 9])


def test_an_owner_whose_number_was_deleted_long_ago_is_still_fenced(store: StateStore) -> None:
    store.open("old")
    store.open("me")
    for number in range(3, 9):
        store.append(segment(number))
    for number in (4, 6):
        store.save_snapshot(number, b"")
    assert store.numbers("segment") == [5, 6, 7, 8]
    with pytest.raises(FencedError, match="belongs to me now, not to old"):
        store.append(segment(2, "old"))
    with pytest.raises(FencedError):
        store.load(1)
    assert store.numbers("segment") == [5, 6, 7, 8]


def test_two_snapshots_are_kept_and_the_segments_after_the_older(store: StateStore) -> None:
    fill(store, 9)
    for number in (2, 4, 7):
        store.save_snapshot(number, b"")
    assert store.numbers("snapshot") == [4, 7]
    assert store.numbers("segment") == [5, 6, 7, 8, 9]


def test_a_damaged_snapshot_is_passed_over(store: StateStore) -> None:
    fill(store, 9)
    store.save_snapshot(3, b"three")
    store.save_snapshot(6, b"six")
    store.path("snapshot", 6).write_bytes(store.path("snapshot", 6).read_bytes()[:-1] + b"?")
    snapshot, segments = store.load(9)
    assert (snapshot, [s.number for s in segments]) == (b"three", [4, 5, 6, 7, 8, 9])
    store.path("snapshot", 3).write_bytes(b"")
    with pytest.raises(StateError, match="snapshot-000000000003 is damaged"):
        store.load(9)


@pytest.mark.parametrize("cut", [0, 1, 20, -1])
def test_a_damaged_segment_is_named(store: StateStore, cut: int) -> None:
    fill(store, 3)
    path = store.path("segment", 2)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(StateError, match="segment-000000000002 is damaged"):
        list(store.load(3)[1])


def test_a_changed_byte_is_found(store: StateStore) -> None:
    fill(store, 2)
    content = bytearray(store.path("segment", 2).read_bytes())
    content[-40] ^= 1
    store.path("segment", 2).write_bytes(content)
    with pytest.raises(StateError, match="is damaged"):
        store.segment(2)


@pytest.mark.parametrize("kind", ["segment", "snapshot"])
def test_no_bit_of_a_file_changes_unnoticed(store: StateStore, kind: str) -> None:
    fill(store, 2)
    store.save_snapshot(2, b"the state")
    path = store.path(kind, 2)
    whole = path.read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        # Another bit of each byte: all of them would take eight times as long, and each is found in the same way.
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(StateError):
            store._read(kind, 2)
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(StateError):
            store._read(kind, 2)


def test_a_format_of_another_version_is_refused_with_advice(store: StateStore) -> None:
    fill(store, 2)
    header = {"number": 2, "owner": "me"}
    store.path("segment", 2).write_bytes(seal("segment", 7, json.dumps(header).encode() + b"\n"))
    with pytest.raises(
        StateError, match=r"was written by spdist .* and has format 7; this version reads format 2"
    ) as no:
        store.last()
    assert "run spdist" in (no.value.hint or "") and "restore a revision" in (no.value.hint or "")
    store.path("segment", 2).write_bytes(b'{"kind": "segment", "format": 1, "number": 2, "length": 0, "crc32": 0}\n')
    with pytest.raises(StateError, match=r"was written by spdist 0\.12 or earlier") as no:
        store.open("new")
    assert "run spdist 0.12 or earlier to go on" in (no.value.hint or "")


def test_an_opening_tells_what_goes_on(store: StateStore) -> None:
    assert store.open("me", assignment="one").assignment == "one"
    assert store.open("again").assignment == "one", "who gives up or moves a state changes nothing of it"
    assert store.open("other", assignment="two").assignment == "two"


def test_a_missing_or_renamed_segment_is_named(store: StateStore) -> None:
    fill(store, 4)
    store.path("segment", 3).rename(store.path("segment", 9))
    with pytest.raises(StateError, match="segment-000000000003 is missing"):
        list(store.load(4)[1])
    with pytest.raises(StateError, match="segment-000000000009 was renamed"):
        store.segment(9)


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match=r"file/App cannot be (read|written)"):
        StateStore(tmp_path / "file" / "App").open("me")


def test_what_a_crash_left_behind_is_no_state(store: StateStore) -> None:
    fill(store, 2)
    (store.directory / ".deadbeef.tmp").write_bytes(b"half a segm")
    assert store.numbers("segment") == [1, 2]
    assert store.open("me again").number == 3


def test_the_name_of_an_instance_stays_below_the_location(tmp_path: Path) -> None:
    for name in ("App-g-1", "../../etc", "a/b", "Ä pp-1"):
        assert state_directory(tmp_path, name).parent == tmp_path


@pytest.mark.parametrize("ended", [1, 7, 200])
def test_the_newest_cut_is_read_while_batches_end(
    store: StateStore, monkeypatch: pytest.MonkeyPatch, ended: int
) -> None:
    fill(store, 2)
    for number in range(3, 203):
        store.path("segment", number).touch()  # only whether they are there counts
    store.save_cut(2, Cut({}, 0, 2))
    batches = iter(range(3, 3 + ended))
    read = StateStore._read

    def read_late(self: StateStore, kind: str, number: int, tag: str = "") -> object:
        if (batch := next(batches, None)) is not None:
            self.save_cut(batch, Cut({}, 0, batch))  # after the directory was listed
        return read(self, kind, number, tag)

    monkeypatch.setattr(StateStore, "_read", read_late)
    if ended < 100:
        assert store.newest_cut() == (2 + ended, Cut({}, 0, 2 + ended))
    else:
        with pytest.raises(StateError, match="missing"):
            store.newest_cut()


def test_a_damaged_cut_is_named(store: StateStore) -> None:
    fill(store, 2)
    store.save_cut(2, Cut({}, 0, 2))
    store.path("cut", 2).write_bytes(b"nonsense")
    with pytest.raises(StateError, match="cut-000000000002"):
        store.newest_cut()
