"""Queries on demand: what they mean in an app, and what is refused."""

from __future__ import annotations

import pytest

from spdist.errors import DuplicateDefinitionError, OnDemandQueryError, SiddhiAppError, SiddhiSyntaxError
from spdist.language.catalog import Catalog
from spdist.language.checking.checker import check
from spdist.language.checking.on_demand import CheckedOnDemand, check_on_demand
from spdist.language.parsing.parser import parse, parse_on_demand

DEFINED = """
define stream S (k string, v int);
define table T (k string, v int);
define window W (k string, v int) length(3);
define aggregation A from S select k, sum(v) as t group by k aggregate every sec, hour;
"""


def checked(text: str, catalog: Catalog) -> CheckedOnDemand:
    return check_on_demand(parse_on_demand(text), check(parse(DEFINED), catalog, DEFINED), catalog, text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("from T", "(k string, v int)"),
        ("from T select v * 2L as w, k", "(w long, k string)"),
        ("from T select k, sum(v) as t group by k having t > 1 order by t desc limit 2", "(k string, t long)"),
        ("from T as x on T.v > 1 select T.k as a", "(a string)"),
        ("from W on v > 1 select k", "(k string)"),
        ("from A within 1L, 2L per 'hours' select k, t", "(k string, t long)"),
        ("from T on (T.k == 'a') in T", "(k string, v int)"),
        ("select 'a' as k, 1 as v insert into T", "(k string, v int)"),
        ("delete T on T.v == 1", "(k string, v int)"),
        ("select 1 as least delete T on T.v < least", "(least int)"),
        ("update T set T.v = T.v + 1 on T.k == 'a'", "(k string, v int)"),
        ("select 'a' as k, 1 as v update or insert into T on T.k == k", "(k string, v int)"),
    ],
)
def test_the_result_has_the_attributes_that_are_selected(text: str, shown: str, catalog: Catalog) -> None:
    assert str(checked(text, catalog).output) == shown


def test_having_and_order_by_name_what_is_read_and_what_is_put_out(catalog: Catalog) -> None:
    found = checked("from T select k as v having T.v > 1 and v == 'a' order by T.v, v", catalog)
    assert str(found.output) == "(v string)"
    results = found.scope.results("T", found.output)
    assert [results.is_output(results.resolve(by.variable)) for by in found.select.order_by] == [False, True]


@pytest.mark.parametrize(
    ("text", "kind", "part"),
    [
        ("from Nowhere select k", OnDemandQueryError, "from Nowhere select k"),
        ("from S select k", OnDemandQueryError, "from S select k"),
        ("from T select x", OnDemandQueryError, "x"),
        ("from T on v select k", OnDemandQueryError, "v"),
        ("from T as t on t.v > 1 select k", OnDemandQueryError, "t"),
        ("from T on sum(v) > 1", OnDemandQueryError, "sum(v) > 1"),
        ("from T select k, v as k", DuplicateDefinitionError, "v as k"),
        ("from T select k having k", OnDemandQueryError, "k"),
        ("from T select k order by x", OnDemandQueryError, "x"),
        ("from T select k limit -1", OnDemandQueryError, "-1"),
        ("from T within 1L, 2L per 'hours'", OnDemandQueryError, "from T within 1L, 2L per 'hours'"),
        ("from T select k insert into Out", SiddhiSyntaxError, "insert into Out"),
        ("insert into T", SiddhiSyntaxError, "insert into T"),
        ("select 'a' as k, 1 as v insert all events into T", SiddhiSyntaxError, "insert all events into T"),
        ("select 'a' as k, 1L as v insert into T", OnDemandQueryError, "T"),
        ("select 'a' as k, 1 as v insert into W", OnDemandQueryError, "W"),
        ("delete T", OnDemandQueryError, "delete T"),
        ("delete T on T.x == 1", OnDemandQueryError, "T.x"),
        ("update T set T.x = 1 on true", OnDemandQueryError, "T.x"),
        ("update T on T.k == 'a'", OnDemandQueryError, "update T on T.k == 'a'"),
    ],
)
def test_what_is_wrong_is_located(text: str, kind: type[SiddhiAppError], part: str, catalog: Catalog) -> None:
    with pytest.raises(SiddhiAppError) as caught:
        checked(text, catalog)
    (error,) = caught.value.errors
    assert type(error) is kind
    assert error.span is not None
    assert text[error.span.start : error.span.end].endswith(part) or text[error.span.start :].startswith(part)


def test_all_errors_are_told_at_once(catalog: Catalog) -> None:
    with pytest.raises(OnDemandQueryError, match="2 errors") as caught:
        checked("from T on x > 1 select k, y", catalog)
    assert len(caught.value.errors) == 2
