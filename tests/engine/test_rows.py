"""How many rows a state holds."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from spdist.engine.island.hosted import HostedApp
from spdist.engine.local.rows import count_rows
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from tests.engine.one_chunk import deliver_now

S = "@app:playback define stream S (k string, v long);"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("from S select k insert into O;", 0),
        ("from S#window.length(4) select k, v insert into O;", 4),
        ("from S#window.length(4) select k, sum(v) as s group by k insert into O;", 4 + 2),
        ("from S#window.timeBatch(1 min) select k insert into O;", 7 + 1),
        ("define table T (k string, v long); from S insert into T;", 7),
        ("@primaryKey('k') define table T (k string, v long); from S update or insert into T on T.k == k;", 2),
        ("from every e1=S -> e2=S[v > 100] select e1.k as k insert into O;", 7),
        ("partition with (k of S) begin from S#window.length(3) select k, sum(v) as s insert into O; end;", 2 * 3),
        ("define aggregation G from S select k, sum(v) as t group by k aggregate every sec...min;", 2),
    ],
)
def test_the_rows_of_an_app(text: str, rows: int) -> None:
    checked = check(parse(S + text), catalog(), S + text)
    app = HostedApp(checked, "A")
    app.start(1000)
    for number in range(7):
        app.advance(1000 + number)
        deliver_now(app, "S", [(1000 + number, (f"k{number % 2}", number))])
    again = HostedApp(checked, "A")
    again.restore(app.snapshot())
    assert app.held_rows() == again.held_rows()
    # Partitions hold the two totals of their keys, too, as a list that is none of a map.
    assert app.held_rows() == rows


def test_of_much_only_a_part_is_looked_at() -> None:
    seen = 0

    class Counted(list[Any]):
        def __bool__(self) -> bool:
            nonlocal seen
            seen += 1
            return True

    assert count_rows([deque((n, ("k", n)) for n in range(5000)), [1, 2, 3], None]) == 5000
    assert count_rows({n: Counted([1, 2]) for n in range(5000)}) == 5000
    assert seen == 1000
