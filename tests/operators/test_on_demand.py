"""Queries put to a running app."""

from __future__ import annotations

import pytest

from spdist.engine.local.app import LocalApp
from spdist.errors import OnDemandQueryError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.operators.tables.table import Table

APP = """
define stream S (k string, v int);
define stream Q (k string);
@PrimaryKey('k') define table T (k string, v int);
define table L (k string, v int);
from S update or insert into T set T.v = T.v + v on T.k == k;
from S insert into L;
from Q[(L.v == 1) in L] select k insert into Out;
"""


@pytest.fixture
def app() -> LocalApp:
    made = LocalApp(check(parse(APP), catalog(), APP))
    for number, row in enumerate([("a", 1), ("b", 2), ("a", 3)]):
        made.send("S", 1000 + number, row)
    return made


def test_a_query_is_compiled_once_and_sees_what_changed(app: LocalApp) -> None:
    text = "from T select sum(v) as t"
    assert app.query(text).rows == [(6,)]
    app.send("S", 2000, ("b", 4))
    assert app.query(text).rows == [(10,)]
    assert len(app._on_demand._compiled) == 1


def test_old_queries_are_forgotten(app: LocalApp) -> None:
    for number in range(70):
        app.query(f"from T on v > {number} select k")
    assert len(app._on_demand._compiled) == 64


def test_passing_queries_make_no_indexes(app: LocalApp) -> None:
    table = app._stores["L"]
    assert isinstance(table, Table)
    before = set(table.indexes)
    assert app.query("from L on k == 'a' and v == 1 select v").rows == [(1,)]
    app.query("delete L on L.k == 'a'")
    assert app.query("from T on (L.k == k and L.v == 2) in L select k").rows == [("b",)]
    assert set(table.indexes) == before


def test_an_error_at_a_row_leaves_the_app_as_it_was(app: LocalApp) -> None:
    with pytest.raises(OnDemandQueryError, match="The query fails"):
        app.query("from T select cast(k, 'int') + 1 as z")
    assert app.failures.count == 0
    assert app.query("from T select v").rows == [(4,), (2,)]


def test_the_result_has_a_schema_and_hides_what_only_orders(app: LocalApp) -> None:
    answer = app.query("from T select k order by v")
    assert answer.rows == [("b",), ("a",)]
    assert answer.schema.names == ("k",)


def test_tables_are_part_of_the_state(app: LocalApp) -> None:
    saved = app.snapshot()
    app.query("delete T on true")
    assert app.query("from T").rows == []
    app.restore(saved)
    assert app.query("from T").rows == [("a", 4), ("b", 2)]
    app.send("S", 3000, ("b", 5))
    assert app.query("from T on k == 'b' select v").rows == [(7,)]
