"""The elements of an app as edges: what is read, by which query, into what."""

from __future__ import annotations

from typing import Any

from spdist.facade import check
from spdist.planning.pictures.flow import app_flow

TEXT = """@app:name('A')
define stream S (k string, v int);
define trigger Tick at every 1 sec;
define table T (k string, v int);
define window W (k string, v int) length(3);
define function twice[python] return int { return data[0] * 2 };
define aggregation Agg from S select k, sum(v) as s group by k aggregate every sec...min;
@info(name='q') from S[v > 1] select k, twice(v) as v insert into T;
@info(name='j') from W join T on W.k == T.k select W.k, T.v insert into J;
from Tick select triggered_time insert into Ticks;
partition with (k of S) begin
  @info(name='in') from S select k, sum(v) as s insert into #I;
  @info(name='out') from #I select * insert into Out;
end;
partition with (v < 5 as 'few' or v >= 5 as 'many' of S) begin @info(name='r') from S select k insert into R; end;"""


def flow(text: str = TEXT) -> list[dict[str, Any]]:
    return app_flow(check(text, scripts=True), text)


def test_each_query_has_an_edge_for_what_it_reads() -> None:
    assert [(e.get("queryName"), e["inputStreamId"], e["outputStreamId"]) for e in flow()] == [
        ("q", "S", "T"),
        ("j", "W", "J"),
        ("j", "T", "J"),
        ("query_3", "Tick", "Ticks"),
        ("in", "S", "#I"),
        ("out", "#I", "Out"),
        ("r", "S", "R"),
        (None, "S", "Agg"),
    ]


def test_elements_have_their_kinds_and_definitions() -> None:
    kinds = {
        e[f"{side}StreamId"]: (e[f"{side}StreamType"], e[f"{side}StreamSiddhiApp"])
        for e in flow()
        for side in ("input", "output")
    }
    assert kinds == {
        "S": ("Stream", "define stream S (k string, v int)"),
        "T": ("Table", "define table T (k string, v int)"),
        "W": ("Window", "define window W (k string, v int) length(3)"),
        "J": ("Stream", "define stream J (k string, v int)"),
        "Tick": ("Trigger", "define trigger Tick at every 1 sec"),
        "Ticks": ("Stream", "define stream Ticks (triggered_time long)"),
        "#I": ("Stream", "define stream #I (k string, s long)"),
        "Out": ("Stream", "define stream Out (k string, s long)"),
        "R": ("Stream", "define stream R (k string)"),
        "Agg": (
            "Aggregation",
            "define aggregation Agg from S select k, sum(v) as s group by k aggregate every sec...min",
        ),
    }


def test_queries_are_shown_as_they_were_written() -> None:
    edges = {e.get("queryName"): e for e in flow()}
    q, out, ranges = edges["q"], edges["out"], edges["r"]
    assert q["query"] == "@info(name='q') from S[v > 1] select k, twice(v) as v insert into T"
    assert (q["function"], q["functionQuery"]) == (
        "twice",
        "define function twice[python] return int { return data[0] * 2 }",
    )
    assert out["query"].startswith("partition with (k of S) begin")
    assert out["partitionQuery"] == "@info(name='out') from #I select * insert into Out"
    assert (out["partitionType"], out["partitionTypeQuery"]) == ("ValuePartition", "k of S")
    assert ranges["partitionType"] == "RangePartition"
    assert "partitionType" not in q


def test_a_long_partition_does_not_make_the_answer_grow_with_its_square() -> None:
    queries = " ".join(f"@info(name='q{n}') from S select k insert into Out{n};" for n in range(200))
    edges = flow(f"define stream S (k string); partition with (k of S) begin {queries} end;")
    assert len(edges) == 200
    assert max(len(edge["query"]) for edge in edges) < 2100
