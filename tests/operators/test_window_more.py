"""Windows where they mean more than the engine does, what joins see of them, and what is refused."""

from __future__ import annotations

import linecache
from typing import Any

import pytest

from spdist.engine.local.app import run
from spdist.errors import SiddhiAppError
from spdist.operators.windows.expression import MOST_CONDITIONS

STREAM = "define stream S (k string, v int, at long); define stream Q (k string);"


def out(query: str, rows: list[Any], asked: list[Any] | None = None, until: int | None = None) -> list[Any]:
    events = {"S": [(1000 + 100 * i, (*row, 1000 + 100 * i)) for i, row in enumerate(rows)], "Q": asked or []}
    return [row for _, row in run(STREAM + query, events, until)["Out"]]


def test_each_key_of_a_partition_has_totals_of_its_own() -> None:
    query = (
        "partition with (k of S) begin "
        "from S#window.expression('count() <= 1') select k, count() as n insert into Out; end;"
    )
    assert out(query, [("a", 1), ("b", 2), ("a", 3)]) == [("a", 1), ("b", 1), ("a", 1)]


@pytest.mark.parametrize(
    ("window", "found"),
    [
        ("session(1 sec, k)", []),
        ("expression('count() <= 2')", [3]),
        ("expressionBatch('count() <= 3')", [1, 3]),
        ("frequent(2, k)", [3]),
        ("unique:ever(k)", [3]),
        ("unique:first(k)", [1]),
        ("unique:time(k, 1 sec)", [3]),
    ],
)
def test_joins_look_into_windows(window: str, found: list[int]) -> None:
    query = f"from Q join S#window.{window} as w on Q.k == w.k select w.v as v insert into Out;"
    assert out(query, [("a", 1), ("b", 2), ("a", 3)], [(1250, ("a",))]) == [(v,) for v in found]


def test_all_events_of_a_chunk_are_unique_ones_too() -> None:
    query = "from S select k, v insert into T; from T#window.unique:length(k, 2) select k, v insert into Out;"
    assert len(out(query, [("a", 1), ("b", 2), ("c", 3)])) == 3


def test_timers_of_a_window_reach_it_behind_a_stream_processor() -> None:
    query = "from S#unique:deduplicate(k, 1 sec)#window.timeBatch(500) select k, v insert into Out;"
    assert out(query, [("a", 1), ("a", 2), ("b", 3)], until=2000) == [("a", 1), ("b", 3)]


@pytest.mark.parametrize(
    "window",
    [
        "cron('foo')",
        "cron(k)",
        "session(500)",
        "session(500L, v)",
        "session(500L, k, 600L)",
        "frequent(k)",
        "lossyFrequent(0.2)",
        "expression('v + 1')",
        "expression('v +')",
        "expression('nowhere > 1')",
        "expressionBatch('v > 1', 3)",
        "unique:length(k)",
        "unique:time(k, v)",
    ],
)
def test_wrong_arguments_are_refused(window: str) -> None:
    with pytest.raises(SiddhiAppError):
        out(f"from S#window.{window} select k insert into Out;", [("a", 1)])


@pytest.mark.parametrize("handler", ["unique:deduplicate(k, 500)", "reorder:kslack(v)", "reorder:kslack(at, 5, true)"])
def test_wrong_arguments_of_handlers_are_refused(handler: str) -> None:
    with pytest.raises(SiddhiAppError):
        out(f"from S#{handler} select k insert into Out;", [("a", 1)])


def test_lossy_frequent_without_an_error_bound_forgets_nothing() -> None:
    text = "define stream S (k string); from S#window.lossyFrequent(0.5, 0.0) select k insert all events into O;"
    assert [row for _, row in run(text, {"S": [(n, (key,)) for n, key in enumerate("abaa")]})["O"]] == [
        ("a",), ("b",), ("a",), ("a",),
    ]  # fmt: skip


@pytest.mark.parametrize("wrong", [None, "nonsense <"])
def test_an_event_whose_condition_is_none_is_lost_and_the_window_goes_on(wrong: str | None) -> None:
    text = "define stream S (v int, rule string); from S#window.expression(rule) select v, count() as c insert into O;"
    rules = [wrong, "count() <= 2", wrong, "count() <= 2", "count() <= 2"]
    out = run(text, {"S": [(1000 + n, (n, rule)) for n, rule in enumerate(rules)]})["O"]
    assert [row for _, row in out] == [(1, 1), (3, 2), (4, 2)]


def test_of_many_conditions_those_used_last_stay_compiled() -> None:
    text = "define stream S (v int, rule string); from S#window.expression(rule) select v, count() as c insert into O;"
    before = len(linecache.cache)
    events = [(1000 + n, (n, f"count() <= {1 + n}")) for n in range(400)]
    out = run(text, {"S": events})["O"]
    assert len(out) == 400
    assert len(linecache.cache) - before < MOST_CONDITIONS + 50


def test_a_session_ends_as_if_its_key_were_the_only_one() -> None:
    query = (
        "define stream S (k string, v int); from S#window.session(20L, k, 15L) select k, v insert all events into O;"
    )
    events = [(1000 + 3 * n - (n % 5) * 6, (f"k{n * n % 13}", n)) for n in range(300)]
    together = run(query, {"S": events}, until=10_000)["O"]
    for key in {row[0] for _, row in events}:
        alone = run(query, {"S": [one for one in events if one[1][0] == key]}, until=10_000)["O"]
        assert sorted(row for _, row in together if row[0] == key) == sorted(row for _, row in alone)
