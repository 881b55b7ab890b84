"""A compiled program: made by another process, kept on disk, and loaded from there; the app never waits for it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_loader
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import numpy
import pytest

from spdist.extension import catalog, find
from spdist.language import ast
from spdist.language.format import format_app
from spdist.language.parsing.parser import parse
from spdist.language.types import Type
from spdist.operators.core.junction import StreamPart
from spdist.program.aggregators import typed_form
from spdist.program.machine.compiler import Compiled, Compiling, interpreted
from spdist.program.parts import Program
from spdist.program.registry import PROCESSORS, WINDOWS
from spdist.program.running.running import Running
from spdist.program.shape import shape_of
from spdist.program.text import written
from tests.program.aggregation_apps import ADDED, SUMMED, seen, timed_events
from tests.program.chosen_apps import ARRANGED, CHUNKS, OBJECTS, SESSIONS, SNAPSHOTS, SORTED, UNIQUE_JOINED
from tests.program.drawn_apps import STREAM
from tests.program.join_apps import JOINS, JOINS_OF_FREQUENT, JOINS_OF_HELD, JOINS_OF_KEYS, JOINS_OF_LATE
from tests.program.table_apps import JOINED, LOOKED, NUMBERED, asked_of
from tests.program.test_mixed_laws import BACK
from tests.program.test_program_laws import alike
from tests.program.watched import checked_app
from tests.program.window_apps import ADAPTED, disordered_events

#: Of everything that programs have something: windows, groups, totals of all kinds, chains, a partition, patterns.
APP = f"""{STREAM}
from S[price > -1.0e9]#window.length(3)
select sym, kind, avg(price) as a, max(rate) as b, sum(total) as c, distinctCount(sym) as d group by sym, kind
insert into Mid;
from Mid[not (a is null)] select sym, a * 2.0 as a, c % 7 as c, d insert into Out1;
from Mid#window.time(900) select kind, stdDev(b) as b, min(c) as c group by kind having b is null or b >= 0.0
insert into Out2;
partition with (sym of S) begin
from S#window.time(60) select sym, sum(volume) as v, maxForever(rate) as r, ok insert into #I;
from #I[v > 0 or ok] select sym, v + 1 as v, ifThenElse(ok, r, 0.5f) as r insert into Out3;
from every e1=S, e2=S[price > e1.price] within 900 milliseconds select e1.sym, e2.price insert into Out4;
end;
from every e1=S[ok] -> e2=S[kind == e1.kind and price >= e1.price] -> e3=Mid[a > e2.price] within 2 sec
select e1.sym, e2.kind, e3.a, count() as n group by e2.kind insert into Out5;
from every (e1=Mid[d > 0] -> e2=Mid[a < e1.a]) within 1 sec select e1.a, e2.a as b insert into Out6;
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(autouse=True)
def cached(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPDIST_PROGRAM_CACHE", str(cache))


def compiled(program: Program) -> Compiled:
    return Compiling(program).wait()


#: Windows that events are put out of when they leave, and that release batches.
LEAVING = f"""{STREAM}
partition with (sym of S) begin
from S#window.time(900) select sym, volume insert expired events into #J;
from #J#window.timeBatch(1, true) select sym, count() as v insert into Out4;
end;
"""
LATER = f"""{STREAM}
from S#window.delay(60) select sym, total insert into Mid;
from Mid#window.timeLength(90, 3) select sym, min(total) as t group by sym insert all events into Out2;
from S#window.lengthBatch(2, true) select sym, stdDev(price) as v insert all events into Out3;
"""
ABSENT = f"""{STREAM}
from every e1=S -> not S[sym == e1.sym and price > e1.price] for 90 milliseconds
select e1.sym, e1.price, count() as n group by e1.sym insert into Out1;
partition with (kind of S) begin
from every e1=S[ok] -> not S[not ok] for 60 milliseconds -> e2=S -> not S[total > e1.total] for 1 milliseconds
within 2 sec select e1.sym, e2.volume insert into Out2;
end;
"""
COUNTED = f"""{STREAM}
from every e1=S[ok]<2:4> -> e2=S[sym == e1.sym]<1:2> -> not S[price > e2[0].price] for 40 milliseconds
select e1[0].sym, e1[last - 1].price, e2[1].volume as v, count() as n group by e2[last].sym insert into Out1;
partition with (kind of S) begin
from every e1=S -> e2=S[volume > 0 or e2[last].volume is null]<0:3> -> e3=S<2> within 2 sec
select e1.sym, e2[1].volume, e3[last].total insert into Out2;
end;
from every e1=S[volume >= 0], e2=S[price > e1.price or e2[last].ok]*, e3=S[not ok] within 900 milliseconds
select e1.sym, e2[0].price, e2[last].rate, e3.total insert into Out3;
"""
PAIRS = f"""{STREAM}
from every e1=S[ok] -> e2=S[sym == e1.sym and volume > 0] or e3=S[price > e1.price] -> e4=S within 900 milliseconds
select e1.sym, e2.sym as s, e3.price, e2 is null as other, count() as n group by e4.sym insert into Out1;
partition with (kind of S) begin
from every e1=S[volume > 0] and e2=S[not ok] -> not S[total > 5L] for 40 milliseconds
select e1.volume, e2.total insert into Out2;
end;
from S[ok] select sym, total insert into A;
from every e1=A -> e2=A[total > e1.total]<1:2> -> e3=S within 60 milliseconds
select e1.total, e3.sym, count() as n insert into Out3;
"""
#: Functions of numbers and of texts, events that are lost, keys that are real, computed, or ranges.
FUNCTIONS = f"""{STREAM}
from S[not (sym is null) and str:length(sym) > 0]
select str:upper(sym) as u, math:power(price, 2) as p, convert(rate, 'int') as i, maximum(volume, 3) as m,
time:extract(total, 'WEEK') as w, ifThenElse(ok, str:lower(kind), 'x') as k insert into Out1;
from S#window.length(3) select price, max(price) as hi, min(rate) as lo, distinctCount(price) as d group by price
insert into Out2;
partition with (price > 0.5 as 'a' or volume > 0 as 'b' of S) begin
from S select sum(volume) as v, currentTimeMillis() as t insert into Out3;
end;
partition with (math:abs(rate) of S) begin
from S select count() as n insert into Out4;
end;
"""


def some_of(app: str, *places: int) -> str:
    """Return an app with some of its queries and partitions: to compile a text takes up to a minute."""
    parsed = parse(app)
    return format_app(replace(parsed, elements=tuple(parsed.elements[place] for place in places)))


#: Patterns whose matches go on from state to state.
STATES = f"""{STREAM}
from every e1=S -> not S[volume > 0] for 60 milliseconds or e2=S[ok] select e1.sym as a, e2.sym as b insert into Out0;
partition with (kind of S) begin
from every e1=S[ok]+, e2=S select e1[0].sym as a, e1[last].price, e2.sym as b, count() as n insert into Out1;
end;
"""
#: A partition whose keys go when they were idle.
IDLE = f"""{STREAM}
@purge(enable='true', interval='70 millisec', idle.period='60 millisec') partition with (kind of S) begin
from S#window.delay(90) select kind, sum(volume) as v insert into Out1;
from S select kind, count() as n insert into Out2;
end;
"""
#: Sides in an order and on a time attribute, and totals that begin anew, by groups and without.
HELD = some_of(JOINS_OF_HELD, 0, 2, 5)
#: What is in none of the others, of events without nulls.
RARE = f"""{STREAM}
from S#window.unique:first(sym) select sym insert into Out1;
from S#window.unique:time(kind, 300) select kind, and(price > 0.5) as a insert into Out2;
from S#window.unique:timeLengthBatch(sym, 60, 2)[ok] select minForever(total) as m, or(ok) as o insert into Out3;
from S#window.cron('* * * * * ?') select volume insert into Out4;
from S#window.lossyFrequent(0.3, 0.1, kind) select kind insert into Out5;
from S#window.expression('count() < 4') select total insert into Out6;
from S#window.expressionBatch('sum(volume) < 9L') select rate insert into Out7;
from S#window.session(300L, sym, 200L) select sym, ok insert expired events into Out8;
from S#window.unique:externalTimeBatch(kind, total, 300, 0, 40) select kind, total insert into Out9;
from S#window.unique:lengthBatch(price, 3) select price insert into Out10;
from S#window.unique:firstTimeBatch(volume, 60) select volume insert all events into Out11;
from S#window.unique:timeBatch(kind, 300) select rate insert into Out12;
"""
#: What compiling may do otherwise than Python is what numba makes of an operation on some types. These apps have each
#: operator and each function that programs call, on all types on which any app of `tests/program` has them; besides,
#: machine code that is called again while it runs, and events that leave twice. All else of the texts the laws have
#: Python run, and `make fuzz-programs` compiles one of 20 apps that it draws.
SHAPES = [APP, LEAVING, SORTED, CHUNKS, COUNTED, STATES, BACK, FUNCTIONS, NUMBERED, IDLE]
SHAPES += [some_of(ARRANGED, 1, 3, 4, 5), some_of(SESSIONS, 0, 1), some_of(SNAPSHOTS, 6), some_of(JOINS, 0, 1, 2, 4)]
SHAPES += [some_of(LOOKED, 0, 2, 3), some_of(JOINED, 0, 1, 2, 5, 6, 9), some_of(UNIQUE_JOINED, 0, 3), HELD]
#: The loop has objects by number, as it has texts.
SHAPES += [some_of(OBJECTS, 0, 1, 6)]
SHAPES += [some_of(JOINS_OF_KEYS, 0, 1, 2, 4), some_of(JOINS_OF_FREQUENT, 0, 1), some_of(JOINS_OF_LATE, 0, 1, 4), RARE]
#: What stands in front of queries.
PROCESSED = f"""{some_of(ADAPTED, 1, 2)} from S#unique:deduplicate(sym, 500L) select sym, rate insert into Out;
from S#reorder:kslack(total) select sym, total insert into Out6;"""


def names_of(given: Any) -> set[str]:
    """Return which windows, functions and elements of patterns there are in a part of an app's text."""
    if isinstance(given, tuple):
        return set[str]().union(*map(names_of, given))
    if not is_dataclass(given):
        return set()
    own = {given.id} if isinstance(given, ast.FunctionCall) else {type(given).__name__}
    if isinstance(given, ast.PatternInput | ast.LogicalState):
        own.add(given.kind if isinstance(given, ast.PatternInput) else given.op)
    return own.union(*(names_of(getattr(given, one.name)) for one in fields(given)))


def test_all_that_has_a_typed_form_is_in_some_app_that_is_compiled() -> None:
    there = set[str]().union(*(names_of(parse(app)) for app in (*SHAPES, PROCESSED, ADDED, SUMMED)))
    types = ((), *((type,) for type in Type))
    own = [id for id in catalog(False).aggregators if find("aggregator", id).implementation.__module__[:7] == "spdist."]
    totals = {id for id in own if any(typed_form(id, one, leaving=True) for one in types)}
    patterns = {one.__name__ for one in ast.StateElement.__subclasses__()} | {"pattern", "sequence", "and", "or"}
    assert len(totals) > 10
    assert not (WINDOWS.built_in | PROCESSORS.built_in | totals | patterns) - there


@pytest.mark.parametrize("app", SHAPES)
def test_a_compiled_program_does_the_same_as_the_operators(app: str) -> None:
    checked, whole, asks = checked_app(app), app in (SORTED, NUMBERED, HELD, RARE), asked_of(app)
    assert sum(alike(checked, Random(seed), compiled, steps=40, whole=whole, asks=asks) for seed in range(8)) > 300


def test_no_compiler_takes_longs_for_numbers_that_never_overflow() -> None:
    """Of a sum that may not overflow it knows that it is greater than what one was added to."""
    checked = checked_app(f"""{STREAM}
    from S[0 < total + 2 or total - 3 > total or total * 2 - total != total] select sym, total insert into Out1;
    from S[total + 1 < total] select total + 1 - total as one, total * 3 / 3 as same insert into Out2;
    from S#window.lengthBatch(3) select sum(total) as t, sum(total) + 1 > sum(total) as more insert into Out3;
    from S select sym, sum(total) as t group by sym having t + 1 > t insert into Out4;""")
    assert sum(alike(checked, Random(seed), compiled, steps=20) for seed in range(6)) > 300


@pytest.mark.filterwarnings("ignore:.* encountered in scalar")
@pytest.mark.parametrize("app", [LATER, ABSENT, PAIRS])
def test_a_program_without_operations_of_its_own_does_the_same_as_the_operators(app: str) -> None:
    checked = checked_app(app)
    assert sum(alike(checked, Random(seed), interpreted, steps=40) for seed in range(8)) > 300


def test_a_compiled_program_adds_the_same_to_aggregations() -> None:
    for app, whole in ((ADDED, False), (SUMMED, True)):
        checked = checked_app(app)
        for seed in range(4):
            alike(checked, Random(seed), compiled, 40, whole, events_of=timed_events, look=seen)


def test_a_compiled_program_lets_the_same_go_behind_stream_processors() -> None:
    checked = checked_app(PROCESSED)
    for seed in range(4):
        alike(checked, Random(seed), compiled, 40, whole=True, events_of=disordered_events)


def test_it_is_compiled_once_on_a_machine(cache: Path) -> None:
    made: list[Program] = []

    def noted(program: Program) -> Compiled:
        made.append(program)
        return compiled(program)

    alike(checked_app(APP), Random(1), noted, steps=1)
    before = sorted(cache.rglob("*"))
    again = Compiling(made[0])
    assert again.is_done
    again.start()
    assert again.wait().run is compiled(made[0]).run
    assert sorted(cache.rglob("*")) == before


CHECKED = """
import numpy
from spdist.program.machine.addresses import addresses_of, int64_at
from spdist.program.machine.passes import program

@program
def run(addresses, place):
    return int64_at(addresses, 1)[place]

given = addresses_of([numpy.arange(9), numpy.arange(7, 10)])
print(run(*given, 2))
try:
    run(*given, 3)
except IndexError as error:
    print(error)
"""


def test_a_program_looks_at_each_index_where_numba_is_told_to(tmp_path: Path) -> None:
    (tmp_path / "checked.py").write_text(CHECKED)  # numba's cache is next to a file
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(tmp_path / "checked.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "9\nindex is out of bounds\n", done.stderr


OF_TWO_TYPES = """
from numpy import float64

from spdist.program.machine.passes import program

@program
def remainder(given, place):
    if place:
        number = given[place]
        found = number % 10
    else:
        number = 0.25
        found = int(number * 8.0)
    return found

@program
def square(given, place):
    if place:
        number = given[place]
        found = float64(number * number)
    else:
        number = 0.25
        found = number * number
    return found

@program
def twice(given, place):
    if place:
        number = given[place], place
        found = number[0] + number[1]
    else:
        number = given[place]
        found = number * 2
    return found
"""


@pytest.fixture(scope="module")
def of_two_types(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    folder = tmp_path_factory.mktemp("modules")
    (folder / "of_two_types.py").write_text(OF_TWO_TYPES)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        return import_module("of_two_types")


def test_a_number_keeps_its_type_where_one_of_another_has_its_name(of_two_types: ModuleType) -> None:
    assert of_two_types.remainder(numpy.full(3, 2**62 + 1), 1) == 5  # as a real it would be 2^62
    assert of_two_types.remainder(numpy.full(3, 2**62 + 1), 0) == 2
    narrow = numpy.float32(1.1)
    assert of_two_types.square(numpy.full(3, narrow), 1) == float(narrow * narrow)  # a double would be 1.2100000524
    assert of_two_types.square(numpy.full(3, narrow), 0) == 0.0625
    assert of_two_types.twice(numpy.arange(3), 2) == 4  # a pair, then a number


@pytest.mark.parametrize("name", ["remainder", "square", "twice"])
def test_an_array_is_let_go_behind_what_reads_it(of_two_types: ModuleType, name: str) -> None:
    given = numpy.arange(3)
    held = sys.getrefcount(given)
    for place in (0, 2):
        getattr(of_two_types, name)(given, place)
        assert sys.getrefcount(given) == held


PLAIN = written(shape_of(checked_app(f"{STREAM} from S select sym insert into Out;")), ("Out",))


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("bounds", [None, [0, 2, 3]])
def test_a_loaded_program_is_not_compiled_again_for_what_it_is_given(writable: bool, bounds: list[int] | None) -> None:
    loaded = Compiling(PLAIN).wait()
    due = numpy.arange(1000, 1003 if bounds is None else 1002)
    due.flags.writeable = writable  # columns of Arrow are not
    rows = [(text, *[None] * 6) for text in "abc"]
    ends = None if bounds is None else numpy.array(bounds, numpy.int32)
    part = StreamPart(due, numpy.arange(len(due)), rows, numpy.arange(1000, 1003), ends, due)
    out = Running(PLAIN, loaded).process_columns({"S": part}, 1000)
    assert out is not None
    assert list(out["Out"].rows) == [("a",), ("b",), ("c",)]
    assert len(loaded.run.signatures) == 1


def test_what_cannot_be_compiled_is_never_there() -> None:
    compiling = Compiling(replace(PLAIN, source="def run(): wrong(\n"))
    with pytest.raises(RuntimeError, match="cannot be compiled"):
        compiling.wait()
    assert compiling.ready() is None


def test_apps_with_one_program_may_load_it_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = Compiling(PLAIN)
    first.wait()
    sys.modules.pop(first.file.stem)
    both = threading.Barrier(2)

    class Slowly(SourceFileLoader):
        def exec_module(self, module: ModuleType) -> None:
            both.wait(20)
            other.join(0.1)  # meanwhile it looks for the module
            super().exec_module(module)

    def spec_of(name: str, file: Path) -> Any:
        return spec_from_loader(name, Slowly(name, str(file)))

    monkeypatch.setattr("importlib.util.spec_from_file_location", spec_of)

    def load_too() -> None:
        both.wait(20)
        loaded.append(Compiling(PLAIN).wait())

    loaded: list[Compiled] = []
    other = threading.Thread(target=load_too)
    other.start()
    loaded.append(Compiling(PLAIN).wait())
    other.join(20)
    assert len(loaded) == 2
    assert not caplog.records


def test_where_nothing_can_be_written_the_operators_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a file").touch()
    monkeypatch.setenv("SPDIST_PROGRAM_CACHE", str(tmp_path / "a file" / "programs"))
    compiling = Compiling(PLAIN)
    compiling.start()
    assert compiling.ready() is None
    assert "SPDIST_PROGRAM_CACHE names another directory" in caplog.text


def test_a_process_that_compiles_does_not_import_what_apps_need() -> None:
    code = "import sys, spdist.program.machine.compiler; print({'pandas', 'spdist.language'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "set()\n", done.stderr


def test_before_a_program_is_there_numba_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPDIST_PROGRAM_CACHE", str(tmp_path))
    code = f"""
import sys
from tests.program.test_program_laws import Watched, checked_app
from tests.program.drawn_apps import drawn_events
from random import Random
app = Watched(checked_app({APP!r}))
app.app.compiles()
app.app.start(0)
app.chunk(drawn_events(Random(1), 5, 0), 10_000)
assert app.app.programmed.compile() is not None
app.app.programmed.begins()
print("numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr
