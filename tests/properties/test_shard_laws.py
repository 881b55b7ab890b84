"""However events are split over nodes, batches and lives, their shards together are what one node has of all events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.engine.island.hosted import HostedApp
from spdist.extension import catalog
from spdist.language import ast
from spdist.language.checking.checked import CheckedAggregation
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.operators.base import Row
from spdist.operators.core.codec import encode
from spdist.operators.tables.stores import BucketStore, Changes, StoreBatch, TableStore

STREAM = "define stream S (k string, n int, v double, b bool, at long); "
PURGE = "@purge(enable='false') "
DEFINITIONS = [
    "select k, sum(n) as s, avg(v) as a, count() as c, min(n) as lo, max(v) as hi, distinctCount(n) as d group by k",
    "select k, b, n as latest, n * 2 as twice, sum(n) + count() as m group by k, b",
    "select sum(v) as s, v as latest",
    "select n, str:concat(k, '!') as t group by n",
]
DURATIONS = ["sec...hour", "min, day", "sec"]
READ = "from A within 0L, 9999999999999L per '{}' select *"
WORDS = {"sec...hour": ("seconds", "minutes", "hours"), "min, day": ("minutes", "days"), "sec": ("seconds",)}


class Common:
    """The rows of all shards, in memory: what a database does for `spdist.stores.bucket_shards`."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, int, str, bytes], bytes] = {}


class OneShard:
    """One node's way to them."""

    def __init__(self, common: Common, shard: str, levels: int) -> None:
        self.common, self.shard, self.levels = common, shard, levels
        self._changes: Changes | None = None

    def follow(self, changes: Changes) -> None:
        self._changes = changes

    def changed(self) -> None:
        """Nothing: batches end with `flush`."""

    def go_on(self, shard: str) -> None:
        assert shard == self.shard

    def flush(self) -> None:
        assert self._changes is not None
        for level, start, groups in self._changes.changes():
            self.put(level, start, groups)

    def put(self, level: int, start: int, groups: Sequence[tuple[Any, Row, bytes]]) -> None:
        for key, _, state in groups:
            self.common.rows[level, start, self.shard, encode(key)] = state

    def remove(self, level: int, before: int) -> None:
        raise AssertionError((level, before))

    def load(self) -> list[dict[int, list[bytes]]]:
        found: list[dict[int, list[bytes]]] = [{} for _ in range(self.levels)]
        for (level, start, shard, _), state in self.common.rows.items():
            if shard == self.shard:
                found[level].setdefault(start, []).append(state)
        return found

    def found(self, level: int, start: int, end: int, *key: Any) -> Iterable[tuple[int, str, bytes]]:
        wanted = [encode(one) for one in key]
        for (of, at, shard, group), state in sorted(self.common.rows.items()):
            if of == level and start <= at < end and (not wanted or group in wanted):
                yield at, shard, state


class Outside:
    """The stores of one app."""

    def __init__(self, common: Common, shard: str) -> None:
        self._common, self._shard = common, shard
        self.made: list[OneShard] = []

    def table(self, definition: ast.TableDefinition, now: Callable[[], int]) -> TableStore | None:
        return None

    def buckets(self, aggregation: CheckedAggregation) -> BucketStore:
        self.made.append(OneShard(self._common, self._shard, len(aggregation.durations)))
        return self.made[-1]

    def begin(self, batch: StoreBatch) -> None: ...

    def commit(self) -> None:
        for one in self.made:
            one.flush()

    def close(self) -> None: ...


def app(text: str, outside: Outside | None = None) -> HostedApp:
    return HostedApp(check(parse(text), catalog(), text), stores=outside)


#: Which node gets it, how long after the one before, its values, how late by its own time, what the node does then.
_event = st.tuples(
    st.integers(0, 2),
    st.sampled_from([1, 1, 400, 1000, 2500, 61_000, 4_000_000]),
    st.sampled_from(["x", "y", None]),
    st.integers(-3, 3) | st.none(),
    st.sampled_from([0.25, 3.5, -2.0, None]),
    st.booleans(),
    st.sampled_from([0, 0, 0, 700, 60_000, 3_600_000, -1500]),
    st.sampled_from(["", "", "", "commit", "restore", "begin anew", "read"]),
)


@pytest.mark.parametrize("by", ["", "by at "], ids=["by arrival", "by time"])
@given(st.lists(_event, max_size=20), st.integers(0, 3), st.sampled_from(DURATIONS))
@settings(max_examples=60, deadline=None)
def test_shards_together_are_one_node(by: str, events: list[tuple[Any, ...]], number: int, every: str) -> None:
    # By time one node has the last result of a function to come, and several have the latest.
    select = DEFINITIONS[number % (3 if by else 4)]
    text = f"{STREAM}{PURGE}define aggregation A from S {select} aggregate {by}every {every};"
    alone, common = app(text), Common()
    outsides = [Outside(common, shard) for shard in "abc"]
    nodes = [app(text, outside) for outside in outsides]
    clock, seen = 1_699_920_000_000, set()
    for node, gap, k, n, v, b, late, then in events:
        clock += gap
        at = clock - late
        while at in seen:  # of values with equal times the last one to come stays, and nodes hear in another order
            at += 1
        seen.add(at)
        row = (k, n, v, b, at)
        alone.send("S", clock, row)
        nodes[node].send("S", clock, row)
        if then == "read":  # with what it has not written yet
            for outside in outsides[:node] + outsides[node + 1 :]:
                outside.commit()
            assert same(alone, nodes[node : node + 1], WORDS[every])
        elif then:
            outsides[node].commit()
        if then in ("restore", "begin anew"):
            outsides[node] = Outside(common, "abc"[node])
            fresh = app(text, outsides[node])
            if then == "restore":
                fresh.restore(nodes[node].snapshot())
            nodes[node] = fresh
    for outside in outsides:
        outside.commit()
    assert not events or same(alone, nodes, WORDS[every])


def same(alone: HostedApp, nodes: Sequence[HostedApp], words: Sequence[str]) -> bool:
    """Tell whether nodes answer what one node does, for all durations."""
    for per in words:
        expected = Counter(alone.query(READ.format(per)).rows)
        assert [Counter(node.query(READ.format(per)).rows) for node in nodes] == [expected] * len(nodes), per
    return True


@given(st.lists(_event, min_size=1, max_size=12))
@settings(max_examples=20, deadline=None)
def test_a_row_that_is_looked_up_is_the_row_that_is_read(events: list[tuple[Any, ...]]) -> None:
    text = f"{STREAM}{PURGE}define aggregation A from S {DEFINITIONS[0]} aggregate every sec...hour;"
    common = Common()
    outsides = [Outside(common, shard) for shard in "abc"]
    nodes = [app(text, outside) for outside in outsides]
    clock = 1_699_920_000_000
    for node, gap, k, n, v, b, _, _ in events:
        clock += gap
        nodes[node].send("S", clock, (k, n, v, b, 0))
        outsides[node].commit()
    rows = nodes[0].query(READ.format("hours")).rows
    for key in ("x", "y", "null"):
        asked = f"from A on k == '{key}' within 0L, 9999999999999L per 'hours' select *"
        assert Counter(nodes[1].query(asked).rows) == Counter(row for row in rows if row[1] == key)
