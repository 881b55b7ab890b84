"""The way of an event, as docs/architecture/lives.md tells it: what runs for a batch from Kafka to Kafka is listed."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from spdist.connectors.kafka.sink import KafkaWriter
from spdist.engine.programs import programmed
from spdist.engine.shards.shards import ShardSettings
from spdist.engine.shards.state import StateStore
from spdist.engine.spark import tasks
from spdist.engine.spark.query import QuerySettings
from spdist.engine.spark.source import LogReader
from spdist.language.parsing.parser import parse
from spdist.planning.groups import plan
from spdist.planning.topology import AssignedInput
from spdist.program.machine.compiler import Compiled, interpreted
from spdist.program.parts import Program
from spdist.transports.kafka.fetching import KafkaFetcher
from spdist.transports.kafka.options import KafkaInput, KafkaSettings
from spdist.transports.log import LogTransport
from tests.transports.kafka_batches import batch

ROOT = Path(__file__).parents[2]
APP = """
@app:name('App') @app:playback
@source(type='kafka', topic.list='in', bootstrap.servers='127.0.0.1:1', group.id='g', @map(type='json'))
define stream S (symbol string, price double);
@sink(type='kafka', topic='out', bootstrap.servers='127.0.0.1:1', @map(type='json'))
define stream Out (symbol string, price double);
from S#window.length(100) select symbol, avg(price) as price group by symbol insert into Out;
"""
COUNT = 1000
#: So many files are enough for the way of an event to a sink through a program; what goes to other groups has one more.
MOST_FILES = 25
BETWEEN_GROUPS = "engine/island/publish"
#: The rooms on the way, of which all that runs is listed, but for these: no event passes through them.
ROOMS = ("engine/", "mapping/", "connectors/", "transports/", "program/")
ASKED = {
    "transports/kafka/options",
    *(f"engine/{one}" for one in ("island/cuts", "shards/memory", "shards/places")),
    *(f"engine/local/{one}" for one in ("app", "app_context", "elements", "idle", "rows")),
    *(f"engine/spark/{one}" for one in ("carried", "query", "stalls", "stopping")),
    *(f"program/{one}" for one in ("machine/compiler", "parts", "running/forgetting", "states/state", "states/table")),
    *("engine/programs/state", "mapping/kernels", "program/states/partition", "program/states/processor"),
    "program/windows/kinds",
    # Compiled, behind `json_kernels`, as `program/machine/` is behind a program's loop.
    "mapping/json_writing",
    *("program/read_shape", "transports/log", "transports/rejects", "transports/whole_files"),
    BETWEEN_GROUPS,
}


class Producer:
    """A client of a broker that takes everything."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def partitions_for(self, _topic: str) -> set[int]:
        return {0}

    async def send_batch(self, records: Any, _topic: str, partition: int) -> asyncio.Future[None]:
        self.sent.append((partition, records))
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def stop(self) -> None:
        pass


def listed(by_operators: bool = True) -> set[str]:
    """The modules that the table names, as paths below `spdist/`; those of operators only where they are wanted."""
    text = (ROOT / "docs/architecture/lives.md").read_text(encoding="utf-8").partition("### From Kafka to Kafka")[2]
    lines = [line.split("|") for line in text.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    rows = [files for _, step, files, *_ in lines if by_operators or "by operators" not in step]
    found = set()
    for first, *others in (group.split() for row in rows for group in re.findall("`([^`]+)`", row)):
        folder = first.rpartition("/")[0]
        found |= {first, *(f"{folder}/{one}" for one in others)}
    return found


def messages(start: int) -> bytes:
    """Messages as a broker sends them."""
    numbers = range(start, start + COUNT)
    events = [{"symbol": f"S{n % 10}", "price": n / 7 + 1} for n in numbers]
    values = [json.dumps({"event": one}).encode() for one in events]
    return batch(start, [(1000 + n, None, value, []) for n, value in zip(numbers, values, strict=True)])


async def asked(_fetcher: KafkaFetcher, _place: object, offset: int) -> tuple[bytes, list[tuple[int, int]]]:
    """What a broker answers."""
    return messages(offset), []


def settings(place: Path) -> QuerySettings:
    topology = plan(parse(APP))
    (assignment,) = topology.assignments()
    log = LogTransport(place / "log")
    for topic in topology.topics:
        log.ensure(topic.name, topic.partitions)
    log.close()
    (into,) = assignment.inputs
    users = AssignedInput("S", f"{into.topic}@0:in", (0,), transport="kafka", into=into.topic)
    assignment = replace(assignment, inputs=(into, users))
    shard = ShardSettings(assignment, 0, 1, StateStore(place / "state").open("me"), str(place / "state"))
    kafka = {users.topic: KafkaInput(KafkaSettings("127.0.0.1:1"), "in", users=True)}
    (place / "query").mkdir()
    stop = str(place / "query" / "stop")
    return QuerySettings("App", (shard,), str(place / "log"), stop, str(place), 0, 100, 50_000, kafka=kafka)


def traced(query: QuerySettings, monkeypatch: pytest.MonkeyPatch, starts: Sequence[int]) -> set[str]:
    """The modules of which something runs in the batches behind the first two."""
    seen: set[str] = set()
    (topic,) = query.kafka
    reader = LogReader(query.source(), LogTransport(Path(query.topics)))
    watching = threading.Event()

    def watch(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and watching.is_set():
            seen.add(frame.f_code.co_filename)

    before = sys.getprofile()
    threading.setprofile(watch)  # of the threads that read ahead, and that send
    sys.setprofile(watch)
    try:
        for number, start in enumerate(starts):
            monkeypatch.setattr(tasks, "_task", lambda n=number: SimpleNamespace(getLocalProperty=lambda _: str(n)))
            offsets = ({"kafka": {topic: {"0": at}}, "topics": {}, "tick": 1000 + at} for at in (start, start + COUNT))
            list(tasks.run_batch(query, reader.readBetweenOffsets(*offsets)))
            if number:  # in the second one a program takes over
                watching.set()
    finally:
        sys.setprofile(before)
        threading.setprofile(before)
    own = f"{ROOT / 'spdist'}/"
    return {file.removeprefix(own).removesuffix(".py") for file in seen if file.startswith(own)}


class Interpreted:
    """A program that is there when it is asked for; Python executes its text."""

    def __init__(self, program: Program) -> None:
        self.done = interpreted(program)

    def start(self) -> None:
        pass

    def ready(self) -> Compiled:
        return self.done

    loaded = ready


def test_so_many_files_are_to_be_read() -> None:
    assert len(listed(by_operators=False) - {BETWEEN_GROUPS}) <= MOST_FILES


@pytest.mark.parametrize("by_program", [False, True], ids=["operators", "program"])
def test_what_runs_for_an_event_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_program: bool) -> None:
    monkeypatch.setenv("SPDIST_COMPILE_AFTER", "0" if by_program else "never")
    monkeypatch.setattr(programmed, "Compiling", Interpreted)
    producer = Producer()

    async def connected(_writer: KafkaWriter) -> Producer:
        return producer

    monkeypatch.setattr(KafkaWriter, "_connected", connected)
    monkeypatch.setattr(KafkaFetcher, "_asked", asked)
    query = settings(tmp_path)
    try:
        ran = traced(query, monkeypatch, range(0, 4 * COUNT, COUNT))
    finally:
        tasks._KEPT.pop(query.checkpoint).close()
        gc.unfreeze()
    assert len(producer.sent) == 4
    assert ("program/running/running" in ran) is by_program
    known, passed = listed(), {one for one in ran if one.startswith(ROOMS)}
    assert sorted(passed - known - ASKED) == []
    assert not known & (ASKED - {BETWEEN_GROUPS})
    assert all((ROOT / "spdist" / f"{one}.py").exists() or (ROOT / "spdist" / one).is_dir() for one in known)
