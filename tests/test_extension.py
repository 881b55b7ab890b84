"""What users register is used by apps: functions, aggregators, windows and stream functions."""

from __future__ import annotations

import doctest
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

import spdist.extension
from spdist.engine.local.app import LocalApp, run
from spdist.errors import DuplicateDefinitionError, SiddhiAppError, SiddhiTypeError, UndefinedNameError
from spdist.extension import (
    ANY,
    NUMERIC,
    aggregator,
    catalog,
    find,
    function,
    signature,
    stream_function,
    stream_processor,
    window,
)
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema, Type
from spdist.operators.base import CURRENT, EXPIRED, Arrival, Row, Window, WindowSetting
from spdist.operators.core.processors import StreamProcessor

NUMBERS = "define stream S (v int, k string);"
EVENTS = {"S": [(1000, (1, "x")), (1001, (2, "y")), (1002, (3, "x")), (1003, (None, "y"))]}


def rows(query: str) -> list[Row]:
    return [row for _, row in run(f"{NUMBERS} {query}", EVENTS).get("Out", [])]


def test_a_function_gets_values_and_knows_null() -> None:
    @function("test:twice", signature("test:twice", ((Type.INT,), Type.INT)))
    def twice(value: int | None) -> int | None:
        return None if value is None else 2 * value

    assert rows("from S select test:twice(v) + 1 as w insert into Out;") == [(3,), (5,), (7,), (None,)]
    assert rows("from S[test:twice(v) > 3] select v insert into Out;") == [(2,), (3,)]
    assert twice(4) == 8


def test_a_function_registered_anew_replaces_the_one_before() -> None:
    for factor in (3, 5):

        @function("test:times", signature("test:times", ((Type.INT,), Type.INT)))
        def times(value: int | None, by: int = factor) -> int | None:
            return None if value is None else by * value

    assert rows("from S select test:times(v) as w insert into Out;")[0] == (5,)


@pytest.mark.parametrize("id", ["coalesce", "UUID"])
def test_what_is_built_in_cannot_be_replaced(id: str) -> None:
    with pytest.raises(DuplicateDefinitionError, match="built in") as caught:
        function(id, signature(id, ((), Type.INT)))(lambda: 1)
    assert f"my:{id}" in str(caught.value)
    assert find("function", id).implementation.__module__ == "spdist.functions.core"


def test_an_aggregator_is_a_class_of_four_methods() -> None:
    @aggregator("test:product", signature("test:product", ((Type.INT,), Type.LONG)))
    class Product:
        @staticmethod
        def initial() -> list[int]:
            return []

        @staticmethod
        def add(state: list[int], value: int | None) -> list[int]:
            return [*state, 1 if value is None else value]

        @staticmethod
        def remove(state: list[int], value: int | None) -> list[int]:
            state.remove(1 if value is None else value)
            return state

        @staticmethod
        def result(state: list[int]) -> int | None:
            product = 1
            for value in state:
                product *= value
            return product

    assert Product.initial() == []
    assert rows("from S#window.length(2) select test:product(v) as p insert into Out;") == [(1,), (2,), (6,), (3,)]
    grouped = "from S select k, test:product(v) as p, test:product(v) * 10 as q group by k insert into Out;"
    assert rows(grouped) == [("x", 1, 10), ("y", 2, 20), ("x", 3, 30), ("y", 2, 20)]


def test_an_aggregator_of_two_arguments_gets_a_pair() -> None:
    @aggregator("test:pairs", signature("test:pairs", ((Type.INT, Type.STRING), Type.STRING)))
    class Pairs:
        initial = staticmethod(str)

        @staticmethod
        def add(state: str, value: tuple[int | None, str]) -> str:
            return f"{state}{value[0]}{value[1]} "

        @staticmethod
        def remove(state: str, value: tuple[int | None, str]) -> str:
            return state.replace(f"{value[0]}{value[1]} ", "", 1)

        @staticmethod
        def result(state: str) -> str:
            return state.strip()

    assert Pairs.initial() == ""
    out = rows("from S#window.length(2) select test:pairs(v, k) as p insert into Out;")
    assert out == [("1x",), ("1x 2y",), ("2y 3x",), ("3x Noney",)]


def test_a_window_releases_what_it_keeps() -> None:
    def resolve(types: tuple[Type, ...], _expressions: Sequence[Any]) -> None:
        if types != (Type.INT,):
            raise SiddhiTypeError("'test:everyOther' takes one int")

    @window("test:last", resolve)
    class Last(Window):
        """Keeps one event, whatever its argument says."""

        def __init__(self, setting: WindowSetting) -> None:
            super().__init__(setting)
            self.held: list[Arrival] = []

        def process(self, timestamp: int, row: Row) -> None:
            gone = [(EXPIRED, timestamp, row) for _, row in self.held]
            self.held = [(timestamp, row)]
            self.emit([*gone, (CURRENT, timestamp, row)])

        def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
            for timestamp, row in arrivals:
                self.process(timestamp, row)

        def contents(self) -> Iterable[Arrival]:
            return iter(self.held)

        def snapshot(self) -> Any:
            return self.held

        def restore(self, state: Any) -> None:
            self.held = state

    assert Last.slides
    assert rows("from S#window.test:last(1) select sum(v) as s insert into Out;") == [(1,), (2,), (3,), (None,)]
    with pytest.raises(SiddhiAppError, match="takes one int"):
        rows("from S#window.test:last('x') select v insert into Out;")


def test_windows_and_processors_that_have_the_former_names_of_methods_run_with_a_warning() -> None:
    kept: dict[str, Any] = {
        "contents": lambda self: (),
        "snapshot": lambda self: None,
        "restore": lambda self, state: None,
    }

    def one(self: Any, timestamp: int, row: Row) -> None:
        self.emit([(CURRENT, timestamp, row)])

    def many(self: Any, arrivals: Sequence[Arrival]) -> None:
        self.emit([(CURRENT, *arrival) for arrival in arrivals])

    with pytest.warns(DeprecationWarning) as warned:
        former = type("Former", (Window,), {**kept, "one": one, "many": many, "look": lambda self: None})
    assert [str(one.message) for one in warned] == [
        "Former.one is called process now",
        "Former.many is called process_chunk now",
        "Former.look is called note_lookup now",
    ]
    assert {one.filename for one in warned} == {__file__}
    window("test:former", lambda types, expressions: None)(former)
    assert rows("from S#window.test:former() select v insert into Out;") == [(1,), (2,), (3,), (None,)]

    with pytest.warns(DeprecationWarning, match="Former.take is called process_events now"):
        former = type("Former", (StreamProcessor,), {**kept, "take": lambda self, events: self.emit([*events])})
    stream_processor("test:former", lambda schema, types, expressions: Schema(()))(former)
    assert rows("from S#test:former() select v insert into Out;") == [(1,), (2,), (3,), (None,)]


def test_a_stream_function_appends_attributes_and_may_give_several_rows() -> None:
    def resolve(_schema: Schema, types: tuple[Type, ...], _expressions: Sequence[Any]) -> Schema:
        assert types == (Type.INT,)
        return Schema.of([("part", Type.INT)])

    @stream_function("test:downTo", resolve)
    def down_to(value: int | None) -> tuple[tuple[int], ...]:
        return tuple((n,) for n in range(value or 0, 0, -1))

    assert down_to(2) == ((2,), (1,))
    out = rows("from S[v < 3]#test:downTo(v) select v, part insert into Out;")
    assert out == [(1, 1), (2, 2), (2, 1)]


def test_what_is_not_registered_is_not_found() -> None:
    with pytest.raises(UndefinedNameError, match="there is no window 'test:nothing'"):
        find("window", "test:nothing")


def test_the_catalog_tells_the_four_kinds_apart() -> None:
    known = catalog()
    assert "coalesce" in known.functions
    assert "sum" in known.aggregators
    assert "sum" not in known.functions
    assert "lengthBatch" in known.windows
    assert "pol2Cart" in known.stream_functions


def test_threads_that_ask_first_at_the_same_time_all_get_everything() -> None:
    code = """
import sys, threading
from spdist.extension import catalog
sys.setswitchinterval(1e-6)
found, failed = [], []
def ask():
    try:
        found.append(len(catalog().functions))
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=ask) for _ in range(16)]
for one in threads: one.start()
for one in threads: one.join()
print(failed, len(set(found)), len(found), found[0] == len(catalog().functions))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[] 1 16 True\n", done.stderr


def test_a_signature_picks_the_overload_that_fits() -> None:
    resolve = signature("f", ((Type.INT,), Type.LONG), ((ANY, NUMERIC), 1))
    assert resolve((Type.INT,), ()) is Type.LONG
    assert resolve((Type.STRING, Type.FLOAT), ()) is Type.FLOAT
    with pytest.raises(SiddhiTypeError, match=r"'f' does not take \(string\)") as caught:
        resolve((Type.STRING,), ())
    assert caught.value.hint == "it takes (int) or (anything, int|long|float|double)"


def test_a_repeated_argument_may_come_any_number_of_times() -> None:
    resolve = signature("g", ((Type.STRING, Type.INT), Type.STRING), repeat=True)
    assert resolve((Type.STRING, Type.INT), ()) is Type.STRING
    assert resolve((Type.STRING, *[Type.INT] * 5), ()) is Type.STRING
    for wrong in ((Type.STRING,), (Type.STRING, Type.INT, Type.STRING)):
        with pytest.raises(SiddhiTypeError, match=r"it takes \(string, int, …\)|'g' does not take"):
            resolve(wrong, ())


def test_the_examples_of_the_documentation_hold() -> None:
    outcome = doctest.testmod(spdist.extension)
    assert outcome.attempted > 15
    assert outcome.failed == 0


class Longest:
    """The longest text that has not left."""

    initial = staticmethod(list)

    @staticmethod
    def add(state: list[str], value: str) -> list[str]:
        state.append(value)
        return state

    @staticmethod
    def remove(state: list[str], value: str) -> list[str]:
        state.remove(value)
        return state

    @staticmethod
    def result(state: list[str]) -> str | None:
        return max(state, key=len, default=None)


class Two(Window):
    """Keeps two events."""

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.held: list[Arrival] = []

    def process(self, timestamp: int, row: Row) -> None:
        gone = [(EXPIRED, timestamp, old) for _, old in self.held[:-1]]
        self.held = [*self.held[-1:], (timestamp, row)]
        self.emit([*gone, (CURRENT, timestamp, row)])

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        for timestamp, row in arrivals:
            self.process(timestamp, row)

    def contents(self) -> Iterable[Arrival]:
        return iter(self.held)

    def snapshot(self) -> Any:
        return self.held

    def restore(self, state: Any) -> None:
        self.held = [(timestamp, tuple(row)) for timestamp, row in state]


def test_all_kinds_serve_in_a_partition_and_go_on_from_a_snapshot() -> None:
    function("shout", signature("shout", ((Type.STRING,), Type.STRING), ((Type.INT,), Type.STRING)))(
        lambda value: f"{value}!"
    )
    aggregator("test:longest", signature("test:longest", ((Type.STRING,), Type.STRING)))(Longest)
    window("test:two", lambda _types, _expressions: None)(Two)
    stream_function("test:mark", lambda _schema, _types, _expressions: Schema.of([("mark", "int")]))(
        lambda value: [(len(value),)] if value else []
    )
    text = """define stream S (v int, k string, s string);
        partition with (k of S) begin
            from S#test:mark(s)#window.test:two()
            select k, shout(v) as v, test:longest(shout(s)) as longest, sum(mark) as marks insert into Out;
        end;"""
    sent = [(1, "a", "xxx"), (2, "b", "y"), (3, "a", ""), (4, "a", "zz"), (5, "a", "w"), (6, "b", "vv")]
    whole = [row for _, row in run(text, {"S": [(1000 + n, row) for n, row in enumerate(sent)]})["Out"]]
    assert whole == [
        ("a", "1!", "xxx!", 3),
        ("b", "2!", "y!", 1),
        ("a", "4!", "xxx!", 5),
        ("a", "5!", "zz!", 3),
        ("b", "6!", "vv!", 3),
    ]
    seen: list[Row] = []
    snapshot: bytes | None = None
    for n, row in enumerate(sent):
        app = LocalApp(check(parse(text), catalog(), text))
        if snapshot is not None:
            app.restore(snapshot)
        app.subscribe("Out", lambda _ts, out: seen.append(out))
        app.send("S", 1000 + n, row)
        snapshot = app.snapshot()
    assert seen == whole
