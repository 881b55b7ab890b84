"""An instance that is split again and again while it goes on puts out what one shard puts out that is never touched."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from spdist.engine.island.hosted import HostedApp, build_island
from spdist.engine.shards.rescale import establish, rescale
from spdist.engine.shards.shard import SnapshotPolicy
from spdist.engine.shards.shards import HostedShards, Router, ShardSettings, island_maker
from spdist.engine.shards.state import Positions, StateStore
from spdist.errors import StateError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.operators.core.codec import decode, encode
from spdist.planning.compiled import CompiledInstance
from spdist.transports.base import Record
from spdist.transports.payloads.payload import Payload
from tests.engine.fake_app import heard
from tests.program.interpreted_programs import programs
from tests.properties import test_run_laws
from tests.properties.test_sharding_laws import SPLIT, WHOLE, Result, by_key, fed, run

CHECKED = check(parse(WHOLE.text), catalog(), WHOLE.text)


@pytest.fixture(autouse=True)
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _handle: None)


class Phase:
    """One layout of shards, from its beginning to a clean end."""

    def __init__(self, directory: Path, count: int, at: Positions) -> None:
        self.assignment = replace(WHOLE, shards=count)
        self.stores = [StateStore(directory / str(number)) for number in range(count)]
        self.at = at

    def begin(self, states: list[bytes]) -> None:
        for number, state in enumerate(states):
            establish(self.stores[number], state, self.at, 0, f"rescaled {number}")

    def run(
        self, topics: dict[str, list[Record]], draw: random.Random, batches: int
    ) -> tuple[list[Record], list[bytes]]:
        count = len(self.stores)
        shards = [
            ShardSettings(self.assignment, number, count, store.open("me"), str(store.directory))
            for number, store in enumerate(self.stores)
        ]
        assert all(shard.opening.positions in ({}, self.at) for shard in shards)
        router = Router(shards)
        host = HostedShards(dict(enumerate(shards)), island_maker(1000, False), SnapshotPolicy(segments=3, pause=0))
        published: list[Record] = []
        for number in range(batches):
            batch: list[Record] = []
            for topic, records in topics.items():
                left = records[self.at[topic][0] :]
                taken = left[: draw.randrange(4)] if number < batches - 1 or draw.random() < 0.7 else left
                self.at[topic][0] += len(taken)
                batch += taken
            positions = {topic: dict(offsets) for topic, offsets in self.at.items()}
            outputs = host.process(number, router.route(batch), heard(positions))
            published += [output for output in outputs if isinstance(output, Record)]
        islands = [host._shards[number].island for number in range(count)]
        return published, [island.snapshot() for island in islands if island is not None]


def rescaled(seed: int, layouts: list[int], directory: Path) -> Result:
    draw, topics = random.Random(seed), fed(seed)
    at: Positions = {topic: {0: 0} for topic in topics}
    published: list[Record] = []
    states: list[bytes] = []
    for number, count in enumerate(layouts):
        phase = Phase(directory / str(number), count, at)
        if number:
            phase.begin(rescale(states, CHECKED, WHOLE, count))
        last = number == len(layouts) - 1
        more, states = phase.run(topics, draw, 200 if last else draw.randrange(1, 14))
        published += more
    assert all(at[topic][0] == len(records) for topic, records in topics.items())
    return by_key(published)


@pytest.mark.parametrize("seed", range(12))
def test_an_instance_that_is_rescaled_puts_out_the_same(seed: int, tmp_path: Path) -> None:
    whole = run(WHOLE, fed(seed), tmp_path / "whole", None)
    layouts = [[1, 3, 1], [3, 1, 2, 5, 1], [2, 3], [1, 1, 4, 3]][seed % 4]
    assert rescaled(seed, layouts, tmp_path) == whole


@pytest.mark.parametrize("window", ["length(3)", "time(500)"])
def test_a_state_that_a_program_has_is_split_as_others_are(window: str) -> None:
    query = f"from A#window.{window} select id, avg(v) as a, sum(v) as s insert into Out;"
    app = f"partition with (id of A) begin {query} end;"
    steps = [(1, 0, 1, b"\0", f"k{n * 7 % 30}", n) for n in range(1000)]
    sent = test_run_laws.records(steps, 400, "")
    plan = test_run_laws.assigned(app)
    islands = [build_island(plan, 100) for _ in range(2)]
    with programs():
        islands[0].process([Record("App.A", 0, b"", 0, "App-f-1", 0, 990), sent[0], sent[1]], 0)
    states = [islands[0].snapshot()]
    assert isinstance(islands[0].app, HostedApp)
    assert islands[0].app.programmed is not None
    assert islands[0].app.programmed.active
    for count in (3, 1):
        states = rescale(states, CompiledInstance.of(plan).checked, plan, count)
    islands[1].restore(states[0])
    shown = []
    for island in islands:
        outputs = [one for one in island.process([sent[2]], 0) if isinstance(one, Record) and one.value]
        payload = Payload(island.schemas["Out"])
        shown.append([payload.decode(one.value).rows for one in outputs])
    assert shown[0] == shown[1] != []


def test_keys_are_spread_over_the_shards(tmp_path: Path) -> None:
    phase = Phase(tmp_path / "one", 1, {topic: {0: 0} for topic in fed(1)})
    _, states = phase.run(fed(1), random.Random(1), 40)
    sizes = [len(state) for state in rescale(states, CHECKED, SPLIT, 3)]
    assert max(sizes) < len(states[0])
    (again,) = rescale(rescale(states, CHECKED, SPLIT, 3), CHECKED, WHOLE, 1)
    (once,) = rescale(states, CHECKED, WHOLE, 1)
    assert len(again) == len(once)


def test_shards_of_a_state_that_never_went_back_know_that(tmp_path: Path) -> None:
    phase = Phase(tmp_path / "one", 1, {topic: {0: 0} for topic in fed(1)})
    _, states = phase.run(fed(1), random.Random(1), 40)
    (never,) = (decode(state)["publisher"]["origin"] for state in states)
    split = rescale(states, CHECKED, SPLIT, 3)
    assert [decode(state)["publisher"]["origin"] for state in split] == [never] * 3
    back = decode(split[0])
    back["publisher"]["origin"] = {**never, "above": 7}
    (merged,) = rescale([encode(back), *split[1:]], CHECKED, WHOLE, 1)
    assert "origin" not in decode(merged)["publisher"]


def test_what_cannot_be_split_is_refused(tmp_path: Path) -> None:
    phase = Phase(tmp_path, 1, {topic: {0: 0} for topic in fed(1)})
    _, states = phase.run(fed(1), random.Random(1), 5)
    text = "define stream S (k string, v long); from S#window.length(2) select sum(v) as t insert into Out;"
    with pytest.raises(StateError, match="cannot be split"):
        rescale(states, check(parse(text), catalog(), text), WHOLE, 3)
    with pytest.raises(StateError, match="same key"):
        rescale([*states, *states], CHECKED, WHOLE, 3)
    with pytest.raises(StateError, match="no state"):
        rescale([b"nonsense"], CHECKED, WHOLE, 3)
    phase.stores[0].open("me")
    with pytest.raises(StateError, match="already"):
        establish(phase.stores[0], states[0], {}, 0, "me")
