"""Selection where recorded cases do not reach: order of evaluation, failures, forms of input that must agree."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.engine.local.app import LocalApp, run
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse

STREAM = "define stream S (k string, v int, o object);"


def app(query: str) -> LocalApp:
    text = f"{STREAM} {query}"
    return LocalApp(check(parse(text), catalog(), text))


def test_a_value_that_fails_leaves_later_totals_untouched() -> None:
    made = app("from S select sum(v) as before, cast(o, 'int') + 1 as x, count() as after insert into Out;")
    seen: list[Any] = []
    made.subscribe("Out", lambda _ts, row: seen.append(row))
    for time, o in enumerate((1, "text", 2)):
        made.send("S", time, ("a", 10, o))
    assert seen == [(10, 2, 1), (30, 3, 2)]


def test_one_row_for_a_chunk_and_one_for_each_group() -> None:
    chunk = [(10, ("a", 1, None)), (11, ("b", 2, None)), (12, ("a", 4, None))]
    for grouping, expected in ((" group by k", [(12, ("a", 5)), (11, ("b", 2))]), ("", [(12, ("a", 7))])):
        made = app(f"from S select k, sum(v) as s{grouping} insert into Out;")
        seen: list[Any] = []
        made.subscribe("Out", lambda ts, row, seen=seen: seen.append((ts, row)))  # type: ignore[misc]
        made.send_chunk("S", chunk)
        assert seen == expected


def test_a_query_observer_sees_current_and_expired_events_of_a_chunk() -> None:
    made = app("@info(name='q') from S#window.length(1) select v insert all events into Out;")
    seen: list[Any] = []
    made.subscribe_query("q", lambda ts, current, expired: seen.append((ts, current, expired)))
    made.send("S", 10, ("a", 1, None))
    made.send("S", 20, ("a", 2, None))
    assert seen == [(10, [(10, (1,))], []), (20, [(20, (2,))], [(20, (1,))])]


_rows = st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(-3, 3), st.none()), max_size=12)
_clauses = st.sampled_from(
    [
        "k, v", "*", "v + 1 as w", "k, v as x order by x desc, k limit 2", "k, v order by v offset 1",
        "k, sum(v) as s group by k", "k, count() as n group by k having n > 1", "sum(v) as s having count() > 1",
        "k, v group by k", "k, max(v) as m group by k order by m limit 1",
    ]
)  # fmt: skip


@given(_rows, _clauses, st.sampled_from(["", "[v > 0]", "[k == 'a' and v < 2]"]))
def test_a_chunk_of_one_is_a_single_event(rows: list[tuple[Any, ...]], clause: str, condition: str) -> None:
    def outcome(as_chunk: bool) -> list[Any]:
        made = app(f"from S{condition} select {clause} insert into Out;")
        seen: list[Any] = []
        made.subscribe("Out", lambda ts, row: seen.append((ts, row)))
        for time, row in enumerate(rows):
            if as_chunk:
                made.send_chunk("S", [(time, row)])
            else:
                made.send("S", time, row)
        return seen

    assert outcome(as_chunk=True) == outcome(as_chunk=False)


@given(_rows.filter(bool))
def test_order_limit_and_offset_cut_a_sorted_batch(rows: list[tuple[Any, ...]]) -> None:
    query = f"from S#window.lengthBatch({len(rows)}) select k, v order by v desc, k limit 3 offset 1 insert into Out;"
    out = [row for _, row in run(f"{STREAM} {query}", {"S": list(enumerate(rows))}).get("Out", [])]
    ranked = sorted(((k, v) for k, v, _ in rows), key=lambda row: (row[1] is None, -(row[1] or 0), row[0]))
    assert out == ranked[1:4]


@pytest.mark.parametrize("clause", ["v limit 0", "sum(v) as s offset 1"])
def test_limits_that_swallow_everything(clause: str) -> None:
    out = run(f"{STREAM} from S select {clause} insert into Out;", {"S": [(1, ("a", 1, None)), (2, ("a", 2, None))]})
    assert out == {"Out": []}
