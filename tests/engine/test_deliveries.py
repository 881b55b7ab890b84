"""What sinks of all types put out where an app is hosted between topics: values, in order, with the same ids again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.connectors.sending import SinkContext, Sinks
from spdist.engine.island.hosted import HostedApp, build_island
from spdist.engine.shards.rescale import rescale
from spdist.extension import catalog
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.mapping.columns import Events
from spdist.operators.joins.lazy_expiry import LazyExpiryJoinPlan
from spdist.planning.topology import AssignedInput, Assignment
from spdist.transports.base import NO_CLOCK, Record
from spdist.transports.delivery import Deliveries, Delivery, Outgoing
from spdist.transports.errors import read_errors
from spdist.transports.log import LogTransport
from spdist.transports.payloads.payload import Payload
from tests.engine.one_chunk import deliver_now

DYNAMIC = """@sink(type='http', publisher.url='http://h/{{k}}', method='PUT', headers="'n:{{n}}'", @map(type='json'))
define stream O (k string, n int);"""


@cache
def checked(text: str) -> CheckedApp:
    return check(parse(text), catalog(), text)


def hosted(text: str) -> HostedApp:
    app = HostedApp(checked(text), "App-1")
    app.start(0)
    return app


def taken(app: HostedApp) -> list[Delivery]:
    """What the sinks have put out, each payload by itself."""
    return each(app.take_deliveries())


def each(outgoing: Iterable[Record | Outgoing]) -> list[Delivery]:
    made: list[Delivery] = []
    for one in outgoing:
        made += one if isinstance(one, Deliveries) else [one] if isinstance(one, Delivery) else []
    return made


def told(deliveries: list[Delivery]) -> list[tuple[Any, ...]]:
    return [(d.kind, d.sink, d.destination, d.id, d.payload) for d in deliveries]


def test_options_that_differ_from_event_to_event_split_a_chunk() -> None:
    app = hosted(DYNAMIC)
    deliver_now(app, "O", [(1, ("a", 1)), (2, ("b", 2)), (3, ("a", 1))])
    first, second = taken(app)
    assert first.options == {
        "type": "http",
        "method": "PUT",
        "publisher.url": "http://h/a",
        "headers": "'n:1'",
    }
    assert first.payload == '[{"event":{"k":"a","n":1}},{"event":{"k":"a","n":1}}]'
    assert (second.options["publisher.url"], second.payload) == ("http://h/b", '{"event":{"k":"b","n":2}}')
    assert (first.stream, first.on_error, first.events) == ("O", "LOG", ())
    assert taken(app) == []


JOIN = """define stream A (k string, n int); define stream B (k string, m int);
@sink(type='kafka', bootstrap.servers='b:1', topic='t', @map(type='json')) define stream O (n int, m int);
define stream P (n int, m int);
from A#window.time(1 sec) join B#window.time(1 sec) on A.k == B.k select n, m insert into {};"""


@pytest.mark.parametrize("lazy", [True, False])
def test_what_one_event_of_a_join_finds_is_one_payload(lazy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LazyExpiryJoinPlan, "may_be_lazy", lazy)
    app = hosted(JOIN.format("O"))
    for stream, ts, number in [("A", 1, 1), ("B", 2, 5), ("A", 3, 2), ("B", 4, 6)]:
        deliver_now(app, stream, [(ts, ("x", number))])
    first, second, both = (one.payload for one in taken(app))
    assert (first, second) == ('{"event":{"n":1,"m":5}}', '{"event":{"n":2,"m":5}}')
    assert both == '[{"event":{"n":1,"m":6}},{"event":{"n":2,"m":6}}]'


@pytest.mark.parametrize("lazy", [True, False])
def test_what_one_event_of_a_join_finds_is_one_chunk_for_other_groups(
    lazy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LazyExpiryJoinPlan, "may_be_lazy", lazy)
    app = hosted(JOIN.format("P"))
    chunks: list[Any] = []
    app.subscribe_each("P", lambda ts, row: chunks.append([(ts, row)]), lambda arrivals: chunks.append([*arrivals]))
    for stream, ts, number in [("A", 1, 1), ("A", 2, 2), ("B", 3, 5)]:
        deliver_now(app, stream, [(ts, ("x", number))])
    assert chunks == [[(3, (1, 5)), (3, (2, 5))]]


def test_every_type_of_sink_is_collected_in_the_order_of_the_text() -> None:
    app = hosted(
        """@sink(type='kafka', topic='t', @map(type='json', @payload('{{k}}')))
        @sink(type='log', prefix='P') @sink(type='file', file.uri='f', @map(type='avro'))
        @sink(type='embedded', topic='x') @sink(type='nats', destination='d', @map(type='text', @payload('<{{k}}>')))
        define stream O (k string);"""
    )
    deliver_now(app, "O", [(1, ("a",))])
    kafka, log, nats = taken(app)
    assert told([kafka, nats]) == [("kafka", 0, 0, "App-1#0:0", "a"), ("nats", 4, 0, "App-1#4:0", "<a>")]
    assert (log.kind, log.options["prefix"], tuple(log.payload)) == ("log", "P", ((1, ("a",)),))


def test_destinations_have_options_of_their_own_and_strategies_share_out() -> None:
    text = """@sink(type='kafka', bootstrap.servers='b', @map(type='text', @payload('{{k}}')),
        @distribution(strategy='%s', partitionKey='k', @destination(topic='a'), @destination(topic='b', key='x')))
        define stream O (k string);"""
    found = {}
    for strategy in ("roundRobin", "broadcast", "partitioned"):
        app = hosted(text % strategy)
        for number, key in enumerate("pqp"):
            deliver_now(app, "O", [(number, (key,))])
        found[strategy] = [(d.options["topic"], d.options.get("key"), d.payload) for d in taken(app)]
        assert {d.options["bootstrap.servers"] for d in taken(app)} <= {"b"}
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
        deliver_now(app, "O", rows)
        assert [d.events for d in taken(app)] == events


def test_in_memory_topics_are_heard_inside_at_once_and_collected_for_others() -> None:
    app = hosted(
        """@sink(type='inMemory', topic='t') define stream A (k string);
        @source(type='inMemory', topic='t') define stream B (k string);
        @source(type='http') define stream C (k string);"""
    )
    seen: list[Any] = []
    app.subscribe("B", lambda _, row: seen.append(row))
    deliver_now(app, "A", [(5, ("x",))])
    assert seen == [("x",)]
    (one,) = taken(app)
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
    deliver_now(app, "O", [(2, ("y",))])
    deliver_now(app, "I", [(1, ("x", 1))])
    stored = taken(app)
    log = LogTransport(tmp_path)
    for _ in range(2):
        Sinks(SinkContext("A", log, {})).send(stored)
    found = [(one["stream"], one["origin"], one["events"]) for one in read_errors(log, "A")]
    assert found == [("O", "sink", [(2, ("y",))]), ("O", "sink", [(1, ("x",))])]
    log.close()


MAPPINGS = (
    "@map(type='json')",
    "@map(type='json', event.grouping.enabled='false')",
    '@map(type="json", validate.json="true", @payload("""{"k": {{k}}}"""))',
    "@map(type='csv', header='true')",
    "@map(type='text', event.grouping.enabled='true')",
    "@map(type='xml')",
    "@map(type='keyvalue')",
    "@map(type='passThrough')",
)
#: Of each pair of sinks, one makes its payloads as events come, the other at the end of a batch.
PAIRS = "".join(
    f"@sink(type='http', publisher.url='u', on.error='{policy}', {mapping})\n"
    for mapping in MAPPINGS
    for policy in ("STREAM", "LOG")
)
_chunks = st.lists(
    st.lists(
        st.tuples(st.integers(1, 3), st.tuples(st.sampled_from(["1", "x", 'q"']), st.integers(-3, 3))),
        min_size=1,
        max_size=3,
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(_chunks, st.sets(st.integers(0, 7)))
def test_payloads_of_a_batch_are_those_of_its_events_wherever_batches_are_cut(chunks: Any, cuts: set[int]) -> None:
    text = f"{PAIRS}define stream O (k string, n int);"
    app, found = hosted(text), list[Delivery]()
    for number, chunk in enumerate(chunks):
        if number in cuts:
            found += taken(app)
            state, app = app.snapshot(), HostedApp(checked(text), "App-1")
            app.restore(state)
        deliver_now(app, "O", chunk)
    found += taken(app)
    for sink in range(0, len(MAPPINGS) * 2, 2):
        single, together = ([one for one in found if one.sink == n] for n in (sink, sink + 1))
        assert [one.payload for one in together] == [one.payload for one in single]
        assert [one.id for one in together] == [f"App-1#{sink + 1}:{n}" for n in range(len(together))]


def test_what_cannot_be_written_is_counted_and_the_rest_is_sent() -> None:
    app = hosted(f"@sink(type='http', publisher.url='u', {MAPPINGS[2]}) define stream O (k string, n int);")
    for number, key in enumerate(("1", "x", "2")):
        deliver_now(app, "O", [(number, (key, number))])
    assert [(one.id, one.payload) for one in taken(app)] == [("App-1#0:0", '{"k": 1}'), ("App-1#0:1", '{"k": 2}')]
    assert (app.failures.count, str(app.failures.latest)[:24]) == (1, "the sink of stream 'O': ")


def test_shards_that_become_one_put_out_nothing_under_an_id_that_one_of_them_has_used() -> None:
    work = replace(assignment(), text=assignment().text.replace("{{k}}", "x").replace("{{n}}", "0"))
    shards = [build_island(work, 0) for _ in range(2)]
    for count, island in enumerate(shards, 1):
        made = each(island.process([fed(n, (n, ("a", 1))) for n in range(count)], 0))
        assert [one.id for one in made] == [f"App-1#0:{n}" for n in range(count)]
    states = [island.snapshot() for island in shards]
    for above, first in ((0, 2), (9, 9)):
        (state,) = rescale(states, checked(work.text), work, 1, above)
        island = build_island(work, 0)
        island.restore(state)
        assert [one.id for one in each(island.process([fed(5, (9, ("a", 1)))], 0))] == [f"App-1#0:{first}"]
