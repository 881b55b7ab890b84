"""Objects in programs: numbers for the loop, which come out as the objects that they were."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any
from unittest.mock import patch

import numpy
import pytest

from spdist.errors import SiddhiAppError
from spdist.extension import aggregator, catalog, signature
from spdist.java.objects import HashMap, HashSet
from spdist.language import ast
from spdist.language.parsing.parser import parse
from spdist.language.types import Type
from spdist.program.functions.computed import CHANGING, MAKING
from spdist.program.machine.compiler import interpreted
from spdist.program.obstacle import compiled_or_why_not
from spdist.program.running import forgetting
from spdist.program.running.values import ObjectTable
from tests.program.chosen_apps import OBJECTS
from tests.program.drawn_apps import START_MS
from tests.program.table_apps import KEPT_OBJECTS, asked_of
from tests.program.test_program_laws import alike
from tests.program.watched import Watched, checked_app

pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in scalar")

STREAM = "define stream S (k string, v int, o object);\n"


def started(text: str, there: bool = True) -> Watched:
    app = Watched(checked_app(text), interpreted if there else None)
    app.begin()
    app.app.start(START_MS)
    return app


def both(text: str, *rows: tuple[Any, ...]) -> Watched:
    """Run an app with and without its program over rows that both have to themselves; return the one with it."""
    plain, other = started(text, False), started(text)
    for one in (plain, other):
        own = deepcopy(rows)
        one.run([(START_MS + n, row) for n, row in enumerate(own[: len(own) // 2])])
        for n, row in enumerate(own[len(own) // 2 :], len(own) // 2):
            one.chunk([(START_MS + n, row)], START_MS + n)
    assert repr(other.chunks) == repr(plain.chunks)
    return other


def known(app: Watched) -> int:
    """Return how many objects the program of an app knows."""
    own = app.app.programmed
    assert own is not None and own.running is not None
    return len(own.running.values.objects)


@pytest.mark.parametrize("app", [OBJECTS, KEPT_OBJECTS])
def test_an_app_with_objects_does_the_same_with_its_program(app: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = checked_app(app)
    assert compiled_or_why_not(checked) == "yes"
    for seed in range(4):
        monkeypatch.setattr(forgetting, "_FEW", 10_000 if seed else 4)
        assert alike(checked, Random(seed), interpreted, steps=30, asks=asked_of(app)) > 100


@pytest.mark.parametrize("missing", range(19))
def test_the_law_finds_objects_that_are_forgotten_too_early(missing: int) -> None:
    real = forgetting._values

    def without(running: Any, type: Type) -> Any:
        found = list(real(running, type))
        if type is Type.OBJECT:
            del found[missing : missing + 1]
        return iter(found)

    app = KEPT_OBJECTS + OBJECTS.partition("\n")[2]
    patched = patch.object(forgetting, "_FEW", 4), patch.object(forgetting, "_values", without)
    checked = checked_app(app)
    with patched[0], patched[1], pytest.raises((AssertionError, IndexError)):
        for seed in range(8):
            alike(checked, Random(seed), interpreted, steps=30)


def test_all_who_read_an_object_get_the_same_one() -> None:
    app = started(
        f"""{STREAM}
        from S#window.length(1) select o insert all events into Out1;
        from S[not (o is null)] select o, k insert into M;
        from M select coalesce(o, o) as o insert into Out2;
        from M as a join M#window.length(2) as b on a.k == b.k select a.o as x, b.o as y insert into Out3;
        from every e1=S -> e2=S select e1.o as x, e2.o as y insert into Out4;"""
    )
    first, second = {"a": 1}, [2]
    app.run([(START_MS, ("a", 1, first)), (START_MS + 1, ("a", 2, second))])
    app.chunk([(START_MS + 2, ("a", 3, first))], START_MS + 2)
    shown = [(stream, value) for stream, chunk in app.chunks for _, row in chunk for value in row]
    assert {stream for stream, _ in shown} == {"Out1", "Out2", "Out3", "Out4"}
    assert all(value is first or value is second for _, value in shown)
    assert [value for stream, value in shown if stream == "Out1"] == [first, first, second, second, first]


def test_objects_that_nobody_has_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "_FEW", 8)
    app = started(f"{STREAM} from S[not (o is null)]#window.length(3) select o insert expired events into Out;")
    most = 0
    for n in range(100):
        app.chunk([(START_MS + n, ("a", n, [n]))], START_MS + n)
        most = max(most, known(app))
    assert [row for _, chunk in app.chunks for _, row in chunk] == [([n],) for n in range(97)]
    assert most <= 8
    app.run([(START_MS + n, ("a", n, [n])) for n in range(100, 200)])
    assert known(app) == 3


def test_what_is_only_put_out_gets_no_number() -> None:
    app = started(f"{STREAM} from S[v > 0] select k, o insert into Out;")
    app.run([(START_MS + n, ("a", n % 2, [n])) for n in range(100)])
    assert sum(len(chunk) for _, chunk in app.chunks) == 50
    assert known(app) == 0


def test_objects_by_number() -> None:
    table = ObjectTable()
    same: list[Any] = []
    assert table.numbers([None, same, "x", same, None]).tolist() == [0, 1, 2, 3, 0]
    assert table.number(None) == 0
    assert table.number(7) == 4
    found = table.objects(numpy.array([3, 1, 0, 4]), numpy.array([0, 0, 0, 1], numpy.uint8))
    assert found[:2] == [same, same] and found[0] is same and found[2:] == [None, None]
    assert table.keep(numpy.array([4, 2])).tolist() == [0, -1, 1, -1, 2]
    assert (len(table), table.kept) == (2, 2)
    assert table.objects(numpy.array([1, 2]), 0) == ["x", 7]


# Functions.

LOOKING = (
    "o is null",
    "convert(o, 'string')",
    "json:toString(o)",
    "instanceOfInteger(o)",
    "instanceOfString(o)",
    "list:isList(o)",
    "map:isMap(o)",
    "list:create(o, v)",
    "map:create()",
    "list:add(list:create(1, 2), 'x')",
    "createSet(1.5f)",
    "list:size(list:add(list:create(o), v))",
    "map:create(k, o)",
    "map:get(map:put(map:create(k, v), 'x', o), 'x')",
    "createSet(k)",
    "json:toObject(json:toString(o))",
    "ifThenElse(v > 1, o, list:create(v))",
    "coalesce(o, createSet(v))",
    "cast(list:get(list:create(v), 0), 'int') + 1",
)
VALUES = (None, [1, "x"], {"a": {"b": [True]}}, "text", 7, 2.5, False, 2**40)


@pytest.mark.parametrize("expression", LOOKING)
def test_functions_of_objects_give_the_same(expression: str) -> None:
    text = f"{STREAM} from S select k, {expression} as r insert into Out1;"
    text += f" from S#window.length(2) select v, {expression} as r insert all events into Out2;"
    assert compiled_or_why_not(checked_app(text)) == "yes"
    app = both(text, *((None if n % 5 == 4 else "ab"[n % 2], n % 4, value) for n, value in enumerate(2 * VALUES)))
    assert app.app.programmed is not None and app.app.programmed.active
    assert len(app.chunks) > len(VALUES)


def test_an_event_whose_object_a_function_fails_on_is_lost() -> None:
    text = f"{STREAM} from S[v > 0] select k, map:get(o, 'a') as r insert into Out; from S select v insert into Out2;"
    app = both(text, *(("a", n % 3, value) for n, value in enumerate(2 * VALUES)))
    assert app.app.programmed is not None and app.app.programmed.active
    assert app.app.failures.count > 5


def test_each_event_gets_an_object_of_its_own() -> None:
    app = started(f"{STREAM} from S select createSet(k) as c insert into Out; from S select v, o insert into Out2;")
    app.run([(START_MS + n, ("a", 1, None)) for n in range(4)])
    made = [row[0] for stream, chunk in app.chunks for _, row in chunk if stream == "Out"]
    assert made == [HashSet(("a",))] * 4
    assert len({id(one) for one in made}) == 4


def test_where_a_window_has_an_object_that_a_function_fails_on_the_operators_go_on() -> None:
    text = f"{STREAM} from S#window.length(2) select list:size(o) as n insert all events into Out;"
    plain, other = started(text, False), started(text)
    for one in (plain, other):
        for n, value in enumerate(([1], "x", [2, 3], [])):
            one.chunk([(START_MS + n, ("a", n, value))], START_MS + n)
    assert other.chunks == plain.chunks
    assert other.app.programmed is not None
    assert other.app.programmed.reason == "list:size() fails on a text, or on null"


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("from S select o group by o insert into Out;", "'group by' an object"),
        ("from S#window.length(2) select o output snapshot every 1 sec insert into Out;", "tells objects apart"),
        ("from S select unionSet(o) as u insert into Out;", "the aggregator unionSet()"),
        ("from S select list:add(o, v) as l insert into Out;", "objects, which list:add() may change in place"),
        (
            "from S select o insert into Out; from S select list:size(list:sort(o)) as n insert into Out2;",
            "list:sort()",
        ),
        ("from S select map:put(list:get(list:create(o), 0), k, v) as n insert into Out;", "map:put()"),
        ("from S#json:tokenize(o, '$.append(1)') select jsonElement, o insert into Out;", "json:tokenize()"),
        (
            "from S select list:create(v) as l insert into M; from M select list:size(l) as n insert into Out;",
            "list:size()",
        ),
        (
            "define window W (o object) length(2); from S select o insert into W; from W select o insert into Out; "
            "from S select map:clear(o) as n insert into Out2;",
            "map:clear()",
        ),
        (
            "@PrimaryKey('o') define table T (o object, v int); from S select o, v insert into T; "
            "from S select k insert into Out;",
            "the table 'T', whose primary key has an object",
        ),
    ],
)
def test_what_has_no_form_is_named(query: str, named: str) -> None:
    told = compiled_or_why_not(checked_app(STREAM + query))
    assert not told.startswith("yes")
    assert named in told


# Objects that are changed.


@aggregator("test:held", signature("test:held", ((Type.INT,), Type.OBJECT)))
class Held:
    """The values that came, as the list that is its state."""

    @staticmethod
    def initial() -> list[int]:
        return []

    @staticmethod
    def add(state: list[int], value: int) -> list[int]:
        state.append(value)
        return state

    @staticmethod
    def remove(state: list[int], value: int) -> list[int]:
        state.remove(value)
        return state

    @staticmethod
    def result(state: list[int]) -> list[int]:
        return state


def test_what_an_aggregator_of_the_user_gives_may_change() -> None:
    queries = (
        "from S select test:held(v) as h insert into Out; from S[v > 1]#window.length(2) select v insert into Out2;"
    )
    text = STREAM + queries
    assert "query_1 is called: objects, which test:held() may change" in compiled_or_why_not(checked_app(text))
    app = started(text)
    app.run([(START_MS + n, ("a", n, None)) for n in range(3)])
    assert [row for stream, chunk in app.chunks for _, row in chunk if stream == "Out"] == [
        ([0],),
        ([0, 1],),
        ([0, 1, 2],),
    ]


#: What functions are given: a list or a map, and more arguments.
_GIVEN = ([3, 1, 2], HashMap([("a", 1), ("b", 2)]))
_MORE: tuple[tuple[Any, ...], ...] = (
    (),
    (1,),
    (0,),
    (0, 7),
    ("a",),
    ("a", 7),
    ([1],),
    (HashMap([("a", 7)]),),
    ("ASC",),
)
_MORE += (("$[0]", 7),)


def test_which_functions_change_their_argument_and_which_make_an_object_is_known() -> None:
    ids = [id for id in catalog(False).functions if id.startswith(("list:", "map:", "json:"))]
    changing, giving = set(), set()
    for id in ids:
        for value in _GIVEN:
            for more in _MORE:
                given = deepcopy(value)
                result = _given(id, given, more)
                changing |= {id} if repr(given) != repr(value) else set()
                giving |= {id} if result is given else set()
    assert changing == CHANGING
    assert giving == CHANGING
    assert {*ids, "createSet"} - CHANGING - {"list:get", "map:get"} > MAKING


def _given(id: str, value: Any, more: tuple[Any, ...]) -> Any:
    """Return what a function gives for a value and more arguments; None where it takes others."""
    constants = [repr(one) if isinstance(one, str | int) else f"m{n}" for n, one in enumerate(more)]
    named = "".join(f", m{n} object" for n, _ in enumerate(more))
    call = f"{id}({', '.join(['o', *constants])})"
    try:
        checked = checked_app(f"define stream S (o object{named}); from S select {call} as r insert into Out;")
    except SiddhiAppError:
        return None
    app = Watched(checked)
    app.app.start(START_MS)
    app.chunk([(START_MS, (value, *deepcopy(more)))], START_MS)
    return app.chunks[0][1][0][1][0] if app.chunks else None


def test_all_calls_of_an_app_are_looked_at() -> None:
    text = (
        f"{STREAM} partition with (k of S) begin from S[list:size(list:clear(o)) == 0] select k insert into Out; end;"
    )
    calls = [node.id for node in parse(text).walk() if isinstance(node, ast.FunctionCall)]
    assert "list:clear" in calls
