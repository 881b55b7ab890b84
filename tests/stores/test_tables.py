"""Tables in databases mean what tables in memory mean."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from spdist.engine.local.app import LocalApp
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.stores.databases import DatabaseStores

Open = Callable[[], DatabaseStores]
STORE = "@store(type='rdbms', datasource='DB', allow.null.values='true', field.length='k:40')"
STREAM = "define stream S (k string, n int, l long, p double, f float, b bool);"
TABLE = "define table T (k string, n int, l long, p double, f float, b bool);"


def app(text: str, stores: DatabaseStores | None = None) -> LocalApp:
    return LocalApp(check(parse(text), catalog(), text), stores=stores)


KEYS = ["", "@PrimaryKey('n')", "@PrimaryKey('k', 'n') @Index('l')"]
#: What an event does to the table, and what it finds in it.
QUERIES = [
    "from S insert into T;",
    "from S delete T on T.k == k and T.n <= n;",
    "from S delete T on T.p > p or T.l is null;",
    "from S update T set T.l = T.l + 1, T.p = p on T.n >= n and not (T.b == b);",
    "from S update T set T.f = f, T.b = b on T.n == n;",
    "from S update or insert into T set T.p = p, T.l = l on T.k == k and T.n == n;",
    "from S update T set T.n = T.n + 1 on T.f < f;",
    "from S[(T.n == n and T.p < p) in T] select n, k insert into Out;",
    "from S join T on T.l <= S.l and (T.k == S.k or T.b == S.b) select T.k as k, T.n as n, T.p as p insert into Out2;",
    "from S left outer join T on T.k == S.k and T.n == S.n select S.n as n, T.f as f insert into Out3;",
    "from S join T on T.p >= S.n and T.f != S.f select T.n as n insert into Out4;",
]
ASKED = [
    "from T select *",
    "from T on n > 1 and k != 'b' select n, l",
    "from T on l == 2L or b is null select sum(n) as s",
    "from T on p < 1.5 select k, n",
]
small = st.integers(-3, 3)
texts = st.sampled_from(["a", "b", "A", "", "ß ", "it's; --", "null"])
reals = st.sampled_from([0.0, -0.0, 0.5, 1.5, -2.25, 1e300, float("inf")])
rows = st.tuples(
    texts,
    small,
    small | st.integers(-(2**63), 2**63 - 1) | st.none(),
    reals | st.none(),
    st.floats(width=32, allow_nan=False, allow_infinity=False) | small.map(float) | st.none(),
    st.booleans() | st.none(),
)
NUMBERS = itertools.count()
#: Databases are slow, and a failing example is small enough as it is.
QUICKLY = settings(
    max_examples=40,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)


def ran(text: str, events: list[Any], stores: DatabaseStores | None, changes: list[str]) -> list[Any]:
    """What an app puts out and what it answers, as multisets: a database's order is its own."""
    running = app(text, stores)
    seen: list[Any] = []
    for stream in ("Out", "Out2", "Out3", "Out4"):
        if stream in running.checked.streams:
            running.subscribe(stream, lambda ts, row, stream=stream: step.append((stream, row)))  # type: ignore[misc]
    for time, (row, chunk) in enumerate(events):
        step: list[Any] = []
        if chunk is None:
            running.send("S", time, row)
        else:
            running.send_chunk("S", [(time, row), (time, chunk)])
        seen.append(Counter(step))
    for query in [*changes, *ASKED]:
        seen.append(Counter(running.query(query).rows))
    seen.append(running.failures.count)
    running.stop()
    return seen


@given(
    st.lists(st.tuples(rows, st.none() | rows), max_size=12),
    st.lists(st.sampled_from(QUERIES), min_size=1, max_size=4),
    st.sampled_from(KEYS),
    st.lists(st.sampled_from(["delete T on T.n == 1", "update T set T.l = 7L on T.k == 'a'"]), max_size=2),
)
@QUICKLY
def test_a_stored_table_gives_what_one_in_memory_gives(
    opened: Open, events: list[Any], queries: list[str], key: str, changes: list[str]
) -> None:
    body = "\n".join([QUERIES[0], *queries])
    # Each example has a table of its own.
    named = STORE.replace("')", f"', table.name='T{next(NUMBERS)}')")
    stored = ran(f"{STREAM} {named} {key} {TABLE} {body} from S insert into Kept;", events, opened(), changes)
    assert stored == ran(f"{STREAM} {key} {TABLE} {body} from S insert into Kept;", events, None, changes)


@pytest.mark.parametrize("key", ["@PrimaryKey('k')", ""])
def test_an_attribute_may_have_any_name(opened: Open, key: str) -> None:
    # Also those that parameters of statements had, or might have.
    names = ["k", "old_0", "old_1", "k_old_0", "v0"]
    columns = ", ".join(f"{name} int" for name in names)
    store = STORE.replace(", field.length='k:40'", "")
    running = app(
        f"define stream S ({columns}); {store} {key} define table T ({columns});"
        "from S[k == 1] insert into T; from S[k == 2] select 1 as k, old_0, old_1, k_old_0, v0 insert into Changes;"
        "from Changes update T on T.k == k; from S[k == 3] delete T on T.old_0 == old_0 and T.v0 == v0;",
        opened(),
    )
    running.send("S", 0, (1, 10, 11, 12, 13))
    running.send("S", 1, (2, 99, 98, 97, 96))
    assert running.query("from T select *").rows == [(1, 99, 98, 97, 96)]
    running.send("S", 2, (3, 99, 0, 0, 96))
    assert running.query("from T select *").rows == []
    assert running.failures.count == 0
    running.stop()
