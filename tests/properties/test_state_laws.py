"""Kill a group between any two steps and start it again: it puts out the uninterrupted result, each record once.

And of two owners of one state exactly one goes on.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.engine.island.hosted import build_island
from spdist.engine.shards.shard import Shard, SnapshotPolicy
from spdist.engine.shards.state import Positions, Segment, StateStore
from spdist.engine.spark.appended import not_appended
from spdist.errors import FencedError
from spdist.mapping.columns import Events
from spdist.planning.topology import AssignedInput, Assignment
from spdist.transports.base import NO_CLOCK, Record, Repeats, Transport
from spdist.transports.payloads.payload import Payload
from tests.engine.fake_app import SCHEMA, island

INPUTS = (AssignedInput("A", "App.A", (0,)), AssignedInput("B", "App.B", (0,)))
POLICY = SnapshotPolicy(segments=3, pause=0)


@pytest.fixture(autouse=True, scope="module")
def no_disk() -> Iterator[None]:
    """Those who are killed here die in memory: waiting for the disk would prove nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _handle: None)
        yield


class Killed(BaseException):
    """The process is gone at this point."""


class Steps:
    """Counts the steps that reach the outside, and kills before or after the one that was chosen."""

    def __init__(self, kill_at: int | None) -> None:
        self.left = kill_at

    def __call__(self) -> None:
        if self.left is not None:
            if self.left == 0:
                raise Killed
            self.left -= 1


class FragileStore(StateStore):
    """A store whose process can be killed before and after each write."""

    def __init__(self, directory: Path, step: Steps) -> None:
        super().__init__(directory)
        self.step = step

    def append(self, segment: Segment) -> Segment:
        self.step()
        done = super().append(segment)
        self.step()
        return done

    def save_snapshot(self, number: int, state: bytes) -> None:
        self.step()
        super().save_snapshot(number, state)
        self.step()


class Topics:
    """Topics in memory, with offsets; appending to each partition can be cut short."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, int], list[Record]] = {}

    def append(self, records: list[Record], step: Steps) -> None:
        for r in records:
            step()
            self.add(r)
        step()

    def end_offsets(self, topic: str) -> Counter[int]:
        return Counter({partition: len(known) for (name, partition), known in self.records.items() if name == topic})

    def read(self, topic: str, partition: int, offset: int, limit: int = 1000) -> list[Record]:
        return self.records[topic, partition][offset : offset + limit]

    def add(self, r: Record) -> None:
        known = self.records.setdefault((r.topic, r.partition), [])
        known.append(Record(r.topic, r.partition, r.value, r.count, r.producer, r.seq, r.clock, len(known)))


def inputs() -> Topics:
    topics, payload = Topics(), Payload(SCHEMA)
    for number in range(12):
        for topic, shift in (("App.A", 0), ("App.B", 7)):
            ts = 100 + 10 * number + shift
            events = Events.of([(ts, (f"k{number % 3}", number)), (ts + 1, ("k9", 1))], 2 * number)
            topics.add(Record(topic, 0, payload.encode(events), 2, "f", 2 * number, ts + 1))
    for topic in ("App.A", "App.B"):
        topics.add(Record(topic, 0, b"", 0, "f", 24, 1000))
    return topics


def run_once(fed: Topics, out: Topics, directory: Path, owner: str, sizes: Iterator[int], step: Steps) -> None:
    """One start of the group: to the end of its inputs, or until it is killed."""
    store = FragileStore(directory, step)
    opening = store.open(owner)
    shard = Shard(store, opening, lambda: island(*INPUTS), POLICY)
    positions: Positions = {i.topic: {0: opening.positions.get(i.topic, {}).get(0, 0)} for i in INPUTS}
    batch, first = 0, True
    while first or any(positions[topic][0] < len(fed.records[topic, 0]) for topic in positions):
        records: list[Record] = []
        for topic, offsets in positions.items():
            taken = fed.records[topic, 0][offsets[0] : offsets[0] + next(sizes)]
            records += taken
            offsets[0] += len(taken)
        outputs = shard.process(batch, records, 0, {t: dict(o) for t, o in positions.items()})
        assert shard.island is not None
        if shard.repeats:
            origins = {shard.island.publisher.producer: shard.island.publisher.origin}
            outputs = not_appended(cast(Transport, out), outputs, origins)
        out.append(outputs, step)
        batch, first = batch + 1, False


def result(out: Topics) -> dict[Any, Any]:
    """Events by partition, as a reader that drops repeated ids sees them; it also checks the promises."""
    seen: dict[Any, Any] = {}
    for (topic, partition), records in out.records.items():
        repeats, promised, expected = Repeats(), NO_CLOCK, 0
        for r in records:
            skip = repeats.fresh(r)
            if skip < r.count:
                assert r.seq + skip == expected  # no gap
                events = Payload(SCHEMA).decode(r.value).part(skip, r.count)
                assert min(events.at) >= promised
                seen.setdefault((topic, partition), []).extend(events)
                expected = r.seq + r.count
            promised = max(promised, r.clock)
    return seen


def twice(out: Topics) -> list[Any]:
    """Ids that lie in a topic more than once."""
    records = [(at, r) for at, known in out.records.items() for r in known]
    ids = Counter((*at, r.producer, r.seq + n) for at, r in records for n in range(r.count))
    return [id for id, times in ids.items() if times > 1]


def sizes_of(data: st.DataObject) -> Iterator[int]:
    """How many records each read takes from a topic: a drawn rhythm, sometimes none."""
    return itertools.cycle([*data.draw(st.lists(st.integers(0, 4), max_size=7), label="records taken"), 1, 1])


def always(number: int) -> Iterator[int]:
    while True:
        yield number


def uninterrupted() -> dict[Any, Any]:
    out = Topics()
    with tempfile.TemporaryDirectory() as directory:
        run_once(inputs(), out, Path(directory), "only", always(5), Steps(None))
    return result(out)


EXPECTED = uninterrupted()
FED = inputs()


def test_the_uninterrupted_result_is_worth_comparing_with() -> None:
    rows = [row for events in EXPECTED.values() for *_, row in events]
    assert len(rows) > 40
    assert any(key.startswith("quiet") for key, _ in rows)


@settings(max_examples=30)
@given(st.data())
def test_killed_at_any_steps_the_result_is_the_uninterrupted_one(data: st.DataObject) -> None:
    out = Topics()
    kills = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=6), label="steps until each kill")
    with tempfile.TemporaryDirectory() as directory:
        for start, kill_at in enumerate([*kills, None]):
            try:
                run_once(FED, out, Path(directory), f"start {start}", sizes_of(data), Steps(kill_at))
            except Killed:
                continue
    assert result(out) == EXPECTED
    assert not twice(out)


@pytest.mark.parametrize("kill_at", range(60))
def test_killed_once_at_each_step_the_result_is_the_uninterrupted_one(kill_at: int, tmp_path: Path) -> None:
    out = Topics()
    try:
        run_once(FED, out, tmp_path, "first", always(2), Steps(kill_at))
    except Killed:
        pass
    else:
        assert kill_at > 40, "the kill came too late to kill"
    run_once(FED, out, tmp_path, "second", always(3), Steps(None))
    assert result(out) == EXPECTED
    assert not twice(out)


@pytest.mark.parametrize("first", [8, 15, 22, 29, 36])
def test_killed_again_while_it_recovers_the_result_is_the_uninterrupted_one(first: int) -> None:
    for second in range(12):
        out = Topics()
        with tempfile.TemporaryDirectory() as directory:
            for start, kill_at in enumerate([first, second, None]):
                with contextlib.suppress(Killed):
                    run_once(FED, out, Path(directory), f"start {start}", always(1), Steps(kill_at))
        assert result(out) == EXPECTED
        assert not twice(out)


@settings(max_examples=30)
@given(st.data())
def test_of_several_owners_only_the_one_that_opened_last_goes_on(data: st.DataObject) -> None:
    """Owners take turns in any order, opening or trying a batch; who is not the last to have opened is fenced."""
    out = Topics()
    positions: dict[int, Positions] = {}
    shards: dict[int, tuple[Shard, int]] = {}
    latest: int | None = None
    with tempfile.TemporaryDirectory() as directory:
        for turn in range(data.draw(st.integers(5, 25))):
            who = data.draw(st.integers(0, 2))
            if who not in shards or data.draw(st.booleans()):
                opening = StateStore(directory).open(f"{who} at {turn}")
                shards[who] = Shard(StateStore(directory), opening, lambda: island(*INPUTS), POLICY), 0
                positions[who] = {i.topic: {0: opening.positions.get(i.topic, {}).get(0, 0)} for i in INPUTS}
                latest = who
                continue
            shard, batch = shards[who]
            records, after = [], {}
            for topic, offsets in positions[who].items():
                taken = FED.records[topic, 0][offsets[0] : offsets[0] + 2]
                records += taken
                after[topic] = {0: offsets[0] + len(taken)}
            if who == latest:
                out.append(shard.process(batch, records, 0, after), Steps(None))
                shards[who], positions[who] = (shard, batch + 1), after
            else:
                with pytest.raises(FencedError):
                    shard.process(batch, records, 0, after)
                del shards[who]
        run_once(FED, out, Path(directory), "the end", always(5), Steps(None))
    assert result(out) == EXPECTED


def test_an_owner_that_slept_between_its_segment_and_its_outputs_does_no_harm(tmp_path: Path) -> None:
    out = Topics()
    opening = StateStore(tmp_path).open("sleeper")
    sleeper = Shard(StateStore(tmp_path), opening, lambda: island(*INPUTS), POLICY)
    first = [FED.records[topic, 0][0] for topic in ("App.A", "App.B")]
    late = sleeper.process(0, first, 0, {"App.A": {0: 1}, "App.B": {0: 1}})
    run_once(FED, out, tmp_path, "successor", always(2), Steps(None))
    out.append(late, Steps(None))
    assert result(out) == EXPECTED


def test_a_batch_that_is_repeated_gives_the_same_again(tmp_path: Path) -> None:
    shard = Shard(StateStore(tmp_path), StateStore(tmp_path).open("me"), lambda: island(*INPUTS), POLICY)
    for batch in range(6):
        records = [FED.records[topic, 0][batch] for topic in ("App.A", "App.B")]
        after = {"App.A": {0: batch + 1}, "App.B": {0: batch + 1}}
        done = shard.process(batch, records, 0, after)
        assert shard.process(batch, [], 0, after) == done
        shard.island = None  # another process goes on


def test_what_snapshots_cost_stays_in_proportion_to_what_comes(tmp_path: Path) -> None:
    """Of a state that holds all that has come."""
    text = (
        "@app:playback define stream A (key string, value long); "
        "from A#window.length(100000) select key, value insert all events into Out;"
    )
    written: list[int] = []

    class Counting(StateStore):
        def save_snapshot(self, number: int, state: bytes) -> None:
            written.append(len(state))
            super().save_snapshot(number, state)

    store, reads = Counting(tmp_path), (AssignedInput("A", "App.A", (0,), ("f",)),)
    assignment = Assignment("App-g-1", "App", "App-g", text, True, reads, ())
    policy = SnapshotPolicy(payload_bytes=2_000, pause=0)
    shard = Shard(store, store.open("only"), lambda: build_island(assignment, 100), policy)
    came = 0
    for batch in range(200):
        first = 10 * batch
        events = Events.of([(100 + number, (f"k{number}", number)) for number in range(first, first + 10)], first)
        value = Payload(SCHEMA).encode(events)
        came += len(value)
        shard.process(
            batch, [Record("App.A", 0, value, 10, "f", first, 109 + first, batch)], 0, {"App.A": {0: batch + 1}}
        )
    assert 2 < len(written) < came / policy.payload_bytes / 3
    assert written == sorted(written)
    assert sum(written) < 3 * came
