"""An app split by key puts out what it puts out whole: the same events, for each key in the same order.

However batches are cut, wherever its shards are killed, and whatever repeats itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spdist.engine.shards.shard import SnapshotPolicy
from spdist.engine.shards.shards import HostedShards, Router, ShardSettings, island_maker, lowest_positions
from spdist.engine.shards.splitting import Splitter, shard_of
from spdist.engine.shards.state import Positions, StateStore
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema
from spdist.mapping.columns import Events
from spdist.planning.groups import plan
from spdist.planning.topology import Assignment
from spdist.transports.base import Record, Repeats
from spdist.transports.payloads.payload import Payload
from tests.engine.fake_app import heard

TEXT = """@app:name('App') @app:playback
define stream S (k string, v long); define stream R (id string, w long);
@dist(execGroup='g') from S[v % 7 != 3] select k, v + 1 as v insert into M;
@dist(execGroup='g') partition with (k of M, id of R) begin
    from M#window.time(50 millisec) select k, sum(v) as total, count() as n insert all events into Sums;
    from every e1=M -> e2=R[w > e1.v] select e1.k as k, e1.v as v, e2.w as w insert into Pairs;
    from every e1=M -> not M for 40 millisec select e1.k as k, e1.v as v insert into Quiet;
end;
@dist(execGroup='g') partition with (k of Sums) begin
    from Sums#window.lengthBatch(3) select k, max(total) as top insert into Tops;
end;
@dist(execGroup='end') from Sums select * insert into E1;
@dist(execGroup='end') from Pairs select * insert into E2;
@dist(execGroup='end') from Quiet select * insert into E3;
@dist(execGroup='end') from Tops select * insert into E4;
"""
IN = {"App.S": Schema.of([("k", "string"), ("v", "long")]), "App.R.id": Schema.of([("id", "string"), ("w", "long")])}
PLAN = plan(parse(TEXT), shards=3)
SPLIT = PLAN.assignments()[0]
WHOLE = replace(SPLIT, shards=1)
SCHEMAS = {
    "App.Sums.k": Schema.of([("k", "string"), ("total", "long"), ("n", "long")]),
    "App.Pairs": Schema.of([("k", "string"), ("v", "long"), ("w", "long")]),
    "App.Quiet": Schema.of([("k", "string"), ("v", "long")]),
    "App.Tops": Schema.of([("k", "string"), ("top", "long")]),
}
Result = dict[str, dict[str, list[Any]]]


@pytest.fixture(autouse=True)
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _handle: None)


def fed(seed: int) -> dict[str, list[Record]]:
    """Records of two feeds, some of them sent twice in other cuts; each ends with a promise."""
    draw = random.Random(seed)
    topics: dict[str, list[Record]] = {}
    for topic, schema in IN.items():
        now, events = 1000, []
        for _ in range(60):
            now += draw.choice([0, 1, 5, 20])
            key = draw.choice(["a", "b", "c", "d", "é", None])
            events.append((now, (key, draw.randrange(50))))
        whole = Events.of(events)
        records: list[Record] = []
        at = 0
        while at < len(whole):
            begin = max(0, at - draw.randrange(4)) if draw.random() < 0.3 else at
            end = min(len(whole), at + draw.randrange(1, 9))
            value = Payload(schema).encode(whole.part(begin, end))
            records.append(Record(topic, 0, value, end - begin, "feed", begin, int(whole.at[end - 1]), len(records)))
            at = end
        records.append(Record(topic, 0, b"", 0, "feed", at, 5000, len(records)))
        topics[topic] = records
    return topics


class Killed(BaseException):
    """The process is gone."""


def start(assignment: Assignment, directory: Path, owner: str) -> tuple[ShardSettings, ...]:
    places = [directory / str(index) for index in range(assignment.shards)]
    return tuple(
        ShardSettings(assignment, index, assignment.shards, StateStore(place).open(owner), str(place))
        for index, place in enumerate(places)
    )


def batches(at: Positions, topics: dict[str, list[Record]], draw: random.Random | None) -> Iterator[list[Record]]:
    """Cut what is left into batches, moving `at` to the end of each."""
    while any(at[topic][0] < len(records) for topic, records in topics.items()):
        batch: list[Record] = []
        for topic, records in topics.items():
            taken = records[at[topic][0] :][: draw.randrange(4) if draw else len(records)]
            at[topic][0] += len(taken)
            batch += taken
        yield batch


def run(assignment: Assignment, topics: dict[str, list[Record]], directory: Path, draw: random.Random | None) -> Result:
    """Run to the end; with `draw` in batches of any size, killed now and then with the shards at any segment."""
    published: list[Record] = []
    for attempt in range(100):
        shards = start(assignment, directory, f"start {attempt}")
        router, at = Router(shards), lowest_positions(shards)
        hosts = [
            HostedShards({number: one}, island_maker(1000, False), SnapshotPolicy(segments=3, pause=0))
            for number, one in enumerate(shards)
        ]
        kills = draw is not None and attempt < 6
        try:
            for number, batch in enumerate(batches(at, topics, draw)):
                routed = list(router.route(batch))
                outputs: list[Record] = []
                for shard, host in enumerate(hosts):
                    if kills and draw and draw.random() < 0.1:
                        raise Killed
                    own = [(n, record) for n, record in routed if n == shard]
                    positions = {topic: dict(offsets) for topic, offsets in at.items()}
                    outputs += [o for o in host.process(number, own, heard(positions)) if isinstance(o, Record)]
                published += outputs
        except Killed:
            # Those that came so far have published a part.
            published += outputs[: draw.randrange(len(outputs) + 1)] if draw else []
        else:
            return by_key(published)
    raise AssertionError("never finished")


def by_key(published: list[Record]) -> Result:
    """Events by topic and key, in order, as a reader that drops repeats sees them."""
    repeats, found = Repeats(), {topic: {} for topic in SCHEMAS}  # type: Repeats, Result
    for record in published:
        skip = repeats.fresh(record)
        if skip < record.count:
            for at, _, _, _, ts, row in Payload(SCHEMAS[record.topic]).decode(record.value, skip):
                found[record.topic].setdefault(row[0], []).append((at, ts, row))
    return found


def test_the_app_is_split_and_puts_out_enough_to_compare(tmp_path: Path) -> None:
    assert SPLIT.shards == 3
    whole = run(WHOLE, fed(1), tmp_path, None)
    assert all(sum(map(len, keys.values())) > 3 for keys in whole.values()), whole


@pytest.mark.parametrize("seed", range(8))
def test_three_shards_give_what_one_gives(seed: int, tmp_path: Path) -> None:
    topics = fed(seed)
    whole = run(WHOLE, topics, tmp_path / "whole", None)
    assert run(SPLIT, topics, tmp_path / "split", None) == whole
    assert run(SPLIT, topics, tmp_path / "killed", random.Random(seed)) == whole


def test_a_share_keeps_ids_and_drops_repeats_as_the_whole_does() -> None:
    schema = IN["App.S"]
    events = Events.of([(n, (f"k{n}", n)) for n in range(20)])
    whole = Record("App.S", 0, Payload(schema).encode(events), 20, "feed", 100, 19, 7)
    parts = Splitter(schema, "k", 3).split(whole)
    assert {(p.count, p.seq, p.clock, p.offset, p.producer) for p in parts} == {(20, 100, 19, 7, "feed")}
    rows = [Payload(schema).decode(part.value, 6).rows for part in parts]
    assert sorted(row[1] for share in rows for row in share) == list(range(6, 20))
    for shard, share in enumerate(rows):
        assert all(shard_of(row[0], 3) == shard for row in share)


def test_what_has_no_key_is_spread_by_its_ids() -> None:
    schema = IN["App.S"]
    events = Events.of([(n, ("k", n)) for n in range(9)])
    splitter = Splitter(schema, None, 3)

    def owners(begin: int, end: int) -> dict[int, int]:
        value = Payload(schema).encode(events.part(begin, end))
        parts = splitter.split(Record("App.S", 0, value, end - begin, "feed", begin))
        return {row[1]: shard for shard, p in enumerate(parts) for row in Payload(schema).decode(p.value).rows}

    assert sorted(owners(0, 9).values()) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert owners(2, 6).items() <= owners(0, 9).items()


def test_what_is_no_payload_goes_to_one_shard_that_says_so() -> None:
    first, *others = Splitter(IN["App.S"], "k", 3).split(Record("App.S", 0, b"nonsense", 2, "", 0, 5))
    assert first.value == b"nonsense"
    assert {part.value for part in others} == {b""}
