"""Sources and sinks of apps in one process."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from spdist.engine.local.app import LocalApp
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.transports.in_memory import InMemoryBroker

SENDER = "@sink(type='inMemory', topic='bills', @map(type='json')) define stream B (card string, n int);"
READER = "@source(type='inMemory', topic='bills', @map(type='json')) define stream I (card string, n int);"


def made(text: str, broker: InMemoryBroker | None = None) -> LocalApp:
    return LocalApp(check(parse(text), catalog(), text), broker=broker)


def watched(app: LocalApp, stream: str) -> list[Any]:
    seen: list[Any] = []
    app.subscribe(stream, lambda _, row: seen.append(row))
    return seen


def test_apps_hear_each_other_through_the_broker_they_share() -> None:
    broker = InMemoryBroker()
    sender, reader = made(SENDER, broker), made(READER, broker)
    seen = watched(reader, "I")
    reader.start(0)
    sender.send("B", 1000, ("c1", 7))
    assert seen == [("c1", 7)]
    reader.stop()
    reader.stop()
    sender.send("B", 2000, ("c2", 8))
    assert seen == [("c1", 7)]


def test_apps_without_a_common_broker_do_not() -> None:
    sender, reader = made(SENDER), made(READER)
    seen = watched(reader, "I")
    reader.start(0)
    sender.send("B", 1000, ("c1", 7))
    assert seen == []


def test_payloads_come_from_outside_with_properties() -> None:
    app = made(
        "@source(type='inMemory', topic='t', @map(type='json', @attributes(card='$.c', n='trp:size')))"
        "define stream I (card string, n int);"
    )
    seen = watched(app, "I")
    app.start(0)
    app.broker.publish("t", '{"c": "x"}', {"size": "5"})
    app.broker.publish("t", b'{"c": "y"}', {"size": 6})
    app.broker.publish("t", '{"c": "z"}')
    assert seen == [("x", 5), ("y", 6)]
    assert app.failures.count == 1


def test_a_source_hears_again_where_its_app_goes_on() -> None:
    first = made(READER)
    first.start(0)
    other = made(READER)
    other.restore(first.snapshot())
    seen = watched(other, "I")
    other.broker.publish("bills", '{"card": "x", "n": 1}')
    assert seen == [("x", 1)]


def test_the_state_of_sinks_goes_on() -> None:
    text = """@sink(type='inMemory', @map(type='csv', header='true'), @distribution(strategy='roundRobin',
        @destination(topic='a'), @destination(topic='b'))) define stream B (k string);"""
    first, other = made(text), made(text)
    got: list[tuple[str, Any]] = []
    for app in (first, other):
        for topic in ("a", "b"):
            app.broker.subscribe(topic, lambda payload, _, topic=topic: got.append((topic, payload)))  # type: ignore[misc]
    first.send("B", 1, ("x",))
    other.restore(first.snapshot())
    other.send("B", 2, ("y",))
    assert got == [("a", "k\nx"), ("b", "y")]


def test_what_cannot_be_sent_or_read_can_be_stored() -> None:
    app = made(
        """@sink(type='inMemory', topic='t', on.error='STORE', @map(type='json', validate.json='true', @payload('{')))
        define stream B (k string);
        @source(type='inMemory', topic='u', on.error='store', @map(type='json')) define stream I (k string);"""
    )
    app.send("B", 1, ("x",))
    app.broker.publish("u", "no json")
    sink, source = app.errors.entries()
    assert (sink.origin, sink.stream, sink.events) == ("sink", "B", ((1, ("x",)),))
    assert (source.origin, source.stream, source.payload) == ("source", "I", "no json")
    assert app.failures.count == 0


def event(timestamp: int, value: str) -> str:
    return f"Event{{timestamp={timestamp}, data=['{value}'], isExpired=false}}"


def test_the_log_sink_writes_lines(caplog: pytest.LogCaptureFixture) -> None:
    app = made(
        """@app:name('A') @sink(type='log') @sink(type='log', priority='warn', prefix='P', @map(type='json'))
        @sink(type='log', priority='off') define stream B (k string);"""
    )
    with caplog.at_level(logging.INFO, logger="spdist.events"):
        app.send("B", 1, ("x",))
        app.send_chunk("B", [(2, ("y",)), (3, ("z",))])
    assert [(r.levelno, r.getMessage()) for r in caplog.records if r.name == "spdist.events"] == [
        (logging.INFO, f"A : B : {event(1, 'x')}"),
        (logging.WARNING, 'P : {"event":{"k":"x"}}'),
        (logging.INFO, f"A : B : [{event(2, 'y')}, {event(3, 'z')}]"),
        (logging.WARNING, 'P : [{"event":{"k":"y"}},{"event":{"k":"z"}}]'),
    ]


def test_other_transports_are_left_unconnected_and_said(caplog: pytest.LogCaptureFixture) -> None:
    app = made(
        """@source(type='kafka', topic.list='t') define stream I (k string);
        @sink(type='http', publisher.url='u') @sink(type='log', @map(type='avro')) define stream O (k string);
        from I insert into O;"""
    )
    assert [record.getMessage() for record in caplog.records] == [
        "the @source of stream 'I' has type 'kafka': it is not connected here",
        "the @sink of stream 'O' has type 'http': it is not connected here",
        "the @sink of stream 'O' has the mapping 'avro': it is not connected here",
    ]
    seen = watched(app, "O")
    app.send("I", 1, ("x",))
    assert seen == [("x",)]


def test_what_cannot_be_sent_can_go_to_the_fault_stream() -> None:
    app = made(
        """@OnError(action='STREAM')
        @sink(type='inMemory', topic='t', on.error='STREAM', @map(type='json', validate.json='true', @payload('{')))
        define stream B (k string);
        from !B select k, convert(_error, 'string') as e insert into Failed;"""
    )
    seen = watched(app, "Failed")
    app.send("B", 1, ("x",))
    ((key, told),) = seen
    assert key == "x"
    assert "the payload is no JSON" in told
