from __future__ import annotations

import pytest

from spdist.errors import (
    AppValidationError,
    ErrorKind,
    SiddhiAppError,
    SiddhiSyntaxError,
    SiddhiTypeError,
    UndefinedNameError,
)
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.checker import CheckedQuery, check
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema

DEFINED = """define stream A (id string, v int);
define stream B (id string, v int);
define stream D (k int, w double);
@OnError(action='STREAM') define stream F (id string);
define table T (id string, n int);
@PrimaryKey('id') define table K (id string, n int);
define window W (id string, deg double) length(3);
define trigger Tick at every 5 sec;
define aggregation G from A select id, sum(v) as total group by id aggregate every sec, min;
"""


def query(text: str, catalog: Catalog) -> CheckedQuery:
    return check(parse(DEFINED + text), catalog).queries[-1]


def error(text: str, catalog: Catalog) -> SiddhiAppError:
    with pytest.raises(SiddhiAppError) as caught:
        query(text, catalog)
    (found,) = caught.value.errors
    assert found.span is not None
    return found


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("from A[v > 2][id == 'x'] insert into O", "(id string, v int)"),
        ("from Tick insert into O", "(triggered_time long)"),
        ("from W[deg > 1.0] select id, avg(deg) as m insert into O", "(id string, m double)"),
        ("from !F select id, _error insert into O", "(id string, _error object)"),
        ("from !F select !F.id insert into O", "(id string)"),
        (
            "from D#pol2Cart(w, 1.0)[x > 2.0]#window.length(2)[y < 1.0] insert into O",
            "(k int, w double, x double, y double)",
        ),
        ("from A#window.sort(2, v, 'asc') select A.v insert into O", "(v int)"),
        ("from A[(T.id == id and v > 3) in T] select id insert into O", "(id string)"),
        ("from A select A[0].v as x, A is null as y insert into O", "(x int, y bool)"),
    ],
)
def test_single_streams(text: str, schema: str, catalog: Catalog) -> None:
    assert str(query(text, catalog).output) == schema


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("from Missing insert into O", UndefinedNameError, "'Missing'"),
        ("from T insert into O", SiddhiTypeError, "'T' is no stream"),
        ("from G insert into O", SiddhiTypeError, "'G' is no stream"),
        ("from !A insert into O", UndefinedNameError, "'!A'"),
        ("from #I insert into O", UndefinedNameError, "'#I'"),
        ("from A[v] insert into O", SiddhiTypeError, "A filter needs a bool, this is an int"),
        ("from A#window.length(2)[id] insert into O", SiddhiTypeError, "A filter needs a bool, this is a string"),
        ("from A[x.v > 1] insert into O", UndefinedNameError, "no source called 'x'"),
        ("from A[sum(v) > 1] insert into O", ErrorKind.UNSUPPORTED, "Aggregators in filters"),
        ("from D[x > 1.0]#pol2Cart(w, 1.0) insert into O", ErrorKind.UNDEFINED_ATTRIBUTE, "no attribute 'x'"),
        ("from D#pol2Cart(k, 1.0)[x > 1.0] select y insert into O", SiddhiTypeError, "two doubles"),
        (
            "from D#pol2Cart(w, 1.0)#pol2Cart(w, 1.0) insert into O",
            SiddhiTypeError,
            "already has an attribute 'x'",
        ),
        ("from A#length(2) insert into O", ErrorKind.UNKNOWN_EXTENSION, "no stream function 'length'"),
        ("from A#window.weekly(2) insert into O", ErrorKind.UNKNOWN_EXTENSION, "no window 'weekly'"),
        ("from A#window.length(v) insert into O", SiddhiTypeError, "constant int"),
        ("from A#window.length(2, 3) insert into O", SiddhiTypeError, "constant int"),
        ("from A#window.time(q) insert into O", ErrorKind.UNDEFINED_ATTRIBUTE, "no attribute 'q'"),
        ("from W#window.length(2) insert into O", SiddhiTypeError, "'W' takes no window"),
        ("from (from A select v return) insert into O", ErrorKind.UNSUPPORTED, "A query inside"),
    ],
)
def test_refused_streams(text: str, kind: type[SiddhiAppError] | ErrorKind, message: str, catalog: Catalog) -> None:
    found = error(text, catalog)
    assert found.code == getattr(kind, "code", kind)
    assert message in found.message


def test_hints_for_common_slips(catalog: Catalog) -> None:
    assert error("from A#length(2) insert into O", catalog).hint == "A window is written #window.length(…)."
    assert "@OnError" in (error("from !A insert into O", catalog).hint or "")
    assert error("from Aa insert into O", catalog).hint == "Did you mean 'A'?"


# --- joins


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        (
            "from A#window.length(2) as a join B#window.length(2) as b on a.v == b.v select a.id, b.v as w",
            "(id string, w int)",
        ),
        ("from A join D on A.v == k select id, w", "(id string, w double)"),
        ("from A join D select *", "(id string, v int, k int, w double)"),
        ("from A[A.v > 1] as x join T on x.id == T.id select x.id, n", "(id string, n int)"),
        ("from A as x left outer join W on x.id == W.id select x.id, W is null as gone", "(id string, gone bool)"),
        ("from Tick join T select id", "(id string)"),
        ("from A as a join A as b on a.v == b.v select a.id", "(id string)"),
        ("from A join G on A.id == G.id within 1L, 2L per 'seconds' select A.id, total", "(id string, total long)"),
        ("from A join G within '2024-**' per A.id select AGG_TIMESTAMP as at", "(at long)"),
        ("from A join D on (T.n == k) in T select id", "(id string)"),
    ],
)
def test_joins(text: str, schema: str, catalog: Catalog) -> None:
    assert str(query(f"{text} insert into O", catalog).output) == schema


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("from A join B on A.v == B.v select id", AppValidationError, "'id' is ambiguous"),
        ("from A join T on T.id == id select A.id", AppValidationError, "'id' is ambiguous"),
        ("from A as x join K on K.id == id select x.id", AppValidationError, "'id' is ambiguous"),
        ("from A as x join D on A.v == k select x.id", AppValidationError, "no source called 'A'"),
        ("from A[x.v > 1] as x join D select x.id", UndefinedNameError, "no source called 'x'"),
        ("from A join D on A.v select A.id", SiddhiTypeError, "'on' needs a bool"),
        ("from A join D on sum(k) > 2 select A.id", ErrorKind.UNSUPPORTED, "Aggregators in join conditions"),
        ("from A join Missing select A.id", ErrorKind.UNDEFINED_SIDE, "'Missing'"),
        ("from T join T as t select T.id", SiddhiTypeError, "Two tables"),
        ("from A join T on eventTimestamp(T) > 1L select A.id", SiddhiTypeError, "Rows of 'T' have no time"),
        (
            "from A join G within 1L, 2L per 'sec' select eventTimestamp(G) as t",
            SiddhiTypeError,
            "Rows of 'G' have no time",
        ),
        ("from A join W#window.length(2) select A.id", SiddhiTypeError, "'W' takes no window"),
        ("from A join G on A.id == G.id select A.id", SiddhiTypeError, "read with 'within … per …'"),
        ("from A join G within true per 'sec' select A.id", SiddhiTypeError, "'within' takes one text"),
        ("from A join T within 1L, 2L per 'sec' select A.id", SiddhiTypeError, "Neither side is an aggregation"),
        ("from A join G within 1L, 2L per 5 select A.id", SiddhiTypeError, "'per' takes a string"),
        ("from A join G within 1L, 2 per 'sec' select A.id", SiddhiTypeError, "'within' takes times"),
        ("from A join G within 1L, 2L per 'weeks' select A.id", AppValidationError, "'weeks' is no duration"),
    ],
)
def test_refused_joins(text: str, kind: type[SiddhiAppError] | ErrorKind, message: str, catalog: Catalog) -> None:
    found = error(f"{text} insert into O", catalog)
    assert found.code == getattr(kind, "code", kind)
    assert message in found.message


# --- patterns and sequences


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("from every e1=A -> e2=B[v > e1.v and id == e1.id] within 1 sec select e1.id, e2.v", "(id string, v int)"),
        ("from A -> B[B.v > A.v] select A.v as x, B.v as y", "(x int, y int)"),
        ("from e1=A -> e2=D select id, k, e1.v", "(id string, k int, v int)"),
        ("from e1=A -> e2=D select *", "(id string, v int, k int, w double)"),
        ("from e1=A and e2=D select *", "(k int, w double, id string, v int)"),
        ("from e1=A<2:3> -> e2=D select *", "(id string, v int, k int, w double)"),
        (
            "from e1=A<2:3> -> e2=D select e1.v as all, e1[0].v as first, e1[last].v as last",
            "(all object, first int, last int)",
        ),
        ("from e1=A<2> -> e2=B[v > e1.v] select e2.v", "(v int)"),
        ("from every e1=A[v > e1[last].v]<2:> -> e2=D select e1[1] is null as few", "(few bool)"),
        ("from every e1=A -> not B[v > e1.v] for 1 sec -> e2=D[k > e1.v] select e1.v", "(v int)"),
        ("from e1=A -> not B for 1 sec select e1.v as x, B.v as none", "(x int, none int)"),
        ("from not A and e1=B select e1.v", "(v int)"),
        ("from e1=A[v > e2.v] and e2=B select e1 is null as a", "(a bool)"),
        ("from e1=A and not B[v > e1.v] select e1.v", "(v int)"),
        ("from every not A for 1 sec select 'quiet' as x", "(x string)"),
        ("from e1=W -> e2=Tick select deg, triggered_time", "(deg double, triggered_time long)"),
        ("from every e1=A, e2=A[v > e1.v]+, e3=B? select e1.v, e2[0].v as w, e3.v as o", "(v int, w int, o object)"),
        ("from e1=A<2> -> e2=D select count() as n group by e1.v", "(n long)"),
        ("from e1=A -> e2=D[(T.id == e1.id and T.n == k) in T] select k", "(k int)"),
    ],
)
def test_patterns(text: str, schema: str, catalog: Catalog) -> None:
    assert str(query(f"{text} insert into O", catalog).output) == schema


def test_a_bare_name_is_of_the_stream_that_looks_into_a_keyed_table(catalog: Catalog) -> None:
    found = query("from A join K on id == K.id and n > 1 select A.id insert into O", catalog).query.input
    assert isinstance(found, ast.JoinInput) and found.on is not None
    names = [str(node.stream and node.stream.id) for node in found.on.walk() if isinstance(node, ast.Variable)]
    assert names == ["A", "K", "None"]


def test_sources_of_a_pattern(catalog: Catalog) -> None:
    found = query("from e1=A<2> -> not B for 1 sec -> (e3=D and e4=A) select e1[0].v as x insert into O", catalog)
    sources = found.scope.sources
    assert [(source.name, source.stream_id, source.kind, source.multiple) for source in sources] == [
        ("e1", "A", "state", True),
        ("B", "B", "state", False),
        ("e3", "D", "state", False),
        ("e4", "A", "state", False),
    ]
    assert found.scope.star_order == (0, 1, 3, 2)
    assert sources[2].schema == Schema.of([("k", "int"), ("w", "double")])


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("from e1=A -> e2=B select v as x", AppValidationError, "'v' is ambiguous"),
        ("from e1=A -> not B for 1 sec select v as x", AppValidationError, "'v' is ambiguous"),
        ("from e1=A -> e2=B select e1.v as x group by id", AppValidationError, "'id' is ambiguous"),
        ("from e1=A[v > e2.v] -> e2=B select e1.v", UndefinedNameError, "'e2' is not known here"),
        ("from e1=A and e2=B[v > e1.v] select e1.v", UndefinedNameError, "'e1' is not known here"),
        ("from e1=A -> e2=D[k > v] select e1.v", AppValidationError, "'e2' has no attribute 'v'"),
        ("from e1=A[A.v > 3] -> e2=D select e1.v", AppValidationError, "no source called 'A'"),
        ("from e1=A -> e2=D select c.v as x", AppValidationError, "no source called 'c'"),
        ("from e1=A -> e2=D select c[0] is null as x", AppValidationError, "no source called 'c'"),
        ("from e1=A -> e2=T select e1.v", SiddhiTypeError, "'T' is no stream"),
        ("from e1=A -> e2=Missing[zz > 1] select e1.v, e2.q", UndefinedNameError, "'Missing'"),
        ("from e1=A -> e2=B[v] select e1.v", SiddhiTypeError, "A filter needs a bool"),
        ("from e1=A -> not B[v + 1] for 1 sec select e1.v", SiddhiTypeError, "A filter needs a bool"),
        ("from e1=A -> e2=B[sum(v) > 2] select e1.v", ErrorKind.UNSUPPORTED, "Aggregators in filters"),
        ("from e1=A<2> -> e2=D select e1.v > 2 as x", SiddhiTypeError, "'>' does not compare object with int"),
        ("from e1=A<2> -> e2=D select sum(e1.v) as x", SiddhiTypeError, "'sum' takes one number"),
    ],
)
def test_refused_patterns(text: str, kind: type[SiddhiAppError] | ErrorKind, message: str, catalog: Catalog) -> None:
    found = error(f"{text} insert into O", catalog)
    assert found.code == getattr(kind, "code", kind)
    assert message in found.message


def test_star_of_a_pattern_with_equal_names_is_refused(catalog: Catalog) -> None:
    found = error("from e1=A -> e2=B select * insert into O", catalog)
    assert found.message == "'select *' has more than one 'id', 'v'"
    assert found.hint == "Select them by name: e1.id as …"


@pytest.mark.parametrize(
    "text",
    [
        "from not A or e2=D select e2.k as k",
        "from e2=D or not A select e2.k as k",
        "from not A and not D select 1 as k",
    ],
)
def test_an_endless_absence_stands_beside_an_event(text: str, catalog: Catalog) -> None:
    assert type(error(f"{text} insert into O;", catalog)) is SiddhiSyntaxError
