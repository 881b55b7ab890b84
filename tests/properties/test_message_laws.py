"""Shards that read a user's Kafka topic give what one machine gives, however batches are cut, wherever they end."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spdist.engine.arrivals import Arrivals
from spdist.engine.local import run as run_locally
from spdist.engine.messages import mapped_topics
from spdist.engine.shard import SnapshotPolicy
from spdist.engine.shards import HostedShards, Router, ShardSettings, island_maker, lowest_positions
from spdist.engine.state import Positions, StateStore
from spdist.extension import catalog
from spdist.language.checker import check
from spdist.language.parser import parse
from spdist.language.types import Schema
from spdist.planning.topology import AssignedInput, Assignment
from spdist.planning.whole import whole
from spdist.transports.base import Record, Repeats
from spdist.transports.log import LogTransport
from spdist.transports.payload import Payload
from tests.engine.test_packing import wide

TOPIC = "App.S@0:orders"
BODY = """define stream S (k string, v long);
    @sink(type='embedded', topic='App.Out') define stream Out (k string, v long);
    partition with (k of S) begin
        from S#window.time(50 millisec) select k, sum(v) as v insert all events into Out;
    end;"""
TEXT = f"""@app:name('App') @app:playback
    @source(type='kafka', bootstrap.servers='nowhere:1', topic.list='orders', @map(type='json')) {BODY}"""
OUT = Schema.of([("k", "string"), ("v", "long")])


@pytest.fixture(autouse=True)
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _handle: None)


def assigned(shards: int) -> Assignment:
    made = whole(check(parse(TEXT), catalog(), TEXT), TEXT, shards)
    users = AssignedInput("S", TOPIC, (0,), transport="kafka", into="App.S")
    return replace(made, inputs=(*made.inputs, users))


def sent(draw: random.Random) -> list[tuple[int, tuple[str, int]]]:
    now, found = 1_700_000_000_000, []
    for _ in range(120):
        now += draw.choice([0, 0, 1, 7, 30])
        found.append((now, (draw.choice("abcdef"), draw.randrange(50))))
    return found


class Killed(BaseException):
    """The process is gone."""


def ran(shards: int, events: list[Any], directory: Path, draw: random.Random, kills: int) -> dict[str, list[Any]]:
    """Run to the end over any batches, the shards killed at different segments so often; the results by key."""
    assignment, published = assigned(shards), []  # type: Assignment, list[Record]
    rows = [
        (0, offset, at, json.dumps({"event": dict(zip("kv", row, strict=True))}).encode())
        for offset, (at, row) in enumerate(events)
    ]
    for attempt in range(kills + 1):
        settings = tuple(
            ShardSettings(
                assignment, n, shards, StateStore(directory / str(n)).open(f"start {attempt}"), str(directory / str(n))
            )
            for n in range(shards)
        )
        mapped = mapped_topics([assignment], {TOPIC: "orders"}, LogTransport(directory / "topics"))
        router, at = Router(settings), lowest_positions(settings, kafka=True)[TOPIC][0]
        hosts = [
            HostedShards({n: one}, island_maker(1000, False), SnapshotPolicy(segments=3))
            for n, one in enumerate(settings)
        ]
        outputs: list[Record] = []
        number = 0
        try:
            while at < len(rows) or not number:
                end = at + draw.randrange(1, 40)
                arrivals = Arrivals(mapped)
                batches = [wide(rows[at:end][begin : begin + 7]) for begin in range(0, len(rows[at:end]), 7)]
                routed = list(router.route(arrivals.records(batches)))
                outputs = []
                for shard, host in enumerate(hosts):
                    if attempt < kills and draw.random() < 0.15:
                        raise Killed
                    positions: Positions = {topic: dict(offsets) for topic, offsets in arrivals.positions.items()}
                    own = [(n, record) for n, record in routed if n == shard]
                    made = host.process(number, 0, positions, own)
                    outputs += [one for one in made if isinstance(one, Record)]
                published += outputs
                at, number = min(end, len(rows)), number + 1
        except Killed:
            published += outputs[: draw.randrange(len(outputs) + 1)]
    repeats, found = Repeats(), {}  # type: Repeats, dict[str, list[Any]]
    for record in published:
        skip = repeats.fresh(record)
        if skip < record.count:
            for _, _, _, _, ts, row in Payload(OUT).decode(record.value, skip):
                found.setdefault(row[0], []).append((ts, row))
    return found


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_shards_killed_at_different_segments_give_what_one_machine_gives(
    seed: int, shards: int, tmp_path: Path
) -> None:
    draw = random.Random(seed)
    events = sent(draw)
    expected: dict[str, list[Any]] = {}
    for ts, row in run_locally(f"@app:playback {BODY}", {"S": events})["Out"]:
        expected.setdefault(row[0], []).append((ts, row))
    assert ran(shards, events, tmp_path, draw, kills=6) == expected
