"""An instance whose number of shards changes between starts puts out what one shard does that is never touched.

Wherever it is killed: with its shards at different batches, with a part of what they put out published, and at any
write of the step that lays its state out anew.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spdist.config.sections import Log, Transports
from spdist.engine.shards.layout import begin_layout, current_layout, move_to, open_layout
from spdist.engine.shards.shard import SnapshotPolicy
from spdist.engine.shards.shards import HostedShards, Router, ShardSettings, island_maker, lowest_positions
from spdist.engine.shards.state import Positions, Segment, StateStore, state_directory
from spdist.engine.spark.query import QuerySettings
from spdist.errors import FencedError, StateError
from spdist.runtime.kafka_inputs import KafkaReads, reads_before
from spdist.runtime.persistence import FileSystemPersistenceStore
from spdist.runtime.shard_states import InstanceState, between
from spdist.runtime.topics import ensure_topics
from spdist.transports.base import Record
from spdist.transports.log import LogTransport
from tests.engine.fake_app import heard
from tests.properties.test_sharding_laws import SCHEMAS, SPLIT, WHOLE, Killed, Result, batches, by_key, fed, run

NAME = SPLIT.name


@pytest.fixture(autouse=True)
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _handle: None)


class Instance:
    """The instance with its topics and its state in one directory; each start may have another number of shards."""

    def __init__(self, root: Path, seed: int, topics: dict[str, list[Record]] | None = None) -> None:
        self.root, self.draw = root, random.Random(seed)
        self.assignment = SPLIT
        self.topics = fed(seed) if topics is None else topics
        self.log = LogTransport(root / "topics")
        ensure_topics(self.log, [SPLIT])
        for topic in self.topics:
            self.log.ensure(topic, 1)
        for records in self.topics.values():
            self.log.append(records)
        self.starts = 0

    def settings(self, shards: tuple[ShardSettings, ...]) -> QuerySettings:
        stop = str(self.root / "stop")
        return QuerySettings(NAME, shards, str(self.root / "topics"), stop, "unused", 1000, 100, 1000)

    def start(self, count: int, breaks: Callable[[], None] = lambda: None) -> tuple[ShardSettings, ...]:
        """Take the state over as `GroupRuntime` does; `breaks` is called before each write of a move."""
        self.starts += 1
        state = InstanceState(replace(self.assignment, shards=count), self.root / "states")
        owner = f"start {self.starts}"
        reads = KafkaReads((state.assignment,), {})
        state.begun()
        for other in state.followed():
            own = KafkaReads((other.assignment,), {})
            other.move(self.settings(other.open(f"{owner}/closes", own)), own, self.log.read)
        opened = state.open(owner, reads_before(state, reads, Transports(Log(self.root))))
        if state.fits:
            return opened
        write = StateStore._write

        def breaking(*args: object) -> bool:
            breaks()
            return write(*args)  # type: ignore[arg-type]

        StateStore._write = breaking  # type: ignore[assignment,method-assign]
        try:
            state.move(self.settings(opened), reads, self.log.read)
        finally:
            StateStore._write = write  # type: ignore[method-assign]
        opened = state.open(owner, reads)
        assert state.fits and len(opened) == count
        return opened

    def batches(self, shards: tuple[ShardSettings, ...], last: bool) -> None:
        """Run until the end, or until it is killed with the shards at any segment."""
        router, at = Router(shards), lowest_positions(shards)
        hosts = [
            HostedShards({number: one}, island_maker(1000, False), SnapshotPolicy(segments=3, pause=0))
            for number, one in enumerate(shards)
        ]
        left = 10**6 if last else self.draw.randrange(1, 12)
        for number, batch in enumerate(batches(at, self.topics, self.draw)):
            routed = list(router.route(batch))
            outputs: list[Record] = []
            positions = {topic: dict(offsets) for topic, offsets in at.items()}
            killed = number == left
            for shard, host in enumerate(hosts):
                if killed and self.draw.random() < 0.5:
                    continue
                own = [(n, record) for n, record in routed if n == shard]
                outputs += [o for o in host.process(number, own, heard(positions)) if isinstance(o, Record)]
            self.log.append(outputs[: self.draw.randrange(len(outputs) + 1)] if killed else outputs)
            if killed:
                return

    def result(self) -> Result:
        found = [r for topic in SCHEMAS for r in read_all(self.log, topic)]
        return by_key(found)


def read_all(log: LogTransport, topic: str) -> Iterator[Record]:
    for partition, end in log.end_offsets(topic).items():
        at = 0
        while at < end:
            some = log.read(topic, partition, at)
            yield from some
            at = some[-1].offset + 1


def breaking_at(write: int) -> Callable[[], None]:
    done = 0

    def breaks() -> None:
        nonlocal done
        done += 1
        if done == write:
            raise Killed

    return breaks


@pytest.mark.parametrize("seed", range(9))
def test_shards_change_between_kills_and_nothing_is_lost_or_doubled(seed: int, tmp_path: Path) -> None:
    whole = run(WHOLE, fed(seed), tmp_path / "whole", None)
    instance = Instance(tmp_path / "moved", seed)
    layouts = [[1, 3, 1], [3, 1, 2, 5, 1], [2, 3, 1, 3]][seed % 3]
    for number, count in enumerate(layouts):
        while True:
            breaks = breaking_at(instance.draw.randrange(1, 16))
            try:
                shards = instance.start(count, breaks)
                break
            except Killed:
                continue
        instance.batches(shards, last=number == len(layouts) - 1)
    assert instance.result() == whole
    # What is left of old layouts is their fences.
    kept = [path for path in state_directory(tmp_path / "moved/states", NAME).rglob("snapshot-*") if path.is_file()]
    assert all(path.stat().st_size < 300 for path in kept if len(layouts) > 1 and "layout" not in str(path))


@pytest.mark.parametrize("write", range(1, 12))
def test_a_crash_at_any_write_of_a_move_leaves_one_layout_whole(write: int, tmp_path: Path) -> None:
    whole = run(WHOLE, fed(3), tmp_path / "whole", None)
    instance = Instance(tmp_path / "moved", 3)
    instance.batches(instance.start(1), last=False)
    crashed = False
    try:
        instance.start(3, breaking_at(write))
    except Killed:
        crashed = True
    assert crashed == (write <= 9), "a batch, three states of two files, the move, and what stands for what is deleted"
    layout = current_layout(state_directory(tmp_path / "moved/states", NAME))
    assert layout.count == (1 if write <= 8 else 3)
    instance.batches(instance.start(3), last=True)
    assert instance.result() == whole
    names = [path.name for path in layout.whole.iterdir() if path.name.startswith("layout-")]
    assert len(names) == 1, "no layout is left that never counted"


@pytest.mark.parametrize("seed", range(4))
def test_a_revision_of_other_shards_is_gone_back_to_and_nothing_is_lost(seed: int, tmp_path: Path) -> None:
    instance = Instance(tmp_path, seed)
    revisions = FileSystemPersistenceStore(tmp_path / "states", 5)
    first, second = ((1, 3), (3, 1), (2, 3), (3, 2))[seed]
    instance.batches(instance.start(first), last=False)
    revisions.save(NAME, "1000__App")
    shards = instance.start(second)
    instance.batches(shards, last=False)
    expected = run(WHOLE, fed(seed), tmp_path / "whole", None)
    revisions.restore(NAME, "1000__App")
    with pytest.raises(FencedError):
        instance.batches(shards, last=True)
    instance.batches(instance.start(second), last=True)
    found = instance.result()
    for topic, keys in expected.items():
        for key, events in keys.items():
            again = found[topic][key]
            # What was published since the revision has come twice; the rest once, all in order.
            twice = len(again) - len(events)
            assert any(again == events[:end] + events[end - twice :] for end in range(twice, len(events) + 1))


def test_a_revision_of_as_many_shards_from_before_a_change_is_numbered_anew(tmp_path: Path) -> None:
    instance = Instance(tmp_path, 5)
    revisions = FileSystemPersistenceStore(tmp_path / "states", 5)
    instance.batches(instance.start(1), last=False)
    revisions.save(NAME, "1000__App")
    instance.batches(instance.start(3), last=False)
    instance.batches(instance.start(1), last=False)
    revisions.restore(NAME, "1000__App")
    instance.batches(instance.start(1), last=True)
    numbers = [record.seq for topic in SCHEMAS for record in read_all(instance.log, topic)]
    assert max(numbers) >= 3 << 40
    expected = run(WHOLE, fed(5), tmp_path / "whole", None)
    found = instance.result()
    assert {t: {k: set(e) for k, e in keys.items()} for t, keys in found.items()} == {
        t: {k: set(e) for k, e in keys.items()} for t, keys in expected.items()
    }


def test_an_owner_of_the_old_layout_can_add_nothing_after_the_move(tmp_path: Path) -> None:
    before = current_layout(tmp_path, 2)
    first, second = open_layout(before, "old")
    open_layout(before, "between")  # so that what the old one would append is deleted, and free again
    mine = open_layout(before, "new")
    move_to(begin_layout(before, 3, SPLIT), before, mine[0], "new")
    for opening, store in zip((first, second), before.stores, strict=True):
        with pytest.raises(FencedError):
            store.append(Segment(opening.number + 1, "old", 1, 0, {}, batch=0))
        assert not store.give_up("old")
    with pytest.raises(FencedError):
        before.stores[0].open("late")
    assert not before.stores[0].give_up("new")
    assert current_layout(tmp_path).count == 3


def test_a_move_is_refused_once_somebody_else_has_taken_over(tmp_path: Path) -> None:
    before = current_layout(tmp_path, 1)
    (mine,) = open_layout(before, "new")
    open_layout(before, "newer")
    with pytest.raises(FencedError):
        move_to(begin_layout(before, 3, SPLIT), before, mine, "new")
    assert current_layout(tmp_path) == before


def test_of_two_that_take_over_at_once_only_one_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = current_layout(tmp_path, 2)
    open_store, opened = StateStore.open, []

    def slow(store: StateStore, owner: str, first: Positions | None = None, assignment: str | None = None) -> Segment:
        if owner == "slow" and opened == ["slow"]:
            monkeypatch.setattr(StateStore, "open", open_store)
            open_layout(layout, "quick")
        opened.append(owner)
        return open_store(store, owner, first)

    monkeypatch.setattr(StateStore, "open", slow)
    with pytest.raises(FencedError, match="belongs to quick"):
        open_layout(layout, "slow")


def test_layouts_that_nobody_wrote_are_refused(tmp_path: Path) -> None:
    StateStore(tmp_path / "shard-1-of-2").open("a")
    StateStore(tmp_path / "shard-1-of-3").open("a")
    with pytest.raises(StateError, match="of 2 and of 3 shards"):
        current_layout(tmp_path)
    StateStore(tmp_path / "x").append(Segment(1, "a", 0, 0, {}, opening=True, moved="../elsewhere"))
    with pytest.raises(StateError, match="no name of a layout"):
        current_layout(tmp_path / "x")


def test_only_what_some_shards_have_read_and_others_have_not_is_read_again() -> None:
    asked: list[int] = []

    def read(topic: str, partition: int, offset: int) -> list[Record]:
        asked.append(offset)
        return [Record(topic, partition, b"", 0, "p", 0, 0, at) for at in range(offset, offset + 2) if at != 5]

    end, records = between([{"T": {0: 4}, "U": {0: 2}}, {"T": {0: 9}, "U": {0: 2}}], read)
    assert end == {"T": {0: 9}, "U": {0: 2}}
    assert [record.offset for record in records] == [4, 6, 7, 8]
    assert asked == [4, 5, 7]
