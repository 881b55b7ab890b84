"""Why an app of several groups has put something out: from group to group back to what came in from outside."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import spdist
from spdist.engine.local.app import LocalApp
from spdist.engine.replay import targets, tracing
from spdist.engine.replay.causes import Budget, minimal_causes
from spdist.engine.replay.evidence import Evidence
from spdist.engine.replay.input_log import InputLog
from spdist.engine.replay.shard_log import ShardLog
from spdist.engine.replay.tracing import Which, trace
from spdist.errors import NotFoundError
from spdist.language.types import Schema
from spdist.transports.delivery import EVENT_BITS, Delivery
from spdist.transports.feed import read_events
from spdist.transports.payloads.headers import header_text
from tests.runtime.shards_by_hand import HandRun

SCHEMA = Schema.of([("room", "string"), ("degrees", "double")])
APP = """
@app:name('Rooms') @app:playback
define stream Readings (room string, degrees double);
define stream Doors (room string, degrees double);
@sink(type='embedded', topic='Rooms.Alerts') define stream Alerts (room string, degrees double);
@dist(execGroup='mean') partition with (room of Readings) begin
    from Readings#window.length(2) select room, avg(degrees) as degrees insert into Means; end;
@dist(execGroup='hot') from Means[degrees > 30.0] select room, degrees insert into Hot;
@dist(execGroup='alert')
from every h=Hot -> not Doors[room == h.room] for 5 sec select h.room as room, h.degrees as degrees insert into Alerts;
"""


class HandLogs:
    """The logs of groups that are run by hand."""

    def __init__(self, run: HandRun) -> None:
        self._run = run
        self.asked: list[str] = []

    def writers(self, stream: str) -> Sequence[str]:
        return [name for one in self._run.groups for name in one.producers if stream in one.written]

    def log(self, producer: str) -> ShardLog:
        self.asked.append(producer)
        with tempfile.TemporaryDirectory() as directory:
            return self._run.log(producer, Path(directory))


def why(run: HandRun, text: str, which: Which = -1, stream: str = "Alerts", budget: int = 10**6) -> Evidence:
    return trace(spdist.check(text), HandLogs(run), stream, which, budget=Budget(budget))


def found(evidence: Evidence) -> list[tuple[Any, ...]]:
    return [(cause.stream, cause.timestamp, cause.row) for cause in evidence.causes]


READINGS = [(1000 * n, (room, 10.0 + n)) for n in range(1, 31) for room in ("attic", "cellar")]
DOOR = (31_000, ("cellar", 0.0))


def rooms(directory: Path, segments: int | Mapping[str, int] = 1000, shards: int = 1) -> HandRun:
    """Rooms that become hot; at the end a door is opened in one of them."""
    run = HandRun(directory, APP, shards=shards, segments=segments)
    run.feed("Doors", SCHEMA).advance(0)
    for start in range(0, len(READINGS), 4):
        run.feed("Readings", SCHEMA).send(READINGS[start : start + 4])
        run.feed("Doors", SCHEMA).advance(READINGS[start][0])
        run.run()
    run.feed("Doors", SCHEMA).send([DOOR])
    for stream in ("Doors", "Readings"):
        run.feed(stream, SCHEMA).advance(60_000)
    run.run()
    alerts = spdist.run(APP, {"Readings": READINGS, "Doors": [DOOR]}, 60_000)["Alerts"]
    assert sorted(run.read("Alerts", SCHEMA)) == sorted(alerts)
    return run


def test_an_alert_is_traced_through_groups_to_what_came_from_outside(tmp_path: Path) -> None:
    run = rooms(tmp_path)
    evidence = why(run, APP)
    assert (evidence.app, evidence.event.timestamp, evidence.event.row) == ("Rooms", 35_000, ("attic", 39.5))
    assert found(evidence) == [("Readings", 1000 * n, ("attic", 10.0 + n)) for n in (29, 30)]
    assert [(one.place.topic, one.place.producer) for one in evidence.causes if one.place] == [
        ("Rooms.Readings.room", "feed of Readings")
    ] * 2
    assert {came.stream for came in evidence.through} == {"Means", "Hot"}
    assert (evidence.minimal, evidence.notes, evidence.sent) == (True, (), len(READINGS) + 1)
    assert evidence.intervals[0].kind == "absence"
    assert [cause.without for cause in evidence.causes] == ["degrees=40", "nothing"]
    assert "Rooms.Readings.room, partition" in str(evidence)


@pytest.mark.parametrize(
    "which",
    [(26_000, ("cellar", 30.5)), ("cellar", 30.5), {"degrees": 30.5, "room": "cellar"}, (26_000, {"room": "cellar"})],
    ids=["as read", "its row", "some values", "its time and some values"],
)
def test_the_event_is_named_by_what_readers_see(tmp_path: Path, which: Which) -> None:
    evidence = why(rooms(tmp_path), APP, which)
    assert found(evidence) == [("Readings", 1000 * n, ("cellar", 10.0 + n)) for n in (20, 21)]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("segments", [1000, 3], ids=["from the start", "since a snapshot"])
def test_ids_of_events_in_topics_name_those_events(tmp_path: Path, shards: int, segments: int) -> None:
    """Of an embedded sink, and between groups, where the topic has a partition for each instance of its reader."""
    text = """@app:name('Split') @app:playback define stream S (k string, v int);
    @sink(type='embedded', topic='Split.Sums') define stream Sums (k string, v long);
    @dist(execGroup='a', parallel='2') partition with (k of S) begin
        from S#window.length(2) select k, sum(v) as v insert into Sums; end;
    @dist(execGroup='b', parallel='2') partition with (k of Sums) begin
        from Sums[v % 3L != 0L] select k, v insert into Out; end;"""
    run = HandRun(tmp_path, text, shards=shards, segments=segments)
    for start in range(0, 32, 4):
        run.feed("S", COUNTED_IN).send([(100 * n, ("abcdefg"[n % 7], n % 5)) for n in range(start, start + 4)])
        run.run()
    sums = Schema.of([("k", "string"), ("v", "long")])
    topics = {put.topic for group in run.groups for one in group.assignment.outputs for put in one.publishing}
    told = 0
    for topic in topics - {"spdist:answers"}:
        for event in read_events(run.topics, topic, sums) if "Sums" in topic else ():
            logs = HandLogs(run)
            producer = event.id.partition("@")[0]
            if event[0] <= logs.log(producer).start and segments < 1000:
                with pytest.raises(NotFoundError, match="inputs are kept since"):
                    trace(spdist.check(text), logs, "Sums", id=event.id, budget=Budget(10**6))
                continue
            evidence = trace(spdist.check(text), logs, "Sums", id=event.id, budget=Budget(10**6))
            assert (evidence.event.timestamp, evidence.event.row) == event, event.id
            told += 1
    assert told >= (64 if segments == 1000 else 8)


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    run = rooms(tmp_path)
    for which in ((26_001, ("cellar", 30.5)), ("cellar", 99.0), {"degrees": 99.0}, 10_000, -10_000):
        with pytest.raises(NotFoundError, match=r"comes? out of what is kept") as missing:
            why(run, APP, which)
        assert "inputs are kept since 0 ms" in str(missing.value)
    with pytest.raises(NotFoundError, match="no attribute heat"):
        why(run, APP, {"heat": 1})


def test_causes_before_the_older_snapshot_are_in_the_state(tmp_path: Path) -> None:
    run = rooms(tmp_path, segments=2)
    evidence = why(run, APP)
    assert found(evidence) == [("Readings", 1000 * n, ("attic", 10.0 + n)) for n in (29, 30)]
    assert not any(state.needed for state in evidence.states)
    since = HandLogs(run).log("Rooms-alert-1").start
    assert since > 21_000
    evidence = why(run, APP, (26_000, ("attic", 30.5)))
    assert (evidence.causes, [state.name for state in evidence.states if state.needed]) == ((), ["Rooms-alert-1"])
    assert evidence.headline.endswith(f"caused by the state as of {since:,} ms and time")
    assert "events before that are no longer kept" in str(evidence)


def test_what_another_group_no_longer_knows_is_a_cause_that_says_so(tmp_path: Path) -> None:
    run = rooms(tmp_path, segments={"Rooms-mean": 1})
    evidence = why(run, APP, (26_000, ("attic", 30.5)))
    assert found(evidence) == [("Means", 21_000, ("attic", 30.5))]
    assert evidence.notes[0].startswith(
        "Means at 21,000 ms is not traced further: of what Rooms-mean-1 was given before"
    )
    assert "nothing is kept" in str(evidence)


def test_only_the_shards_that_have_the_event_are_asked(tmp_path: Path) -> None:
    run = rooms(tmp_path, shards=2)
    logs = HandLogs(run)
    evidence = trace(spdist.check(APP), logs, "Alerts", -1, budget=Budget(10**6))
    assert found(evidence) == [("Readings", 1000 * n, ("attic", 10.0 + n)) for n in (29, 30)]
    means = [one for one in logs.asked if "mean" in one]
    assert (len(means), "/" in means[0]) == (1, True), "one of two shards, once"


def test_of_equal_events_between_groups_each_has_a_cause_of_its_own(tmp_path: Path) -> None:
    text = """@app:name('Equal') @app:playback define stream S (k string, v int);
    @sink(type='embedded', topic='Equal.Out') define stream Out (k string, n long);
    @dist(execGroup='a') from S select k insert into Some;
    @dist(execGroup='b') from Some#window.length(3) select k, count() as n insert into Out;"""
    run = HandRun(tmp_path, text)
    run.feed("S", COUNTED_IN).send([(100, ("x", 1)), (100, ("x", 2))])
    run.run()
    evidence = why(run, text, ("x", 2), "Out")
    assert found(evidence) == [("S", 100, ("x", 1)), ("S", 100, ("x", 2))]
    assert evidence.notes == ()


def test_a_log_costs_a_replay_once_however_many_causes_it_has_put_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """@app:name('Many') @app:playback define stream S (k string, v int);
    @sink(type='embedded', topic='Many.Out') define stream Out (k string, n long);
    @dist(execGroup='a') from S select k insert into Some;
    @dist(execGroup='b') from Some#window.lengthBatch(9) select k, count() as n insert into Out;"""
    run = HandRun(tmp_path, text)
    run.feed("S", COUNTED_IN).send([(100 + n, ("x", n)) for n in range(9)])
    run.run()
    spent: list[int] = []

    def unlimited(*given: Any, budget: Budget, **named: Any) -> Evidence:
        return minimal_causes(*given, budget=Budget(10**6), **named)

    # What is spent on the search for causes has a budget of its own here, so the rest is for whole logs.
    monkeypatch.setattr(tracing, "minimal_causes", unlimited)
    monkeypatch.setattr(Budget, "spend", lambda self, events: spent.append(events) if self.left == 7 else None)
    until, searched = targets._until, list[str]()

    def search(log: InputLog, stream: str, which: Any) -> Any:
        searched.append(stream)
        return until(log, stream, which)

    monkeypatch.setattr(targets, "_until", search)
    assert len(found(why(run, text, -1, "Out", budget=7))) == 9
    assert len(spent) == 1
    # For the event in its group and in the whole app; where the nine came out is known by then.
    assert searched == ["Out", "Out"]


def test_what_timers_of_one_group_put_out_comes_before_those_of_the_next(tmp_path: Path) -> None:
    text = """@app:name('Timed') @app:playback define stream S (k string, v int);
    @sink(type='embedded', topic='Timed.Out') define stream Out (k string, v int, now long);
    @dist(execGroup='a') from S#window.timeBatch(1 sec) select k, v insert into Batches;
    @dist(execGroup='b') from Batches#window.timeBatch(1 sec) select k, v, currentTimeMillis() as now insert into Out;
    """
    run = HandRun(tmp_path, text)
    events = [(1000 + 300 * n, ("x", n)) for n in range(20)]
    for start in range(0, 20, 3):
        run.feed("S", COUNTED_IN).send(events[start : start + 3])
        run.run()
    wanted = spdist.run(text, {"S": events})["Out"]
    came = HandLogs(run).log("Timed-b-1").events("Out")
    assert len(came) > 10
    assert came == run.read("Out", Schema.of([("k", "string"), ("v", "int"), ("now", "long")])) == wanted[: len(came)]
    evidence = why(run, text, -1, "Out")
    assert ("S", came[-1][0], came[-1][1][:2]) in [(stream, came[-1][0], row) for stream, _, row in found(evidence)]


def test_live_groups_are_replayed_by_their_own_clocks(tmp_path: Path) -> None:
    text = """@app:name('Live') define stream S (k string, v int);
    @sink(type='embedded', topic='Live.Out') define stream Out (k string, v int);
    @dist(execGroup='a') from S#window.length(2) select k, sum(v) as v insert into Sums;
    @dist(execGroup='b') from every e=Sums[v > 10L] -> not Sums for 1 sec select e.k as k, cast(e.v, 'int') as v
    insert into Out;"""
    run = HandRun(tmp_path, text, segments=20)
    for tick in range(0, 12_000, 250):
        if tick in (1000, 1250, 4000, 4250, 7000, 9000):
            run.feed("S", COUNTED_IN).send([(tick - 3, ("x", tick // 250))])
        run.run(tick)
    came = run.read("Out", COUNTED_IN)
    assert [row for _, row in came] == [("x", 33), ("x", 45), ("x", 64)]
    evidence = why(run, text, came[-1], "Out")
    assert found(evidence) == [("S", tick - 3, ("x", tick // 250)) for tick in (7000, 9000)]
    assert evidence.minimal


def test_what_is_never_the_same_can_be_left_out(tmp_path: Path) -> None:
    text = """@app:name('Named') @app:playback define stream S (k string, v int);
    @sink(type='embedded', topic='Named.Out') define stream Out (id string, k string);
    @dist(execGroup='a') from S[v > 1] select k insert into Some;
    @dist(execGroup='b') from Some select UUID() as id, k insert into Out;"""
    run = HandRun(tmp_path, text)
    run.feed("S", COUNTED_IN).send([(100 * n, ("x", n)) for n in range(6)])
    run.run()
    logs = HandLogs(run)
    evidence = trace(spdist.check(text), logs, "Out", -1, attributes=["k"], budget=Budget(10**6))
    assert found(evidence) == [("S", 500, ("x", 5))]
    assert evidence.notes == ()


def test_a_spent_budget_gives_what_was_found(tmp_path: Path) -> None:
    evidence = why(rooms(tmp_path), APP, budget=250)
    assert not evidence.minimal or evidence.notes
    assert "budget was spent" in str(evidence)


COUNTED = """
@app:name('Counted') @app:playback
define stream S (k string, v int);
@sink(type='embedded', topic='Counted.Out') define stream Out (k string, n long);
@dist(execGroup='a') partition with (k of S) begin from S#window.length(2) select k, sum(v) as s insert into Sums; end;
@dist(execGroup='b') from Sums#window.length(3) select k, count() as n insert into Out;
"""
COUNTED_IN, COUNTED_OUT = Schema.of([("k", "string"), ("v", "int")]), Schema.of([("k", "string"), ("n", "long")])


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.integers(1, 3)), min_size=1, max_size=12),
    st.integers(1, 4),
    st.data(),
)
def test_causes_of_a_whole_app_are_sufficient_and_minimal(
    rows: list[tuple[str, int]], batch: int, data: st.DataObject
) -> None:
    events = [(100 * n, row) for n, row in enumerate(rows)]
    with tempfile.TemporaryDirectory() as directory:
        run = HandRun(Path(directory), COUNTED)
        for start in range(0, len(events), batch):
            run.feed("S", COUNTED_IN).send(events[start : start + batch])
            run.run()
        came = run.read("Out", COUNTED_OUT)
        assume(came)
        event = data.draw(st.sampled_from(came), label="which event")
        evidence = why(run, COUNTED, event, "Out")
    assert evidence.minimal
    assert not evidence.notes
    causes = [(cause.timestamp, cause.row) for cause in evidence.causes]
    assert event in spdist.run(COUNTED, {"S": causes}, evidence.clock)["Out"]
    for number in range(len(causes)):
        others = causes[:number] + causes[number + 1 :]
        assert event not in spdist.run(COUNTED, {"S": others}, evidence.clock)["Out"]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=8, max_size=24), st.integers(1, 3), st.data())
def test_causes_with_a_state_before_them_are_sufficient_and_minimal(
    values: list[int], segments: int, data: st.DataObject
) -> None:
    text = """@app:name('One') @app:playback define stream S (k string, v int);
    @sink(type='embedded', topic='One.Out') define stream Out (k string, n long);
    from S#window.time(300) select k, sum(v) as n insert into Out;"""
    with tempfile.TemporaryDirectory() as directory:
        run = HandRun(Path(directory), text, segments=segments)
        for n, value in enumerate(values):
            run.feed("S", COUNTED_IN).send([(100 * n, ("k", value))])
            run.run()
        log = run.log("One-default-1", Path(directory) / "fetched")
    assume(log.base is not None)
    came = log.events("Out")
    assume(came)
    event = data.draw(st.sampled_from(came), label="which event")
    evidence = minimal_causes(log, "Out", came.index(event))
    causes = [(cause.timestamp, cause.row) for cause in evidence.causes]

    def comes(sent: list[tuple[int, tuple[Any, ...]]]) -> bool:
        app = LocalApp(log.checked)
        app.restore(log.base or b"")
        out = []
        app.subscribe("Out", lambda timestamp, row: out.append((timestamp, row)))
        for timestamp, row in sent:
            app.send("S", timestamp, row)
        return event in out

    assert comes(causes)
    for number in range(len(causes)):
        assert not comes(causes[:number] + causes[number + 1 :])
    missing = log.start - event[0] + 300
    (state,) = evidence.states
    assert state.needed == (missing > 0 and event[1][1] != sum(row[1] for _, row in causes))


SENT = """
@app:name('Sent') @app:playback
define stream S (k string, v int);
@sink(type='kafka', topic='plain', bootstrap.servers='h:1', @map(type='json'))
@sink(type='spark', format='memory', id='id', @map(type='passThrough'))
@sink(type='nats', destination='{{k}}', @map(type='text', @payload('{{v}}')))
@sink(type='http', publisher.url='http://h:1/x', on.error='STORE', @map(type='json', event.grouping.enabled='false'))
@sink(type='kafka', topic='shared', bootstrap.servers='h:1', @map(type='json'),
      @distribution(strategy='roundRobin', @destination(partition.no='0'), @destination(partition.no='1')))
define stream Out (k string, v int);
@sink(type='kafka', topic='other', bootstrap.servers='h:1', on.error='STORE', @map(type='json'))
define stream Single (k string, v int);
@dist(execGroup='a') from S[v > 0] select k, v insert into Kept;
@dist(execGroup='b') from Kept#window.lengthBatch(3) select k, v insert into Out;
@dist(execGroup='b') from Kept select k, v insert into Single;
"""
SENT_EVENTS = [(100 * n, ("xy"[n % 2], n)) for n in range(1, 16)]


def sent(directory: Path, segments: int | Mapping[str, int] = 1000, batch: int = 4) -> HandRun:
    run = HandRun(directory, SENT, segments=segments)
    for start in range(0, len(SENT_EVENTS), batch):
        run.feed("S", COUNTED_IN).send(SENT_EVENTS[start : start + batch])
        run.run()
    return run


def held(delivery: Delivery) -> set[int]:
    """Return the values of the events in a payload, as its receiver reads them."""
    payload = delivery.payload
    if isinstance(payload, str):
        found = json.loads(payload)
        found = found if isinstance(found, list) else [found]
        return {one["event"]["v"] if isinstance(one, dict) else one for one in found}
    return {row[1] for _, row in payload}


def named(run: HandRun, id: str, which: Which = -1, stream: str = "Out") -> Evidence:
    return trace(spdist.check(SENT), HandLogs(run), stream, which, id=id, budget=Budget(10**6))


def value(evidence: Evidence) -> int:
    """Return the value of the explained event; the event that caused it has the same."""
    assert evidence.event.row[1] in [cause.row[1] for cause in evidence.causes]
    return int(evidence.event.row[1])


@pytest.mark.parametrize(("segments", "batch"), [(1000, 4), (2, 1)], ids=["from the start", "since a snapshot"])
def test_the_ids_that_receivers_see_name_the_events_in_their_messages(
    tmp_path: Path, segments: int, batch: int
) -> None:
    run = sent(tmp_path, segments, batch)
    log = HandLogs(run).log("Sent-b-1")
    explained = set()
    for delivery in run.delivered:
        wanted, spark = held(delivery), delivery.kind == "spark"
        if min(wanted) * 100 <= log.start and log.base is not None:
            continue
        explained.add(delivery.sink)
        for number, one in enumerate(sorted(wanted)):
            id = f"{delivery.producer}:{(delivery.seq << EVENT_BITS) + number}" if spark else delivery.id
            evidence = named(run, id, -1 if spark else number, delivery.stream)
            assert value(evidence) == one, id
            assert any("holds" in note for note in evidence.notes) == (len(wanted) > 1 and not spark)
    assert explained == set(range(6))
    assert (log.base is None) == (segments == 1000)


def test_of_a_message_of_several_events_one_is_chosen_as_ever(tmp_path: Path) -> None:
    run = sent(tmp_path)
    assert [value(named(run, "Sent-b-1#0:1", which)) for which in (-1, 0, ("x", 4), {"v": 5})] == [6, 4, 4, 5]
    assert named(run, "Sent-b-1#0:1").notes[0] == ("message Sent-b-1#0:1 holds 3 events of 'Out': this is number 3")
    for which in (3, {"v": 1}):
        with pytest.raises(NotFoundError, match=r"(?s)the message Sent-b-1#0:1 of 'Out' has no event .*holds 3 events"):
            named(run, "Sent-b-1#0:1", which)


def test_what_an_id_says_that_names_nothing_is_told(tmp_path: Path) -> None:
    run = sent(tmp_path, segments=2, batch=1)
    log = HandLogs(run).log("Sent-b-1")
    assert log.base is not None
    with pytest.raises(NotFoundError, match="no message Sent-b-1#0:0 of 'Out' comes out of what is kept") as missing:
        named(run, "Sent-b-1#0:0")
    assert "inputs are kept since 1,100 ms; what was sent before cannot be explained" in str(missing.value)
    for id, stream, told in (
        ("Sent-b-1#0:99", "Out", "3 to 4 do.* a state that began anew numbers from 0"),
        ("Other-b-1#0:1", "Out", "is no message of 'Out' of this app as it runs now.* begin with .*: Sent-b-1"),
        ("Sent-b-1", "Out", "is no id of a message.*the header spdist-id holds"),
        ("Sent-b-1#0:4", "Single", "is one of stream 'Out', not of 'Single'"),
        ("Sent-a-1@Sent.Kept/0:99", "Kept", "comes out of what is kept: .* to 14 do"),
        ("Sent-a-1@Sent.Nothing/0:1", "Kept", "no message .* of 'Kept' comes out of what is kept"),
    ):
        with pytest.raises(NotFoundError, match=f"(?s){told}"):
            named(run, id, stream=stream)


def test_ids_of_names_that_no_header_of_http_can_hold(tmp_path: Path) -> None:
    text = """@app:name('Räume') @app:playback define stream S (k string, v int);
    @sink(type='http', publisher.url='http://h:1/x', @map(type='json')) define stream Out (k string, v int);
    @dist(execGroup='a') from S select k, v insert into Out;"""
    run = HandRun(tmp_path, text)
    run.feed("S", COUNTED_IN).send([(100 * n, ("x", n)) for n in range(3)])
    run.run()
    for id in (run.delivered[1].id, header_text(run.delivered[1].id)):
        evidence = trace(spdist.check(text), HandLogs(run), "Out", id=id, budget=Budget(10**6))
        assert evidence.event.row == ("x", 1)
