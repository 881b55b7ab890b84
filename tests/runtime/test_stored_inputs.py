"""What the stored state of a group tells of its inputs: replayed, the same comes out, and its causes are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import spdist
from spdist.engine.replay.causes import minimal_causes
from spdist.engine.replay.evidence import EventPlace, Evidence
from spdist.engine.replay.shard_log import shard_log
from spdist.engine.shards.state import Segment
from spdist.errors import NotFoundError, StateError
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema
from spdist.mapping.columns import Events
from spdist.operators.core.codec import encode
from spdist.planning.compiled import CompiledInstance
from spdist.planning.groups import plan
from spdist.runtime.persistence import FileSystemPersistenceStore
from spdist.runtime.stored_inputs import StoredInputs, read_files, stored_inputs
from spdist.transports.base import Record
from spdist.transports.commands import COMMANDS, SCHEMAS, commands_topic, text_row
from spdist.transports.feed import Feed
from spdist.transports.payloads.external import mark
from spdist.transports.payloads.payload import Payload
from tests.runtime.shards_by_hand import HandRun

SCHEMA = Schema.of([("room", "string"), ("degrees", "double")])
APP = """
@app:name('Rooms') @app:playback
define stream Readings (room string, degrees double);
@sink(type='embedded', topic='Rooms.Means') define stream Means (room string, degrees double);
from Readings#window.length(3) select room, avg(degrees) as degrees insert into Means;
"""


def found(evidence: Evidence) -> list[tuple[Any, ...]]:
    return [cause.row for cause in evidence.causes]


READINGS = [(1000 * n, ("attic", float(n))) for n in range(1, 21)]


@pytest.fixture
def rooms(tmp_path: Path) -> HandRun:
    run = HandRun(tmp_path, APP, segments=4)
    for event in READINGS:
        run.feed("Readings", SCHEMA).send([event])
        run.run()
    return run


def test_inputs_since_the_older_snapshot_give_what_came_out(rooms: HandRun, tmp_path: Path) -> None:
    kept = stored_inputs(rooms.location, "Rooms-default-1").shards[0].files
    assert kept[0].startswith("snapshot-")
    assert 4 < len(kept) < 12, "neither all that ever came, nor only what followed the newer snapshot"
    log = rooms.log("Rooms-default-1", tmp_path / "fetched")
    means = spdist.run(APP, {"Readings": READINGS})["Means"]
    assert rooms.read("Means", SCHEMA) == means
    again = log.events("Means")
    assert 4 <= len(again) < len(means)
    assert again == means[-len(again) :]


def test_causes_have_their_places_and_say_when_the_state_was_needed(rooms: HandRun, tmp_path: Path) -> None:
    log = rooms.log("Rooms-default-1", tmp_path / "fetched")
    last = minimal_causes(log, "Means", -1)
    assert found(last) == [("attic", 18.0), ("attic", 19.0), ("attic", 20.0)]
    assert [(c.place.topic, c.place.offset, c.place.number) for c in last.causes if c.place] == [
        ("Rooms.Readings", n + 1, n) for n in (17, 18, 19)
    ]
    assert [state.needed for state in last.states] == [False]
    assert "Rooms.Readings, partition 0, offset 20" in str(last)
    assert "no longer kept" not in str(last)
    first = minimal_causes(log, "Means", 0)
    assert len(first.causes) == 1, "the two before it are in the state"
    assert [state.needed for state in first.states] == [True]
    assert f"and the state as of {log.start:,} ms" in first.headline
    assert "events before that are no longer kept" in str(first)
    assert "no longer kept" in first.to_html()


def test_what_waited_for_its_turn_in_the_snapshot_comes_again(tmp_path: Path) -> None:
    text = """@app:name('Two') @app:playback define stream A (v int); define stream B (v int);
    @sink(type='embedded', topic='Two.Out') define stream Out (v int);
    from every a=A -> b=B select a.v as v insert into Out;"""
    one = Schema.of([("v", "int")])
    run = HandRun(tmp_path, text, segments=2)
    run.feed("B", one).advance(0)
    for n in range(1, 7):
        run.feed("A", one).send([(100 * n, (n,))])
        run.run()
    run.feed("B", one).send([(350, (9,))])
    run.feed("A", one).advance(1000)
    run.feed("B", one).advance(1000)
    run.run()
    assert run.read("Out", one) == [(350, (1,)), (350, (2,)), (350, (3,))]
    log = run.log("Two-default-1", tmp_path / "fetched")
    evidence = minimal_causes(log, "Out", (2,))
    assert [(c.stream, c.row, c.place is None) for c in evidence.causes] == [("A", (2,), True), ("B", (9,), False)]


def test_a_live_group_is_replayed_by_its_own_clock(tmp_path: Path) -> None:
    text = """@app:name('Live') define stream A (v int);
    @sink(type='embedded', topic='Live.Out') define stream Out (v int);
    from every a=A -> not A for 1 sec select a.v as v insert into Out;"""
    one = Schema.of([("v", "int")])
    run = HandRun(tmp_path, text, segments=3)
    for tick in range(0, 6000, 500):
        if tick in (1000, 1500, 4000):
            run.feed("A", one).send([(tick - 3, (tick,))])
        run.run(tick)
    assert [row for _, row in run.read("Out", one)] == [(1500,), (4000,)]
    evidence = minimal_causes(run.log("Live-default-1", tmp_path / "fetched"), "Out", -1)
    assert found(evidence) == [(4000,)]
    assert evidence.intervals[0].kind == "absence"


def test_questions_that_changed_a_table_are_asked_again(tmp_path: Path) -> None:
    text = """@app:name('Kept') @app:playback define stream S (v int); define table T (v int);
    @sink(type='embedded', topic='Kept.Out') define stream Out (v int);
    from S join T on S.v == T.v select T.v as v insert into Out;"""
    run = HandRun(tmp_path, text)
    one = Schema.of([("v", "int")])
    run.feed("S", one).send([(1, (1,))])
    run.run()
    ask = Feed(run.topics, commands_topic("Kept-default-1"), SCHEMAS[COMMANDS], "asker")
    for query in ("select 7 as v insert into T", "from T select v", "nonsense", "delete Nowhere on v == 1"):
        ask.send([(1, text_row({"id": 1, "query": query}))])
    run.run()
    run.feed("S", one).send([(2, (7,))])
    run.run()
    assert run.read("Out", one) == [(2, (7,))]
    assert found(minimal_causes(run.log("Kept-default-1", tmp_path / "fetched"), "Out", -1)) == [(7,)]


def test_each_shard_tells_of_its_own_keys(tmp_path: Path) -> None:
    text = """@app:name('Cut') @app:playback define stream S (k string, v long);
    @sink(type='embedded', topic='Cut.Out') define stream Out (k string, v long);
    partition with (k of S) begin from S#window.length(2) select k, sum(v) as v insert into Out; end;"""
    pair = Schema.of([("k", "string"), ("v", "long")])
    run = HandRun(tmp_path, text, shards=3, segments=3)
    events = [(1000 + n, (f"k{n % 5}", n)) for n in range(40)]
    for start in range(0, 40, 5):
        run.feed("S", pair).send(events[start : start + 5])
        run.run()
    came = run.read("Out", pair)
    assert sorted(came) == sorted(spdist.run(text, {"S": events})["Out"])
    logs = [run.log(f"Cut-default-1/{n}", tmp_path / f"fetched {n}") for n in (1, 2, 3)]
    assert sum(len(log.events("Out")) > 0 for log in logs) > 1
    for log in logs:
        for ts, row in log.events("Out")[-1:]:
            evidence = minimal_causes(log, "Out", row)
            n = ts - 1000
            assert found(evidence) == [(row[0], n - 5), (row[0], n)]
            assert [c.place.number for c in evidence.causes if c.place] == [n - 5, n]


def test_after_going_back_to_a_revision_its_inputs_are_kept_and_those_that_follow(tmp_path: Path) -> None:
    store = FileSystemPersistenceStore(tmp_path / "state", 2)
    first = HandRun(tmp_path, APP, segments=4)
    for event in READINGS[:10]:
        first.feed("Readings", SCHEMA).send([event])
        first.run()
    store.save("Rooms-default-1", "1__Rooms")
    first.feed("Readings", SCHEMA).send(READINGS[10:12])
    first.run()
    store.restore("Rooms-default-1", "1__Rooms")
    after = HandRun(tmp_path, APP, segments=1000)
    after.run()
    log = after.log("Rooms-default-1", tmp_path / "fetched")
    assert [row for _, row in log.events("Means")][-2:] == [("attic", 10.0), ("attic", 11.0)]
    assert found(minimal_causes(log, "Means", -1)) == [("attic", 10.0), ("attic", 11.0), ("attic", 12.0)]


def test_messages_of_users_topics_stand_at_their_own_offsets() -> None:
    (assignment,) = plan(parse(APP)).assignments()
    events = Events([7, 8], [40, 42], [b"", b""], [0, 0], [7, 8], [("attic", 1.0), ("attic", 2.0)])
    record = Record("Rooms.Readings@0:sensors", 3, Payload(SCHEMA).encode(events), 2, clock=8, offset=42)
    outside = Record("Rooms.Readings", 0, mark(b'{"event": {"room": "cellar", "degrees": 3.0}}', 9, 5), 1, offset=5)
    segments = [
        Segment(1, "me", 0, 0, {}, opening=True),
        Segment(2, "me", 0, 0, {}, (record, outside), batch=0),
        Segment(3, "me", 0, 0, {}, batch=1, closing=True),
    ]
    log = shard_log(assignment, CompiledInstance.of(assignment).checked, b"", segments, 0)
    places = [(log.place(one), one.row[1]) for one in log.given()]
    assert places == [
        (EventPlace("sensors", 3, 40), 1.0),
        (EventPlace("sensors", 3, 42), 2.0),
        (EventPlace("Rooms.Readings", 0, 5), 3.0),
    ]
    with pytest.raises(StateError, match="no snapshot of a group"):
        shard_log(assignment, CompiledInstance.of(assignment).checked, encode({"island": 1}), segments, 0)


def test_files_are_read_below_the_state_and_nowhere_else(rooms: HandRun) -> None:
    kept = stored_inputs(rooms.location, "Rooms-default-1")
    for name in ("../../secret", "assignment", "/etc/passwd", "segment-000000000001/../../assignment", "identity"):
        with pytest.raises(NotFoundError, match="no file of a state"):
            read_files(rooms.location, "Rooms-default-1", kept.layout, 0, [name], 10)
        with pytest.raises(NotFoundError, match="no file of a state"):
            StoredInputs.from_dict(kept.to_dict() | {"shards": [[name]]})
    with pytest.raises(NotFoundError, match="is gone"):
        read_files(rooms.location, "Rooms-default-1", kept.layout, 0, ["segment-000000000002"], 10)
    for layout, shard in (("other", 0), (kept.layout, 1), (kept.layout, -1)):
        with pytest.raises(NotFoundError, match="laid out anew"):
            read_files(rooms.location, "Rooms-default-1", layout, shard, [kept.shards[0].files[0]], 10)
    with pytest.raises(NotFoundError, match="nothing is kept of what Rooms-other-1"):
        stored_inputs(rooms.location, "Rooms-other-1")
