"""Functions in programs: each gives what the operators give, for all numbers that are at an edge of something."""

from __future__ import annotations

import math
import struct
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.extension import function, signature, stream_function
from spdist.language.types import Schema, Type
from spdist.program.machine.compiler import interpreted
from spdist.program.obstacle import compiled_or_why_not
from spdist.program.running import forgetting, function_values
from tests.program.chosen_apps import SEVERAL as HELD_TUPLES
from tests.program.chosen_apps import TEXTS as HELD_TEXTS
from tests.program.drawn_apps import START_MS
from tests.program.test_program_laws import alike
from tests.program.watched import Watched, checked_app

pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in scalar")

STREAM = "define stream S (a int, b long, c float, d double, e bool, f bool, s string, x double);\n"
_OF_REAL = ("acos", "asin", "ceil", "isNan", "isInfinite", "round")
_OF_ONE = "abs cbrt cos cosh exp floor ln log10 log2 sin sinh sqrt tan tanh toDegrees toRadians signum getExponent atan"
_OF_TWO = "copySign max min power atan"
_UNITS = ("YEAR", "quarter", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "ERA")

MATHS = (
    *(f"math:{name}({value})" for name in _OF_REAL for value in "cd"),
    *(f"math:{name}({value})" for name in _OF_ONE.split() for value in "abcd"),
    *(f"math:{name}({pair})" for name in _OF_TWO.split() for pair in ("d, x", "a, d", "c, b")),
    *(f"math:power(d, {exponent})" for exponent in ("2", "0.5", "-1.0", "3")),
    "math:pi() * d",
    "math:e()",
)
TYPES = (
    *(f"convert({value}, '{type}')" for value in "abcde" for type in ("int", "long", "float", "double", "bool")),
    *(
        f"cast({value}, '{type}')"
        for value, type in zip("aabcde", ("int", "long", "long", "float", "double", "bool"), strict=True)
    ),
    *(
        f"instanceOf{type}({value})"
        for type in ("Integer", "Long", "Float", "Double", "String", "Boolean")
        for value in "abcdes"
    ),
    "convert(a, 'float') / 3",
    "cast(a, 'long') * 3",
)
CHOICES = (
    *(
        f"{name}({arguments})"
        for name in ("maximum", "minimum")
        for arguments in ("a, 3, a + 1", "b", "c, 0.5f", "d, x", "b, b")
    ),
    "coalesce(a, 7)",
    "coalesce(d, x)",
    "coalesce(e, f)",
    "default(b, 5L)",
    "default(s, 'none')",
    "default(e, true)",
    "ifThenElse(e, f, e)",
    "ifThenElse(e, d, x)",
    "ifThenElse(coalesce(e, f), s, 'no')",
    "ifThenElse(s == 'a', 1, 2)",
)
TIMES = (
    *(f"time:extract(b, '{unit}')" for unit in _UNITS),
    *(f"time:extract(b, 'WEEK', '{locale}')" for locale in ("en_GB", "th_TH", "ar_EG", "pt_PT")),
    "time:extract(b, 'YEAR', 'th_TH')",
    "time:dateDiff(b, 86400000L)",
    "time:dateDiff(-9223372036854775808L, b)",
    "time:timestampInMilliseconds() - eventTimestamp()",
    "currentTimeMillis()",
)

TEXTS = (
    "str:upper(s)",
    "str:length(s) + a",
    "str:concat(s, '-', s)",
    "str:contains(s, 'a')",
    "str:lower(str:trim(s))",
    "convert(s, 'int')",
    "convert(s, 'double') * d",
    "convert(s, 'bool')",
    "ifThenElse(str:upper(s) == 'A', 1, 2)",
    "laws:doubled(s)",
    "laws:length(s)",
)
#: Of several attributes, or of one that is no text.
SEVERAL = (
    "str:concat(s, a)",
    "str:concat(a, '-', b, e)",
    "str:concat(c, d)",
    "convert(d, 'string')",
    "convert(c, 'string')",
    "convert(e, 'string')",
    "convert(str:concat(a, '.5'), 'double') * d",
    "str:equalsIgnoreCase(coalesce(s, 'A'), convert(e, 'string'))",
    "str:length(str:concat(s, e, f)) + a",
    "str:substr(str:concat(b, s, a), 0, 1)",
    "ifThenElse(str:concat(s, e) == 'atrue', d, x)",
    "str:coalesce(s, convert(d, 'string'))",
    "coalesce(laws:joined(s, a), 'none')",
    "laws:joined(convert(d + x, 'string'), a + 1)",
    "laws:same(e, f)",
)


@function("laws:joined", signature("laws:joined", ((Type.STRING, Type.INT), Type.STRING)))
def joined(text: str | None, number: int | None) -> str | None:
    return None if text is None or number is None else f"{text}{number}"


@function("laws:same", signature("laws:same", ((Type.BOOL, Type.BOOL), Type.BOOL)))
def same(one: bool | None, other: bool | None) -> bool | None:
    return None if one is None or other is None else one == other


@function("laws:doubled", signature("laws:doubled", ((Type.STRING,), Type.STRING)))
def doubled(text: str | None) -> str | None:
    return None if text is None or text == "null" else text + text


@function("laws:length", signature("laws:length", ((Type.STRING,), Type.INT)))
def length(text: str | None) -> int:
    return -1 if text is None else len(text)


def _either(*edges: Any) -> st.SearchStrategy[Any]:
    return st.none() | st.sampled_from(edges)


_REALS = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.5, 710.3, 1e300, -1e19, 2.0**31, 5e-324, math.inf, -math.inf, math.nan)
_FLOATS = (0.0, -0.0, 0.5, -1.5, 2147483648.0, -(2.0**63), 2.0**-149, math.inf, math.nan)
_DAY = 86_400_000
ROWS = st.tuples(
    _either(0, 1, -1, 7, 2**31 - 1, -(2**31)),
    _either(0, 1, -1, 2**53 + 1, 2**60 + 2**36 + 1, 2**63 - 1, -(2**63), -141_427 * _DAY - 1, -719_163 * _DAY)
    | st.integers(-(2**63), 2**63 - 1)
    | st.integers(-(10**14), 10**13),
    _either(*_FLOATS) | st.floats(width=32),
    _either(*_REALS) | st.floats() | st.floats(-50, 50),
    _either(True, False),
    _either(True, False),
    _either("a", "", "null"),
    _either(*_REALS) | st.floats(-5, 5),
)


def shown(value: Any) -> Any:
    """A value so that equal ones are equal bit for bit; all that are not a number are one."""
    if isinstance(value, float):
        return "NaN" if value != value else struct.pack("d", value)
    return value


_FAILED = set[str]()


@function("laws:once", signature("laws:once", ((Type.STRING,), Type.STRING)))
def fails_once(given: str) -> str:
    if given == "bad" and given not in _FAILED:
        _FAILED.add(given)
        raise ValueError("not yet")
    return given


def started(text: str, typed: bool) -> Watched:
    app = Watched(checked_app(text), interpreted if typed else None)
    app.begin()
    app.app.start(START_MS)
    return app


def results(text: str, rows: list[tuple[Any, ...]], typed: bool) -> list[Any]:
    app = started(text, typed)
    app.run([(START_MS + 1000 * place, row) for place, row in enumerate(rows)])
    return [(time, *map(shown, row)) for _, chunk in app.chunks for time, row in chunk]


@pytest.mark.parametrize(
    "calls",
    [MATHS, TYPES, CHOICES, TIMES, TEXTS, SEVERAL],
    ids=["maths", "types", "choices", "times", "texts", "several"],
)
def test_a_function_gives_what_the_operators_give(calls: tuple[str, ...]) -> None:
    items = ", ".join(f"{call} as r{place}" for place, call in enumerate(calls))
    text = f"{STREAM}from S select {items} insert into Out;"

    @settings(max_examples=15, deadline=None)
    @given(st.lists(ROWS, min_size=1, max_size=30))
    def alike(rows: list[tuple[Any, ...]]) -> None:
        for expected, found in zip(results(text, rows, False), results(text, rows, True), strict=True):
            names = dict(zip(("time", *calls), zip(expected, found, strict=True), strict=True))
            assert not {name: pair for name, pair in names.items() if pair[0] != pair[1]}

    alike()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("str:concat(s, eventTimestamp())", "the time of an event in a function that is computed before"),
        ("str:concat(s, currentTimeMillis())", "the clock in a function that is computed before"),
        ("str:upper('a')", "the function str:upper()"),
        ("sum(unitconversion:mTocm(d))", "the function unitconversion:mTocm(), which may fail here"),
        ("str:concat(s, sum(a))", "the function str:concat()"),
        ("convert(math:rand(), 'int')", "the function math:rand()"),
        ("UUID()", "the function UUID()"),
        ("cast(d, 'int')", "the function cast()"),
    ],
)
def test_what_has_no_form_is_named_with_its_line(call: str, named: str) -> None:
    text = f"{STREAM}from S select a,\n{call} as r insert into Out;"
    assert compiled_or_why_not(checked_app(text), text) == f"no: {named} (line 3)"


def test_the_clock_is_not_asked_when_an_event_has_left() -> None:
    text = f"{STREAM}from S#window.time(5 sec) select sum(currentTimeMillis()) as r insert into Out;"
    assert "the clock in an aggregator" in compiled_or_why_not(checked_app(text))


CHAIN = f"""{STREAM}
from S[laws:length(s) > 0]#window.length(2) select s, sum(a) as a group by s insert into Mid;
from S select laws:doubled(s) as t, a insert into Doubled;
from Doubled#window.length(3) select t, count() as n group by t insert into Out1;
partition with (math:abs(a % 3) of S) begin
from S select laws:doubled(s) as t, sum(laws:length(s)) as n insert into Out2;
end;
from Mid select laws:doubled(s) as t, a insert into Out3;
"""


def test_texts_are_computed_once_and_again_when_they_are_numbered_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "_FEW", 4)
    apps = [started(CHAIN, False), started(CHAIN, True)]
    texts = ["a", "null", None, "b", "", "a", *(f"text {number}" for number in range(40)), "a", None]
    rows = [(place, 0, 0.0, 0.0, None, None, text, None) for place, text in enumerate(texts)]
    for first in range(0, len(rows), 7):
        for app in apps:
            app.run([(START_MS + place, row) for place, row in enumerate(rows[first : first + 7], start=first)])
    assert apps[1].app.programmed is not None and apps[1].app.programmed.active
    assert apps[0].chunks == apps[1].chunks
    assert sum(stream == "Out3" for stream, _ in apps[1].chunks) > 30


LOSING = f"""{STREAM}
from S select str:upper(s) as r insert into Nowhere;
from S[str:length(s) > 1] select s, a order by s desc limit 2 insert into Out1;
from S[e or unitconversion:kmTom(b) > 1.0] select unitconversion:mTocm(d) as l, a insert into Out5;
from S[s is null or str:contains(s, 'x')] select a, ifThenElse(s is null, 'none', str:upper(s)) as u insert into Out2;
from S[not (s is null) and str:charAt(s, 1) == 'x'] select str:reverse(s) as t insert into Mid;
from S[str:charAt(s, a) == 'x' or e] select str:concat(s, a) as r, str:repeat(s, convert(b, 'int')) as p
insert into Out6;
from Mid[t != 'xx']#window.length(2) select t, count() as n group by t insert into Out3;
from S select a insert into Out4;
"""


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_an_event_that_a_function_fails_on_is_lost_as_with_operators(data: st.DataObject) -> None:
    queries = LOSING.replace("\ninsert", " insert").split("\n")
    lossy = [query for query in queries if ("(s" in query or "unitconversion" in query) and "into Mid" not in query]
    kept = data.draw(st.lists(st.sampled_from(lossy), unique=True))
    text = "\n".join([queries[0], *kept, *(query for query in queries[1:] if query not in lossy)])
    plain, typed = started(text, False), started(text, True)
    texts = st.sampled_from(("", "x", "ax", "xx", "b", None))
    for time, many in enumerate(data.draw(st.lists(st.booleans(), min_size=1, max_size=5))):
        rows = st.tuples(
            st.integers(0, 2), st.sampled_from((None, 2)), st.sampled_from((None, 0.1)), st.booleans(), texts
        )
        drawn = data.draw(st.lists(rows, min_size=1, max_size=5))
        events = [(START_MS + time, (a, b, 0.0, d, e, None, s, None)) for a, b, d, e, s in drawn]
        for app in (plain, typed):
            if many:
                app.chunk(events, START_MS + time)
            else:
                app.run(events)
    assert typed.app.programmed is not None and typed.app.programmed.active
    assert plain.chunks == typed.chunks
    assert plain.app._context.failures.count == typed.app._context.failures.count
    assert sorted(plain.app._context.failures.reasons) == sorted(typed.app._context.failures.reasons)


@pytest.mark.parametrize(
    "query",
    [
        "from S select str:upper(s) as r, sum(a) as n insert into Out;",
        "from S[str:upper(s) != 'D']#window.length(2) select s, sum(a) as n insert into Out;",
        "partition with (a of S) begin from S select str:upper(s) as r insert into Out; end;",
        "from S select * insert into Mid; from Mid select str:upper(s) as r insert into Out;",
        "from S[str:charAt(coalesce(s, ''), a - 1) != 'x']#window.length(2) select s, sum(a) as n insert into Out;",
    ],
)
def test_operators_go_on_where_events_cannot_be_lost_in_the_loop(query: str, caplog: pytest.LogCaptureFixture) -> None:
    apps = [started(STREAM + query, False), started(STREAM + query, True)]
    for place, texts in enumerate((["a", "b"], ["c", None, "d"], ["e"])):
        for app, one in product(apps, texts):
            app.chunk([(START_MS + place, (1, 2, 0.0, 0.0, None, None, one, None))], START_MS + place)
        assert apps[1].app.programmed is not None
        assert apps[1].app.programmed.active == (place == 0)
    assert apps[0].chunks == apps[1].chunks
    assert apps[0].app._context.failures.count == apps[1].app._context.failures.count == 1
    assert "the compiled program is not used any more: str:" in caplog.text
    assert "() fails on a text, or on null" in caplog.text


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("target", ["Out", "Mid"])
def test_an_event_that_a_function_failed_on_once_is_lost_all_the_same(target: str, many: bool) -> None:
    behind = "from Mid select r insert into Out;" if target == "Mid" else ""
    app = started(f"{STREAM} from S select laws:once(s) as r insert into {target}; {behind}", True)
    _FAILED.clear()
    events = [(START_MS + n, (1, 2, 0.0, 0.0, None, None, text, None)) for n, text in enumerate(("a", "bad", "b"))]
    if many:
        app.run(events)
    else:
        for event in events:
            app.chunk([event], event[0])
    assert app.app.programmed is not None and app.app.programmed.active
    assert [row for _, chunk in app.chunks for _, row in chunk] == [("a",), ("b",)]
    failures = app.app._context.failures
    assert failures.count == 1
    assert "failed on it once" in failures.reasons[0]


@pytest.mark.parametrize("target", ["Out", "Mid"])
def test_an_event_that_a_function_failed_on_once_is_sent_on_where_the_stream_says_so(target: str) -> None:
    behind = "from Mid select r insert into Out;" if target == "Mid" else ""
    text = f"""@OnError(action='stream') {STREAM} from S select laws:once(s) as r insert into {target}; {behind}
    from !S select s insert into Out2;"""
    app = started(text, True)
    _FAILED.clear()
    app.run([(START_MS + n, (1, 2, 0.0, 0.0, None, None, s, None)) for n, s in enumerate(("a", "bad", "b"))])
    assert app.app.programmed is not None and app.app.programmed.active
    out = [(stream, row) for stream, chunk in app.chunks for _, row in chunk]
    assert out == [("Out", ("a",)), ("Out2", ("bad",)), ("Out", ("b",))]


@pytest.mark.parametrize("app", [HELD_TEXTS, HELD_TUPLES])
def test_functions_of_texts_that_windows_hold_give_the_same(app: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "_FEW", 1)
    monkeypatch.setattr(function_values, "_FEWEST", 2)
    monkeypatch.setattr(function_values, "_MOST", 4)
    checked = checked_app(app)
    assert compiled_or_why_not(checked) == "yes"
    for seed in range(4):
        assert alike(checked, Random(seed), interpreted, steps=20, whole=app is HELD_TEXTS) > 80


@pytest.mark.parametrize("broken", ["forget", "hold"])
def test_the_law_finds_values_that_are_old_or_not_there(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "_FEW", 1)
    monkeypatch.setattr(function_values.FunctionValues, broken, lambda self: True)
    with pytest.raises((AssertionError, IndexError)):
        for seed in range(4):
            alike(checked_app(HELD_TUPLES), Random(seed), interpreted, steps=20)


def test_so_many_tuples_are_known_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_values, "_FEWEST", 4)
    monkeypatch.setattr(function_values, "_MOST", 16)
    text = f"{STREAM}from S select str:concat(a, '-', b) as r insert into Out;"
    app = started(text, True)
    for first in range(0, 200, 5):
        rows = [(first + place, None, 0.0, 0.0, None, None, "a", None) for place in (0, 1, 2, 3, 4, 0)]
        app.run([(START_MS + first, row) for row in rows])
    assert app.app.programmed is not None and app.app.programmed.running is not None
    functions = app.app.programmed.running._functions
    assert functions is not None
    (known,) = functions._of_events.values()
    assert 6 <= known._places <= 16
    assert [row for _, chunk in app.chunks for _, row in chunk] == [
        (f"{first + place}-",) for first in range(0, 200, 5) for place in (0, 1, 2, 3, 4, 0)
    ]


@pytest.mark.parametrize("count", [64, 65, 130])
def test_null_and_zero_are_told_apart_whatever_the_number_of_arguments(count: int) -> None:
    names = [f"a{place}" for place in range(count)]
    text = f"""define stream S ({", ".join(f"{name} int" for name in names)});
    from S select str:concat({", ".join(names)}) as r insert into Out;"""
    zeros: list[int | None] = [0] * count
    rows = [(*zeros[:place], None, *zeros[place + 1 :]) for place in range(count)]
    apps = [started(text, program) for program in (True, False)]
    for app in apps:
        app.run([(START_MS, tuple(zeros)), *((START_MS, row) for row in rows)])
    assert apps[0].app.programmed is not None and apps[0].app.programmed.active
    assert apps[0].chunks == apps[1].chunks
    assert {row for _, chunk in apps[0].chunks for _, row in chunk} == {("0" * count,), ("0" * (count - 1),)}


def test_a_window_that_holds_a_text_that_a_function_fails_on_stays_with_its_operators() -> None:
    text = f"{STREAM}from S#window.length(2) select sum(str:length(s)) as r insert into Out;"
    app = Watched(checked_app(text), interpreted)
    app.app.start(START_MS)
    app.chunk([(START_MS, (1, 2, 0.0, 0.0, None, None, None, None))], START_MS)
    with pytest.raises(ValueError, match="a text that a window holds"):
        app.begin()


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("from S#log('told')#str:tokenize(s, ' ') select token insert into Out;", "the stream function log"),
        (
            "partition with (a of S) begin from S#str:tokenize(s, ' ') select token insert into Out; end;",
            "stream function",
        ),
        (
            "from S#window.length(1) select s insert into M; from M#str:tokenize(s, ' ') select token insert into Out;",
            "is",
        ),
        (
            "define stream T (p double); from T#pol2Cart(p, p)#window.sort(2, y) select y insert into Out;",
            "function here",
        ),
        ("from S#test:typo(str:concat(s, currentTimeMillis())) select s insert into Out;", "the clock in a function"),
    ],
)
def test_stream_functions_without_a_form_are_named(query: str, named: str) -> None:
    told = compiled_or_why_not(checked_app(STREAM + query))
    assert not told.startswith("yes")
    assert named in told


def test_operators_go_on_where_a_stream_function_fails(caplog: pytest.LogCaptureFixture) -> None:
    text = f"{STREAM}from S[not e]#str:tokenize(s, ' ')#window.length(3) select token, count() as n insert into Out;"
    apps = [started(text, False), started(text, True)]
    for place, (one, left_out) in enumerate((("a b", False), (None, True), ("", False), (None, False), ("c", False))):
        for app in apps:
            app.chunk([(START_MS + place, (1, 2, 0.0, 0.0, left_out, None, one, None))], START_MS + place)
        assert apps[1].app.programmed is not None
        assert apps[1].app.programmed.active == (place < 3)
    assert apps[0].chunks == apps[1].chunks
    assert apps[0].app._context.failures.count == apps[1].app._context.failures.count == 1
    assert "not used any more: a stream function fails" in caplog.text


@stream_function("test:typo", lambda schema, types, expressions: Schema.of([("wrong", Type.INT)]))
def typo(text: str | None) -> list[tuple[str | None]]:
    return [(text,)]


def test_operators_go_on_where_what_is_appended_is_not_of_its_type() -> None:
    text = f"{STREAM}from S#test:typo(s) select wrong insert into Out;"
    apps = [started(text, False), started(text, True)]
    for app in apps:
        app.chunk([(START_MS, (1, 2, 0.0, 0.0, False, None, "a", None))], START_MS)
    assert apps[0].chunks == apps[1].chunks == [("Out", [(START_MS, ("a",))])]
    assert apps[1].app.programmed is not None and not apps[1].app.programmed.active


def test_a_function_is_computed_where_an_event_meets_the_conditions_in_front_of_it() -> None:
    queries = """from S[not (s is null)][e]#window.length(2) select str:charAt(s, a) as r, sum(a) as n insert into Out1;
    from S[b > 1L][str:charAt(s, a) != 'b'] select s insert into Out2;"""
    apps = [started(STREAM + queries, False), started(STREAM + queries, True)]
    for place in range(40):
        text, e, b = ("ab", None, "")[place % 3], place % 3 == 0, 2 if place % 3 == 0 else None
        event = START_MS + place, (place % 2, b, 0.0, 0.0, e, None, text, None)
        for app in apps:
            app.run([event])
    assert apps[1].app.programmed is not None and apps[1].app.programmed.active
    assert apps[0].chunks == apps[1].chunks
    assert {stream for stream, _ in apps[1].chunks} == {"Out1", "Out2"}
    for app in apps:
        app.chunk([(START_MS + 50, (1, 2, 0.0, 0.0, True, None, "", None))], START_MS + 50)
    assert not apps[1].app.programmed.active
    assert apps[0].chunks == apps[1].chunks
