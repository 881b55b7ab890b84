"""Many shards in one query: each gets what it reads, in whatever process, and an error says whose it is."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from spdist.clock import ManualClock
from spdist.engine.island.island import Island
from spdist.engine.shards.shard import SinceSnapshot, SnapshotPolicy
from spdist.engine.shards.shards import HostedShards, Router, ShardSettings, lowest_positions
from spdist.engine.shards.state import Positions, Segment, StateStore
from spdist.errors import EngineError, ErrorKind, FencedError
from spdist.mapping.columns import Events
from spdist.planning.topology import AssignedInput
from spdist.transports.base import Record
from spdist.transports.payloads.payload import Payload
from tests.engine.fake_app import SCHEMA, assignment, heard, island
from tests.error_codes import coded

#: The first two instances read a topic together, the third has its own.
READS = {"One": ("T.A", "One.B"), "Two": ("T.A",), "Three": ("Three.A",)}


def inputs(name: str) -> tuple[AssignedInput, ...]:
    return tuple(AssignedInput(stream, topic, (0,)) for stream, topic in zip("AB", READS[name], strict=False))


def opened(directory: Path, owner: str) -> tuple[ShardSettings, ...]:
    return tuple(
        ShardSettings(
            assignment(*inputs(name), name=name), 0, 1, StateStore(directory / name).open(owner), str(directory / name)
        )
        for name in READS
    )


def make_island(settings: ShardSettings) -> Island:
    return island(*settings.assignment.inputs, name=settings.assignment.name)


def hosted(shards: tuple[ShardSettings, ...]) -> HostedShards:
    return HostedShards(dict(enumerate(shards)), make_island)


def record(topic: str, number: int) -> Record:
    events = Events.of([(10 * number, (f"k{number % 3}", number))], number)
    return Record(topic, 0, Payload(SCHEMA).encode(events), 1, "f", number, 10 * number, number)


FED = {topic: [record(topic, number) for number in range(30)] for topic in ("T.A", "One.B", "Three.A")}


class Query:
    """One start of the query, whose batches may run in several processes."""

    def __init__(self, directory: Path, owner: str, processes: int = 1) -> None:
        self.shards = opened(directory, owner)
        self.router = Router(self.shards)
        self.processes = [hosted(self.shards) for _ in range(processes)]
        self.at: Positions = lowest_positions(self.shards)
        self.batch = 0
        self.published: list[Record] = []

    def run(self, take: dict[str, int], process: int = 0) -> None:
        records = []
        for topic, count in take.items():
            taken = FED[topic][self.at[topic][0] : self.at[topic][0] + count]
            self.at[topic][0] += len(taken)
            records += taken
        positions = {topic: dict(offsets) for topic, offsets in self.at.items()}
        routed = self.router.route(records)
        outputs = self.processes[process].process(self.batch, routed, heard(positions))
        self.published += [output for output in outputs if isinstance(output, Record)]
        self.batch += 1


def by_id(records: list[Record]) -> dict[tuple[str, int, str, int], bytes]:
    """Events by id; each must be the same wherever it comes from."""
    found: dict[tuple[str, int, str, int], bytes] = {}
    for one in records:
        events = Payload(SCHEMA).decode(one.value) if one.count else Events()
        for number in range(one.count):
            key = (one.topic, one.partition, one.producer, one.seq + number)
            value = repr(next(iter(events.part(number, number + 1)))).encode()
            assert found.setdefault(key, value) == value
    return found


@pytest.fixture(autouse=True)
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _handle: None)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int, str, int], bytes]:
    query = Query(tmp_path_factory.mktemp("whole"), "me")
    query.run(dict.fromkeys(FED, 30))
    return by_id(query.published)


def test_each_shard_gets_what_it_reads(tmp_path: Path, expected: dict[tuple[str, int, str, int], bytes]) -> None:
    assert {producer for _, _, producer, _ in expected} == set(READS)
    shards = opened(tmp_path, "me")
    routed = list(Router(shards).route([FED["T.A"][0], FED["Three.A"][1]]))
    assert routed == [(0, FED["T.A"][0]), (1, FED["T.A"][0]), (2, FED["Three.A"][1])]


@pytest.mark.parametrize("seed", range(20))
def test_batches_processes_and_restarts_change_nothing(
    seed: int, tmp_path: Path, expected: dict[tuple[str, int, str, int], bytes]
) -> None:
    draw = random.Random(seed)
    published: list[Record] = []
    for start in range(4):
        query = Query(tmp_path, f"start {start}", processes=3)
        for _ in range(draw.randrange(1, 12)):
            take = {topic: draw.randrange(1, 4) for topic in draw.sample(sorted(FED), draw.randrange(3))}
            query.run(take, draw.randrange(3))
        published += query.published
    last = Query(tmp_path, "last")
    last.run(dict.fromkeys(FED, 30))
    assert by_id(published + last.published) == expected


def test_a_shard_that_gets_nothing_writes_nothing(tmp_path: Path) -> None:
    query = Query(tmp_path, "me")
    for _ in range(5):
        query.run({"Three.A": 1})
    assert [len(StateStore(tmp_path / name).numbers("segment")) for name in READS] == [2, 2, 6]


def test_a_process_that_missed_what_is_deleted_by_now_loads_the_snapshot(tmp_path: Path) -> None:
    query = Query(tmp_path, "me", processes=2)
    for process in [0, *[1] * 20, 0]:
        for hosted_shards in query.processes:
            for shard in hosted_shards._shards.values():
                shard.since.policy = SnapshotPolicy(segments=3, pause=0)
        query.run({"Three.A": 1}, process)
    whole = Query(tmp_path / "whole", "me")
    whole.run({"Three.A": 22})
    assert by_id(query.published) == by_id(whole.published)


def test_a_query_begins_where_the_shard_that_is_furthest_behind_goes_on(tmp_path: Path) -> None:
    query = Query(tmp_path, "me")
    query.run({"T.A": 5})
    StateStore(tmp_path / "Two").open("somebody")
    for path in (tmp_path / "Two").iterdir():
        path.unlink()
    again = Query(tmp_path, "again")
    assert again.at == {"T.A": {0: 0}, "One.B": {0: 0}, "Three.A": {0: 0}}
    again.run({"T.A": 7})
    assert next(one.seq for one in again.published if one.producer == "Two" and one.count) == 0
    assert again.processes[0].counters().events_in == 7 + 7
    assert StateStore(tmp_path / "One").last().positions["T.A"] == {0: 7}  # type: ignore[union-attr]


def test_counters_are_those_of_all_shards(tmp_path: Path) -> None:
    query = Query(tmp_path, "me")
    query.run({"T.A": 3, "Three.A": 2, "One.B": 1})
    counters = query.processes[0].counters()
    assert (counters.events_in, counters.clock, counters.latest) == (3 + 3 + 2 + 1, 0, 20)


def test_an_error_names_the_shard(tmp_path: Path) -> None:
    query = Query(tmp_path, "me")
    StateStore(tmp_path / "Three").open("another")
    with pytest.raises(FencedError, match=r"^Three: the state in .* belongs to another now"):
        query.run({"Three.A": 1})
    (_, _, three) = opened(tmp_path, "third")
    split = ShardSettings(three.assignment, 1, 3, three.opening, three.state_directory)

    def broken(_: ShardSettings) -> Island:
        raise ZeroDivisionError("by nothing")

    with pytest.raises(
        EngineError,
        match=r"^Three \(shard 2 of 3\): ZeroDivisionError: by nothing",
        check=coded(ErrorKind.QUERY_FAILED),
    ):
        HostedShards({0: split}, broken).process(0, [], heard({"Three.A": {0: 0}}))


def test_snapshots_have_a_sixth_of_the_time_whatever_they_cost() -> None:
    clock = ManualClock()
    since = SinceSnapshot(SnapshotPolicy(segments=1), clock)

    class SlowIsland(Island):
        def __init__(self) -> None: ...

        def snapshot(self) -> bytes:
            clock.advance(1_000)
            return b"state"

    moments = []
    for number in range(3_000):
        since.count(Segment(number, "me", 0, number, {}, ()))
        clock.advance(10)
        if (snapshot := since.snapshot_of(SlowIsland())) is not None:
            since.begin(len(snapshot))
            moments.append(clock.steady_ms())
    assert {after - before for before, after in pairwise(moments)} == {6_000}
    assert len(moments) == 6
