from __future__ import annotations

import pytest

from spdist.errors import DuplicateDefinitionError, ErrorKind, SiddhiAppError, SiddhiTypeError, UndefinedNameError
from spdist.language.catalog import Catalog
from spdist.language.checking.checker import CheckedApp, check
from spdist.language.parsing.parser import parse

DEFINED = """define stream A (id string, v int);
define stream Same (id string, v int);
define stream Other (id string, v long);
@OnError(action='STREAM') define stream F (id string, v int);
define table T (id string, v int);
define window W (id string, v int) length(3);
define trigger Tick at every 5 sec;
define aggregation G from A select sum(v) as s aggregate every sec;
"""


def app(text: str, catalog: Catalog) -> CheckedApp:
    return check(parse(DEFINED + text), catalog)


@pytest.mark.parametrize(
    "text",
    [
        "from A select id, v insert into Same",
        "from A insert into T",
        "from A insert into W",
        "from A insert into F",
        "from A insert into !F",
        "from A insert into !A",
        "from A select v insert into !New",
        "from A select id, v group by A.id, v having v > 1 and sum(v) > 2 and O.v < 9 insert into O",
        "from A select id, v order by v desc, id insert into O",
        "from A select id as k having k == 'x' order by k limit 0 offset 5L insert into O",
        "from A select id, sum(v) as t group by id having count() > 2 insert into O",
        "from A select v output every 1 events insert into O",
        "from A#window.length(2) select v output snapshot every 1 sec insert all events into O",
        "from A delete T on T.id == id and v > T.v",
        "from A select id as k, v delete T for expired events on T.id == k",
        "from A update T on T.id == id",
        "from A select id update T on T.id == id",
        "from A select id as k, v update T set T.v = T.v + v, v = 3 on T.id == k",
        # Upstream checks no types here: a long lands in an int column.
        "from A select id update T set T.v = 1L on T.id == id",
        "from A update or insert into T set T.v = v on T.id == id",
        "from A select (T.id == id) in T as known insert into O",
    ],
)
def test_accepted_queries(text: str, catalog: Catalog) -> None:
    assert len(app(text, catalog).queries) == 1


@pytest.mark.parametrize(
    ("text", "kind", "part"),
    [
        ("from A select id, v as id insert into O", DuplicateDefinitionError, "v as id"),
        ("from A select id group by zone insert into O", ErrorKind.UNDEFINED_ATTRIBUTE, "zone"),
        ("from A select id as town, count() as n group by town insert into O", ErrorKind.UNDEFINED_ATTRIBUTE, "town"),
        ("from A select id having v > 1 insert into O", ErrorKind.UNDEFINED_ATTRIBUTE, "v"),
        ("from A select id, v having v insert into O", SiddhiTypeError, "v"),
        ("from A select id, v having A.v > 1 insert into O", UndefinedNameError, "A"),
        ("from A select id order by v insert into O", ErrorKind.UNDEFINED_ATTRIBUTE, "v"),
        ("from A select id limit -1 insert into O", SiddhiTypeError, "-1"),
        ("from A select id offset -1 insert into O", SiddhiTypeError, "-1"),
        ("from A select id output every 0 events insert into O", SiddhiTypeError, "output every 0 events"),
        ("from A select id output last every 0 sec insert into O", SiddhiTypeError, "output last every 0 sec"),
        (
            "from A select v output snapshot every 1 sec insert expired events into O",
            SiddhiTypeError,
            "insert expired events into O",
        ),
        ("from A insert into Other", DuplicateDefinitionError, "Other"),
        ("from A select v, id insert into Same", DuplicateDefinitionError, "Same"),
        ("from A select id insert into T", DuplicateDefinitionError, "T"),
        ("from A select id insert into W", DuplicateDefinitionError, "W"),
        ("from A insert into Tick", DuplicateDefinitionError, "Tick"),
        ("from A select v insert into !F", DuplicateDefinitionError, "!F"),
        (
            "from A select id, v, convert(id, 'string') as _error insert into !F",
            DuplicateDefinitionError,
            "!F",
        ),
        ("from A insert into G", SiddhiTypeError, "G"),
        ("from A return", ErrorKind.UNSUPPORTED, "return"),
        ("from A delete T", SiddhiTypeError, "delete T"),
        ("from A delete T on v", SiddhiTypeError, "v"),
        ("from A select id delete T on v > 1", UndefinedNameError, "v"),
        ("from A delete T on T.id == A.id", UndefinedNameError, "A"),
        ("from A delete W on W.id == id", UndefinedNameError, "W"),
        ("from A update Missing on Missing.id == id", UndefinedNameError, "Missing"),
        ("from A update T set T.zz = v on T.id == id", UndefinedNameError, "T.zz"),
        ("from A update T set zz = v on T.id == id", UndefinedNameError, "zz"),
        ("from A update T set A.v = v on T.id == id", UndefinedNameError, "A.v"),
        ("from A update T set T.v = zz on T.id == id", UndefinedNameError, "zz"),
        ("from A select id, v as w update T on T.id == id", SiddhiTypeError, "update T on T.id == id"),
        ("from A select id, 1L as v update T on T.id == id", SiddhiTypeError, "update T on T.id == id"),
        ("from A select id update or insert into T set T.v = 1 on T.id == id", DuplicateDefinitionError, "T"),
    ],
)
def test_refused_queries(text: str, kind: type[SiddhiAppError] | ErrorKind, part: str, catalog: Catalog) -> None:
    with pytest.raises(SiddhiAppError) as caught:
        app(text, catalog)
    (error,) = caught.value.errors
    assert error.code == getattr(kind, "code", kind)
    assert error.span is not None
    assert (DEFINED + text)[error.span.start : error.span.end] == part


def test_a_stream_takes_the_attributes_of_the_first_query_that_writes_to_it(catalog: Catalog) -> None:
    with pytest.raises(DuplicateDefinitionError) as caught:
        app("from A select id insert into O; from A select v insert into O;", catalog)
    assert caught.value.message == "'O' is (id string), but the query puts out (v int)"


def test_errors_do_not_hide_others_of_the_same_query(catalog: Catalog) -> None:
    text = "from A select x, y, v as w, v as w group by z having q limit -1 output every 0 events insert into O;"
    with pytest.raises(SiddhiAppError) as caught:
        app(text, catalog)
    parts = [(DEFINED + text)[error.span.start : error.span.end] for error in caught.value.errors if error.span]
    # Which attributes there are is not known, so nothing is said about `having`.
    assert parts == ["x", "y", "v as w", "z", "-1", "output every 0 events"]
