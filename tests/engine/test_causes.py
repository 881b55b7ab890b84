"""Why something came out: which events it is made of, what was waited for, and what is said about it."""

from __future__ import annotations

import logging
from pathlib import Path
from xml.etree import ElementTree

import pytest

import spdist
from spdist.engine.replay.causes import minimal_causes
from spdist.engine.replay.evidence import Evidence
from spdist.engine.replay.input_log import InputLog
from spdist.errors import NotFoundError, StateError, UndefinedNameError
from spdist.history import clock_text
from spdist.testing import VirtualApp

MIN = 60_000
HOT = """
@app:name('Rooms') @app:playback
define stream Readings (room string, degrees double);
define stream Doors (room string);
define stream Noise (text string);
partition with (room of Readings) begin
  @info(name='average') from Readings#window.length(3)
  select room, avg(degrees) as mean, count() as n insert into Means;
end;
@info(name='warm') from every m=Means[n == 3 and mean > 30.0] -> not Doors[room == m.room] for 10 min
select m.room as room, m.mean as mean insert into Alerts;
from Noise select text insert into Heard;
"""


def hot(until: int = 60 * MIN) -> tuple[dict[str, list[tuple[int, tuple[object, ...]]]], int]:
    readings = [(n * MIN, (("attic", "cellar", "hall")[n % 3], 20.0 + n)) for n in range(40)]
    doors: list[tuple[int, tuple[object, ...]]] = [(22 * MIN, ("attic",)), (35 * MIN, ("hall",))]
    noise: list[tuple[int, tuple[object, ...]]] = [(n * 20_000, ("x",)) for n in range(120)]
    return {"Readings": list(readings), "Doors": doors, "Noise": noise}, until


def found(evidence: Evidence) -> list[tuple[str, int]]:
    return [(cause.stream, cause.position) for cause in evidence.causes]


def test_the_causes_are_the_window_behind_the_pattern() -> None:
    events, until = hot()
    alerts = spdist.run(HOT, events, until)["Alerts"]
    for number, (timestamp, row) in enumerate(alerts):
        evidence = spdist.run(HOT, events, until=until).explain("Alerts", number)
        last = (timestamp - 10 * MIN) // MIN
        assert found(evidence) == [("Readings", last - 6), ("Readings", last - 3), ("Readings", last)]
        assert (evidence.event.timestamp, evidence.event.row, evidence.minimal) == (timestamp, row, True)
    assert [str(interval) for interval in evidence.intervals] == [
        f"no Doors[room == m.room] from {clock_text(last * MIN)} to {clock_text(timestamp)} (warm)"
    ]
    assert {came.stream for came in evidence.through} == {"Means"}
    assert evidence.sent == len(events["Readings"]) + len(events["Doors"]) + len(events["Noise"])


def test_an_event_that_only_moves_the_time_of_another_one_is_its_cause() -> None:
    text = "define stream A (v int); from every not A for 5 sec select 'quiet' as said insert into Out;"
    events = {"A": [(1000, (1,)), (3000, (2,))]}
    assert [timestamp for timestamp, _ in spdist.run(text, events, 20_000)["Out"]] == [8000, 13_000, 18_000]
    evidence = spdist.run(text, events, until=20_000).explain("Out")
    assert found(evidence) == [("A", 1)]
    # From the start the silences would be over at 6, 11 and 16 s.
    assert evidence.causes[0].without == "the same at 16,000 ms"
    assert [str(interval) for interval in evidence.intervals] == ["no A from 13,000 ms to 18,000 ms (query_1)"]


def test_what_time_alone_brings_has_no_cause() -> None:
    text = "define stream S (v int); define trigger T at every 5 sec; from T select 'tick' as t insert into Out;"
    evidence = spdist.run(text, {"S": [(0, (1,)), (20_000, (2,))]}).explain("Out", 1)
    assert evidence.causes == ()
    assert str(evidence) == "Out at 10,000 ms: t='tick', caused by time alone"
    assert evidence.replays == 2


def test_of_equal_events_the_second_needs_what_the_first_needs() -> None:
    text = "define stream S (v int); from S select v % 2 as odd insert into Out;"
    events = {"S": [(5, (1,)), (5, (2,)), (5, (3,))]}
    assert found(spdist.run(text, events).explain("Out", 0)) == [("S", 0)]
    second = spdist.run(text, events).explain("Out", 2)
    assert found(second) == [("S", 0), ("S", 2)]
    assert second.causes[0].without == "nothing"


def test_values_that_are_never_the_same_can_be_left_out() -> None:
    text = "define stream S (v int); from S[v > 0] select UUID() as id, v insert into Out;"
    events = {"S": [(n, (1,)) for n in range(9)]}
    assert len(spdist.run(text, events).explain("Out").causes) == 9
    assert found(spdist.run(text, events).explain("Out", attributes=["v"])) == [("S", 8)]
    with pytest.raises(UndefinedNameError, match="'w'"):
        spdist.run(text, events).explain("Out", attributes=["w"])


def test_running_totals_may_differ_in_their_last_digit() -> None:
    text = "define stream S (v double); from S#window.length(2) select sum(v) as s insert into Out;"
    events = {"S": [(1, (0.1,)), (2, (0.2,)), (3, (0.3,)), (4, (0.7,)), (5, (0.1,))]}
    assert found(spdist.run(text, events).explain("Out")) == [("S", 3), ("S", 4)]


def test_a_spent_budget_gives_what_was_sufficient() -> None:
    text = "define stream S (v int); from S select sum(v) as s insert into Out;"
    events = {"S": [(n, (1,)) for n in range(100)]}
    said: list[str] = []
    log = InputLog.of(spdist.check(text), events)
    evidence = minimal_causes(log, "Out", -1, budget=1000, progress=said.append)
    assert not evidence.minimal
    assert len(evidence.causes) == 100
    assert "or fewer" in str(evidence)
    assert said[0] == "replay 2: 100 events may be causes"
    assert minimal_causes(log, "Out", -1).minimal


def test_the_event_is_named_by_its_place_or_its_values() -> None:
    text = "define stream S (v int); from S select v * 2 as w insert into Out;"
    events = {"S": [(1, (1,)), (2, (2,)), (3, (2,))]}
    assert spdist.run(text, events).explain("Out", (4,)).event.timestamp == 2
    assert spdist.run(text, events).explain("Out", -3).event.row == (2,)
    for which in (3, -4, (5,)):
        with pytest.raises(NotFoundError, match="3 events come out"):
            spdist.run(text, events).explain("Out", which)
    with pytest.raises(UndefinedNameError, match="Did you mean 'Out'"):
        spdist.run(text, events).explain("Oud")


def test_what_lies_too_far_ahead_is_refused_again() -> None:
    text = """@app:playback
    @OnError(action='STREAM') define stream S (v int);
    from !S select v insert into Refused; from S select v insert into Out;"""
    year = 400 * 86_400_000
    events = {"S": [(1, (1,)), (2, (2,)), (year, (3,))]}
    evidence = spdist.run(text, events).explain("Refused")
    assert (evidence.event.row, found(evidence)) == ((3,), [("S", 2)])


def test_a_test_app_explains_what_came_out_of_it() -> None:
    app = VirtualApp("define stream S (k string, v double); from S select k, sum(v) as total insert into Out;")
    app.send_together("S", [("a", 1), ("a", 2.5)], at=5)
    app.send("S", "b", 1)
    evidence = app.explain("Out", 0)
    assert found(evidence) == [("S", 0), ("S", 1)]
    assert [cause.without for cause in evidence.causes] == ["total=2.5", "total=1"]
    assert found(app.explain("Out", ("b", 4.5))) == [("S", 0), ("S", 1), ("S", 2)]
    with pytest.raises(NotFoundError, match="2 came out"):
        app.explain("Out", 2)
    with pytest.raises(NotFoundError, match="not started"):
        VirtualApp("@app:playback define stream S (v int); from S select v insert into Out;").explain("Out")


def test_what_is_sent_to_the_same_stream_is_told_from_what_came_out() -> None:
    app = VirtualApp("define stream S (v int); from S[v < 3] select v + 1 as v insert into S;")
    app.send("S", 1)
    assert app.rows("S") == [(3,), (2,)] or app.rows("S") == [(2,), (3,)]
    evidence = app.explain("S", (3,))
    assert (evidence.event.row, found(evidence)) == ((3,), [("S", 0)])


def test_late_events_are_late_again() -> None:
    app = VirtualApp("define stream S (v int); from S#window.time(10) select sum(v) as s insert into Out;")
    app.send("S", 1, at=100)
    app.send("S", 2, at=95)
    evidence = app.explain("Out")
    assert (evidence.event.row, found(evidence)) == ((3,), [("S", 0), ("S", 1)])


def test_time_passes_without_the_events_that_are_left_out() -> None:
    app = VirtualApp("define stream S (v int); from S select v, currentTimeMillis() as now insert into Out;")
    app.send("S", 2, at=120)
    app.send("S", 3, at=95)
    evidence = app.explain("Out")
    assert (evidence.event.timestamp, evidence.event.row, found(evidence)) == (95, (3, 120), [("S", 1)])


def test_after_a_restore_the_state_is_given() -> None:
    app = VirtualApp("define stream S (v int); from S#window.length(3) select sum(v) as s insert into Out;")
    app.send("S", 1)
    state = app.snapshot()
    app.send("S", 5)
    app.restore(state)
    with pytest.raises(NotFoundError, match="0 came out"):
        app.explain("Out")
    app.send("S", 2)
    evidence = app.explain("Out")
    assert (evidence.event.row, found(evidence)) == ((3,), [("S", 0)])
    app.update("define stream S (v int); from S select v insert into Out;")
    app.send("S", 7)
    assert found(app.explain("Out")) == [("S", 0)]


def test_queries_that_changed_a_table_are_asked_again() -> None:
    app = VirtualApp(
        "define stream S (v int); define table T (v int); from S join T on S.v == T.v select T.v as v insert into Out;"
    )
    app.query("select 7 as v insert into T")
    app.send("S", 7)
    app.query("delete T on T.v == 7")
    app.query("from T select v")
    assert found(app.explain("Out")) == [("S", 0)]


def test_nothing_leaves_the_app_while_it_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    app = VirtualApp("""
    define stream S (v int);
    @store(type='rdbms', jdbc.url='jdbc:sqlite:rooms.db') define table T (v int);
    @sink(type='log') @sink(type='inMemory', topic='t') define stream Out (v int, f int);
    @source(type='inMemory', topic='t', @map(type='passThrough')) define stream Back (v int, f int);
    from S select v insert into T;
    from S select v, v / v as f insert into Out;
    from Back select v insert into Heard;
    """)
    app.send("S", 0)
    app.send("S", 2)
    assert app.query("from T select v") == [(0,), (2,)]
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert found(app.explain("Heard")) == [("S", 1)]
    assert caplog.records == []
    assert app.query("from T select v") == [(0,), (2,)]


def test_what_is_not_recorded_is_told() -> None:
    app = VirtualApp("define stream S (v int); from S select v insert into Out;")
    app.send("S", 1)
    recorder = app._recorder
    assert recorder is not None
    with pytest.raises(StateError, match="depends on what is not recorded"):
        minimal_causes(recorder.log(0), "Out", 0, expected=(0, (2,)))


def test_it_shows_itself_with_everything_escaped() -> None:
    app = VirtualApp("define stream S (k string); from S select k insert into Out;", start=1_700_000_000_000)
    app.send("S", "<script>")
    evidence = app.explain("Out")
    assert str(evidence).splitlines() == [
        "Out at 2023-11-14 22:13:20.000 UTC: k='<script>', caused by 1 of 1 events",
        "  time (UTC)               event  stream  k         without it",
        "  2023-11-14 22:13:20.000      0  S       <script>  nothing",
    ]
    html = evidence._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    ElementTree.fromstring(evidence.to_svg())
    assert evidence.to_dict()["causes"] == [
        {"stream": "S", "timestamp": 1_700_000_000_000, "row": ["<script>"], "position": 0, "without": "nothing"}
    ]


def test_the_timeline_has_a_lane_for_each_stream_and_each_absence() -> None:
    events, until = hot()
    picture = spdist.run(HOT, events, until=until).explain("Alerts", -1).to_svg()
    labels = [text.text for text in ElementTree.fromstring(picture) if text.get("text-anchor") == "end"]
    assert labels[:4] == ["Readings", "Means", "Alerts", "no Doors[room == m.room]"]
