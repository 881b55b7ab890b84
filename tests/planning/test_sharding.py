"""What splits an app by key, and what keeps it whole."""

from __future__ import annotations

import re

import pytest

from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.planning.groups import plan
from spdist.planning.sharding import Sharding, sharding
from spdist.planning.topology import Assignment, shard_names

HEAD = """@app:name('App') define stream S (k string, v int); define stream R (a string, b string, v int);
define table T (k string); define window W (k string) length(3);
"""


def split(body: str, *inputs: str) -> Sharding:
    return sharding(check(parse(HEAD + body), catalog()), inputs or ("S", "R"))


def per_key(query: str, keys: str = "k of S") -> str:
    return f"partition with ({keys}) begin {query} end;"


LAST = "from S#window.length(2) select k, sum(v) as v insert into Out;"


LENGTH = "#window.length(2) select"
KEPT_M = per_key(f"from M{LENGTH} k insert into Out;", "k of M")


@pytest.mark.parametrize(
    ("body", "keys"),
    [
        ("from S[v > 1] select k, v * 2 as w insert into Out;", {"S": None, "R": None}),
        (per_key(LAST), {"S": "k", "R": None}),
        (
            per_key("from S#window.length(1) join R#window.length(1) select S.k insert into Out;", "k of S, b of R"),
            {"S": "k", "R": "b"},
        ),
        ("from R select b as k, v insert into M;" + KEPT_M, {"S": None, "R": "b"}),
        (
            "from R[v > 1] insert into M;" + per_key(f"from M{LENGTH} a insert into Out;", "a of M"),
            {"S": None, "R": "a"},
        ),
        (
            per_key(f"from S{LENGTH} k as key, sum(v) as v insert into #I; from #I select key as k insert into M;")
            + KEPT_M,
            {"S": "k", "R": None},
        ),
        (
            per_key("from every e1=S -> e2=S[v > e1.v] select e2.k insert into M;") + KEPT_M,
            {"S": "k", "R": None},
        ),
    ],
)
def test_what_splits_an_app(body: str, keys: dict[str, str | None]) -> None:
    assert split(body) == Sharding(keys)


OUT = "insert into Out;"
PURGED = "@purge(enable='true', interval='1 sec', idle.period='1 sec') "
AGGREGATED = "define aggregation A from S select k, sum(v) as v group by k aggregate every sec;"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (LAST, r"query_1' is outside of partitions and has a window \(length\)"),
        (f"from S select k, count() as n {OUT}", r"aggregates \(count\)"),
        (f"from S select k group by k {OUT}", "groups, sorts or limits"),
        (f"from S select k output last every 1 sec {OUT}", "limits its rate"),
        (f"from every e1=S -> e2=S select e1.k {OUT}", "is a pattern"),
        (f"from S#window.length(1) join R#window.length(1) select S.k {OUT}", "is a join"),
        (f"define trigger G at every 1 sec; from S select k {OUT}", "trigger 'G' would fire in every shard"),
        (f"{AGGREGATED} from S select k {OUT}", "aggregation 'A' sees"),
        (f"from S[(T.k == k) in T] select k {OUT}", "uses 'T', which is one for all keys"),
        ("from S select k insert into T;", "uses 'T'"),
        (per_key("from S select k insert into W;"), "uses 'W'"),
        (per_key(f"from S select UUID() as id {OUT}"), r"uses UUID\(\)"),
        (per_key(f"from S select math:rand() as r {OUT}"), r"uses math:rand\(\)"),
        (per_key(f"from S#window.timeBatch(1 sec) select k {OUT}"), "has a timeBatch window"),
        (PURGED + per_key(LAST), "has @purge"),
        (per_key(LAST, "v > 1 as 'big' or v < 2 as 'small' of S"), "partition 1 splits 'S' by ranges"),
        (per_key(LAST, "str:upper(k) of S"), "by an expression"),
        (per_key(f"from R select a {OUT}"), "brings events of 'R' to all keys"),
        (
            per_key(f"from R{LENGTH} a insert into A;", "a of R") + per_key(f"from R{LENGTH} b {OUT}", "b of R"),
            "'R' would have to be split by 'a' and by 'b'",
        ),
        (
            "from R select str:upper(b) as k insert into M;" + KEPT_M,
            "must be split by 'k', which query 'query_1' does not hand on",
        ),
        (
            per_key("from S select k, v insert into M;") + per_key(f"from M{LENGTH} k {OUT}", "v of M"),
            "must be split by 'v'",
        ),
    ],
)
def test_what_keeps_an_app_whole(body: str, reason: str) -> None:
    found = split(body)
    assert not found.possible
    assert any(re.search(reason, one) for one in found.reasons), found.reasons


def test_a_plan_names_the_shards_where_groups_can_be_split() -> None:
    text = """@app:name('App') define stream S (k string, v int);
        @dist(execGroup='a', parallel='2') partition with (k of S) begin
            from S#window.length(2) select k, sum(v) as v insert into M; end;
        @dist(execGroup='b') from M#window.length(2) select sum(v) as v insert into Out;"""
    first, second, last = plan(parse(text), shards=3).assignments()
    assert (first.shards, second.shards, last.shards) == (3, 3, 1)
    assert first.name == "App-a-1"
    assert last.inputs[0].producers == (*shard_names("App-a-1", 3), *shard_names("App-a-2", 3))
    assert last.inputs[0].producers[0] == "App-a-1/1"
    assert Assignment.from_dict(first.to_dict()) == first
    assert plan(parse(text)).assignments()[2].inputs[0].producers == ("App-a-1", "App-a-2")
