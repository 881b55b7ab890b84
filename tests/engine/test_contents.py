"""What a running app holds, as people see it: it agrees with what comes out later and what on-demand queries read."""

from __future__ import annotations

from typing import Any

import pytest

from spdist.engine.local.app import LocalApp
from spdist.engine.local.contents import Contents, OperatorContent, contents_of
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse

STREAM = "define stream S (k string, v int, at long); "
SEC = 1000


def running(text: str, *events: tuple[Any, ...], until: int | None = None, stream: str = "S") -> LocalApp:
    app = LocalApp(check(parse(text), catalog(), text))
    app.start(0)
    for time, *row in events:
        app.send(stream, time, tuple(row))
    if until is not None:
        app.advance(until)
    return app


def only(contents: Contents, of: str, kind: Any = None) -> OperatorContent:
    (found,) = contents.of(of, kind)
    return found


EVENTS = [(n * SEC, "xyz"[n % 3], n, n * SEC) for n in range(1, 8)]


CRON = {"open": [5, 6, 7], "last": [1, 2, 3, 4]}


@pytest.mark.parametrize(
    ("window", "parts"),
    [
        ("length(3)", {"length(3)": [5, 6, 7]}),
        ("time(2500 millisec)", {"time(2500 millisec)": [5, 6, 7]}),
        ("timeLength(10 sec, 2)", {"timeLength(10 sec, 2)": [6, 7]}),
        ("lengthBatch(5)", {"lengthBatch(5), open batch": [6, 7]}),
        ("timeBatch(5 sec)", {"timeBatch(5 sec), open batch": [6, 7]}),
        ("delay(2500 millisec)", {"delay(2500 millisec)": [5, 6, 7]}),
        ("externalTime(at, 1500 millisec)", {"externalTime(at, 1500 millisec)": [6, 7]}),
        ("sort(2, v)", {"sort(2, v)": [1, 2]}),
        ("session(5 sec, k)", {"session(5 sec, k)": [1, 4, 7, 2, 5, 3, 6]}),
        ("unique:length(k, 3)", {"unique:length(k, 3)": [2, 3, 4, 5, 6, 7]}),
        ("expression('count() <= 2')", {"expression('count() <= 2')": [6, 7]}),
        ("expressionBatch('count() <= 4')", {"expressionBatch('count() <= 4'), open batch": [5, 6, 7]}),
        ("frequent(2, k)", {"frequent(2, k)": [7]}),
        ("lossyFrequent(0.1, 0.05, k)", {"lossyFrequent(0.1, 0.05, k)": [6, 7, 5]}),
        ("unique:timeLengthBatch(k, 1 min, 5)", {"unique:timeLengthBatch(k, 1 min, 5), open batch": [6, 7, 5]}),
        ("cron('*/5 * * * * ?')", {f"cron('*/5 * * * * ?'), {b} batch": v for b, v in CRON.items()}),
    ],
)
def test_a_window_shows_the_events_that_it_keeps(window: str, parts: dict[str, list[int]]) -> None:
    app = running(f"{STREAM} @info(name='q') from S#window.{window} select k, v insert into Out;", *EVENTS)
    found = {part.what: part for part in contents_of(app.inside).of("q", "window")}
    assert {what: [row[2] for row in part.rows] for what, part in found.items() if part.what in parts} == parts
    for what in parts:
        assert found[what].names == ("time", "k", "v", "at")
        assert all(row[0] in (row[2] * SEC, None) for row in found[what].rows)


def test_a_defined_window_shows_what_an_on_demand_query_reads() -> None:
    app = running(f"{STREAM} define window W (k string, v int) length(4); from S select k, v insert into W;", *EVENTS)
    part = only(contents_of(app.inside), "W")
    assert (part.kind, part.what, part.total) == ("window", "length(4)", 4)
    assert [row[1:] for row in part.rows] == app.query("from W select k, v").rows


def test_a_table_shows_its_rows_and_an_aggregation_its_open_buckets() -> None:
    text = f"""{STREAM} define table T (k string, v int);
    define aggregation A from S select k, sum(v) as total group by k aggregate every sec...min;
    from S select k, v update or insert into T set T.v = v on T.k == k;
    """
    contents = contents_of(running(text, *EVENTS, (7 * SEC, "x", 100, 0)).inside)
    assert only(contents, "T").rows == (("y", 7), ("z", 5), ("x", 100))
    part = only(contents, "A")
    assert part.names == ("per", "AGG_TIMESTAMP", "k", "total")
    assert [row for row in part.rows if row[0] == "second"] == [
        ("second", 7 * SEC, "y", 7),
        ("second", 7 * SEC, "x", 100),
    ]


def test_an_attempt_shows_what_it_waits_for_and_until_when() -> None:
    text = """define stream A (v int); define stream B (v int); define stream C (v int);
    @info(name='seen') from every e1=A -> e2=B[v > e1.v] -> not C for 5 sec within 1 min
    select e1.v as first, e2.v as second insert into Out;"""
    app = running(text, (1000, 1), (2000, 2), stream="A")
    part = only(contents_of(app.inside), "seen", "attempts")
    assert part.names == ("waits for", "fires at", "expires at", "e1", "e2")
    assert part.rows == (
        ("e2", None, 61_000, (1000, (1,)), None),
        ("e2", None, 62_000, (2000, (2,)), None),
    )
    app.send("B", 3000, (2,))
    assert only(contents_of(app.inside), "seen", "attempts").rows == (
        ("e2", None, 62_000, (2000, (2,)), None),
        ("not C for 5 sec", 8000, 61_000, (1000, (1,)), (3000, (2,))),
    )
    out: list[int] = []
    app.subscribe("Out", lambda timestamp, row: out.append(timestamp))
    app.advance(7999)
    assert (out, only(contents_of(app.inside), "", "timers").rows[0]) == ([], (8000, "seen", "absence"))
    app.advance(8000)
    assert out == [8000]
    assert "e2=" not in str(contents_of(app.inside))


def test_a_silence_from_the_start_and_counted_elements_are_shown() -> None:
    text = """define stream A (v int); define stream B (v int);
    @info(name='quiet') from every not A for 5 sec -> b=B select b.v as v insert into Out;
    @info(name='some') from every e1=A<2:3> -> e2=B select e1[0].v as v insert into Out;"""
    app = running(text, (1000, 1), (2000, 2), stream="A")
    assert only(contents_of(app.inside), "quiet", "attempts").rows == (("not A for 5 sec", 7000, None, None),)
    rows = only(contents_of(app.inside), "some", "attempts").rows
    assert rows
    assert all(row[3][0] in ((1000, (1,)), (2000, (2,))) for row in rows)
    assert "1,000 ms (1,); 2,000 ms (2,)" in str(contents_of(app.inside))


def test_sides_of_a_join_totals_and_rate_limits_are_shown() -> None:
    text = """define stream A (k string, v int); define stream B (k string, w int);
    @info(name='join') from A#window.length(2) join B#window.time(1 min) on A.k == B.k
    select A.k as k, sum(A.v) as s group by A.k output last every 10 events insert into Out;"""
    app = running(text, (1, "x", 1), (2, "x", 2), (3, "y", 3), stream="A")
    app.send("B", 4, ("x", 9))
    contents = contents_of(app.inside)
    assert {part.what: [row[1:] for row in part.rows] for part in contents.of("join", "window")} == {
        "length(2)": [("x", 2), ("y", 3)],
        "time(1 min)": [("x", 9)],
    }
    assert [row[0] for row in only(contents, "join", "totals").rows] == ["x"]
    assert only(contents, "join", "rate limit").rows[0][1:] == ("x", 2)


def test_a_partition_shows_all_keys_or_one() -> None:
    text = f"""{STREAM} partition with (k of S) begin
    @info(name='two') from S#window.length(2) select k, sum(v) as s insert into #Sums;
    @info(name='up') from every a=#Sums -> b=#Sums[s > a.s] select b.s as s insert into Out; end;"""
    app = running(text, *EVENTS)
    contents = contents_of(app.inside)
    assert only(contents, "partition 1").rows == (("y",), ("z",), ("x",))
    part = only(contents, "two", "window")
    assert part.names == ("key", "time", "k", "v", "at")
    assert [(row[0], row[3]) for row in part.rows] == [("y", 4), ("y", 7), ("z", 2), ("z", 5), ("x", 3), ("x", 6)]
    assert [row[0] for row in only(contents_of(app.inside, key="x"), "two", "window").rows] == ["x", "x"]
    assert {row[0] for row in only(contents, "up", "attempts").rows} == {"x", "y", "z"}


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("window", ["length(100)", "time(2 sec)"])
def test_columns_show_what_rows_show_of_what_is_still_read(window: str, partitioned: bool) -> None:
    query = f"@info(name='q') from S#window.{window} select k, sum(v) as s group by k insert into Out;"
    if partitioned:
        query = f"partition with (k of S) begin {query.replace('group by k', '')} end;"
    text = STREAM + query
    events = [(n, f"k{n % 7}", n, n) for n in range(5000)]
    rows = contents_of(running(text, *events).inside, most=10_000)
    app = LocalApp(check(parse(text), catalog(), text))
    app.subscribe("Out", lambda timestamp, row: None)
    app.send_batch("S", [time for time, *_ in events], [tuple(row) for _, *row in events])
    columns = contents_of(app.inside, most=10_000)
    plain, packed = only(rows, "q", "window"), only(columns, "q", "window")
    at = plain.names.index("v")
    assert sorted(row[at] for row in packed.rows) == sorted(row[at] for row in plain.rows)
    assert packed.names == plain.names
    totals = [sorted(only(one, "q", "totals").rows) for one in (rows, columns)]
    assert totals[0] == totals[1]


def test_only_the_newest_rows_are_shown_and_all_are_counted() -> None:
    text = f"{STREAM} define table T (v int); from S select v insert into T;"
    text += "from S#window.length(50) select v insert into Out;"
    contents = contents_of(running(text, *((n, "k", n, n) for n in range(100))).inside, most=3)
    assert only(contents, "query_2", "window").rows[0][2] == 97
    assert only(contents, "query_2", "window").total == 50
    assert (only(contents, "T").rows, only(contents, "T").total) == (((97,), (98,), (99,)), 100)
    assert "window query_2 length(50): 50 rows" in str(contents)


def test_who_waits_is_named() -> None:
    text = """define stream S (v int); define trigger Tick at every 5 sec; define trigger Noon at '0 0 12 * * ?';
    define window W (v int) time(3 sec); from S select v insert into W; from Tick select 1 as one insert into Out;
    @info(name='slow') from S select v output all every 7 sec insert into Late;
    from Noon select 1 as one insert into Out;"""
    app = running(text, (1000, 1))
    found = {row[1]: row[0] for row in only(contents_of(app.inside), "", "timers").rows}
    assert {name: found[name] for name in ("Tick", "W", "slow", "Noon")} == {
        "W": 4000, "Tick": 5000, "slow": 7000, "Noon": 12 * 3_600_000,
    }  # fmt: skip


def test_what_is_shown_is_escaped() -> None:
    app = running(f"{STREAM} define table T (k string); from S select k insert into T;", (1, "<b>", 1, 1))
    assert "&lt;b&gt;" in contents_of(app.inside)._repr_html_()
    assert "<b>" not in contents_of(app.inside)._repr_html_()
