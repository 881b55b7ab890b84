"""What sinks of all types put out where an app is hosted between topics: values, in order, with the same ids again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spdist.engine.hosted import HostedApp, build_island
from spdist.extension import catalog
from spdist.language.checker import check
from spdist.language.parser import parse
from spdist.planning.topology import AssignedInput, Assignment
from spdist.transports.base import NO_CLOCK, Record
from spdist.transports.delivery import Delivery
from spdist.transports.errors import read_errors
from spdist.transports.log import LogTransport
from spdist.transports.outlets import Outlets, Surroundings
from spdist.transports.payload import Events, Payload

DYNAMIC = """@sink(type='http', publisher.url='http://h/{{k}}', method='PUT', headers="'n:{{n}}'", @map(type='json'))
define stream O (k string, n int);"""


def hosted(text: str) -> HostedApp:
    app = HostedApp(check(parse(text), catalog(), text), "App-1")
    app.start(0)
    return app


def told(deliveries: list[Delivery]) -> list[tuple[Any, ...]]:
    return [(d.kind, d.sink, d.destination, d.id, d.payload) for d in deliveries]


def test_options_that_differ_from_event_to_event_split_a_chunk() -> None:
    app = hosted(DYNAMIC)
    app.deliver("O", [(1, ("a", 1)), (2, ("b", 2)), (3, ("a", 1))])
    first, second = app.take_deliveries()
    assert first.options == {
        "type": "http",
        "method": "PUT",
        "publisher.url": "http://h/a",
        "headers": "'n:1'",
    }
    assert first.payload == '[{"event":{"k":"a","n":1}},{"event":{"k":"a","n":1}}]'
    assert (second.options["publisher.url"], second.payload) == ("http://h/b", '{"event":{"k":"b","n":2}}')
    assert (first.stream, first.on_error, first.events) == ("O", "LOG", ())
    assert app.take_deliveries() == []


def test_every_type_of_sink_is_collected_in_the_order_of_the_text() -> None:
    app = hosted(
        """@sink(type='kafka', topic='t', @map(type='json', @payload('{{k}}')))
        @sink(type='log', prefix='P') @sink(type='file', file.uri='f', @map(type='avro'))
        @sink(type='embedded', topic='x') @sink(type='nats', destination='d', @map(type='text', @payload('<{{k}}>')))
        define stream O (k string);"""
    )
    app.deliver("O", [(1, ("a",))])
    kafka, log, nats = app.take_deliveries()
    assert told([kafka, nats]) == [("kafka", 0, 0, "App-1:0", "a"), ("nats", 4, 0, "App-1:2", "<a>")]
    assert (log.kind, log.options["prefix"], tuple(log.payload)) == ("log", "P", ((1, ("a",)),))


def test_destinations_have_options_of_their_own_and_strategies_share_out() -> None:
    text = """@sink(type='kafka', bootstrap.servers='b', @map(type='text', @payload('{{k}}')),
        @distribution(strategy='%s', partitionKey='k', @destination(topic='a'), @destination(topic='b', key='x')))
        define stream O (k string);"""
    found = {}
    for strategy in ("roundRobin", "broadcast", "partitioned"):
        app = hosted(text % strategy)
        for number, key in enumerate("pqp"):
            app.deliver("O", [(number, (key,))])
        found[strategy] = [(d.options["topic"], d.options.get("key"), d.payload) for d in app.take_deliveries()]
        assert {d.options["bootstrap.servers"] for d in app.take_deliveries()} <= {"b"}
    assert found["roundRobin"] == [("a", None, "p"), ("b", "x", "q"), ("a", None, "p")]
    assert found["broadcast"] == [(*place, key) for key in "pqp" for place in (("a", None), ("b", "x"))]
    assert found["partitioned"] == [("a", None, "p"), ("b", "x", "q"), ("a", None, "p")]


def test_events_go_along_only_where_on_error_may_need_them() -> None:
    text = "@sink(type='http', publisher.url='u', on.error='%s', @map(type='%s')) define stream O (k string);"
    rows = [(1, ("a",)), (2, ("b",))]
    for policy, mapping, events in [
        ("LOG", "json", [()]),
        ("wait", "json", [()]),
        ("STREAM", "json", [tuple(rows)]),
        ("store", "xml", [tuple(rows)]),
        ("store", "csv", [tuple(rows[:1]), tuple(rows[1:])]),
    ]:
        app = hosted(text % (policy, mapping))
        app.deliver("O", rows)
        assert [d.events for d in app.take_deliveries()] == events


def test_in_memory_topics_are_heard_inside_at_once_and_collected_for_others() -> None:
    app = hosted(
        """@sink(type='inMemory', topic='t') define stream A (k string);
        @source(type='inMemory', topic='t') define stream B (k string);
        @source(type='http') define stream C (k string);"""
    )
    seen: list[Any] = []
    app.subscribe("B", lambda _, row: seen.append(row))
    app.deliver("A", [(5, ("x",))])
    assert seen == [("x",)]
    (one,) = app.take_deliveries()
    assert (one.kind, one.options["topic"], tuple(one.payload)) == ("inMemory", "t", ((5, ("x",)),))


def assignment() -> Assignment:
    text = f"@app:name('App') {DYNAMIC} define stream I (k string, n int); from I select k, n insert into O;"
    return Assignment("App-1", "App", "App", text, True, (AssignedInput("I", "App.I", (0,)),), ())


def fed(seq: int, *events: tuple[int, tuple[Any, ...]]) -> Record:
    payload = Payload(check(parse(assignment().text), catalog()).streams["I"])
    return Record("App.I", 0, payload.encode(Events.of(events, seq)), len(events), "feed", seq, NO_CLOCK)


def test_a_replay_makes_the_same_deliveries_with_the_same_ids() -> None:
    batches = [[fed(0, (1, ("a", 1)), (2, ("b", 2)))], [fed(2, (3, ("c", 3)))], [fed(3, (4, ("d", 4)))]]
    one = build_island(assignment(), 0)
    whole = [one.process(batch, 0) for batch in batches]
    assert [d.id for out in whole for d in out if isinstance(d, Delivery)] == [f"App-1:{n}" for n in range(4)]
    again, later = build_island(assignment(), 0), build_island(assignment(), 0)
    assert again.process(batches[0], 0) == whole[0]
    later.restore(again.snapshot())
    assert [later.process(batch, 0) for batch in batches[1:]] == whole[1:]


def test_what_is_to_be_stored_leaves_like_what_sinks_put_out(tmp_path: Path) -> None:
    app = hosted(
        """@OnError(action='STORE') define stream I (k string, n int);
        @sink(type='http', publisher.url='u', on.error='STORE', @map(type='json', validate.json='true', @payload('{')))
        define stream O (k string);
        from I[n / 0 > 1] select k insert into Q; from I select k insert into O;"""
    )
    app.deliver("O", [(2, ("y",))])
    app.deliver("I", [(1, ("x", 1))])
    stored = app.take_deliveries()
    log = LogTransport(tmp_path)
    for _ in range(2):
        Outlets(Surroundings("A", log, {})).send(stored)
    found = [(one["stream"], one["origin"], one["events"]) for one in read_errors(log, "A")]
    assert found == [("O", "sink", [(2, ("y",))]), ("O", "sink", [(1, ("x",))])]
    log.close()
