"""Running group instances are asked: commands and answers are topics, and a question never stops or moves anything."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spdist.engine.island.hosted import build_island
from spdist.engine.spark.session import SparkHost
from spdist.errors import TransportError
from spdist.language.types import Schema
from spdist.mapping.columns import Events
from spdist.planning.topology import AssignedInput, AssignedOutput, Assignment, Publishing, Strategy
from spdist.runtime.command_topics import commanded
from spdist.runtime.group import GroupRuntime
from spdist.transports.base import NO_CLOCK, Record
from spdist.transports.commands import ANSWERS, SCHEMAS, ask, text_row
from spdist.transports.feed import Feed, read_events
from spdist.transports.log import LogTransport
from spdist.transports.payloads.payload import Payload
from tests.engine.memory_transport import MemoryTransport
from tests.runtime.host_settings import settings_in
from tests.runtime.shared_spark import SHARED_SPARK

Eventually = Callable[..., object]

TEXT = """@app:name('App') define stream S (v int); define table T (v int);
    from S insert into T; from S select v * 2 as v insert into Out;"""
SCHEMA = Schema.of([("v", "int")])
OUT = AssignedOutput("Out", (Publishing(Strategy.ALL, 1, "App.Out", 1),))
ASSIGNMENT = Assignment("App-1", "App", "App", TEXT, True, (AssignedInput("S", "App.S", (0,)),), (OUT,))


def fed(*events: tuple[int, int], seq: int = 0, clock: int = NO_CLOCK) -> Record:
    payload = Payload(SCHEMA).encode(Events.of([(ts, (v,)) for ts, v in events], seq))
    return Record("App.S", 0, payload, len(events), "feed", seq, clock)


def asked(*commands: Any) -> Record:
    rows = [(0, text_row(command)) for command in commands]
    return Record("App-1.commands", 0, Payload(SCHEMAS[ANSWERS]).encode(Events.of(rows)), len(rows))


def answers(records: list[Any]) -> list[Any]:
    found = (r for r in records if isinstance(r, Record) and r.topic == "App-1.answers" and r.count)
    return [json.loads(row[0]) for r in found for row in Payload(SCHEMAS[ANSWERS]).decode(r.value).rows]


def test_only_what_keeps_something_takes_commands() -> None:
    made = commanded(ASSIGNMENT)
    assert [one.topic for one in made.inputs] == ["App.S", "App-1.commands"]
    assert made.outputs[0] == OUT
    stateless = Assignment("App-1", "App", "App", "define stream S (v int); from S insert into Out;", True, (), ())
    assert commanded(stateless) is stateless


def test_questions_are_answered_after_the_batch_they_come_in_and_hold_up_nothing() -> None:
    island = build_island(commanded(ASSIGNMENT), 0)
    query = {"id": 1, "query": "from T select v"}
    (early,) = answers(island.process([asked(query)], 0))
    assert early == {"id": 1, "rows": [], "schema": [["v", "int"]]}
    records = island.process([asked(query, {"id": 2, "query": "from X select v"}, {"id": 3}, []), fed((10, 7))], 0)
    # The event is put out at once, as without the topic of commands.
    assert [r.count for r in records if isinstance(r, Record) and r.topic == "App.Out"] == [0, 1]
    first, *wrong = answers(records)
    assert first["rows"] == [[7]]
    assert [one["id"] for one in wrong] == [2, 3, None]
    assert all("error" in one for one in wrong)
    again = build_island(commanded(ASSIGNMENT), 0)
    again.restore(island.snapshot())
    delete = {"id": 4, "query": "delete T on T.v == 7"}
    assert [one["rows"] for one in answers(again.process([asked(delete, query)], 0))] == [[], []]


def test_who_asks_gets_the_answer_to_the_own_question() -> None:
    transport = MemoryTransport()
    with pytest.raises(TransportError, match="takes no questions"):
        ask(transport, "App-1", "from T select v")
    for topic in ("App-1.commands", "App-1.answers"):
        transport.ensure(topic, 1)
    island = build_island(commanded(ASSIGNMENT), 0)
    island.process([fed((10, 7))], 0)
    with pytest.raises(TransportError, match="did not answer"):
        ask(transport, "App-1", "from T select v", timeout_s=0.01)
    stop = threading.Event()

    def serve() -> None:
        offset = 0
        while not stop.wait(0.005):
            records = transport.read("App-1.commands", 0, offset)
            offset += len(records)
            transport.append([r for r in island.process(records, 0) if isinstance(r, Record)])

    server = threading.Thread(target=serve)
    server.start()
    try:
        assert ask(transport, "App-1", "from T select v * 2 as w") == {"rows": [[14]], "schema": [["w", "int"]]}
        assert ask(transport, "App-1", "from T select nothing")["error"]["category"] == "on_demand_creation"
    finally:
        stop.set()
        server.join()


@pytest.fixture
def host(tmp_path: Path) -> SparkHost:
    return SHARED_SPARK.host(settings_in(tmp_path))


@pytest.mark.spark
@pytest.mark.slow
def test_a_group_on_spark_is_asked_while_it_runs(host: SparkHost, eventually: Eventually) -> None:
    log = LogTransport(host.log_directory)
    log.ensure("App.S", 1)
    group = GroupRuntime(commanded(ASSIGNMENT), host, "worker-1")
    group.start()
    try:
        assert group.wait(60), group.status()
        Feed(log, "App.S", SCHEMA).send([(1000 + n, (n,)) for n in range(100)])
        eventually(lambda: len(read_events(log, "App.Out", SCHEMA)) == 100, "all events are processed", 60)
        assert ask(log, "App-1", "from T select count() as n")["rows"] == [[100]]
        assert ask(log, "App-1", "delete T on T.v < 40")["rows"] == []
        assert ask(log, "App-1", "from T select count() as n")["rows"] == [[60]]
    finally:
        group.kill()
    again = GroupRuntime(commanded(ASSIGNMENT), host, "worker-1")
    again.start()
    try:
        assert again.wait(60), again.status()
        assert ask(log, "App-1", "from T select count() as n")["rows"] == [[60]]
        assert len(read_events(log, "App.Out", SCHEMA)) == 100
    finally:
        again.kill()
