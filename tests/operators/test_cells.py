"""Keys of partitions kept in cells give what full instances give, and the same snapshots."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from spdist.engine.local.app import LocalApp
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.operators.partitions import partition

STREAMS = "define stream S (k string, v int, w double); define stream C (n int);\n"
#: Chunks of four events come into M, of which some in a row have the same key.
CHUNKS = "from S#window.lengthBatch(4) select * insert into M;\n"
QUERIES = {
    "all": "from {s} select * insert into Out;",
    "totals": "from {s}[v != 4] select k, sum(v) as s, max(w) as m having s != 6 insert into Out;",
    "groups": "from {s}#window.length(3) select v, avg(w) as a, count() as n group by v insert into Out;",
    "plain groups": "from {s} select k, v group by v limit 1 insert into Out;",
    "length": "from {s}[v > 1]#window.length(3)[v != 5] select k, sum(w) as s, stdDev(w) as d insert into Out;",
    "sparing": "from {s}#window.length(2) select k, v > 3 and sum(v) > 8 as s insert into Out;",
    "time": "from {s}#window.time(13) select k, sum(v) as s, min(v) as m insert into Out;",
    "time groups": "from {s}#window.time(13) select k, v, sum(w) as s group by v insert into Out;",
    "fails": "from {s}#window.time(20) select sum(convert(k, 'int')) + 1 / (v - 3) as s insert into Out;",
    "casts": "from {s}#window.length(2) select sum(cast(k, 'double')) as s insert into Out;",
    "round": "from {s}#window.length(2) select k, v, sum(w) as w having w < 11.0 insert into {s};"
    "| from {s}[w > 3.0] select k, v, w insert into Out;",
}
INSTANCES = {
    "expired": "from {s}#window.length(2) select k insert all events into Out;",
    "batch": "from {s}#window.lengthBatch(2) select k, sum(v) as s insert into Out;",
    "two": "from {s} select k insert into Out; from {s}[v > 3] select k insert into Out;",
    "limited": "from {s} select k output last every 2 events insert into Out;",
}
KEYS = ("k", "v", "str:concat(k, k)")
EVENTS = [
    (1000 + n * 2 + n % 3 * 5, ("xyz"[n % 5 % 3] if n % 7 else None, n // 2 % 7 if n % 11 else None, n / 4))
    for n in range(80)
]


class Watched:
    """An app, and what it puts out."""

    def __init__(self, query: str, key: str, stream: str) -> None:
        inside, _, outside = query.format(s=stream).partition("| ")
        given = "define stream M (k string, v int, w double);" if stream == "M" else ""
        chunks = CHUNKS if stream == "M" else ""
        text = f"{STREAMS}{given}{chunks}partition with ({key} of {stream}) begin {inside} end; {outside}"
        self.app = LocalApp(check(parse(text), catalog(), text))
        self.out: list[Any] = []
        self.app.subscribe("Out", lambda ts, row: self.out.append((ts, row)))

    @property
    def cells(self) -> Any:
        return self.app._elements._partitions[0].cells

    def play(self, start: int, end: int, batch: bool) -> None:
        part = EVENTS[start:end]
        if batch:
            self.app.send_batch("S", [ts for ts, _ in part], [row for _, row in part])
        else:
            for ts, row in part:
                self.app.send("S", ts, row)


@pytest.mark.parametrize("stream", ["S", "M"])
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", QUERIES)
def test_cells_do_what_instances_do(name: str, key: str, stream: str) -> None:
    with patch.object(partition, "cells_of", return_value=None):
        full = Watched(QUERIES[name], key, stream)
        later = Watched(QUERIES[name], key, stream)
    celled, again = Watched(QUERIES[name], key, stream), Watched(QUERIES[name], key, stream)
    assert full.cells is None
    assert celled.cells is not None
    for each in (full, celled):
        each.play(0, 25, batch=False)
        each.play(25, 40, batch=True)
    assert celled.app.snapshot() == full.app.snapshot()
    # Each takes over what the other has kept.
    again.app.restore(full.app.snapshot())
    later.app.restore(celled.app.snapshot())
    for each in (full, celled, again, later):
        each.play(40, 60, batch=True)
        each.play(60, 80, batch=False)
    full.app.advance(1200)
    again.app.advance(1200)
    assert celled.out == full.out
    assert full.out == [*full.out[: len(full.out) - len(again.out)], *again.out]
    assert again.out == later.out
    assert again.app.snapshot() == full.app.snapshot()
    assert celled.app.failures.count == full.app.failures.count
    assert full.out or full.app.failures.count


@pytest.mark.parametrize("name", INSTANCES)
def test_what_needs_more_has_instances(name: str) -> None:
    assert Watched(INSTANCES[name], "k", "S").cells is None


def test_keys_that_may_go_have_instances() -> None:
    text = f"""{STREAMS} @purge(enable='true', interval='5 sec', idle.period='1 sec') partition with (k of S)
        begin from S select k, sum(v) as s insert into Out; end;"""
    app = LocalApp(check(parse(text), catalog(), text))
    assert app._elements._partitions[0].cells is None
