"""An app that is restored where its program is compiled goes on with that: from columns, without its operators."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import pytest

from spdist.engine.island.hosted import HostedApp
from spdist.engine.programs import programmed
from spdist.operators.partitions.partition import PartitionRuntime
from spdist.operators.queries.query import SingleStreamQuery
from spdist.operators.tables.table import Table
from spdist.program.machine.compiler import interpreted
from spdist.program.running.values import ProgramValues
from tests.program.drawn_apps import START_MS, STREAM
from tests.program.interpreted_programs import programs
from tests.program.watched import Watched, checked_app

AVERAGES = f"""{STREAM} define table T (sym string, price double);
partition with (sym of S) begin
    from S#window.length(2) select sym, avg(price) as a insert into Out;
end;
from S#window.time(1 sec) select kind, count() as n group by kind insert into Out2;
from S select sym, price update or insert into T set T.price = price on T.sym == sym;"""


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    with programs():
        yield


def begun(text: str, keys: int = 5) -> HostedApp:
    """An app that its program runs, and that has processed an event of each of so many keys, twice."""
    watched = Watched(checked_app(text), interpreted)
    watched.app.start(START_MS)
    for turn in range(2):
        watched.run([(START_MS + turn, (f"k{n}", "x", n + 0.5, 1.0, n % 3, n, True)) for n in range(keys)])
    assert watched.app.programmed is not None
    assert watched.app.programmed.active
    return watched.app


def restored(text: str, state: bytes) -> Watched:
    watched = Watched(checked_app(text), interpreted)
    watched.app.restore(state)
    return watched


#: More events.
ROWS = [(name, "x", 9.0, 1.0, 1, 1, True) for name in ("k1", "new")]


def put_out(watched: Watched) -> list[Any]:
    """What an app has put out, and what its table has."""
    return [*watched.chunks, watched.app.query("from T select sym, price").rows]


def test_its_operators_get_nothing() -> None:
    state = begun(AVERAGES).snapshot()
    given: list[Any] = []

    def noted(own: Callable[..., None]) -> Callable[..., None]:
        def restore(self: Any, state: Any) -> None:
            given.append(state)
            own(self, state)

        return restore

    with ExitStack() as around:
        for kind in (PartitionRuntime, SingleStreamQuery, Table):
            around.enter_context(patch.object(kind, "restore", noted(kind.restore)))
        watched = restored(AVERAGES, state)
    assert watched.app.programmed is not None
    assert watched.app.programmed.active
    assert "k1" in repr(state)
    assert "k1" not in repr(given)
    assert watched.app.snapshot() == state


def test_a_state_that_a_program_cannot_have_is_that_of_its_operators() -> None:
    state = begun(AVERAGES).snapshot()
    other = restored(AVERAGES, state)
    other.run([(START_MS + 10, row) for row in ROWS])

    def refused(*_: object) -> None:
        raise ValueError("a time near the limits of a long")

    with patch.object(programmed, "load_state", refused):
        watched = restored(AVERAGES, state)
    assert watched.app.programmed is not None
    assert not watched.app.programmed.active
    assert watched.app.programmed.reason == "the state has a value that is not of its type"
    for row in ROWS:
        watched.chunk([(START_MS + 10, row)], START_MS + 10)
    assert put_out(watched) == put_out(other)
    assert len(watched.chunks) == 4


KEYED = f"{STREAM} partition with (sym of S) begin from %s insert into Out; end;"
SHAPES = {
    "totals": KEYED % "S select sym, sum(price) as s, max(total) as m",
    "length": KEYED % "S#window.length(10) select sym, avg(price) as a, max(price) as m, distinctCount(volume) as d",
    "time": KEYED % "S#window.time(1 sec) select sym, avg(price) as a",
    "lengthBatch": KEYED % "S#window.lengthBatch(10) select sym, avg(price) as a",
    "externalTime": KEYED % "S#window.externalTime(total, 1 sec) select sym, avg(price) as a group by volume",
    "join": KEYED % "S#window.length(3) as a join S#window.length(3) as b on a.volume == b.volume select a.sym as sym",
    "pattern": KEYED % "every e1=S[price > 0.0] -> e2=S[price < 0.0] select e1.sym as sym, e2.price as p",
    "counted": KEYED % "every e1=S[price > 0.0]<2:4> -> e2=S[price < 0.0] select e1[0].sym as sym, e2.price as p",
    "absence": KEYED % "every e1=S[price > 0.0] -> not S[price < 0.0] for 5 sec select e1.sym as sym",
    "group by": f"{STREAM} from S#window.length(10000) select sym, avg(price) as a group by sym insert into Out;",
    "table": f"""{STREAM} define table T (sym string, price double);
        from S select sym, price update or insert into T set T.price = price on T.sym == sym;""",
}


@pytest.mark.parametrize("name", SHAPES)
def test_no_key_has_a_call_of_its_own(name: str) -> None:
    """So a large state is there in the time that copying it takes."""

    def calls(keys: int) -> int:
        state, count = begun(SHAPES[name], keys).snapshot(), 0

        def called(_frame: Any, event: str, _argument: Any) -> None:
            nonlocal count
            count += event == "call"

        watched = Watched(checked_app(SHAPES[name]), interpreted)
        watched.app.programmed.compile()  # type: ignore[union-attr]
        sys.setprofile(called)
        try:
            watched.app.restore(state)
        finally:
            sys.setprofile(None)
        assert watched.app.programmed is not None
        assert watched.app.programmed.active, watched.app.programmed.reason
        return count

    calls(100)
    few, many = calls(100), calls(1100)
    # Tables of texts grow now and then
    assert many - few < 100, (few, many)


#: Queries in a partition.
OF_KEYS = {
    "deduplicate": "S#unique:deduplicate(sym, 9 sec) select sym, total",
    "kslack": "S#reorder:kslack(total) select sym, total",
    "akslack": "S#reorder:akslack(total, price) select sym, total",
    "sliding": "S#window.length(3) select sym, avg(price) as a, max(price) as m group by sym",
    "batch": "S#window.timeBatch(9 sec) select sym, sum(price) as s",
    "delay": "S#window.delay(9 sec) select sym, kind",
    "bound": "S#window.expression('count() < 3') select sym, sum(price) as s",
    "join": "S#window.length(2) as a join S#window.unique:ever(sym) as b on a.sym == b.sym select a.sym, b.kind",
    "pattern": "every a=S -> b=S[sym == 's9'] select a.sym as x, b.sym as y",
    "counting pattern": "every a=S<2:> -> b=S[sym == 's9'] select a[0].sym as x, b.sym as y",
    "ever": "S#window.unique:ever(sym) select sym, sum(price) as s",
    "length": "S#window.unique:length(sym, 3) select sym, sum(price) as s",
    "time": "S#window.unique:time(sym, 9 sec) select sym, sum(price) as s",
    "time batch": "S#window.unique:timeBatch(sym, 9 sec) select sym, sum(price) as s",
    "external batch": "S#window.unique:externalTimeBatch(sym, total, 9 sec, 0, 9 sec) select sym, sum(price) as s",
    "frequent": "S#window.frequent(3, sym) select sym, kind",
    "session": "S#window.session(9 sec, sym, 3 sec) select sym, kind",
    "sort": "S#window.sort(3, sym, 'desc', price) select sym, kind",
    "all": "S select sym, kind output every 9 sec",
    "last": "S select sym, sum(price) as s group by sym output last every 9 sec",
    "snapshot": "S#window.length(3) select sym, sum(price) as s group by sym output snapshot every 9 sec",
}


def parted(query: str, keys: int) -> Watched:
    """Return an app with a query in a partition, which so many keys have given two events each."""
    text = f"{STREAM} partition with (kind of S) begin from {query} insert into Out; end;"
    one = Watched(checked_app(text), interpreted)
    one.app.start(START_MS)
    one.begin()
    for turn in range(2):
        one.run([(START_MS, (f"s{turn}", str(key), 1.5, None, None, turn, None)) for key in range(keys)])
    return one


@pytest.mark.parametrize("query", OF_KEYS.values(), ids=list(OF_KEYS))
def test_a_state_is_stored_and_loaded_for_all_keys_together(query: str) -> None:
    asked: list[list[int]] = []
    for keys in (5, 50):
        calls = [0, 0]

        def counted(place: int, own: Callable[..., Any], calls: list[int] = calls) -> Callable[..., Any]:
            def call(*given: Any) -> Any:
                calls[place] += 1
                return own(*given)

            return call

        one = parted(query, keys)
        fresh = Watched(one.app.checked, interpreted)
        names = ("stored", "loaded")
        with ExitStack() as around:
            for place, name in enumerate(names):
                around.enter_context(patch.object(ProgramValues, name, counted(place, getattr(ProgramValues, name))))
            fresh.restore(one.app.snapshot(), directly=True)
        asked.append(calls)
        assert min(calls) > 0
    assert asked[0] == asked[1]
