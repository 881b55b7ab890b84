"""Shards that read a user's Kafka topic give what one machine gives, however batches are cut, wherever they end."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from spdist.engine.island.user_topics import mapped_topics
from spdist.engine.local.app import run as run_locally
from spdist.engine.shards.shard import Shard, SnapshotPolicy
from spdist.engine.shards.shards import HostedShards, ReadBatch, Router, ShardSettings, island_maker, lowest_positions
from spdist.engine.shards.state import Positions, StateStore
from spdist.engine.spark.tasks import Arrivals
from spdist.errors import EngineError, FencedError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema
from spdist.planning.standalone import standalone_assignment
from spdist.planning.topology import AssignedInput, Assignment
from spdist.transports.base import Record, Repeats
from spdist.transports.log import LogTransport
from spdist.transports.payloads.payload import Payload
from tests.engine.fake_app import heard
from tests.engine.fetched_topic import FetchedTopic, Message
from tests.engine.test_intake import NOW

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
    made = standalone_assignment(check(parse(TEXT), catalog(), TEXT), TEXT, shards)
    users = AssignedInput("S", TOPIC, (0,), transport="kafka", into="App.S")
    return replace(made, inputs=(*made.inputs, users))


def sent(draw: random.Random) -> list[tuple[int, tuple[str, int]]]:
    now, found = 1_700_000_000_000, []
    for _ in range(300):
        now += draw.choice([0, 0, 1, 7, 30])
        found.append((now, (draw.choice("abcdef"), draw.randrange(50))))
    return found


#: What may happen to a shard while it reads a batch.
FATES = (*[None] * 9, "killed", "lost", "lost", "overtaken", "overtaken")


class Killed(BaseException):
    """The process is gone."""


#: What may happen to it while it waits until what it has put out before is sent.
FATES_OF_SENDING = (None, None, None, None, Killed, ConnectionError, ConnectionError, ConnectionError)


def interrupted(
    own: list[tuple[int, Record]], fate: str | None, overtake: Callable[[], object]
) -> Iterator[tuple[int, Record]]:
    """Yield what a shard reads; half way it is killed, or what comes then is lost, or another process is faster."""
    for place, one in enumerate(own):
        if place == len(own) // 2:
            if fate == "killed":
                raise Killed
            if fate == "lost":
                raise ConnectionError("nothing more comes")
            if fate == "overtaken":
                overtake()
        yield one


class Sending:
    """What a process has put out in its last batch, and publishes while the next one runs."""

    def __init__(self, published: list[Record], draw: random.Random) -> None:
        self._published, self._draw = published, draw
        self._left: list[Record] = []
        #: What may happen to the next wait.
        self.fates: tuple[type[BaseException] | None, ...] = (None,)

    def begin(self, outputs: list[Any]) -> None:
        self._left = [one for one in outputs if isinstance(one, Record)]

    def is_over(self) -> bool:
        if self._left and self._draw.random() < 0.3:
            self._send(len(self._left))
        return not self._left

    def end(self) -> None:
        fate = self._draw.choice(self.fates) if self._left else None
        if fate is not None:
            self.cut_off()
            raise fate
        self._send(len(self._left))

    def cut_off(self) -> None:
        """Publish some, and forget the rest."""
        self._send(self._draw.randrange(len(self._left) + 1))
        self._left = []

    def _send(self, count: int) -> None:
        self._published += self._left[:count]
        del self._left[:count]


class Process:
    """One that hosts a shard."""

    def __init__(self, host: HostedShards, sending: Sending) -> None:
        self.host, self.sending = host, sending

    def run(self, number: int, known: ReadBatch, reading: Iterable[tuple[int, Record]]) -> None:
        self.sending.begin(self.host.process(number, reading, known, self.sending))


def ran(shards: int, events: list[Any], directory: Path, draw: random.Random, kills: int) -> dict[str, list[Any]]:
    """Run to the end over any batches, the shards killed at different segments so often; the results by key."""
    assignment, published = assigned(shards), []  # type: Assignment, list[Record]
    rows: list[Message] = [
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
        # Two processes for each shard, as Spark may move what one of them runs to the other.
        islands, policy = island_maker(1000, False), SnapshotPolicy(segments=3, pause=0)
        hosts = [
            [Process(HostedShards({n: one}, islands, policy), Sending(published, draw)) for _ in range(2)]
            for n, one in enumerate(settings)
        ]
        number = 0
        try:
            while at < len(rows) or not number:
                end = at + draw.randrange(1, 30)
                topic = FetchedTopic(TOPIC, rows[at:end])
                arrivals = Arrivals(mapped, topic)
                parts = [rows[begin : min(begin + 7, end)] for begin in range(at, min(end, len(rows)), 7)]
                batches = [topic.ranges(part, NOW) for part in parts]
                routed = list(router.route(arrivals.records(batches)))
                positions: Positions = {topic: dict(offsets) for topic, offsets in arrivals.positions.items()}
                for shard, host in enumerate(hosts):
                    own = [(n, record) for n, record in routed if n == shard]
                    here, there = draw.sample(host, 2)
                    fate = draw.choice(FATES) if attempt < kills else None
                    known = heard(positions)
                    overtake = functools.partial(there.run, number, known, own)
                    for process in host:
                        process.sending.fates = FATES_OF_SENDING if attempt < kills else (None,)
                    try:
                        here.run(number, known, interrupted(own, fate, overtake))
                    except (ConnectionError, EngineError):  # the other one's bears its shard's name
                        for process in host:
                            process.sending.fates = (None,)
                        draw.choice(host).run(number, known, own)
                at, number = min(end, len(rows)), number + 1
        except Killed:
            for process in chain.from_iterable(hosts):
                process.sending.cut_off()
        else:
            for process in chain.from_iterable(hosts):
                process.sending.fates = (None,)
                process.sending.end()
    repeats, found = Repeats(), {}  # type: Repeats, dict[str, list[Any]]
    for record in published:
        skip = repeats.fresh(record)
        if skip < record.count:
            for _, _, _, _, ts, row in Payload(OUT).decode(record.value, skip):
                found.setdefault(row[0], []).append((ts, row))
    return found


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("seed", range(12))
def test_shards_killed_at_different_segments_give_what_one_machine_gives(
    seed: int, shards: int, tmp_path: Path
) -> None:
    draw = random.Random(seed)
    events = sent(draw)
    expected: dict[str, list[Any]] = {}
    for ts, row in run_locally(f"@app:playback {BODY}", {"S": events})["Out"]:
        expected.setdefault(row[0], []).append((ts, row))
    assert ran(shards, events, tmp_path, draw, kills=12) == expected


def test_events_are_processed_before_their_batch_is_whole_and_leave_when_it_is_durable(tmp_path: Path) -> None:
    assignment = assigned(1)
    store = StateStore(tmp_path / "0")
    settings = ShardSettings(assignment, 0, 1, store.open("me"), str(store.directory))
    shard = Shard(store, settings.opening, lambda: island_maker(1000, False)(settings), messages=frozenset({TOPIC}))
    mapped = mapped_topics([assignment], {TOPIC: "orders"}, LogTransport(tmp_path / "topics"))
    messages: list[Message] = [(0, offset, 1000 + offset, b'{"event":{"k":"a","v":1}}') for offset in range(3)]
    topic = FetchedTopic(TOPIC, messages)
    first, second, third = (
        record for one in messages for record in Arrivals(mapped, topic).records([topic.ranges([one], NOW)])
    )
    shard.process(0, [first], 0, {TOPIC: {0: 1}})
    island = shard.island
    assert island is not None
    shard.begin(1)
    shard.add(second)
    assert island.events_in == 2
    assert shard.island is None  # it is ahead of what is stored
    assert not store.path("segment", 3).exists()
    outputs = [one for one in shard.finish(0, {TOPIC: {0: 2}}) if isinstance(one, Record) and one.count]
    assert store.path("segment", 3).exists()
    assert [list(Payload(OUT).decode(one.value).rows) for one in outputs] == [[("a", 2)]]
    shard.begin(2)
    shard.add(third)
    StateStore(tmp_path / "0").open("another")
    with pytest.raises(FencedError):
        shard.finish(0, {TOPIC: {0: 3}})
