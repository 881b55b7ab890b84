"""What queries wait for: absences and windows of time, with their lengths."""

from __future__ import annotations

import pytest

import spdist
from spdist.planning.pictures.graph import app_graph
from spdist.planning.waits import Wait, waits

HEAD = "define stream A (v int, at long); define stream B (v int); define window W (v int) timeBatch(3 sec); "


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("every A -> not B[v > 1] for 5 sec", [("absence", "B[v > 1]", 5000, True)]),
        ("not B for 5 sec -> e=A", [("absence", "B", 5000, False)]),
        ("every e=A -> not B and f=A", [("absence", "B", None, False)]),
        ("not A for 1 sec and not B for 2 sec", [("absence", "A", 1000, False), ("absence", "B", 2000, False)]),
        ("A#window.time(1 min)", [("window", "time(1 min)", 60_000, True)]),
        ("A#window.timeBatch(500)", [("window", "timeBatch(500)", 500, True)]),
        ("A#window.length(5)", []),
        ("A#window.externalTime(at, 5 sec)", []),
    ],
)
def test_waits_of_one_query(query: str, expected: list[tuple[str, str, int | None, bool]]) -> None:
    checked = spdist.check(f"{HEAD} @info(name='q') from {query} select 1 as one insert into Out;")
    found = waits(checked, app_graph(checked).upstream("Out"))
    assert found == tuple(Wait("q", *one) for one in expected)  # type: ignore[arg-type]


def test_only_what_leads_to_the_stream_counts() -> None:
    checked = spdist.check(
        f"{HEAD} @info(name='in') from A select v insert into W; @info(name='out') from W select v insert into Out; "
        "@info(name='other') from B#window.time(1 sec) select v insert into Other;"
    )
    graph = app_graph(checked)
    assert [wait.query for wait in waits(checked, graph.upstream("Out"))] == ["W"]
    assert [wait.query for wait in waits(checked, graph.upstream("Other"))] == ["other"]
    assert graph.upstream("Out") == {"Out", "query:out", "W", "query:in", "A"}
